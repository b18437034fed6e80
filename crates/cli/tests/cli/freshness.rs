//! Freshness files from the command line.

use crate::support::{CHEAP, Place};

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
    let run = place.line(check).expect(4);
    assert!(
        run.stderr.contains("older than its freshness file") && run.stderr.contains("freshness accept v")
    );
    place.line("check v --password-file password").expect(0);
    place.line(accept).expect(0);
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
