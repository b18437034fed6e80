//! A store that was made to hang or to exhaust whoever reads it: other kinds
//! of inodes in the place of files, and trees without an end.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, makedev, mkdirat, mknodat, openat, unlinkat};
use serde_json::Value;

use crate::support::Place;

/// Seconds in which every command has to answer.
const LIMIT: &str = "60";
/// Directories in each other: far more than a path may have, or a stack of a thread has room for.
const DEPTH: usize = 20_000;

fn filled() -> Place {
    let place = Place::new().vault();
    let filling = place.open();
    filling.directory("docs").file("docs/file", 5000).file(&"n".repeat(250), 10);
    filling.symlink("long link", "t/".repeat(1800).as_bytes());
    filling.close();
    place
}

/// The code that the program ended with, which it does in time.
#[track_caller]
fn ends(place: &Place, line: &str) -> (i32, String) {
    let mut command = Command::new("timeout");
    command.args([LIMIT, env!("CARGO_BIN_EXE_strongroom")]).args(line.split_whitespace());
    let run = command.current_dir(place.path("")).output().expect("timeout");
    let code = run.status.code().unwrap_or_else(|| panic!("{line}: {}", run.status));
    assert!(code < 100, "{line} ended with {code}: {}", String::from_utf8_lossy(&run.stderr));
    (code, String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr))
}

const KINDS: [&str; 5] = ["FIFO", "socket", "directory", "symlink", "device"];

/// Puts an inode of another kind in the place of a file; false where only root
/// may make one.
fn replace(path: &Path, kind: &str) -> bool {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path).expect("removed"),
        Ok(_) => std::fs::remove_file(path).expect("removed"),
        Err(_) => {}
    }
    let make = |kind, device| mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device);
    match kind {
        "FIFO" => make(FileType::Fifo, 0).expect("a FIFO"),
        "socket" => drop(UnixListener::bind(path).expect("a socket")),
        "directory" => std::fs::create_dir(path).expect("a directory"),
        "symlink" => std::os::unix::fs::symlink("/dev/zero", path).expect("a symlink"),
        _ => return make(FileType::CharacterDevice, makedev(1, 5)).is_ok(),
    }
    true
}

#[test]
fn another_kind_in_the_place_of_a_file_is_told_and_waited_for_by_nobody() {
    let names = ["lock", "header.0", "header.1", "header.spare", "links", "temporary"];
    for kind in KINDS {
        for name in names {
            let place = Place::new().vault();
            if !replace(&place.path("v/.strongroom").join(name), kind) {
                continue;
            }
            let (info, said) = ends(&place, "info v");
            let (check, also) = ends(&place, "check v --password-file password");
            let context = format!("{kind} as {name}: info {info}, check {check}\n{said}{also}");
            let expected = match name {
                // Made anew by the next writer; a directory is one.
                "header.spare" => 0,
                "links" | "temporary" if kind == "directory" => 0,
                _ => 4,
            };
            assert_eq!(check, expected, "{context}");
            assert!(check == 0 || also.contains(name), "{context}: named");
        }
    }
}

/// Commands that open a vault, to read it and to write to it.
const OPENING: [&str; 5] = [
    "info v",
    "check v --password-file password",
    "salvage v out --password-file password",
    "mount v mount --password-file password",
    "freshness accept v fresh --password-file password",
];

#[test]
fn another_kind_in_the_place_of_the_vaults_own_directory_is_damage() {
    for kind in KINDS {
        let place = Place::new().vault();
        std::fs::create_dir(place.path("mount")).expect("a directory");
        std::fs::rename(place.path("v/.strongroom"), place.path("away")).expect("moved");
        if kind == "symlink" {
            // To what would do.
            std::os::unix::fs::symlink("../away", place.path("v/.strongroom")).expect("a symlink");
        } else if kind == "directory" {
            place.write("v/.strongroom", "");
        } else if !replace(&place.path("v/.strongroom"), kind) {
            continue;
        }
        for line in OPENING {
            let (code, said) = ends(&place, line);
            assert_eq!(code, 4, "{kind}, {line}: {said}");
            assert!(
                said.contains("`.strongroom`") && said.contains("from a backup"),
                "{kind}, {line}: {said}"
            );
        }
        assert!(!place.path("away/lock").exists(), "{kind}: nothing was made elsewhere");
        std::fs::remove_file(place.path("v/.strongroom")).expect("removed");
        std::fs::rename(place.path("away"), place.path("v/.strongroom")).expect("moved");
        assert_eq!(ends(&place, OPENING[1]).0, 0, "{kind}: as it says");
    }
}

#[test]
fn another_kind_in_the_place_of_the_temporary_directory_is_damage() {
    for kind in KINDS.into_iter().filter(|kind| *kind != "directory") {
        let place = filled();
        std::fs::create_dir(place.path("mount")).expect("a directory");
        if !replace(&place.path("v/.strongroom/temporary"), kind) {
            continue;
        }
        for line in &OPENING[3..] {
            let (code, said) = ends(&place, line);
            assert_eq!(code, 4, "{kind}, {line}: {said}");
            assert!(said.contains("`.strongroom/temporary`"), "{kind}, {line}: {said}");
            assert!(said.contains("move it away"), "{kind}, {line}: {said}");
        }
        std::fs::remove_file(place.path("v/.strongroom/temporary")).expect("removed");
        assert_eq!(ends(&place, OPENING[4]).0, 0, "{kind}: as it says");
    }
}

#[test]
fn trees_in_the_temporary_directory_keep_nobody_from_mounting() {
    let place = filled();
    let temporary = place.path("v/.strongroom/temporary");
    let inside = |name: &str| {
        let path = temporary.join(name);
        std::fs::create_dir(&path).expect("a directory");
        path
    };
    nest(&inside("deep"), "d", 4000, |_| {});
    std::fs::write(inside("full").join("file"), "somebody's").expect("a file");
    std::fs::create_dir_all(inside("record").join(".id/within/within")).expect("directories");
    std::fs::create_dir(inside("side").join(".n~side")).expect("a directory");
    // As a mount that was killed leaves one.
    std::fs::create_dir_all(inside("gone").join(".id")).expect("directories");
    let (code, said) = ends(&place, OPENING[4]);
    assert_eq!(code, 0, "{said}");
    let mut left: Vec<String> = std::fs::read_dir(&temporary)
        .expect("it is there")
        .flatten()
        .map(|entry| name_of(&entry.path()))
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["deep", "full", "record", "side"]);
    assert!(temporary.join("full/file").exists() && temporary.join("record/.id/within/within").exists());
    let document = place.line("check v --password-file password --json").expect(0).document();
    let leftovers = document["leftovers"].as_array().expect("a list");
    assert_eq!(leftovers.len(), 4, "{leftovers:#?}");
    for leftover in leftovers {
        let what = leftover["what"].as_str().expect("text");
        assert!(what.contains("no mount removes it"), "{what}");
    }
    unnest(&temporary.join("deep"), "d");
}

#[test]
fn a_header_copy_of_another_kind_leaves_the_other_in_use() {
    for kind in KINDS {
        let place = filled();
        if !replace(&place.path("v/.strongroom/header.0"), kind) {
            continue;
        }
        let document = place.line("check v --password-file password --json").expect(4).document();
        let damage = document["damage"].as_array().expect("a list");
        assert_eq!(damage.len(), 1, "{kind}: {damage:#?}");
        assert_eq!(damage[0]["kind"], "header", "{kind}");
        place.line("check v --password-file password --repair --yes");
        place.line("check v --password-file password").expect(0);
    }
}

#[test]
fn a_side_file_of_another_kind_loses_its_name_alone() {
    for kind in KINDS {
        let place = filled();
        let is_side = |name: &str| name.starts_with(".n");
        let entries = std::fs::read_dir(place.path("v")).expect("a vault");
        let side = entries.flatten().find(|entry| entry.file_name().to_str().is_some_and(is_side));
        if !replace(&side.expect("a long name has one").path(), kind) {
            continue;
        }
        let document = place.line("check v --password-file password --json").expect(4).document();
        assert_eq!((&document["files"], &document["symlinks"]), (&Value::from(2), &Value::from(1)), "{kind}");
    }
}

/// Directories one in the other, `depth` of them, each with what `fill` makes.
fn nest(top: &Path, name: &str, depth: usize, fill: impl Fn(&rustix::fd::OwnedFd)) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = openat(CWD, top, flags, Mode::empty()).expect("a directory");
    for _ in 0..depth {
        mkdirat(&directory, name, Mode::RWXU).expect("made");
        directory = openat(&directory, name, flags, Mode::empty()).expect("opened");
        fill(&directory);
    }
}

/// Takes such a tree away, with what `fill` made: down and back by one
/// descriptor at a time. By paths it would take minutes.
fn unnest(top: &Path, name: &str) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = openat(CWD, top, flags, Mode::empty()).expect("a directory");
    let mut depth = 0;
    while let Ok(next) = openat(&directory, name, flags, Mode::empty()) {
        directory = next;
        depth += 1;
    }
    for _ in 0..depth {
        let _ = std::fs::remove_dir_all(format!("/proc/self/fd/{}/.id", directory.as_raw_fd()));
        directory = openat(&directory, "..", flags, Mode::empty()).expect("a directory");
        unlinkat(&directory, name, AtFlags::REMOVEDIR).expect("it is empty");
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned()
}

fn checked_and_salvaged(place: &Place, message: &str) {
    for line in ["check v --password-file password", "salvage v out --password-file password"] {
        let (code, said) = ends(place, line);
        assert_eq!(code, 4, "{line}: {said}");
        assert!(said.contains(message), "{line}: {said}");
    }
}

#[test]
fn a_directory_copied_into_itself_is_found_and_not_followed() {
    let place = filled();
    let docs = place.stored("docs");
    let record = docs.join(".id");
    let name = std::fs::read_dir(&record).expect("a record").flatten().next().expect("a name").file_name();
    nest(&docs, &name_of(&docs), DEPTH, |directory| {
        rustix::fs::mkdirat(directory, ".id", Mode::RWXU).expect("a record");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let path = std::path::Path::new(".id").join(&name);
        drop(openat(directory, path, flags, Mode::RUSR | Mode::WUSR).expect("a record"));
    });
    // The names are those of the directory above, of which only the first
    // opens; from the second on they are of a directory that stands in itself.
    checked_and_salvaged(&place, "not followed");
    unnest(&docs, &name_of(&docs));
}

#[test]
fn a_tree_deeper_than_any_path_is_found_and_not_followed() {
    let place = filled();
    let docs = place.stored("docs");
    nest(&docs, &name_of(&docs), DEPTH, |_| {});
    checked_and_salvaged(&place, "not followed");
    unnest(&docs, &name_of(&docs));
}
