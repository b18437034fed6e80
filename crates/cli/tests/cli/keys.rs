//! Adding, changing and removing what opens a vault.

use serde_json::Value;

use crate::support::{CHEAP, Place, Run};

fn key(place: &Place, line: &str) -> Run {
    place.run(line.split_whitespace().chain(CHEAP).chain(["--json"]))
}

fn kinds(document: &Value) -> Vec<&str> {
    document["slots"].as_array().expect("a list").iter().filter_map(|slot| slot["kind"].as_str()).collect()
}

#[test]
fn every_kind_of_key_is_added_used_changed_and_removed() {
    let place = Place::new().vault();
    place.write("second", "two");
    place.write("third", "three");
    place.write("file", [9; 64]);
    let opens = |option: &str, file: &str| place.run(["info", "v", option, file]).code;

    let added = key(&place, "key add v --password-file password --new-key-file file --label usb")
        .expect(0)
        .document();
    assert_eq!((kinds(&added), &added["slot"]), (vec!["password", "key-file"], &Value::from(1)));
    let added = key(&place, "key add v --key-file file --new-password-file second").expect(0).document();
    assert_eq!(added["slot"], 2);
    let added = key(&place, "key add v --password-file second --new-recovery-out paper").expect(0).document();
    assert_eq!(kinds(&added), ["password", "key-file", "password", "recovery"]);
    for (option, file) in [
        ("--password-file", "password"),
        ("--password-file", "second"),
        ("--key-file", "file"),
        ("--recovery-file", "paper"),
    ] {
        assert_eq!(opens(option, file), 0, "{file}");
    }

    // The slot that the secret opens is changed: the second of two passwords.
    let changed =
        key(&place, "key change v --password-file second --new-password-file third").expect(0).document();
    assert_eq!(changed["slot"], 2);
    assert_eq!((opens("--password-file", "second"), opens("--password-file", "third")), (3, 0));
    let line = "key change v --slot 1 --recovery-file paper --new-recovery-file paper --label again";
    let changed = key(&place, line).expect(0).document();
    assert_eq!(kinds(&changed), ["password", "recovery", "password", "recovery"]);
    assert_eq!(changed["slots"][1]["label"], "again");
    assert_eq!(opens("--key-file", "file"), 3);

    for slot in ["0", "1", "3"] {
        place.run(["key", "remove", "v", slot, "--password-file", "third", "--json"]).expect(0).document();
    }
    assert_eq!((opens("--password-file", "password"), opens("--recovery-file", "paper")), (3, 3));
    let error = place.line("key remove v 2 --password-file third --json").expect(2).error();
    assert!(error["message"].as_str().is_some_and(|text| text.contains("last")), "{error}");
    place.line("key remove v 7 --password-file third --json").expect(2).error();
    let listed = place.line("key list v --json").expect(0).document();
    assert_eq!((kinds(&listed), &listed["authenticated"]), (vec!["password"], &Value::from(false)));
    place.line("check v --password-file third").expect(0);
}

#[test]
fn a_wrong_secret_changes_nothing() {
    let place = Place::new().vault();
    place.write("wrong", "wrong");
    let before = place.read("v/.strongroom/header.0");
    for line in
        ["key add v --new-password-file wrong", "key remove v 0", "key change v --new-password-file wrong"]
    {
        let words = line.split_whitespace().chain(["--password-file", "wrong", "--json"]);
        let words: Vec<&str> =
            if line.contains("remove") { words.collect() } else { words.chain(CHEAP).collect() };
        place.run(words).expect(3).error();
        assert_eq!(place.read("v/.strongroom/header.0"), before);
    }
}

#[test]
fn the_thirteenth_slot_and_an_existing_recovery_file_are_refused() {
    let place = Place::new().vault();
    for index in 1..12 {
        place.write("file", [index; 64]);
        key(&place, "key add v --password-file password --new-key-file file").expect(0);
    }
    key(&place, "key add v --password-file password --new-key-file file").expect(2).error();
    let line = "key add v --password-file password --new-recovery-out paper";
    key(&place, line).expect(2).error();
    assert!(!place.exists("paper"), "no key is left that opens nothing");
    place.write("paper", "precious");
    key(&place, line).expect(2).error();
    assert_eq!(place.read("paper"), b"precious");
}

#[test]
fn keys_are_not_changed_while_the_vault_is_in_use() {
    let place = Place::new().vault();
    let lock = place.path("v/.strongroom/lock");
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("an id");
    let holder = format!(
        r#"{{"host":"h","boot_id":"{}","pid":42,"mount_point":"/mnt/p","purpose":"mount","since":"2026-01-01T00:00:00Z"}}"#,
        boot_id.trim()
    );
    std::fs::write(&lock, holder).expect("written");
    let file = std::fs::File::options().read(true).write(true).open(&lock).expect("there");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    place.write("new", "new");
    for line in
        ["key add v --new-password-file new", "key change v --new-password-file new", "key remove v 0"]
    {
        let words = line.split_whitespace().chain(["--password-file", "password", "--json"]);
        let words: Vec<&str> =
            if line.contains("remove") { words.collect() } else { words.chain(CHEAP).collect() };
        let error = place.run(words).expect(5).error();
        assert!(error["message"].as_str().is_some_and(|text| text.contains("42")), "{error}");
        assert!(error["hint"].as_str().is_some_and(|text| text.contains("umount /mnt/p")), "{error}");
    }
    place.line("check v --password-file password --json").expect(5).error();
    place.line("check v --password-file password --force --json").expect(0).document();
    let info = place.line("info v --json").expect(0).document();
    assert_eq!(info["in_use"]["pid"], 42);
    drop(file);
    place.line("check v --password-file password").expect(0);
    assert_eq!(place.line("info v --json").expect(0).document()["in_use"], Value::Null);
}
