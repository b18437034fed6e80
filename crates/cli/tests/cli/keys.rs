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
fn a_password_and_a_key_file_open_only_together() {
    let place = Place::new().vault();
    place.write("second", "two");
    place.write("file", [0x91; 32]);
    let line = "key add v --password-file password --new-password-file second --new-key-file file";
    let added = key(&place, line).expect(0).document();
    assert_eq!(kinds(&added), ["password", "password+key-file"]);
    assert_eq!(added["slots"][1]["kdf"]["name"], "argon2id");
    place.line("info v --password-file second --key-file file").expect(0);
    place.line("info v --key-file file --password-file second").expect(0);
    for (line, code) in [
        ("info v --password-file password --key-file file", 3),
        ("info v --password-file second", 3),
        ("info v --key-file file", 3),
        ("info v --recovery-file second --key-file file", 2),
        ("info v --password-prompt", 2),
    ] {
        place.line(line).expect(code);
    }
    let removed = "key remove v 0 --password-file second --key-file file --json";
    assert_eq!(kinds(&place.line(removed).expect(0).document()), ["password+key-file"]);
    let refused = place.line("info v --key-file file").expect(3);
    refused.error_text("It opens with a password with a key file");
}

#[test]
fn a_key_file_that_is_no_key_costs_as_much_as_a_password() {
    let place = Place::new().vault();
    place.write("key", [0x91; 32]);
    place.write("picture", [0x91; 4000]);
    place.write("empty", "");
    let kdf = |file: &str| {
        let line = format!("key add v --password-file password --new-key-file {file}");
        let added = key(&place, &line).expect(0).document();
        let index = added["slot"].as_u64().expect("a number") as usize;
        place.run(["info", "v", "--key-file", file]).expect(0);
        added["slots"][index]["kdf"]["name"].clone()
    };
    assert_eq!((kdf("key"), kdf("picture")), ("hkdf-sha256".into(), "argon2id".into()));
    key(&place, "key add v --password-file password --new-key-file empty").expect(2);
}

/// Offset of the key slots in a vault header, and of each after the one before.
const SLOTS: (usize, usize) = (1632, 512);

#[test]
fn a_forged_header_does_not_have_one_compute_for_minutes() {
    let place = Place::new().vault();
    let (at, len) = SLOTS;
    for copy in ["v/.strongroom/header.0", "v/.strongroom/header.1"] {
        let mut header = place.read(copy);
        let slot = header[at..at + len].to_vec();
        for (number, place) in header[at..at + 12 * len].chunks_exact_mut(len).enumerate() {
            place.copy_from_slice(&slot);
            place[4..8].copy_from_slice(&(4u32 << 20).to_le_bytes());
            place[8..12].copy_from_slice(&4u32.to_le_bytes());
            place[16] ^= number as u8;
        }
        place.write(copy, header);
    }
    std::fs::create_dir(place.path("m")).expect("a directory");
    for line in ["check v --password-file password", "mount v m --password-file password"] {
        let begun = std::time::Instant::now();
        let refused = place.line(line).expect(2);
        refused.error_text("trying a password may take");
        refused.error_text("--yes");
        assert!(begun.elapsed() < std::time::Duration::from_secs(100));
    }
}

#[test]
fn a_slot_of_a_later_program_is_listed_and_kept() {
    let place = Place::new().vault();
    let (at, len) = SLOTS;
    for copy in ["v/.strongroom/header.0", "v/.strongroom/header.1"] {
        let mut header = place.read(copy);
        header[at + 11 * len] = 6;
        header[at + 11 * len + 7] = 0x77;
        place.write(copy, &header);
    }
    let listed = place.line("key list v --json").expect(0).document();
    assert_eq!(kinds(&listed), ["password", "token"]);
    assert_eq!((&listed["slots"][1]["index"], &listed["slots"][1]["kdf"]), (&Value::from(11), &Value::Null));
    assert!(place.line("key list v").expect(0).stdout.contains("this version does not open it"));
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
    let sealed = strongroom_keys::LockCipher::of_machine().seal(holder.as_bytes()).expect("entropy");
    let sealed: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&lock, format!(r#"{{"schema":"strongroom.lock/1","machine":"{sealed}"}}"#))
        .expect("written");
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
