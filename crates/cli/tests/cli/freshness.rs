//! Freshness files from the command line.

use serde_json::Value;

use crate::support::{CHEAP, Place, content};

fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("usb")).expect("a directory");
    let words =
        "init v --password-file password --recovery-out none --freshness usb/fresh".split_whitespace();
    place.run(words.chain(CHEAP)).expect(0);
    place.open().directory("d").file("d/f", 9000).file("g", 10).close();
    place
}

#[test]
fn differences_are_named_and_accepted() {
    let place = place();
    let check = "check v --password-file password --freshness usb/fresh";
    // The vault was filled without the file.
    let run = place.line(&format!("{check} --json")).expect(4);
    let document = run.document();
    let kinds: Vec<_> = document["damage"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|found| (&found["path"], &found["kind"]))
        .collect();
    assert_eq!(kinds.len(), 2, "{document:#}");
    assert!(kinds.iter().all(|(path, kind)| *kind == "unrecorded" && (*path == "d" || *path == "g")));
    let accept = "freshness accept v usb/fresh --password-file password";
    let accepted = place.line(&format!("{accept} --json")).expect(0).document();
    assert!(accepted["accepted"].as_u64() >= Some(2) && accepted["path"].is_null(), "{accepted:#}");
    assert!(place.line(check).expect(0).stdout.contains("No damage"));

    let file = place.stored_files("v", 9000).remove(0);
    let bytes = std::fs::read(&file).expect("a file");
    std::fs::remove_file(&file).expect("removed");
    assert!(place.line(check).expect(4).stdout.contains("d/f: it was deleted from the store"));
    std::fs::write(&file, bytes).expect("put back");
    place.line(check).expect(0);
    std::fs::remove_file(&file).expect("removed");
    let none = "freshness accept v usb/fresh none --password-file password";
    assert!(place.line(none).expect(2).stderr.contains("neither the vault nor"));
    let path = "freshness accept v usb/fresh d/f --password-file password";
    assert_eq!(place.line(path).expect(0).stdout, "1 difference accepted.\n");
    place.line(check).expect(0);
}

#[test]
fn a_new_file_is_said_to_be_one() {
    let place = place();
    let accept = |file: &str| format!("freshness accept v {file} --password-file password");
    let run = place.line(&accept("usb/new")).expect(0);
    assert!(run.stdout.starts_with("usb/new is new: it records the whole vault"), "{}", run.stdout);
    let document = place.line(&format!("{} --json", accept("usb/newer"))).expect(0).document();
    assert_eq!(document["begun"], true);
    let document = place.line(&format!("{} --json", accept("usb/newer"))).expect(0).document();
    assert_eq!(document["begun"], false);
    assert_eq!(place.line(&accept("usb/newer")).expect(0).stdout, "Nothing differed.\n");
}

#[test]
fn a_check_without_the_file_says_that_there_is_one() {
    let place = place();
    let check = "check v --password-file password";
    let told = |line: &str| {
        let said = place.line(line).expect(0).stderr;
        let lines: Vec<_> = said.lines().filter(|line| line.contains("has a freshness file")).collect();
        match lines[..] {
            [] => false,
            [line] => line.contains("usb/fresh") && line.contains("--freshness"),
            _ => panic!("{said}"),
        }
    };
    assert!(told(check));
    assert!(!told(&format!("{check} --no-history")), "nothing is remembered");
    place.line("freshness accept v usb/fresh --password-file password").expect(0);
    assert!(!told(&format!("{check} --freshness usb/fresh")));
    std::fs::rename(place.path("usb"), place.path("away")).expect("moved");
    assert!(told(check), "its disk is not there");
    std::fs::create_dir(place.path("usb")).expect("a directory");
    assert!(!told(check), "it was given up");
}

#[test]
fn a_vault_that_was_put_back_as_a_whole_is_refused() {
    let place = place();
    let accept = "freshness accept v usb/fresh --password-file password";
    let copy = |from: &str, to: &str| {
        let _ = std::fs::remove_dir_all(place.path(to));
        let copied =
            std::process::Command::new("cp").args(["-a", from, to]).current_dir(place.path(".")).status();
        assert!(copied.expect("cp").success());
    };
    copy("v", "old");
    place.line(accept).expect(0);
    copy("old", "v");
    let check = "check v --password-file password --freshness usb/fresh";
    // The machine says it first, and where it does not know, the file.
    place.line(check).expect(4).error_text("older than this machine has seen it");
    let run = place.line(&format!("{check} --no-history")).expect(4);
    assert!(
        run.stderr.contains("older than its freshness file") && run.stderr.contains("freshness accept v")
    );
    place.line("check v --password-file password --no-history").expect(0);
    place.line(accept).expect(4);
    place.line(&format!("{accept} --accept-rollback --yes")).expect(0);
    place.line(check).expect(0);
}

#[test]
fn files_that_cannot_serve_are_refused() {
    let place = place();
    std::fs::create_dir(place.path("m")).expect("a directory");
    place.write("usb/other", "no freshness file");
    let secret = "--password-file password";
    for (line, code, said) in [
        ("check v --freshness usb/none", 4, "there is no freshness file"),
        ("check v --freshness usb/other", 4, "shorter than any"),
        ("check v --freshness nowhere/fresh", 2, "is its disk mounted?"),
        ("check v --freshness v/fresh", 2, "in the vault"),
        ("mount v m --freshness usb/fresh --durability relaxed", 2, "relaxed"),
    ] {
        let run = place.line(&format!("{line} {secret}")).expect(code);
        assert!(run.stderr.contains(said), "{line}: {}", run.stderr);
    }
    let words =
        "init w --password-file password --recovery-out none --freshness usb/fresh".split_whitespace();
    assert!(place.run(words.chain(CHEAP)).expect(2).stderr.contains("exists already"));
    assert!(!place.exists("w"));
}

const CHECK: &str = "check v --password-file password --json --freshness usb/fresh";
const ACCEPT: &str = "freshness accept v usb/fresh --password-file password --json";

/// A vault with something of everything, all of it recorded.
fn recorded() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("usb")).expect("a directory");
    let words =
        "init v --password-file password --recovery-out none --freshness usb/fresh".split_whitespace();
    place.run(words.chain(CHEAP)).expect(0);
    let filling = place.open_recorded("usb", "fresh");
    filling.directory("d").directory("d/in").directory("other").file("d/f", 9000).file("d/in/g", 10);
    filling.file("top", 5000).file("d/also", 100).symlink("d/link", b"f");
    filling.file(&format!("d/{}", "n".repeat(240)), 3000);
    filling.close();
    place.line(CHECK).expect(0);
    place
}

/// Kinds and paths of what a list of damage names.
fn named(list: &Value) -> Vec<(String, String)> {
    let list = list.as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let mut named: Vec<_> = list.map(|found| (text(&found["kind"]), text(&found["path"]))).collect();
    named.sort();
    named
}

/// Does something to a vault.
type Damage<'a> = &'a dyn Fn(&Place);

/// With the freshness file at hand and without, a repair that puts everything
/// back leaves nothing to accept.
#[test]
fn what_a_repair_puts_back_is_in_order_again() {
    let moved = |path: &'static str| {
        move |place: &Place| {
            let from = place.stored(path);
            let to = place.stored("other").join(from.file_name().expect("a name"));
            std::fs::rename(from, to).expect("moved");
        }
    };
    let record = |place: &Place| std::fs::remove_dir_all(place.stored("d").join(".id")).expect("removed");
    let side = |place: &Place| {
        let entry = place.stored(&format!("d/{}", "n".repeat(240)));
        let side = format!(".n{}", entry.file_name().expect("a name").to_string_lossy());
        std::fs::rename(entry.with_file_name(&side), place.stored("other").join(&side)).expect("moved");
    };
    let exchanged = |place: &Place| {
        let (one, other, aside) = (place.stored("d/f"), place.stored("top"), place.path("aside"));
        for (from, to) in [(&one, &aside), (&other, &one), (&aside, &other)] {
            std::fs::rename(from, to).expect("renamed");
        }
    };
    let header = |place: &Place| std::fs::remove_file(place.path("v/.strongroom/header.0")).expect("removed");
    let damages: [(&str, Damage<'_>); 7] = [
        ("a file", &moved("d/f")),
        ("a directory", &moved("d/in")),
        ("a symlink", &moved("d/link")),
        ("a record", &record),
        ("a long name", &side),
        ("two files", &exchanged),
        ("a header copy", &header),
    ];
    for (what, damage) in damages {
        for freshness in ["", " --freshness usb/fresh"] {
            let place = recorded();
            damage(&place);
            place.line(CHECK).expect(4);
            let repair = format!("check v --password-file password --json --repair --yes{freshness}");
            let document = place.line(&repair).expect(8).document();
            assert_eq!(document["repair"]["remaining"], serde_json::json!([]), "{what}");
            let document = place.line(CHECK).expect(0).document();
            assert_eq!(document["damage"], serde_json::json!([]), "{what}");
        }
    }
}

/// What a repair moves to `lost+found` is told until the owner accepts it:
/// who put it out of place may have been an attacker.
#[test]
fn what_goes_to_lost_found_is_told_until_it_is_accepted() {
    let place = recorded();
    let long = format!("d/{}", "n".repeat(240));
    let entry = place.stored(&long);
    let side = format!(".n{}", entry.file_name().expect("a name").to_string_lossy());
    std::fs::remove_file(entry.with_file_name(side)).expect("removed");
    std::fs::rename(place.stored("top"), place.stored("d/also")).expect("under the name of another");
    let repair = "check v --password-file password --json --repair --yes --freshness usb/fresh";
    let document = place.line(repair).expect(9).document();
    let told = named(&document["repair"]["remaining"]);
    let again = place.line(CHECK).expect(4).document();
    assert_eq!(named(&again["damage"]), told, "the next check tells the same");
    let kinds = |wanted: &str| -> Vec<&str> {
        told.iter().filter(|(kind, _)| kind == wanted).map(|(_, path)| path.as_str()).collect()
    };
    assert_eq!(kinds("missing"), ["d/also", long.as_str(), "top"], "{told:?}");
    assert!(kinds("unrecorded").iter().any(|path| path.starts_with("lost+found")), "{told:?}");
    // Nothing is lost meanwhile.
    place.line("salvage v out --password-file password").expect(0);
    let lost: Vec<_> =
        place.tree("out").into_iter().filter(|(name, _)| name.starts_with("lost+found/")).collect();
    assert_eq!(lost.len(), 2, "{:?}", lost.iter().map(|(name, _)| name).collect::<Vec<_>>());
    for len in [3000, 5000] {
        assert!(lost.iter().any(|(_, node)| *node == crate::support::Node::File(content(len))));
    }
    place.line(ACCEPT).expect(0);
    place.line(CHECK).expect(0);
    place.line("check v --password-file password").expect(0);
}

/// Recovery by a repair, without the freshness file or with it, is what the
/// next mount would have done: it raises no alarm.
#[test]
fn a_repair_after_a_crash_raises_no_alarm() {
    for freshness in ["", " --freshness usb/fresh"] {
        let place = recorded();
        let filling = place.open_recorded("usb", "fresh");
        filling.file("new", 7000).sync().overwrite("d/f", 100).file("never synced", 5000);
        filling.crash_unsynced();
        std::fs::remove_dir_all(place.stored("d").join(".id")).expect("removed");
        let repair = format!("check v --password-file password --json --repair --yes{freshness}");
        let document = place.line(&repair).expect(8).document();
        assert_eq!(document["repair"]["remaining"], serde_json::json!([]));
        assert_eq!(named(&place.line(CHECK).document()["damage"]), []);
    }
}
