//! Vaults that are put back as a whole, and what this machine remembers.

use std::ffi::OsStr;
use std::process::Command;

use serde_json::Value;

use crate::support::{CHEAP, Place, Run, finish};

const SECRET: &str = "--password-file password";
const OLDER: &str = "older than this machine has seen it";

fn copy(place: &Place, from: &str, to: &str) {
    let _ = std::fs::remove_dir_all(place.path(to));
    let copied = Command::new("cp").args(["-a", from, to]).current_dir(place.path("")).status();
    assert!(copied.expect("cp").success());
}

/// The program on a machine of this name, in an environment of its own.
fn on(place: &Place, machine: &str, line: &str) -> Run {
    let mut command = place.command(line.split_whitespace());
    finish(command.env("XDG_STATE_HOME", place.path(machine)).output().expect("setsid"))
}

/// The one file in which a machine remembers the one vault.
fn record(place: &Place, machine: &str) -> std::path::PathBuf {
    let files = std::fs::read_dir(place.path(machine).join("strongroom")).expect("a state directory");
    let mut files = files.map(|file| file.expect("a file").path());
    files.find(|path| path.extension() == Some(OsStr::new("json"))).expect("a record")
}

fn remembered(place: &Place) -> Value {
    serde_json::from_slice(&std::fs::read(record(place, ".state")).expect("a file")).expect("JSON")
}

/// The vault `v` in an older state than this machine has seen, which is in
/// `old` too; the newer one is in `new`.
fn rolled_back() -> Place {
    let place = Place::new().vault();
    copy(&place, "v", "old");
    place.open().file("a", 100).close();
    place.line(&format!("check v {SECRET}")).expect(0);
    copy(&place, "v", "new");
    copy(&place, "old", "v");
    place
}

#[test]
fn an_older_vault_is_refused_by_every_command_that_unlocks() {
    let place = rolled_back();
    std::fs::create_dir(place.path("m")).expect("a directory");
    place.write("other", "other");
    let before = place.tree("v");
    for line in [
        "check v",
        "check v --repair --yes",
        "salvage v out",
        "info v",
        "key list v",
        "key add v --new-password-file other",
        "key change v --new-password-file other",
        "key remove v 0",
        "header backup v saved",
        "freshness accept v fresh",
        "mount v m",
        "mount v m --read-only",
        "mount v m --foreground",
    ] {
        let run = place.line(&format!("{line} {SECRET}")).expect(4);
        assert!(run.stderr.contains(OLDER), "{line}: {}", run.stderr);
        // Both numbers with their dates, when the newer was seen, and what to do.
        assert_eq!(run.stderr.matches(", written 20").count(), 2, "{line}: {}", run.stderr);
        assert!(run.stderr.contains(", on 20") && run.stderr.contains("--accept-rollback"), "{}", run.stderr);
        let error = place.line(&format!("{line} {SECRET} --json")).expect(4).error();
        assert_eq!(error["kind"], "damage", "{line}");
    }
    assert!(before == place.tree("v"), "nothing is changed");
    for name in ["out", "saved", "fresh"] {
        assert!(!place.exists(name), "{name}");
    }
    // A password is not needed to see what a header claims.
    let info = place.line("info v --json").expect(4).document();
    assert_eq!(info["remembered"]["older"], true);
    assert!(info["remembered"]["sequence"].as_u64() > info["sequence"].as_u64());
    assert!(place.line("info v").expect(4).stdout.contains("ROLLED BACK"));
    copy(&place, "new", "v");
    let info = place.line("info v --json").expect(0).document();
    assert_eq!(info["remembered"]["older"], false);
    assert_eq!(info["remembered"]["sequence"], info["sequence"]);
    place.line(&format!("check v {SECRET}")).expect(0);
}

#[test]
fn what_was_accepted_is_in_order_until_it_is_put_back_again() {
    let place = rolled_back();
    std::fs::create_dir(place.path("m")).expect("a directory");
    for line in ["check v", "mount v m", "info v"] {
        let run = place.line(&format!("{line} {SECRET} --accept-rollback")).expect(2);
        assert!(run.stderr.contains("--yes") && run.stderr.contains(", written 20"), "{}", run.stderr);
    }
    place.line(&format!("check v {SECRET}")).expect(4);
    place.line(&format!("check v {SECRET} --accept-rollback --yes")).expect(0);
    place.line(&format!("check v {SECRET}")).expect(0);
    assert_eq!(remembered(&place)["sequence"], place.line("info v --json").document()["sequence"]);
    place.open().file("b", 100).close();
    place.line(&format!("info v {SECRET}")).expect(0);
    copy(&place, "old", "v");
    place.line(&format!("check v {SECRET}")).expect(4).error_text(OLDER);
}

#[test]
fn who_wants_no_history_has_none() {
    let place = rolled_back();
    let before = remembered(&place);
    place.line(&format!("check v {SECRET} --no-history")).expect(0);
    let off = |line: &str| {
        let mut command = place.command(line.split_whitespace());
        finish(command.env("STRONGROOM_HISTORY", "off").output().expect("setsid"))
    };
    off(&format!("check v {SECRET}")).expect(0);
    place.open().file("b", 100).file("c", 100).close();
    place.line(&format!("check v {SECRET} --no-history")).expect(0);
    assert_eq!(remembered(&place), before, "nothing is remembered either");
    copy(&place, "old", "v");
    place.line(&format!("check v {SECRET}")).expect(4);
    place.line(&format!("check v {SECRET} --no-history --accept-rollback")).expect(2);

    let words = format!("init w {SECRET} --recovery-out none --kdf-memory 8MiB --kdf-time 1");
    let mut command = place.command(words.split_whitespace());
    command.env("STRONGROOM_HISTORY", "off").env("XDG_STATE_HOME", place.path("none"));
    finish(command.output().expect("setsid")).expect(0);
    on(&place, "none", &format!("check w {SECRET} --no-history")).expect(0);
    assert!(!place.exists("none"));
}

/// Who can write to the store cannot raise what is remembered.
#[test]
fn a_header_that_is_not_authentic_is_not_remembered() {
    let place = Place::new().vault();
    let mut forged = place.read("v/.strongroom/header.0");
    forged[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
    place.write("v/.strongroom/header.0", &forged);
    let before = remembered(&place);
    place.line("info v").expect(0);
    place.line(&format!("info v {SECRET}")).expect(4);
    place.line(&format!("key list v {SECRET}")).expect(0);
    assert_eq!(remembered(&place), before);
    // Of an authentic one, the date is the header's.
    assert!(
        before["written"].as_u64() > Some(1_700_000_000)
            && before["seen"].as_u64() >= before["written"].as_u64()
    );
}

#[test]
fn machines_that_take_turns_raise_no_alarm() {
    let place = Place::new().vault();
    copy(&place, "v", "old");
    for turn in 0..3 {
        for machine in ["one", "two"] {
            let line = format!("key change v {SECRET} --new-password-file password");
            on(&place, machine, &format!("{line} {}", CHEAP.join(" "))).expect(0);
            let run = on(&place, machine, &format!("check v {SECRET}")).expect(0);
            assert_eq!(run.stderr, "", "turn {turn}, machine {machine}");
        }
    }
    copy(&place, "old", "v");
    for machine in ["one", "two"] {
        on(&place, machine, &format!("check v {SECRET}")).expect(4).error_text(OLDER);
    }
    // A machine that has never seen the vault cannot know.
    on(&place, "three", &format!("check v {SECRET}")).expect(0);
}

#[test]
fn each_header_that_a_command_writes_is_remembered() {
    let place = Place::new().vault();
    place.write("other", "other");
    let all = CHEAP.join(" ");
    std::fs::create_dir(place.path("usb")).expect("a directory");
    for line in [
        format!("key add v {SECRET} --new-password-file other {all}"),
        format!("key change v {SECRET} --new-password-file password {all}"),
        format!("key remove v 1 {SECRET}"),
        format!("freshness accept v usb/fresh {SECRET}"),
    ] {
        let before = remembered(&place)["sequence"].as_u64();
        place.line(&line).expect(0);
        let now = remembered(&place)["sequence"].as_u64();
        assert!(now > before, "{line}");
        assert_eq!(now, place.line("info v --json").document()["sequence"].as_u64(), "{line}");
    }
    std::fs::remove_file(place.path("v/.strongroom/header.1")).expect("removed");
    place.line(&format!("check v {SECRET} --repair --yes")).expect(8);
    assert_eq!(remembered(&place)["sequence"], place.line("info v --json").document()["sequence"]);
}

#[test]
fn a_damaged_record_is_a_warning_until_it_is_begun_anew() {
    let place = rolled_back();
    let path = record(&place, ".state");
    let whole = std::fs::read(&path).expect("a file");
    let check = format!("check v {SECRET}");
    for spoiled in [&whole[..whole.len() / 2], b"", b"\0\0\0\0"] {
        std::fs::write(&path, spoiled).expect("written");
        let run = place.line(&check).expect(0);
        let name = path.file_name().expect("a name").to_str().expect("text");
        assert!(run.stderr.contains(name) && run.stderr.contains("--accept-rollback"), "{}", run.stderr);
        assert_eq!(std::fs::read(&path).expect("a file"), spoiled, "it is left to be looked at");
    }
    place.line(&format!("{check} --accept-rollback")).expect(2).error_text("--yes");
    place.line(&format!("{check} --accept-rollback --yes")).expect(0);
    assert_eq!(place.line(&check).expect(0).stderr, "");
    assert_eq!(remembered(&place)["sequence"], place.line("info v --json").document()["sequence"]);
    // What is no file is not waited for.
    std::fs::remove_file(&path).expect("removed");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    place.line(&check).expect(0).error_text("not a file");
}

#[test]
fn where_nothing_can_be_remembered_that_is_said_once() {
    let place = Place::new().vault();
    place.write("file", "");
    let line = format!("key change v {SECRET} --new-password-file password {}", CHEAP.join(" "));
    let run = on(&place, "file", &line).expect(0);
    assert_eq!(run.stderr.matches("cannot remember").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("XDG_STATE_HOME") && run.stderr.contains("--no-history"), "{}", run.stderr);
}

#[test]
fn an_older_header_is_restored_on_purpose_after_asking() {
    let place = Place::new().vault();
    place.line("header backup v saved").expect(0);
    place.write("new", "new");
    let change = format!("key change v {SECRET} --new-password-file new {}", CHEAP.join(" "));
    place.line(&change).expect(0);
    let restore = format!("header restore v saved {SECRET}");
    let run = place.line(&restore).expect(2);
    assert!(
        run.stderr.contains("passwords that were changed") && run.stderr.contains("--yes"),
        "{}",
        run.stderr
    );
    place.line("info v --password-file new").expect(0);
    let before = remembered(&place)["sequence"].as_u64();
    place.line(&format!("{restore} --yes")).expect(0);
    place.line(&format!("info v {SECRET}")).expect(0);
    assert!(remembered(&place)["sequence"].as_u64() > before);
    // Also where there is no header any more to take the number from.
    let before = remembered(&place)["sequence"].as_u64();
    for copy in ["header.0", "header.1"] {
        std::fs::remove_file(place.path("v/.strongroom").join(copy)).expect("removed");
    }
    place.line(&format!("{restore} --yes")).expect(0);
    assert!(remembered(&place)["sequence"].as_u64() > before);
    place.line(&format!("check v {SECRET}")).expect(0);
}

#[test]
fn a_header_is_not_restored_into_a_vault_that_was_put_back() {
    let place = rolled_back();
    place.line("header backup old saved").expect(0);
    let restore = format!("header restore v saved {SECRET} --yes");
    place.line(&restore).expect(4).error_text(OLDER);
    place.line(&format!("{restore} --accept-rollback")).expect(0);
    place.line(&format!("check v {SECRET}")).expect(0);
}

#[test]
fn a_freshness_file_that_is_missing_is_no_beginning() {
    let place = Place::new();
    for directory in ["usb", "m"] {
        std::fs::create_dir(place.path(directory)).expect("a directory");
    }
    let words = format!("init v {SECRET} --recovery-out none --freshness usb/fresh {}", CHEAP.join(" "));
    place.line(&words).expect(0);
    place.open_recorded("usb", "fresh").directory("d").file("d/f", 100).close();
    std::fs::remove_file(place.path("usb/fresh")).expect("removed");
    // Another machine knows by the vault's header.
    for machine in [".state", "other"] {
        for line in [
            "mount v m --freshness usb/fresh",
            "mount v m --read-only --freshness usb/fresh",
            "check v --freshness usb/fresh",
            "freshness accept v usb/fresh d",
        ] {
            let run = on(&place, machine, &format!("{line} {SECRET}")).expect(4);
            assert!(run.stderr.contains("there is no freshness file"), "{line}: {}", run.stderr);
            assert!(run.stderr.contains("--new-freshness"), "{line}: {}", run.stderr);
        }
    }
    let run = place.line(&format!("mount v m --freshness usb/fresh {SECRET}")).expect(4);
    assert!(run.stderr.contains("This machine has seen it as"), "{}", run.stderr);
    assert!(!place.exists("usb/fresh"));
    place.line(&format!("mount v m --new-freshness {SECRET}")).expect(2).error_text("--freshness");
    // The owner believes the vault as a whole: that is a beginning.
    place.line(&format!("freshness accept v usb/fresh {SECRET}")).expect(0);
    place.line(&format!("check v --freshness usb/fresh {SECRET}")).expect(0);
}
