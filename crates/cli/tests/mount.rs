//! Real mounts, driven through the command as a user drives it. They need
//! `/dev/fuse`, and root or `fusermount3`.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{FallocateFlags, OFlags, XattrFlags};
use serde_json::Value;
use strongroom_keys::{Credential, LockCipher, SecretBytes, unlock_copies};
use support::{
    PROGRAM, Place, STATE, assert_fails_with, assert_success, engine, is_mounted, noise, program, run, soon,
};

mod support;

/// Files of several kinds and sizes come back after a remount.
fn comes_back(parent: &Path, engine: &str) {
    let place = Place::under(parent);
    place.mount(&["--engine", engine]);
    let long_name = "n".repeat(255);
    let sizes = [0, 1, 4095, 4096, 4097, 600_000, 3 << 20];
    fs::create_dir_all(place.at("a/b")).expect("made");
    for (index, size) in sizes.into_iter().enumerate() {
        fs::write(place.at(&format!("a/b/{index}")), noise(size, index as u64)).expect("written");
    }
    fs::write(place.at(&long_name), "long").expect("written");
    fs::set_permissions(place.at("a/b/1"), fs::Permissions::from_mode(0o640)).expect("changed");
    fs::hard_link(place.at("a/b/2"), place.at("link")).expect("linked");
    symlink("a/b/5", place.at("symlink")).expect("linked");
    rustix::fs::setxattr(place.at("a"), "user.colour", b"blue", XattrFlags::empty()).expect("set");
    place.umount();
    assert!(fs::read_dir(place.mount_point()).expect("a directory").next().is_none());

    place.mount(&["--engine", engine]);
    for (index, size) in sizes.into_iter().enumerate() {
        let read = fs::read(place.at(&format!("a/b/{index}"))).expect("read");
        assert!(read == noise(size, index as u64), "file {index}");
    }
    assert_eq!(fs::read(place.at(&long_name)).expect("read"), b"long");
    assert_eq!(fs::metadata(place.at("a/b/1")).expect("there").mode() & 0o7777, 0o640);
    let (linked, link) = (fs::metadata(place.at("a/b/2")), fs::metadata(place.at("link")));
    assert_eq!(linked.expect("there").ino(), link.as_ref().expect("there").ino());
    assert_eq!(link.expect("there").nlink(), 2);
    assert_eq!(fs::read(place.at("symlink")).expect("read").len(), 600_000);
    let mut value = [0; 16];
    let len = rustix::fs::getxattr(place.at("a"), "user.colour", &mut value).expect("there");
    assert_eq!(&value[..len], b"blue");
    assert_eq!(fs::read_dir(place.at("a/b")).expect("a directory").count(), sizes.len());
    place.umount();
}

#[test]
fn files_come_back_after_a_remount() {
    comes_back(&std::env::temp_dir(), "cpu");
}

#[test]
fn files_come_back_on_memory() {
    comes_back(Path::new("/dev/shm"), "cpu");
}

#[test]
fn files_come_back_from_an_engine_that_errs() {
    comes_back(Path::new("/dev/shm"), "unruly");
}

#[test]
fn a_writer_keeps_writers_out_and_readers_do_not() {
    let place = Place::new();
    place.mount(&[]);
    fs::write(place.at("file"), "text").expect("written");
    let other = place.directory.path().join("other");
    fs::create_dir(&other).expect("made");
    let refused = place.try_mount_at(&other, &[]);
    assert_fails_with(&refused, 5, place.mount_point().to_str().expect("text"));
    assert!(!is_mounted(&other));
    place.umount();

    // The lock has gone with the mount, and readers take none.
    place.mount(&["--read-only"]);
    assert_success(&place.try_mount_at(&other, &["--read-only"]));
    for directory in [&place.mount_point(), &other] {
        assert_eq!(fs::read(directory.join("file")).expect("read"), b"text");
        let written = fs::write(directory.join("more"), "text").expect_err("read-only");
        assert_eq!(written.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
    }
    place.umount();
    place.mount(&[]);
    place.umount();
}

/// What a freshness file records nobody may change while it is held against
/// what is there.
#[test]
fn readers_with_a_freshness_file_and_writers_keep_each_other_out() {
    let place = Place::new();
    let fresh = place.directory.path().join("fresh");
    let recorded = ["--freshness", fresh.to_str().expect("text")];
    let reading = [&recorded[..], &["--read-only"]].concat();
    place.mount(&recorded);
    let other = place.directory.path().join("other");
    fs::create_dir(&other).expect("made");
    let refused = place.try_mount_at(&other, &reading);
    assert_fails_with(&refused, 5, "bind,ro");
    assert!(!is_mounted(&other));
    place.umount();

    place.mount(&reading);
    assert_success(&place.try_mount_at(&other, &reading));
    place.umount();
    assert_fails_with(&place.try_mount(&[]), 5, "with a freshness file");
    assert_success(&run(&["umount", other.to_str().expect("text")]));
    place.mount(&[]);
    place.umount();
}

/// The success of `umount` is the promise that everything is stored.
#[test]
fn unmounting_what_a_dead_daemon_left_is_no_success() {
    let place = Place::new();
    place.mount(&[]);
    fs::write(place.at("file"), "text").expect("written");
    place.signal(rustix::process::Signal::KILL);
    soon("mounting there again says why not", || {
        let refused = place.try_mount(&[]);
        assert_fails_with(&refused, 5, "a vault is mounted here already");
        String::from_utf8_lossy(&refused.stderr).contains("no daemon answers for it")
    });
    let mut said = None;
    soon("the dead mount goes", || {
        let ended = place.ask(&["umount"]);
        let is_gone = !is_mounted(&place.mount_point());
        said = Some(ended);
        is_gone
    });
    assert_fails_with(&said.expect("asked"), 1, "the vault was not closed");
    // There is nothing to close where nothing could be written.
    place.mount(&["--read-only"]);
    place.signal(rustix::process::Signal::KILL);
    soon("the dead mount goes", || place.ask(&["umount"]).status.success());
    place.mount(&[]);
    place.umount();
}

/// What a mount of the vault on another machine leaves in the lock.
fn left_from_elsewhere(place: &Place) -> String {
    let header = fs::read(place.vault().join(".strongroom/header.0")).expect("a header");
    let password = SecretBytes::take(&mut b"correct horse".to_vec());
    let (header, root) = unlock_copies(&[&header], &Credential::Password(password)).expect("its password");
    let holder =
        br#"{"host":"faraway","machine":"00","boot_id":"another","pid":42,"started":7,"token":"other",
        "mount_point":"/mnt/p","purpose":"mount","since":"2026-01-01T00:00:00Z"}"#;
    let sealed = LockCipher::of_vault(&root, header.vault).seal(holder).expect("entropy");
    let sealed: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(r#"{{"schema":"strongroom.lock/1","machine":"{}","owner":"{sealed}"}}"#, "00".repeat(32))
}

#[test]
fn a_vault_that_another_machine_took_over_is_written_to_no_more() {
    let place = Place::new();
    place.mount(&[]);
    let mut file = File::create(place.at("f")).expect("made");
    file.write_all(b"synced").expect("written");
    file.sync_all().expect("synced");
    // What the other machine leaves, where locks are not shared.
    let record = place.vault().join(".strongroom/lock");
    let shown = fs::read_to_string(&record).expect("a record");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert!(
        !shown.contains(&host) && !shown.contains(place.mount_point().to_str().expect("text")),
        "{shown}"
    );
    fs::write(&record, left_from_elsewhere(&place)).expect("written");
    file.write_all(b", and not synced").expect("cached");
    assert_eq!(file.sync_all().expect_err("taken over").raw_os_error(), Some(5));
    drop(file);
    soon("the daemon tells", || {
        place.status()["errors"]["last"].as_str().is_some_and(|said| said.contains("taken"))
    });
    assert_fails_with(&place.ask(&["umount"]), 5, "another machine has taken the vault over");
    soon("it is unmounted", || !is_mounted(&place.mount_point()));

    assert_fails_with(&place.try_mount(&[]), 5, "of faraway");
    let taken = place.try_mount(&["--takeover"]);
    assert_success(&taken);
    assert!(String::from_utf8_lossy(&taken.stderr).contains("taking the vault over"));
    assert_eq!(fs::read(place.at("f")).expect("read"), b"synced");
    place.umount();
    place.mount(&[]);
    place.umount();
}

#[test]
fn a_freshness_file_tells_what_was_put_back() {
    let place = Place::new();
    let fresh = place.directory.path().join("fresh");
    let options = ["--freshness", fresh.to_str().expect("text")];
    let made = place.try_mount(&options);
    assert_success(&made);
    assert!(String::from_utf8_lossy(&made.stderr).contains("is new"));
    fs::write(place.at("f"), noise(9000, 1)).expect("written");
    place.umount();
    let stored =
        walk(&place.vault()).into_iter().find(|path| !path.starts_with(place.vault().join(".strongroom")));
    let stored = stored.expect("a stored file");
    let old = fs::read(&stored).expect("read");
    place.mount(&options);
    fs::write(place.at("f"), noise(9000, 2)).expect("written");
    fs::write(place.at("g"), b"g").expect("written");
    place.umount();
    fs::write(&stored, &old).expect("put back");
    place.mount(&options);
    assert_eq!(fs::read(place.at("f")).expect_err("rolled back").raw_os_error(), Some(5));
    assert_eq!(fs::read(place.at("g")).expect("sound"), b"g");
    let damaged = &place.status()["errors"]["damaged"][0];
    assert_eq!(damaged["path"], "f");
    assert!(damaged["what"].as_str().expect("text").contains("older than the freshness file"));
    place.umount();
}

#[test]
fn a_mount_point_that_will_not_do_is_refused() {
    let place = Place::new();
    let missing = place.directory.path().join("missing");
    assert_fails_with(&place.try_mount_at(&missing, &[]), 2, "missing");
    assert_fails_with(&place.try_mount_at(&place.password(), &[]), 2, "password");
    assert_fails_with(&place.try_mount_at(&place.vault(), &[]), 2, "in the vault");
    fs::write(place.at("in the way"), "").expect("written");
    assert_fails_with(&place.try_mount(&[]), 2, "not empty");
    fs::remove_file(place.at("in the way")).expect("removed");
    place.mount(&[]);
    assert_fails_with(&place.try_mount(&[]), 5, "already");
}

#[test]
fn a_wrong_secret_or_place_mounts_nothing() {
    let place = Place::new();
    fs::write(place.password(), "wrong\n").expect("written");
    assert_fails_with(&place.try_mount(&[]), 3, "wrong password");
    assert_fails_with(&place.try_mount(&["--foreground"]), 3, "wrong password");
    assert!(!is_mounted(&place.mount_point()));
    fs::remove_dir_all(place.vault().join(".strongroom")).expect("removed");
    assert_fails_with(&place.try_mount(&[]), 2, "no vault");
}

#[test]
fn unknown_options_are_refused() {
    let place = Place::new();
    assert_fails_with(&place.try_mount(&["--engine", "steam"]), 2, "steam");
    assert_fails_with(&place.try_mount(&["-o", "sync"]), 2, "sync");
    assert_fails_with(&place.try_mount(&["--journal-size", "1MiB"]), 2, "journal");
    assert!(!is_mounted(&place.mount_point()));
}

#[test]
fn a_store_that_cannot_be_written_to_is_mounted_read_only() {
    if !rustix::process::geteuid().is_root() {
        // Only root can make a store read-only for itself.
        return;
    }
    let place = Place::new();
    place.mount(&[]);
    fs::write(place.at("file"), "text").expect("written");
    place.umount();
    let _frozen = Frozen::new(&place.vault());
    assert_fails_with(&place.try_mount(&[]), 7, "--read-only");
    place.mount(&["--read-only"]);
    assert_eq!(fs::read(place.at("file")).expect("read"), b"text");
    assert_eq!(place.status()["read_only"], true);
    place.umount();
}

/// A directory that is mounted over itself, read-only.
struct Frozen(PathBuf);

impl Frozen {
    fn new(path: &Path) -> Frozen {
        use rustix::mount::{MountFlags, mount_bind, mount_remount};
        mount_bind(path, path).expect("root may");
        mount_remount(path, MountFlags::BIND | MountFlags::RDONLY, c"").expect("root may");
        Frozen(path.to_owned())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn status_tells_what_was_done() {
    let place = Place::new();
    place.mount(&["--durability", "relaxed", "--journal-size", "32MiB"]);
    fs::write(place.at("file"), noise(1 << 20, 1)).expect("written");
    assert_success(&place.ask(&["sync"]));
    let status = place.status();
    let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    assert_eq!(Path::new(&text("/vault")), place.vault());
    assert_eq!(Path::new(&text("/mount_point")), place.mount_point());
    assert_eq!(number("/written_bytes"), 1 << 20);
    assert_eq!(number("/block_size_bytes"), 4096);
    // What the first one is lost over, another one does.
    let engines = status["engines"].as_array().expect("a list");
    let by_engines: u64 = engines.iter().filter_map(|engine| engine["bytes"].as_u64()).sum();
    assert!(by_engines >= 1 << 20, "{status}");
    assert!(text("/engines/0/name").starts_with(&engine()), "{status}");
    assert_eq!(text("/journal/durability"), "relaxed");
    assert_eq!(number("/journal/size_bytes"), 32 << 20);
    assert!(text("/since").ends_with('Z'));
    assert!(number("/memory/resident_bytes") > 0);
    assert_eq!(number("/errors/background") + number("/errors/panics"), 0);
    let requests = status["requests"].as_array().expect("a list").clone();
    let write = requests.iter().find(|request| request["name"] == "write").expect("it has written");
    assert!(write["count"].as_u64() > Some(0) && write["latency_ns"].as_u64() > Some(0));
    let all = run(&["status", "--json"]);
    let all: Value = serde_json::from_slice(&all.stdout).expect("JSON");
    let mounts = all["mounts"].as_array().expect("a list");
    assert!(mounts.iter().any(|mount| mount["mount_point"] == status["mount_point"]));
    let for_people = place.ask(&["status"]);
    assert!(String::from_utf8_lossy(&for_people.stdout).contains("1 MiB"));
    place.umount();
    assert_fails_with(&place.ask(&["status"]), 2, "no vault is mounted here");
}

#[test]
fn a_mount_without_a_daemon_is_told_of_to_who_watches_many() {
    let place = Place::new();
    place.mount(&[]);
    let up = |value| format!("strongroom_up{{mount=\"{}\"}} {value}\n", place.mount_point().display());
    let metrics = || String::from_utf8(run(&["status", "--prometheus"]).stdout).expect("text");
    assert!(metrics().contains(&up(1)));
    if rustix::process::geteuid().is_root() {
        // Seen at two places it is one mount.
        let again = place.mount_point().with_file_name("again");
        std::fs::create_dir(&again).expect("a directory");
        rustix::mount::mount_bind(place.mount_point(), &again).expect("root may");
        let metrics = metrics();
        rustix::mount::unmount(&again, rustix::mount::UnmountFlags::empty()).expect("nobody is there");
        assert_eq!((metrics.matches(&up(1)).count(), metrics.contains("/again")), (1, false), "{metrics}");
    }
    place.signal(rustix::process::Signal::KILL);
    soon("nobody answers", || metrics().contains(&up(0)));
    assert!(!metrics().contains(&up(1)));
    assert!(String::from_utf8_lossy(&place.ask(&["status", "--prometheus"]).stdout).contains(&up(0)));
    let all: Value = serde_json::from_slice(&run(&["status", "--json"]).stdout).expect("JSON");
    let mount_point = place.mount_point().display().to_string();
    assert!(all["unanswered"].as_array().expect("a list").contains(&mount_point.as_str().into()), "{all}");
}

/// Blocks of a file, written and read through the page cache and around it.
fn write_and_read_back(place: &Place, rounds: u64) {
    for round in 0..rounds {
        let contents = noise(1 << 20, round);
        let path = place.at(&format!("file {round}"));
        fs::write(&path, &contents).expect("written");
        File::open(&path).and_then(|file| file.sync_all()).expect("synced");
        let mut open = File::options();
        let direct = open.read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(&path);
        let mut found = Vec::new();
        match direct {
            Ok(mut file) => file.read_to_end(&mut found).expect("read"),
            Err(_) => File::open(&path).and_then(|mut file| file.read_to_end(&mut found)).expect("read"),
        };
        assert!(found == contents, "round {round}");
    }
}

#[test]
fn a_device_that_errs_stalls_or_goes_harms_no_byte() {
    for (engine, counter) in [("sim-wrong", "mismatches"), ("sim-stalls", "lost"), ("sim-gone", "lost")] {
        let place = Place::new();
        place.mount(&["--engine", engine, "-o", "policy=fixed,use=1"]);
        write_and_read_back(&place, 24);
        let device = place.status()["engines"][1].clone();
        assert!(device["operations"].as_u64() > Some(0), "{engine}: {device}");
        assert!(device[counter].as_u64() > Some(0), "{engine}: {device}");
        assert!(engine != "sim-wrong" || device["quarantined"] == true, "{engine}: {device}");
        place.umount();
        // What was written is right for an engine that has no part in it.
        place.mount(&["--engine", "reference"]);
        for round in 0..24 {
            let found = fs::read(place.at(&format!("file {round}"))).expect("read");
            assert!(found == noise(1 << 20, round), "{engine}: round {round}");
        }
        place.umount();
    }
}

#[test]
fn placing_is_changed_while_it_is_mounted() {
    let place = Place::new();
    place.mount(&["--engine", "sim", "-o", "policy=fixed,use=0"]);
    fs::write(place.at("one"), noise(1 << 16, 1)).expect("written");
    assert_success(&run(&["sync", place.mount_point().to_str().expect("text")]));
    assert_eq!(place.status()["engines"][1]["operations"], 0);
    let set = |words: &[&str]| {
        let mut command = program();
        command.arg("set").arg(place.mount_point()).args(words).output().expect("the program runs")
    };
    assert_success(&set(&["use=1", "objective=latency", "check=4"]));
    fs::write(place.at("two"), noise(1 << 16, 2)).expect("written");
    assert_success(&run(&["sync", place.mount_point().to_str().expect("text")]));
    let status = place.status();
    assert!(status["engines"][1]["operations"].as_u64() > Some(0), "{status}");
    assert_eq!(status["scheduler"]["objective"], "latency");
    assert_eq!(status["scheduler"]["check_interval"], 4);
    assert_fails_with(&set(&["use=7"]), 2, "use=7");
    assert_fails_with(&set(&["policy=best"]), 2, "policy=best");
    assert_eq!(place.status()["scheduler"]["policy"], "fixed");
    place.umount();
}

#[test]
fn a_signal_unmounts_and_a_hangup_does_not() {
    let place = Place::new();
    place.mount(&[]);
    fs::write(place.at("file"), "text").expect("written");
    place.signal(rustix::process::Signal::HUP);
    std::thread::sleep(Duration::from_millis(100));
    assert!(is_mounted(&place.mount_point()));
    place.signal(rustix::process::Signal::TERM);
    soon("the mount goes", || !is_mounted(&place.mount_point()));
    soon("the vault is closed", || place.try_mount(&[]).status.success());
    assert_eq!(fs::read(place.at("file")).expect("read"), b"text");
    assert_eq!(place.status()["recovered"]["replayed"], 0);
}

#[test]
fn a_foreground_mount_ends_with_its_unmounting() {
    let place = Place::new();
    let mut command = program();
    command.arg("mount").arg(place.vault()).arg(place.mount_point()).arg("--foreground");
    let mut served = command.arg("--password-file").arg(place.password()).spawn().expect("the program runs");
    soon("it is mounted", || place.ask(&["status"]).status.success());
    fs::write(place.at("file"), "text").expect("written");
    place.umount();
    assert!(served.wait().expect("ours").success());
}

#[test]
fn an_idle_mount_goes_and_a_busy_one_stays() {
    let place = Place::new();
    place.mount(&["--idle", "3s"]);
    let mut open = File::create(place.at("file")).expect("created");
    std::thread::sleep(Duration::from_secs(4));
    assert!(is_mounted(&place.mount_point()), "a file is open");
    open.write_all(b"text").expect("written");
    drop(open);
    soon("the mount goes", || !is_mounted(&place.mount_point()));
    soon("the vault is closed", || place.try_mount(&[]).status.success());
    assert_eq!(fs::read(place.at("file")).expect("read"), b"text");
}

#[test]
fn what_was_synced_survives_the_daemons_death() {
    let place = Place::new();
    place.mount(&[]);
    let kept = noise(3_000_000, 7);
    // By fsync of the file.
    let mut file = File::create(place.at("fsynced")).expect("created");
    file.write_all(&kept).and_then(|()| file.sync_all()).expect("durable");
    drop(file);
    // By the command alone.
    let mut synced = File::create(place.at("synced")).expect("created");
    synced.write_all(&kept).expect("written");
    assert_success(&place.ask(&["sync"]));
    fs::write(place.at("not synced"), &kept).expect("written");
    place.crash();
    drop(synced);

    place.mount(&[]);
    assert!(fs::read(place.at("fsynced")).expect("read") == kept);
    assert!(fs::read(place.at("synced")).expect("read") == kept);
    // The last file is old or new, never anything else.
    if let Ok(found) = fs::read(place.at("not synced")) {
        assert!(kept.starts_with(&found), "{} bytes", found.len());
    }
    assert_eq!(place.status()["errors"]["damaged_requests"], 0);
    place.umount();
}

/// Of a file that is open for writing the kernel may hold pages that `syncfs(2)` does not wait for.
#[test]
fn a_sync_syncs_every_file_that_is_open_for_writing() {
    let place = Place::new();
    place.mount(&[]);
    let syncs = || {
        let requests = place.status()["requests"].clone();
        let of_files = requests.as_array().and_then(|all| all.iter().find(|one| one["name"] == "fsync"));
        of_files.map_or(0, |found| found["count"].as_u64().expect("a number"))
    };
    fs::create_dir(place.at("d")).expect("made");
    let _open = ["a", "d/b", "gone"].map(|name| File::create(place.at(name)).expect("created"));
    fs::rename(place.at("d"), place.at("e")).expect("renamed");
    fs::remove_file(place.at("gone")).expect("removed");
    assert_success(&place.ask(&["sync"]));
    assert_eq!(syncs(), 2);
    fs::set_permissions(place.at("a"), fs::Permissions::from_mode(0o200)).expect("changed");
    assert_success(&place.ask(&["sync"]));
    assert_eq!(syncs(), 4);
    place.crash();
}

/// The name that was found last is gone, and another is left, which the daemon does not know.
#[test]
fn a_sync_passes_over_no_file_whose_name_is_not_known() {
    let place = Place::new();
    place.mount(&[]);
    let mut written = File::create(place.at("one")).expect("created");
    written.write_all(b"text").expect("written");
    fs::hard_link(place.at("one"), place.at("other")).expect("linked");
    fs::remove_file(place.at("other")).expect("removed");
    assert_fails_with(&place.ask(&["sync"]), 1, "cannot be found or opened");
    drop(written);
    soon("it is closed", || place.ask(&["sync"]).status.success());
    place.umount();
}

#[test]
fn a_mount_in_use_is_not_unmounted_but_lazily() {
    let place = Place::new();
    place.mount(&[]);
    let mut open = File::create(place.at("file")).expect("created");
    open.write_all(b"text").expect("written");
    assert_fails_with(&place.ask(&["umount"]), 5, "in use");
    assert!(is_mounted(&place.mount_point()));
    assert_success(&place.ask(&["umount", "--lazy"]));
    assert!(!is_mounted(&place.mount_point()));
    // The vault is held until the file is closed.
    assert_fails_with(&place.try_mount(&[]), 5, "in use");
    open.write_all(b" and more").expect("still there");
    drop(open);
    soon("the vault is closed", || place.try_mount(&[]).status.success());
    assert_eq!(fs::read(place.at("file")).expect("read"), b"text and more");
}

#[test]
fn an_abort_frees_whoever_uses_the_mount() {
    let place = Place::new();
    place.mount(&[]);
    let mut open = File::create(place.at("file")).expect("created");
    open.write_all(b"text").and_then(|()| open.sync_all()).expect("durable");
    assert_success(&place.ask(&["umount", "--abort"]));
    assert!(!is_mounted(&place.mount_point()));
    assert!(open.sync_all().is_err());
    drop(open);
    place.mount(&[]);
    assert_eq!(fs::read(place.at("file")).expect("read"), b"text");
}

#[test]
fn damage_is_an_error_and_named_in_the_status() {
    let place = Place::new();
    place.mount(&[]);
    fs::create_dir(place.at("docs")).expect("made");
    fs::write(place.at("docs/letter"), noise(20_000, 3)).expect("written");
    place.umount();
    let stored = walk(&place.vault()).into_iter().find(|path| {
        fs::metadata(path)
            .is_ok_and(|found| found.len() > 20_000 && !path.to_string_lossy().contains("header."))
    });
    let file = File::options().read(true).write(true).open(stored.expect("it is stored")).expect("ours");
    let mut byte = [0];
    file.read_exact_at(&mut byte, 15_000).expect("long enough");
    file.write_all_at(&[byte[0] ^ 1], 15_000).expect("written");
    place.mount(&[]);
    let error = fs::read(place.at("docs/letter")).expect_err("damaged");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    let status = place.status();
    assert_eq!(status["errors"]["damaged"][0]["path"], "docs/letter", "{status}");
    assert!(status["errors"]["damaged_requests"].as_u64() > Some(0));
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("listed").path();
        if path.is_dir() && !path.is_symlink() && !path.ends_with(".strongroom") {
            found.extend(walk(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_file_has_holes_and_is_cut_copied_and_appended_to() {
    let place = Place::new();
    place.mount(&[]);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(place.at("file"));
    let mut file = file.expect("created");
    let data = noise(8192, 5);
    file.write_all_at(&data, 1 << 20).expect("written");
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 8192));
    assert!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(2 << 20)).is_err());
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 1 << 20, 4096).expect("punched");
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, (1 << 20) + 4096, 10).expect("zeroed");
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 4 << 20, 4096).expect("reserved");
    assert!(rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096).is_err());
    assert_eq!(file.metadata().expect("there").len(), (1 << 20) + 8192);
    let mut read = Vec::new();
    file.seek(SeekFrom::Start(1 << 20)).and_then(|_| file.read_to_end(&mut read)).expect("read");
    assert!(read[..4106] == [0; 4106] && read[4106..] == data[4106..]);

    let copy = File::options().read(true).write(true).create(true).truncate(true).open(place.at("copy"));
    let copy = copy.expect("created");
    let (mut from, mut to) = (1u64 << 20, 0u64);
    let copied =
        rustix::fs::copy_file_range(&file, Some(&mut from), &copy, Some(&mut to), 8192).expect("copied");
    assert_eq!(copied, 8192);
    assert!(fs::read(place.at("copy")).expect("read") == read);

    let mut appended = File::options().append(true).open(place.at("copy")).expect("opened");
    appended.write_all(b"one").and_then(|()| appended.write_all(b"two")).expect("appended");
    copy.set_len(8195).expect("cut");
    appended.write_all(b"three").expect("appended");
    assert_eq!(fs::read(place.at("copy")).expect("read")[8192..], *b"onethree");
}

/// What the kernel has not written back is no hole, however many ask at a
/// time and wait for it.
#[test]
fn data_is_found_before_it_is_written_back() {
    let place = Place::new();
    place.mount(&[]);
    std::thread::scope(|scope| {
        for thread in 0..16u64 {
            let path = place.at(&thread.to_string());
            scope.spawn(move || {
                let file =
                    File::options().read(true).write(true).create_new(true).open(path).expect("created");
                for step in 0..30 {
                    let offset = (step * 7919 + thread) % 500 * 8192;
                    file.write_all_at(&[1; 5000], offset).expect("written");
                    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(offset)), Ok(offset));
                    let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(offset)).expect("found");
                    assert!(hole >= offset + 5000, "{hole}");
                }
            });
        }
    });
    fs::write(place.at("written"), noise(100_000, 2)).expect("written");
    let mut held = File::options().append(true).open(place.at("written")).expect("opened");
    held.write_all(&noise(100_000, 3)).expect("written");
    let copied =
        Command::new("cp").arg("--sparse=auto").arg(place.at("written")).arg(place.at("copy")).status();
    assert!(copied.expect("cp runs").success());
    assert!(fs::read(place.at("copy")).expect("read") == [noise(100_000, 2), noise(100_000, 3)].concat());
}

#[test]
fn direct_transfers_and_cached_ones_see_each_other() {
    let place = Place::new();
    place.mount(&[]);
    let path = place.at("file");
    let data = noise(64 << 10, 9);
    let direct = OFlags::DIRECT.bits().cast_signed();
    let write = File::options().write(true).create(true).truncate(true).custom_flags(direct).open(&path);
    write.expect("created").write_all(&data).expect("written directly");
    assert!(fs::read(&path).expect("read") == data);
    let cached = File::options().write(true).open(&path).expect("opened");
    cached.write_all_at(b"cached", 100).expect("written");
    let read = File::options().read(true).custom_flags(direct).open(&path).expect("opened");
    let mut found = [0; 4096];
    read.read_exact_at(&mut found, 0).expect("read directly");
    assert_eq!(found[100..106], *b"cached");
}

#[test]
fn a_file_without_a_name_can_be_given_one() {
    let place = Place::new();
    place.mount(&[]);
    let unnamed = OFlags::TMPFILE.bits().cast_signed();
    let mut file =
        File::options().read(true).write(true).custom_flags(unnamed).open(place.mount_point()).expect("made");
    file.write_all(b"text").expect("written");
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let follow = rustix::fs::AtFlags::SYMLINK_FOLLOW;
    rustix::fs::linkat(rustix::fs::CWD, link, rustix::fs::CWD, place.at("named"), follow).expect("linked");
    assert_eq!(fs::read(place.at("named")).expect("read"), b"text");
    drop(file);
    place.umount();
    place.mount(&[]);
    assert_eq!(fs::read(place.at("named")).expect("read"), b"text");
}

#[test]
fn renames_obey_their_flags() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let place = Place::new();
    place.mount(&[]);
    let (one, two) = (place.at("one"), place.at("two"));
    fs::write(&one, "1").expect("written");
    fs::write(&two, "2").expect("written");
    assert!(renameat_with(CWD, &one, CWD, &two, RenameFlags::NOREPLACE).is_err());
    renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).expect("exchanged");
    assert_eq!(
        (fs::read(&one).expect("read"), fs::read(&two).expect("read")),
        (b"2".to_vec(), b"1".to_vec())
    );
    fs::rename(&one, &two).expect("replaced");
    assert_eq!(fs::read(&two).expect("read"), b"2");
    assert!(!one.exists());
}

#[test]
fn mount_calls_it_by_its_helpers_name() {
    let place = Place::new();
    let helper = place.directory.path().join("mount.strongroom");
    symlink(PROGRAM, &helper).expect("linked");
    let options = format!(
        "rw,noatime,_netdev,x-systemd.automount,fsname=box,password_file={}",
        place.password().display()
    );
    let call = |words: &[&str]| {
        let mut command = Command::new(&helper);
        command.env("XDG_STATE_HOME", STATE);
        command.arg(place.vault()).arg(place.mount_point()).args(words).output().expect("the program runs")
    };
    assert_success(&call(&["-f", "-o", &options]));
    assert!(!is_mounted(&place.mount_point()), "a rehearsal");
    assert_fails_with(&call(&["-o", &format!("{options},quota")]), 2, "quota");
    assert_success(&call(&["-sn", "-o", &format!("{options},quota")]));
    let table = fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    assert!(table.lines().any(|line| line.contains(" fuse.strongroom box ")), "{table}");
    fs::write(place.at("file"), "text").expect("written");
    place.umount();
}
