//! What users of file systems like this one have reported, tried here: docs/answers.md names the reports.

mod support;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use rustix::io::Errno;
use support::{Place, assert_fails_with, assert_success, noise, program};

/// A vault that is mounted, where one can be.
fn mounted() -> Option<Place> {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("not tried: there is no /dev/fuse");
        return None;
    }
    let place = Place::new();
    place.mount(&[]);
    Some(place)
}

fn remount(place: &Place) {
    place.umount();
    place.mount(&[]);
}

/// Whether the whole vault is sound.
fn check(place: &Place) -> std::process::Output {
    program()
        .arg("check")
        .arg(place.vault())
        .arg("--password-file")
        .arg(place.password())
        .output()
        .expect("runs")
}

fn names(directory: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    names
}

/// Stored paths of what stands at the top of the tree, but the vault's own.
fn stored(place: &Place) -> Vec<PathBuf> {
    let is_own = |name: &OsString| name.as_encoded_bytes().starts_with(b".");
    names(&place.vault())
        .into_iter()
        .filter(|name| !is_own(name))
        .map(|name| place.vault().join(name))
        .collect()
}

#[test]
fn symlinks_have_times_of_their_own_and_long_targets() {
    let Some(place) = mounted() else { return };
    symlink("nowhere", place.at("link")).expect("a symlink");
    let long = "t".repeat(4095);
    symlink(&long, place.at("long")).expect("a symlink");
    let time = Timespec { tv_sec: 1_000_000_000, tv_nsec: 5 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, place.at("link"), &times, AtFlags::SYMLINK_NOFOLLOW).expect("its own time");
    remount(&place);
    let metadata = place.at("link").symlink_metadata().expect("it is there");
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (1_000_000_000, 5));
    assert_eq!(fs::read_link(place.at("long")).expect("its target"), Path::new(&long));
}

#[test]
fn long_names_are_created_replaced_and_made_again() {
    let Some(place) = mounted() else { return };
    let [one, two] = ["a", "b"].map(|letter| letter.repeat(255));
    for name in [&one, &two] {
        fs::write(place.at(name), &name[..1]).expect("written");
    }
    fs::rename(place.at(&one), place.at(&two)).expect("replaced");
    fs::rename(place.at(&two), place.at("0.txt")).expect("shortened");
    fs::write(place.at(&two), "new").expect("made again");
    let too_long = "c".repeat(256);
    let refused = fs::rename(place.at("0.txt"), place.at(&too_long)).expect_err("too long");
    assert_eq!(refused.raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()));
    remount(&place);
    assert_eq!(names(&place.mount_point()), [OsString::from("0.txt"), two.clone().into()]);
    assert_eq!(fs::read(place.at("0.txt")).expect("there"), b"a");
    assert_eq!(fs::read(place.at(&two)).expect("there"), b"new");
    place.umount();
    assert_success(&check(&place));
}

#[test]
fn a_path_may_be_longer_than_one_call_takes() {
    let Some(place) = mounted() else { return };
    // In the shell, which changes into one directory after the other.
    let script = "n=$(printf 'd%.0s' {1..250}); for i in {1..30}; do mkdir $n && cd -P $n || exit 1; done; \
                  echo deep > f && cat f";
    let run =
        Command::new("bash").args(["-c", script]).current_dir(place.mount_point()).output().expect("bash");
    assert_success(&run);
    assert_eq!(run.stdout, b"deep\n");
    remount(&place);
    let removed = Command::new("rm").arg("-r").arg(place.at(&"d".repeat(250))).status().expect("rm");
    assert!(removed.success());
}

#[test]
fn a_daemon_that_is_killed_while_it_writes_leaves_a_sound_vault() {
    let Some(place) = mounted() else { return };
    fs::write(place.at("before"), noise(100_000, 1)).expect("written");
    assert_success(&place.ask(&["sync"]));
    let target = place.at("large");
    let writer = std::thread::spawn(move || {
        let file = fs::File::create(target)?;
        (0..2000u64).try_for_each(|at| file.write_all_at(&noise(1 << 16, at + 1), at << 16))
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    place.crash();
    let _ = writer.join().expect("it gets an error");
    place.mount(&[]);
    assert_eq!(fs::read(place.at("before")).expect("it is there"), noise(100_000, 1));
    // Deleting what is large takes no time that somebody would wait for.
    let _ = fs::remove_file(place.at("large"));
    place.umount();
    assert_success(&check(&place));
}

#[test]
fn one_damaged_file_keeps_nobody_from_the_others() {
    let Some(place) = mounted() else { return };
    fs::write(place.at("sound"), "text").expect("written");
    place.umount();
    let before = stored(&place);
    place.mount(&[]);
    fs::write(place.at("damaged"), noise(50_000, 3)).expect("written");
    place.umount();
    let damaged = stored(&place).into_iter().find(|path| !before.contains(path)).expect("stored");
    let file = fs::File::options().write(true).open(&damaged).expect("a file");
    file.write_all_at(&[0; 8192], 0).expect("overwritten");
    place.mount(&[]);
    assert_eq!(fs::read(place.at("sound")).expect("sound"), b"text");
    let error = fs::read(place.at("damaged")).expect_err("damage");
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    place.umount();
    assert_fails_with(&check(&place), 4, "");
    fs::remove_file(&damaged).expect("removed");
    assert_success(&check(&place));
}

#[test]
fn stored_files_that_change_places_are_errors_and_no_other_data() {
    let Some(place) = mounted() else { return };
    for (name, seed) in [("one", 1), ("two", 2)] {
        fs::write(place.at(name), noise(20_000, seed)).expect("written");
    }
    fs::create_dir(place.at("d")).expect("made");
    fs::write(place.at("d/inner"), "text").expect("written");
    place.umount();
    let files: Vec<_> = stored(&place).into_iter().filter(|path| path.is_file()).collect();
    let [first, second] = files.as_slice() else { panic!("{files:?}") };
    let aside = place.directory.path().join("aside");
    for (from, to) in [(first, &aside), (second, first), (&aside, second)] {
        fs::rename(from, to).expect("renamed in the store");
    }
    place.mount(&[]);
    for name in ["one", "two"] {
        assert!(fs::read(place.at(name)).is_err(), "{name} has the other's data");
    }
    assert_eq!(fs::read(place.at("d/inner")).expect("sound"), b"text");
    place.umount();
    assert_fails_with(&check(&place), 4, "");
}

#[test]
fn a_stored_directory_that_is_moved_in_the_store_is_not_taken_for_another() {
    let Some(place) = mounted() else { return };
    for name in ["a", "a/inner", "b"] {
        fs::create_dir(place.at(name)).expect("made");
    }
    fs::write(place.at("a/inner/f"), "text").expect("written");
    place.umount();
    let inner = |path: &PathBuf| {
        fs::read_dir(path)
            .expect("read")
            .flatten()
            .find(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
    };
    let (mut with, mut without) = (None, None);
    for directory in stored(&place) {
        match inner(&directory) {
            Some(entry) => with = Some(entry.path()),
            None => without = Some(directory),
        }
    }
    let (inner, other) = (with.expect("a's"), without.expect("b"));
    let moved = other.join(inner.file_name().expect("a name"));
    fs::rename(&inner, &moved).expect("moved in the store");
    assert_fails_with(&check(&place), 4, "");
    fs::rename(&moved, &inner).expect("moved back");
    assert_success(&check(&place));
}

#[test]
fn vaults_of_one_name_are_mounted_side_by_side() {
    let Some(place) = mounted() else { return };
    let other = Place::new();
    other.mount(&[]);
    assert_eq!(place.vault().file_name(), other.vault().file_name());
    for (place, text) in [(&place, "one"), (&other, "two")] {
        fs::write(place.at("f"), text).expect("written");
    }
    assert_eq!(fs::read(place.at("f")).expect("read"), b"one");
    other.umount();
    assert_eq!(fs::read(place.at("f")).expect("read"), b"one");
}

#[test]
fn what_others_add_in_the_store_hides_and_fails_nothing() {
    let Some(place) = mounted() else { return };
    fs::write(place.at("readme.pdf"), "mine").expect("written");
    place.umount();
    let [file] = stored(&place).try_into().expect("one file");
    let mut conflict = file.clone().into_os_string();
    conflict.push(" (1)");
    fs::copy(&file, &conflict).expect("a conflict copy");
    let _ = rustix::fs::setxattr(&file, "user.other.program", b"v", rustix::fs::XattrFlags::empty());
    place.mount(&[]);
    assert_eq!(names(&place.mount_point()), ["readme.pdf"]);
    let path = place.at("readme.pdf");
    assert_eq!(rustix::fs::listxattr(&path, &mut [0u8; 1000]).expect("listed"), 0);
    fs::remove_file(&path).expect("removed");
    remount(&place);
    assert!(names(&place.mount_point()).is_empty(), "what was removed stays so");
    assert!(Path::new(&conflict).exists());
}

#[test]
fn times_contents_and_names_in_any_language_survive_a_remount() {
    let Some(place) = mounted() else { return };
    let directory = "茜公主——珍珠 (11P+3V) ß é e\u{301}";
    fs::create_dir(place.at(directory)).expect("made");
    let path = place.at(directory).join("QQ视频.mp4");
    let source = place.directory.path().join("source");
    fs::write(&source, noise(14 << 20, 9)).expect("written");
    let copied = Command::new("cp").arg("--preserve=all").arg(&source).arg(&path).status().expect("cp");
    assert!(copied.success(), "closing tells of no error");
    let renamed = format!("{directory} neu");
    fs::rename(place.at(directory), place.at(&renamed)).expect("renamed");
    remount(&place);
    let path = place.at(&renamed).join("QQ视频.mp4");
    assert_eq!(fs::read(&path).expect("read"), noise(14 << 20, 9));
    let (was, is) = (source.metadata().expect("there"), path.metadata().expect("there"));
    assert_eq!((was.mtime(), was.mtime_nsec()), (is.mtime(), is.mtime_nsec()));
}
