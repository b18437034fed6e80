//! Second versions of files, which synchronisation programs leave, and what only looks like one.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{SUITES, actions, check, filled, left, long, plain, repair};
use crate::support::{Node, content};

/// Behind a stored name, as Dropbox, Nextcloud, Syncthing, OneDrive, rclone and
/// browsers have it.
const MARKS: [&str; 6] = [
    " (conflicted copy 2026-01-01)",
    "_conflict-20260101-120000",
    ".sync-conflict-20260101-120000-ABCDEFG",
    "-DESKTOP-7",
    ".conflict1",
    " (1)",
];

fn marked(path: &Path, mark: &str) -> PathBuf {
    path.with_file_name(format!("{}{mark}", path.file_name().expect("a name").to_string_lossy()))
}

#[test]
fn a_conflict_copy_gets_a_name_of_its_own() {
    for (suite, mark) in SUITES.into_iter().cycle().zip(MARKS) {
        let place = filled(suite);
        let stored = ["docs/a", "docs/link", &format!("docs/{}", long("n"))].map(|path| place.stored(path));
        for path in &stored {
            fs::copy(path, marked(path, mark)).expect("copied");
        }
        // The file is changed after it was copied: each version is whole.
        place.open().overwrite("docs/a", 9000).close();
        let before = plain(&place, 0);
        let name = format!("docs/a{mark}");
        assert_eq!(before[&name], Node::File(content(5000)), "{mark}");
        assert_ne!(before["docs/a"], before[&name]);
        let document = check(&place).expect(4).document();
        let conflicts: Vec<&Value> = document["damage"].as_array().expect("a list").iter().collect();
        assert!(conflicts.iter().all(|finding| finding["kind"] == "conflict"), "{document:#}");
        assert_eq!(conflicts.len(), 3);
        assert!(conflicts.iter().any(|finding| finding["path"] == "docs/a"));
        let document = repair(&place).expect(8).document();
        assert_eq!(actions(&document), ["adopt"; 3], "{document:#}");
        check(&place).expect(0);
        let after = plain(&place, 0);
        for path in ["docs/a", &name, "docs/link", &format!("docs/link{mark}")] {
            assert_eq!(after[path], before[path], "{path}");
        }
        assert!(stored.iter().all(|path| !marked(path, mark).exists()));
    }
}

/// What belongs under another name is no second version of this one.
#[test]
fn a_conflict_copy_of_another_entry_is_left() {
    for (suite, mark) in SUITES.into_iter().cycle().zip(MARKS) {
        let place = filled(suite);
        place.open().fifo("docs/fifo").close();
        for (of, to) in [("top", "docs/a"), ("above/link", "docs/b"), ("docs/fifo", "docs/a")] {
            let copy = marked(&place.stored(to), mark);
            fs::copy(place.stored(of), &copy).expect("copied");
            let kinds: Vec<Value> = left(&place).iter().map(|found| found["kind"].clone()).collect();
            assert!(kinds.iter().any(|kind| kind == "home"), "{of} as {to}: {kinds:?}");
            assert!(!kinds.iter().any(|kind| kind == "conflict"), "{of} as {to} is told of once: {kinds:?}");
            fs::remove_file(copy).expect("removed");
        }
        // A directory that is another.
        let (away, of_docs) = (place.stored("empty"), marked(&place.stored("docs"), mark));
        fs::rename(&away, &of_docs).expect("moved");
        let document = check(&place).expect(4).document();
        let found = document["damage"].as_array().expect("a list");
        assert!(found.iter().all(|finding| finding["kind"] == "name"), "{document:#}");
        fs::rename(of_docs, away).expect("moved");
        // Beside one that is: that alone is adopted.
        let of_another = marked(&place.stored("docs/b"), mark);
        fs::copy(place.stored("top"), &of_another).expect("copied");
        fs::copy(place.stored("docs/a"), marked(&place.stored("docs/a"), mark)).expect("copied");
        let document = repair(&place).expect(9).document();
        assert_eq!(actions(&document), ["adopt"]);
        assert!(of_another.exists());
    }
}

/// Nobody authenticates what stands behind a stored name.
#[test]
fn a_mark_of_control_characters_gets_into_no_plain_name() {
    let place = filled(SUITES[0]);
    let stored = place.stored("docs/a");
    for mark in ["\u{1b}[2J\nNo damage found.", " \u{85}\u{7f}"] {
        fs::copy(&stored, marked(&stored, mark)).expect("copied");
    }
    let mut bytes = std::os::unix::ffi::OsStrExt::as_bytes(stored.as_os_str()).to_vec();
    bytes.extend(b" \xff\xfe");
    fs::copy(&stored, <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&bytes)).expect("copied");
    let told = place.line("check v --password-file password").expect(4).stdout;
    assert!(told.lines().all(|line| !line.contains(|c: char| c.is_control())), "{told:?}");
    assert!(!told.lines().any(|line| line.starts_with("No damage")), "{told:?}");
    let marks = ["_[2J_No damage found.", " __", " __.1"];
    let before = plain(&place, 0);
    assert!(marks.iter().all(|mark| before.contains_key(&format!("docs/a{mark}"))), "{:?}", before.keys());
    let told = place.line("check v --password-file password --repair --yes").expect(8).stdout;
    assert!(told.lines().all(|line| !line.contains(|c: char| c.is_control())), "{told:?}");
    assert_eq!(plain(&place, 0), before);
}
