//! Vaults that are put back while or after they were mounted, and what the
//! daemon remembers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{Place, STATE, assert_fails_with, assert_success, is_mounted, program, soon};

mod support;

const OLDER: &str = "older than this machine has seen it";

/// Keeps the header and the journal as they are now.
fn keep(place: &Place) -> PathBuf {
    let kept = place.directory.path().join("kept");
    let _ = fs::remove_dir_all(&kept);
    copy(&place.vault().join(".strongroom"), &kept);
    kept
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().expect("cp").success());
}

fn put_back(place: &Place, kept: &Path) {
    let private = place.vault().join(".strongroom");
    fs::remove_dir_all(&private).expect("removed");
    copy(kept, &private);
}

fn remembered(place: &Place) -> Value {
    let id = info(place, &[])["vault_id"].as_str().expect("text").to_owned();
    let path = Path::new(STATE).join(format!("strongroom/vault-{id}.json"));
    serde_json::from_slice(&fs::read(path).expect("a record")).expect("JSON")
}

fn info(place: &Place, words: &[&str]) -> Value {
    let mut command = program();
    let output = command.arg("info").arg(place.vault()).arg("--json").args(words).output().expect("it runs");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_header_of_a_mount_does_not_come_back_after_its_clean_end() {
    let place = Place::new();
    place.mount(&[]);
    fs::write(place.at("a"), "one").expect("written");
    assert_success(&place.ask(&["sync"]));
    let kept = keep(&place);
    place.umount();
    assert_eq!(remembered(&place)["sequence"], info(&place, &[])["sequence"], "the clean end is remembered");
    put_back(&place, &kept);
    assert_fails_with(&place.try_mount(&[]), 4, OLDER);
    assert_fails_with(&place.try_mount(&["--read-only"]), 4, OLDER);
    assert!(!is_mounted(&place.mount_point()));
    place.mount(&["--accept-rollback", "--yes"]);
    assert_eq!(fs::read_to_string(place.at("a")).expect("it is there"), "one");
    place.umount();
    place.mount(&[]);
    place.umount();
}

/// What a crash leaves is what was durable, and that is what is remembered:
/// also after the recovery, whose headers are remembered as it writes them.
#[test]
fn a_crash_raises_no_alarm_and_its_recovery_does_not_come_back() {
    let place = Place::new();
    place.mount(&[]);
    fs::write(place.at("a"), "one").expect("written");
    assert_success(&place.ask(&["sync"]));
    place.crash();
    let kept = keep(&place);
    place.mount(&[]);
    soon("everything is settled", || place.status()["settling"] == false);
    soon("what it wrote is remembered", || remembered(&place)["sequence"] == info(&place, &[])["sequence"]);
    place.crash();
    place.mount(&[]);
    place.crash();
    put_back(&place, &kept);
    assert_fails_with(&place.try_mount(&[]), 4, OLDER);
}

/// Without barriers for data, the header is durable all the same.
#[test]
fn the_headers_of_a_relaxed_mount_are_remembered_too() {
    let place = Place::new();
    place.mount(&["--durability", "relaxed"]);
    fs::write(place.at("a"), "one").expect("written");
    let kept = keep(&place);
    place.umount();
    assert_eq!(remembered(&place)["sequence"], info(&place, &[])["sequence"]);
    put_back(&place, &kept);
    assert_fails_with(&place.try_mount(&["--durability", "relaxed"]), 4, OLDER);
}

#[test]
fn a_freshness_file_that_is_missing_is_begun_anew_on_purpose_alone() {
    let place = Place::new();
    let file = place.directory.path().join("fresh");
    let freshness = ["--freshness", file.to_str().expect("text")];
    place.mount(&freshness);
    // Killed before the header says so: this machine knows all the same.
    place.crash();
    fs::remove_file(&file).expect("it was made");
    assert_fails_with(&place.try_mount(&freshness), 4, "This machine has seen it");
    assert!(!file.exists() && !is_mounted(&place.mount_point()));
    place.mount(&[freshness[0], freshness[1], "--new-freshness"]);
    fs::write(place.at("a"), "one").expect("written");
    place.umount();
    place.mount(&freshness);
    assert_eq!(fs::read_to_string(place.at("a")).expect("recorded"), "one");
    place.umount();
}

#[test]
fn a_mount_without_its_freshness_file_says_that_there_is_one() {
    let place = Place::new();
    let file = place.directory.path().join("fresh");
    place.mount(&["--freshness", file.to_str().expect("text")]);
    place.umount();
    for options in [&["--read-only"][..], &[]] {
        let output = place.try_mount(options);
        assert_success(&output);
        place.umount();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = said.lines().filter(|line| line.contains("has a freshness file"));
        assert_eq!(told.count(), 1, "{options:?}: {said}");
    }
}
