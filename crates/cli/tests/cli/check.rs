//! `check` finds what was done to a vault, and names it.

use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use crate::support::{Place, Run};

fn check(place: &Place) -> Run {
    place.line("check v --password-file password --json")
}

fn filled() -> Place {
    let place = Place::new().vault();
    let filling = place.open();
    let long = "n".repeat(250);
    let target = "t/".repeat(1800);
    filling.directory("docs").directory("docs/deep");
    filling.file("docs/large", 300_000).file("docs/deep/small", 10).file("docs/empty", 0);
    filling.file(&long, 5000).file("linked", 4096).link("linked", "docs/also linked");
    filling.symlink("short link", b"docs/large").symlink("long link", target.as_bytes());
    filling.close();
    place
}

/// Flips a bit of a stored file.
fn flip(path: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("within it");
    file.write_all_at(&[byte[0] ^ 1], at).expect("written");
}

/// The only finding.
#[track_caller]
fn finding(place: &Place) -> Value {
    let document = check(place).expect(4).document();
    let damage = document["damage"].as_array().expect("a list").clone();
    assert_eq!(damage.len(), 1, "{document:#}");
    damage[0].clone()
}

/// The stored file of at least `len` bytes, of which there is one.
#[track_caller]
fn stored(place: &Place, len: u64) -> std::path::PathBuf {
    let files = place.stored_files("v", len);
    assert_eq!(files.len(), 1);
    files[0].clone()
}

#[test]
fn a_sound_vault_is_counted_and_nothing_is_found() {
    let place = filled();
    let document = check(&place).expect(0).document();
    let counts = ["files", "directories", "symlinks", "others"].map(|name| document[name].as_u64());
    assert_eq!(counts, [Some(5), Some(3), Some(2), Some(0)]);
    assert!(document["damage"].as_array().is_some_and(Vec::is_empty));
    assert!(document["leftovers"].as_array().is_some_and(Vec::is_empty), "{document:#}");
    let run = place.line("check v --password-file password --threads 1").expect(0);
    assert!(run.stdout.contains("No damage"), "{}", run.stdout);
    assert_eq!(run.stderr, "", "no progress bar without a terminal");
}

#[test]
fn a_damaged_block_is_named_with_its_bytes() {
    let place = filled();
    // The page, and one block of 4 KiB per block before it.
    flip(&stored(&place, 290_000), 4096 * 3 + 100);
    let found = finding(&place);
    assert_eq!(found["path"], "docs/large");
    assert_eq!(
        (&found["kind"], &found["offset"], &found["bytes"]),
        (&"blocks".into(), &8192.into(), &4096.into())
    );
    let run = place.line("check v --password-file password").expect(4);
    assert!(run.stdout.contains("docs/large: bytes 8192 to 12287 are lost"), "{}", run.stdout);
}

#[test]
fn a_damaged_page_and_a_cut_file_are_named() {
    let place = filled();
    flip(&stored(&place, 290_000), 100);
    assert_eq!(finding(&place)["path"], "docs/large");
    let place = filled();
    let file = stored(&place, 290_000);
    let len = file.metadata().expect("it is there").len();
    std::fs::File::options().write(true).open(&file).expect("a file").set_len(len - 4096).expect("cut");
    let document = check(&place).expect(4).document();
    let damage = document["damage"].as_array().expect("a list");
    assert!(!damage.is_empty() && damage.iter().all(|found| found["path"] == "docs/large"), "{document:#}");
}

#[test]
fn exchanged_copied_and_misnamed_files_are_named() {
    let place = filled();
    let files = place.stored_files("v", 290_000);
    let copy = files[0].with_file_name("AAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    std::fs::copy(&files[0], &copy).expect("copied");
    let found = finding(&place);
    assert_eq!((&found["path"], &found["kind"]), (&"docs".into(), &"name".into()));
    assert!(found["stored"].as_str().is_some_and(|stored| stored.ends_with("/AAAAAAAAAAAAAAAAAAAAAAAAAAAA")));
    std::fs::remove_file(&copy).expect("removed");

    let other = place.open();
    other.file("docs/other", 290_001).close();
    let files = place.stored_files("v", 290_000);
    assert_eq!(files.len(), 2);
    let aside = files[0].with_file_name("aside");
    for (from, to) in [(&files[0], &aside), (&files[1], &files[0]), (&aside, &files[1])] {
        std::fs::rename(from, to).expect("renamed");
    }
    let document = check(&place).expect(4).document();
    let paths: Vec<_> =
        document["damage"].as_array().expect("a list").iter().map(|f| (&f["path"], &f["kind"])).collect();
    assert_eq!(paths, [(&"docs/large".into(), &"home".into()), (&"docs/other".into(), &"home".into())]);

    std::fs::copy(&files[0], &files[1]).expect("copied");
    let document = check(&place).expect(4).document();
    assert!(document["damage"].as_array().is_some_and(|damage| !damage.is_empty()));
}

#[test]
fn a_lost_record_and_a_lost_long_name_are_named() {
    let place = filled();
    let directories: Vec<_> = std::fs::read_dir(place.path("v"))
        .expect("a directory")
        .flatten()
        .filter(|entry| entry.path().join(".id").symlink_metadata().is_ok())
        .collect();
    assert_eq!(directories.len(), 1);
    std::fs::remove_file(directories[0].path().join(".id")).expect("removed");
    let found = finding(&place);
    assert_eq!((&found["path"], &found["kind"]), (&"docs".into(), &"name".into()));

    let place = filled();
    let side = std::fs::read_dir(place.path("v")).expect("a directory").flatten();
    let side: Vec<_> =
        side.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".n~")).collect();
    assert_eq!(side.len(), 1);
    std::fs::remove_file(side[0].path()).expect("removed");
    let found = finding(&place);
    assert_eq!((&found["path"], &found["kind"]), (&"".into(), &"name".into()));
    assert!(found["stored"].as_str().is_some_and(|stored| stored.starts_with('~')));
}

#[test]
fn damaged_symlinks_are_named() {
    let place = filled();
    let links: Vec<_> =
        std::fs::read_dir(place.path("v/.strongroom/links")).expect("it is there").flatten().collect();
    assert_eq!(links.len(), 1);
    flip(&links[0].path(), 20);
    assert_eq!(finding(&place)["path"], "long link");
    std::fs::remove_file(links[0].path()).expect("removed");
    assert_eq!(finding(&place)["path"], "long link");
}

#[test]
fn leftovers_are_listed_and_no_damage() {
    let place = filled();
    place.write("v/.strongroom/stray", "");
    place.write("v/.strongroom/journal.00112233445566778899aabb.0", "");
    place.write("v/.strongroom/links/AAAAAAAAAAAAAAAAAAAAAA", "");
    std::fs::create_dir(place.path("v/.strongroom/temporary/half")).expect("a directory");
    let long: Vec<_> = std::fs::read_dir(place.path("v")).expect("a directory").flatten().collect();
    let long = long
        .iter()
        .find(|entry| entry.file_name().as_encoded_bytes().starts_with(b"~"))
        .expect("a long name");
    std::fs::remove_file(long.path()).expect("removed");
    let document = check(&place).expect(0).document();
    let leftovers = document["leftovers"].as_array().expect("a list");
    assert_eq!(leftovers.len(), 5, "{document:#}");
}

#[test]
fn after_a_crash_what_was_synced_is_sound_and_nothing_is_changed() {
    let place = Place::new().vault();
    place.open().file("a", 10_000).crash();
    let before = place
        .stored_files("v", 0)
        .iter()
        .map(|path| std::fs::read(path).expect("a file"))
        .collect::<Vec<_>>();
    let document = check(&place).expect(0).document();
    assert_eq!(document["files"], 1);
    let after = place
        .stored_files("v", 0)
        .iter()
        .map(|path| std::fs::read(path).expect("a file"))
        .collect::<Vec<_>>();
    assert_eq!(before, after);
}

#[test]
fn names_that_would_steer_a_terminal_are_escaped() {
    let place = Place::new().vault();
    place.open().file("evil\u{1b}[2J", 5000).close();
    flip(&stored(&place, 5000), 5000);
    let run = place.line("check v --password-file password").expect(4);
    assert!(run.stdout.contains("evil\\u{1b}[2J: bytes 0 to"), "{}", run.stdout);
    assert_eq!(finding(&place)["path"], "evil\u{1b}[2J");
}
