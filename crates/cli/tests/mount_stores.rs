//! What a mount, `check` and `salvage` make of stores that hold what may not
//! be read or written, what is not the vault's, or nothing more, and of inodes
//! of every kind. It needs `/dev/fuse`; what needs root says so.

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::fs::{CWD, FileType, Mode};
use serde_json::Value;
use support::{PROGRAM, Place, assert_fails_with, assert_success, noise, run};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn ran(program: &str, words: &[&str]) -> Output {
    Command::new(program).args(words).output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// The stored entries at the top.
fn stored(place: &Place) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(place.vault()).expect("a directory").map(|entry| entry.expect("listed").path());
    entries.filter(|path| !path.ends_with(".strongroom")).collect()
}

/// The entries of a stored directory.
fn stored_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("listed").path());
    entries.filter(|path| !path.ends_with(".id")).collect()
}

fn on_vault(place: &Place, words: &[&str]) -> (Option<i32>, Value) {
    let (vault, password) = (place.vault(), place.password());
    let output = run(&[words, &["--json", "--password-file", text(&password), text(&vault)]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (output.status.code(), document)
}

#[test]
fn what_may_be_read_and_not_written_is_read() {
    if !is_root() {
        return;
    }
    let place = Place::under(Path::new("/dev/shm"));
    place.mount(&[]);
    fs::write(place.at("file"), "text").expect("written");
    place.umount();
    let stored = stored(&place).remove(0);
    assert!(ran("chattr", &["+i", text(&stored)]).status.success());
    place.mount(&[]);
    let read = fs::read_to_string(place.at("file"));
    let written = File::options().write(true).open(place.at("file"));
    assert!(ran("chattr", &["-i", text(&stored)]).status.success());
    assert_eq!(read.expect("it may be read"), "text");
    assert_eq!(written.expect_err("immutable").raw_os_error(), Some(1), "EPERM");
    place.umount();
    place.mount(&[]);
    fs::write(place.at("file"), "other").expect("it may be written again");
    place.umount();
}

/// Every kind of inode takes the lists and attributes that it takes on another
/// file system of Linux, and a directory's default list gives the same.
#[test]
fn lists_and_attributes_are_taken_as_elsewhere_by_every_kind() {
    if !is_root() {
        return;
    }
    let place = Place::under(Path::new("/dev/shm"));
    place.mount(&[]);
    let reference = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let answers = |top: &Path| -> Vec<String> {
        let directory = top.join("d");
        fs::create_dir(&directory).expect("made");
        assert_success(&ran("setfacl", &["-d", "-m", "u:nobody:rwx,g::---,o::-", text(&directory)]));
        let mode = Mode::from_raw_mode(0o666);
        let node = |name: &str, kind| rustix::fs::mknodat(CWD, directory.join(name), kind, mode, 0x103);
        node("file", FileType::RegularFile).expect("made");
        node("fifo", FileType::Fifo).expect("made");
        node("socket", FileType::Socket).expect("made");
        node("block", FileType::BlockDevice).expect("made");
        node("character", FileType::CharacterDevice).expect("made");
        fs::create_dir(directory.join("directory")).expect("made");
        std::os::unix::fs::symlink("nowhere", directory.join("symlink")).expect("made");
        let mut answers = Vec::new();
        for name in ["file", "fifo", "socket", "block", "character", "directory", "symlink"] {
            let path = directory.join(name);
            let list = |path: &Path| {
                let told = ran("getfacl", &["-cpP", text(path)]);
                String::from_utf8_lossy(&told.stdout).into_owned()
            };
            answers.push(format!("{name} inherits {:?}", list(&path)));
            let acl = |name: &str, entries: [(u16, u16, u32); 5]| {
                let mut value = 2u32.to_le_bytes().to_vec();
                for (tag, bits, id) in entries {
                    value.extend_from_slice(&tag.to_le_bytes());
                    value.extend_from_slice(&bits.to_le_bytes());
                    value.extend_from_slice(&id.to_le_bytes());
                }
                rustix::fs::lsetxattr(&path, name, &value, rustix::fs::XattrFlags::empty())
            };
            const NONE: u32 = u32::MAX;
            let entries = [(1, 6, NONE), (2, 6, 7), (4, 4, NONE), (16, 6, NONE), (32, 0, NONE)];
            answers.push(format!("{name} access {:?}", acl("system.posix_acl_access", entries)));
            answers.push(format!("{name} default {:?}", acl("system.posix_acl_default", entries)));
            for attribute in ["user.x", "trusted.x", "security.x"] {
                let set = rustix::fs::lsetxattr(&path, attribute, b"1", rustix::fs::XattrFlags::empty());
                answers.push(format!("{name} {attribute} {set:?}"));
            }
            answers.push(format!("{name} then {:?}", list(&path)));
            if name != "symlink" {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
                answers.push(format!("{name} after chmod {:?}", list(&path)));
            }
        }
        answers
    };
    assert_eq!(answers(&place.mount_point()), answers(reference.path()));
    place.umount();
}

#[test]
fn what_is_left_out_of_a_listing_is_told_without_plain_names() {
    let place = Place::new();
    place.mount(&[]);
    fs::create_dir(place.at("Divorce")).expect("made");
    fs::write(place.at("Divorce/lawyer"), "text").expect("written");
    place.umount();
    let directory = stored(&place).remove(0);
    fs::write(directory.join("desktop.ini"), "foreign").expect("written");
    fs::remove_file(place.log()).expect("there");
    place.mount(&[]);
    assert_eq!(fs::read_dir(place.at("Divorce")).expect("a directory").count(), 1);
    let errors = &place.status()["errors"];
    assert_eq!((&errors["damaged"][0]["path"], &errors["damaged_requests"]), (&"Divorce".into(), &1.into()));
    place.umount();
    let log = fs::read_to_string(place.log()).expect("a log");
    assert!(log.contains("damaged was met") && !log.contains("Divorce"), "{log}");
    assert_eq!(fs::metadata(place.log()).expect("a log").permissions().mode() & 0o777, 0o600);
    fs::set_permissions(place.log(), fs::Permissions::from_mode(0o644)).expect("ours");
    place.mount(&["--log-names"]);
    assert_eq!(fs::read_dir(place.at("Divorce")).expect("a directory").count(), 1);
    place.umount();
    assert!(fs::read_to_string(place.log()).expect("a log").contains("Divorce: "));
    assert_eq!(fs::metadata(place.log()).expect("a log").permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_not_the_vaults_keeps_a_directory_until_a_repair_moves_it_aside() {
    let place = Place::new();
    place.mount(&[]);
    fs::create_dir(place.at("d")).expect("made");
    let directory = stored(&place).remove(0);
    fs::write(directory.join(".DS_Store"), "foreign").expect("written");
    assert_eq!(fs::remove_dir(place.at("d")).expect_err("not empty").raw_os_error(), Some(39), "ENOTEMPTY");
    let damaged = place.status()["errors"]["damaged"].to_string();
    assert!(damaged.contains("keeps an empty directory from being removed"), "{damaged}");
    place.umount();
    let (code, found) = on_vault(&place, &["check"]);
    assert_eq!((code, found["damage"][0]["path"].as_str()), (Some(4), Some("d")));
    let (code, repaired) = on_vault(&place, &["check", "--repair", "--yes"]);
    assert_eq!(code, Some(8), "{repaired}");
    assert_eq!(repaired["repair"]["steps"][0]["action"], "foreign");
    let aside = place.vault().join(".strongroom/aside/foreign..DS_Store");
    assert_eq!(fs::read_to_string(aside).expect("kept"), "foreign");
    assert_eq!(on_vault(&place, &["check"]).0, Some(0));
    place.mount(&[]);
    fs::remove_dir(place.at("d")).expect("empty");
    place.umount();
}

#[test]
fn what_a_store_keeps_of_removed_files_is_no_entry_and_not_lost() {
    let place = Place::new();
    place.mount(&[]);
    fs::create_dir(place.at("d")).expect("made");
    fs::write(place.at("d/file"), "the only copy").expect("written");
    place.umount();
    let directory = stored(&place).remove(0);
    let [entry] = stored_in(&directory).try_into().expect("one file");
    // A store that was ended while it replaced the file.
    fs::rename(entry, directory.join(".fuse_hidden0000000100000002")).expect("renamed");
    place.mount(&[]);
    fs::create_dir(place.at("other")).expect("made");
    assert_eq!(fs::read_dir(place.at("d")).expect("a directory").count(), 0);
    assert_eq!(place.status()["errors"]["damaged_requests"], 0);
    place.umount();
    let (code, found) = on_vault(&place, &["check"]);
    assert_eq!(code, Some(4), "{found}");
    assert!(found["damage"].to_string().contains("a removed file is left over"), "{found}");
    let (vault, out, password) = (place.vault(), place.at("../salvaged"), place.password());
    run(&["salvage", "--password-file", text(&password), text(&vault), text(&out)]);
    let salvaged = fs::read_dir(out.join("d")).expect("salvaged").map(|entry| entry.expect("one").path());
    let salvaged: Vec<_> = salvaged.map(|path| fs::read_to_string(path).expect("read")).collect();
    assert_eq!(salvaged, ["the only copy"]);
    let (code, repaired) = on_vault(&place, &["check", "--repair", "--yes"]);
    assert_eq!(code, Some(8), "{repaired}");
    assert_eq!(on_vault(&place, &["check"]).0, Some(0));
    place.mount(&[]);
    let found = fs::read_dir(place.at("lost+found")).expect("made by the repair");
    let found: Vec<_> = found.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(fs::read_to_string(&found[0]).expect("read"), "the only copy");
    place.umount();
}

#[test]
fn what_a_store_keeps_of_removed_files_hinders_no_removal_of_its_directory() {
    let place = Place::new();
    place.mount(&[]);
    for name in ["d", "e"] {
        fs::create_dir(place.at(name)).expect("made");
    }
    let [one, other] = stored(&place).try_into().expect("two directories");
    let (kept, directory) = (".nfs000000000012d687000000a1", ".fuse_hidden0000000100000002");
    fs::write(one.join(kept), "removed").expect("written");
    // No store makes such a one.
    fs::create_dir(other.join(directory)).expect("made");
    let removed = ["d", "e"].map(|name| fs::remove_dir(place.at(name)).map_err(|error| error.raw_os_error()));
    assert_eq!(removed.iter().filter(|removed| **removed == Err(Some(39))).count(), 1, "{removed:?}");
    assert!(!one.exists() && other.join(directory).exists());
    place.umount();
    // Nothing of it is cleared away unseen.
    let temporary = place.vault().join(".strongroom/temporary");
    place.mount(&[]);
    place.umount();
    let left: Vec<_> =
        fs::read_dir(temporary).expect("there").map(|entry| entry.expect("one").path()).collect();
    assert!(left.len() == 1 && left[0].join(kept).exists(), "{left:?}");
}

/// The kernel shows a length that the store never took: what it would read
/// there as zeros is an error.
#[test]
fn what_a_full_store_did_not_take_is_an_error_and_no_zeros() {
    if !is_root() {
        return;
    }
    let full = tempfile::tempdir().expect("a directory");
    let mounted = ran("mount", &["-t", "tmpfs", "-o", "size=48m", "tmpfs", text(full.path())]);
    assert_success(&mounted);
    let place = Place::under(full.path());
    place.mount(&["--journal-size", "16MiB"]);
    let wanted = noise(40 << 20, 3);
    let mut file = File::create(place.at("file")).expect("created");
    let failed = file.write_all(&wanted).and_then(|()| file.sync_all());
    assert!(failed.is_err(), "the store is too small for this test to mean anything");
    let len = usize::try_from(file.metadata().expect("there").len()).expect("small");
    fs::write("/proc/sys/vm/drop_caches", "1").expect("root may");
    let open = File::open(place.at("file")).expect("opened");
    let (mut page, mut errors) = ([0; 4096], 0);
    for offset in (0..len - len % 4096).step_by(4096) {
        match open.read_exact_at(&mut page, offset as u64) {
            Ok(()) => assert!(page[..] == wanted[offset..offset + 4096], "wrong bytes at {offset}"),
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 0, "something was lost");
    file.set_len(0).expect("cut");
    file.write_all_at(b"text", 0).and_then(|()| file.sync_all()).expect("there is room again");
    assert_eq!(fs::read_to_string(place.at("file")).expect("whole"), "text");
    drop((file, open));
    place.umount();
    drop(place);
    assert_success(&ran("umount", &[text(full.path())]));
}

#[test]
fn what_may_not_be_read_is_no_damage() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    place.mount(&[]);
    fs::write(place.at("file"), "text").expect("written");
    fs::set_permissions(place.at("file"), fs::Permissions::from_mode(0o0)).expect("changed");
    place.umount();
    fs::set_permissions(place.directory.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    assert_success(&ran("chown", &["-R", "nobody", text(&place.vault()), text(&place.password())]));
    let program = place.directory.path().join("strongroom");
    fs::copy(PROGRAM, &program).expect("copied");
    let target = place.directory.path().join("salvaged");
    fs::create_dir(&target).expect("made");
    assert_success(&ran("chown", &["nobody", text(&target)]));
    let (vault, password) = (place.vault(), place.password());
    let asks = [
        vec!["check", "--json", "--password-file", text(&password), text(&vault)],
        vec!["salvage", "--json", "--password-file", text(&password), text(&vault), text(&target)],
    ];
    for ask in asks {
        let who = ["--reuid", "nobody", "--regid", "nogroup", "--clear-groups", text(&program)];
        let output = ran("setpriv", &[&who[..], &ask[..]].concat());
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(output.status.code(), Some(7), "{document}");
        assert_eq!(document["damage"], serde_json::json!([]));
        assert_eq!(document["unreadable"][0]["path"], "file", "{document}");
    }
}

/// More files in a directory than there may be open descriptors.
#[test]
fn few_descriptors_are_enough_for_many_files() {
    let place = Place::new();
    place.mount(&[]);
    fs::create_dir(place.at("d")).expect("made");
    for index in 0..1500 {
        fs::write(place.at(&format!("d/{index}")), index.to_string()).expect("written");
    }
    place.umount();
    let target = place.directory.path().join("salvaged");
    let limited = |words: &[&str]| {
        let (vault, password) = (place.vault(), place.password());
        let script = r#"ulimit -n 600 && if [ "$(id -u)" = 0 ]; then
            exec setpriv --bounding-set=-sys_resource "$0" "$@"; else exec "$0" "$@"; fi"#;
        let mut command = Command::new("sh");
        command.args(["-c", script, PROGRAM]).args(&words[..1]).arg("--password-file").arg(password);
        command.arg(vault).args(&words[1..]).output().expect("a shell runs")
    };
    assert_success(&limited(&["check"]));
    assert_success(&limited(&["salvage", text(&target)]));
    assert_eq!(fs::read_dir(target.join("d")).expect("a directory").count(), 1500);
}

#[test]
fn a_resumed_salvage_tells_what_the_one_before_lost_and_two_keep_out_of_each_others_way() {
    let place = Place::new();
    place.mount(&[]);
    fs::write(place.at("file"), noise(100_000, 1)).expect("written");
    place.umount();
    let stored = stored(&place).remove(0);
    let file = File::options().read(true).write(true).open(stored).expect("ours");
    let mut byte = [0];
    file.read_exact_at(&mut byte, 60_000).expect("long enough");
    file.write_all_at(&[byte[0] ^ 1], 60_000).expect("written");
    let target = place.directory.path().join("salvaged");
    let (vault, password) = (place.vault(), place.password());
    let salvage = |more: &[&str]| {
        let words = ["salvage", "--json", "--password-file", text(&password), text(&vault), text(&target)];
        let output = run(&[&words[..], more].concat());
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default())
    };
    let (code, first) = salvage(&[]);
    assert_eq!((code, first["damage"].as_array().map(Vec::len)), (Some(4), Some(1)), "{first}");
    for _ in 0..2 {
        let (code, again) = salvage(&["--resume"]);
        assert_eq!((code, &again["damage"], again["skipped"].as_u64()), (Some(4), &first["damage"], Some(1)));
    }
    let held = File::open(&target).expect("there");
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).expect("free");
    assert_eq!(salvage(&["--resume"]).0, Some(5));
    drop(held);
    // What is copied anew is as sound as it is now.
    file.write_all_at(&byte, 60_000).expect("healed");
    fs::remove_file(target.join("file")).expect("there");
    let (code, healed) = salvage(&["--resume"]);
    assert_eq!((code, &healed["damage"]), (Some(0), &serde_json::json!([])), "{healed}");
}

#[test]
fn a_recovery_key_is_not_changed_without_a_word() {
    let place = Place::new();
    let (vault, password, key) = (place.vault(), place.password(), place.directory.path().join("key"));
    let base = ["--password-file", text(&password)];
    let made = run(&[&["key", "add", text(&vault), "--new-recovery-out", text(&key)], &base[..]].concat());
    assert_success(&made);
    let new = place.directory.path().join("new");
    fs::write(&new, "short").expect("written");
    let change = |more: &[&str]| {
        let words =
            ["key", "change", text(&vault), "--recovery-file", text(&key), "--new-password-file", text(&new)];
        let mut command = Command::new("setsid");
        command
            .arg("-w")
            .arg(PROGRAM)
            .args(words)
            .args(["--kdf-memory", "8MiB", "--kdf-time", "1"])
            .args(more);
        command.output().expect("setsid runs")
    };
    // Without a terminal nobody can be asked.
    assert_fails_with(&change(&[]), 2, "--slot");
    let changed = change(&["--slot", "0"]);
    assert_fails_with(&changed, 0, "Changing slot 0");
    assert_fails_with(&changed, 0, "so short");
    assert_success(&run(&["key", "list", text(&vault), "--recovery-file", text(&key)]));
}
