//! A tree of many more files than the daemon may have open. It needs
//! `/dev/fuse`, and root or `fusermount3`.

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use support::{PROGRAM, Place, STATE, assert_success};

/// Files that the daemon may have open, and no way to get more.
const FILE_LIMIT: usize = 2_000;
const DIRECTORIES: usize = 50;
const FILES: usize = 20_000;

/// Starts what follows with few open files: where the caller may raise limits,
/// without that capability.
const LIMITED: &str = r#"ulimit -n "$0" && if [ "$(id -u)" = 0 ]; then
    exec setpriv --bounding-set=-sys_resource "$@"
else
    exec "$@"
fi"#;

/// A vault that is mounted by a daemon with few open files.
fn mounted() -> Place {
    let place = Place::new();
    let mut mount = Command::new("sh");
    mount.args(["-c", LIMITED, &FILE_LIMIT.to_string(), PROGRAM, "mount"]);
    mount.arg(place.vault()).arg(place.mount_point()).arg("--log").arg(place.log());
    mount.arg("--password-file").arg(place.password()).env("XDG_STATE_HOME", STATE);
    assert_success(&mount.output().expect("a shell runs"));
    place
}

/// The directory of the file `index`.
fn directory_path(place: &Place, index: usize) -> PathBuf {
    place.at(&format!("d{}", index % DIRECTORIES))
}

fn file_path(place: &Place, index: usize) -> PathBuf {
    directory_path(place, index).join(format!("f{index}"))
}

/// The daemon has only so many files open, whatever the kernel has seen.
fn assert_limited(pid: rustix::process::Pid) {
    let text = fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).expect("the daemon runs");
    let line = text.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    let soft = line.split_whitespace().nth(3).and_then(|word| word.parse().ok());
    assert_eq!(soft, Some(FILE_LIMIT), "the limit was raised after all: {line}");
}

#[test]
fn a_tree_may_have_more_files_than_the_daemon_may_open() {
    let place = mounted();
    assert_limited(place.pid());
    let content = |index: usize| format!("file {index}\n");
    for index in 0..DIRECTORIES {
        fs::create_dir(directory_path(&place, index)).expect("made");
    }
    for index in 0..FILES {
        fs::write(file_path(&place, index), content(index)).expect("written");
    }
    for index in 0..FILES {
        let found = fs::metadata(file_path(&place, index)).expect("found");
        assert_eq!(found.len(), content(index).len() as u64);
    }
    let listed = Command::new("ls").arg("-lR").arg(place.mount_point()).output().expect("ls runs");
    assert_success(&listed);
    let files = listed.stdout.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"-")).count();
    assert_eq!(files, FILES);
    for index in (0..FILES).rev() {
        assert_eq!(fs::read_to_string(file_path(&place, index)).expect("read"), content(index));
    }
    for index in 0..DIRECTORIES {
        fs::remove_dir_all(directory_path(&place, index)).expect("removed");
    }
    assert_eq!(fs::read_dir(place.mount_point()).expect("listed").count(), 0);
    place.umount();
}

/// Whoever works in a directory, or holds a file, keeps it while all else is
/// forgotten around it.
#[test]
fn what_is_in_use_stays() {
    let place = mounted();
    let inside = place.mount_point().join("inside");
    fs::create_dir(&inside).expect("made");
    fs::write(inside.join("held"), "held").expect("written");
    let held = fs::File::open(inside.join("held")).expect("opened");
    let mut worker = Command::new("sh");
    worker.args(["-c", "read line; pwd -P; cat held"]).current_dir(&inside);
    let mut worker = worker
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("a shell runs");
    for index in 0..DIRECTORIES {
        fs::create_dir(directory_path(&place, index)).expect("made");
    }
    for index in 0..2 * FILE_LIMIT {
        fs::write(file_path(&place, index), "").expect("written");
    }
    drop(worker.stdin.take());
    let told = worker.wait_with_output().expect("ended");
    let real = fs::canonicalize(&inside).expect("found");
    assert_eq!(told.stdout, [real.to_str().expect("text").as_bytes(), b"\nheld"].concat());
    let by_handle = held.metadata().expect("known");
    let by_name = fs::metadata(inside.join("held")).expect("found");
    assert_eq!((by_handle.ino(), by_handle.nlink()), (by_name.ino(), 1));
    drop(held);
    place.umount();
}
