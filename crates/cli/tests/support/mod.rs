//! A vault with a mount point and a password in a directory of their own, and what tests of mounts ask and
//! expect of the program. Shared by the programs that test mounts.
#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod device;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_strongroom");

/// Longest wait for anything that should happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The engine that serves the mounts of tests which ask for none.
/// `STRONGROOM_TEST_ENGINE=unruly` runs them all on one that answers late, out
/// of order, or never.
pub(crate) fn engine() -> String {
    std::env::var("STRONGROOM_TEST_ENGINE").unwrap_or_else(|_| "cpu".into())
}

/// What the program remembers of vaults, which is not to be where it lies on this machine.
pub(crate) const STATE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/state");

/// The program, with what it remembers in a directory of the tests.
pub(crate) fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("XDG_STATE_HOME", STATE);
    command
}

/// A vault, a mount point and a password in a directory of their own. What is
/// mounted there is unmounted at the end, however the test ends.
pub(crate) struct Place {
    pub(crate) directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place::under(&std::env::temp_dir())
    }

    pub(crate) fn under(parent: &Path) -> Place {
        let place = Place { directory: TempDir::new_in(parent).expect("a directory") };
        fs::create_dir(place.mount_point()).expect("a directory");
        fs::write(place.password(), "correct horse\n").expect("written");
        let made = run(&[
            "init",
            place.vault().to_str().expect("text"),
            "--password-file",
            place.password().to_str().expect("text"),
            "--recovery-out",
            "none",
            "--kdf-memory",
            "8MiB",
            "--kdf-time",
            "1",
        ]);
        assert_success(&made);
        place
    }

    pub(crate) fn vault(&self) -> PathBuf {
        self.directory.path().join("vault")
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.directory.path().join("plain")
    }

    pub(crate) fn password(&self) -> PathBuf {
        self.directory.path().join("password")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// A path in the mount.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.mount_point().join(name)
    }

    pub(crate) fn try_mount(&self, options: &[&str]) -> Output {
        self.try_mount_at(&self.mount_point(), options)
    }

    /// The command that mounts, to be started by whoever looks at it while it works.
    pub(crate) fn mounting(&self, options: &[&str]) -> Command {
        self.mounting_at(&self.mount_point(), options)
    }

    pub(crate) fn try_mount_at(&self, directory: &Path, options: &[&str]) -> Output {
        self.mounting_at(directory, options).output().expect("the program runs")
    }

    fn mounting_at(&self, directory: &Path, options: &[&str]) -> Command {
        let mut command = program();
        command.arg("mount").arg(self.vault()).arg(directory).arg("--log").arg(self.log());
        command.arg("--password-file").arg(self.password()).args(options);
        if !options.contains(&"--engine") {
            command.args(["--engine", &engine()]);
        }
        command
    }

    pub(crate) fn mount(&self, options: &[&str]) {
        assert_success(&self.try_mount(options));
    }

    pub(crate) fn ask(&self, words: &[&str]) -> Output {
        let mut command = program();
        command.args(words).arg(self.mount_point()).output().expect("the program runs")
    }

    /// Unmounts. What other threads of a test start is a copy of its process for a moment, with its open
    /// files, which keep the mount in use.
    pub(crate) fn umount(&self) {
        const IN_USE: i32 = 5;
        let mut ended = self.ask(&["umount"]);
        let until = Instant::now() + SOON;
        while ended.status.code() == Some(IN_USE) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
            ended = self.ask(&["umount"]);
        }
        assert_success(&ended);
        assert!(!is_mounted(&self.mount_point()));
    }

    pub(crate) fn status(&self) -> Value {
        let output = self.ask(&["status", "--json"]);
        assert_success(&output);
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let schema =
            serde_json::from_str(include_str!("../../../../docs/json/status.schema.json")).expect("JSON");
        let schema = jsonschema::validator_for(&schema).expect("a schema");
        if let Err(error) = schema.validate(&document) {
            panic!("{error}: {document}");
        }
        document["mounts"][0].clone()
    }

    pub(crate) fn pid(&self) -> rustix::process::Pid {
        let pid = self.status()["pid"].as_i64().expect("a number");
        i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a process")
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("the daemon runs");
    }

    /// Kills the daemon, and clears what is left of its mount away.
    pub(crate) fn crash(&self) {
        let daemon = self.pid();
        self.signal(rustix::process::Signal::KILL);
        soon("the dead mount goes", || self.ask(&["umount", "--lazy"]).status.success());
        soon("the daemon is gone", || is_gone(daemon));
    }
}

/// Whether no thread of a process runs any more. Nobody may have waited for it yet.
fn is_gone(process: rustix::process::Pid) -> bool {
    let is_dead = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['Z', 'X']))
    };
    fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()))
        .is_ok_and(|tasks| tasks.flatten().all(is_dead))
        || !Path::new(&format!("/proc/{}", process.as_raw_nonzero())).exists()
}

impl Drop for Place {
    fn drop(&mut self) {
        for directory in [self.mount_point(), self.directory.path().join("other")] {
            while is_mounted(&directory) {
                let ended = program().args(["umount", "--abort"]).arg(&directory).output();
                if !ended.is_ok_and(|output| output.status.success()) {
                    let _ = rustix::mount::unmount(&directory, rustix::mount::UnmountFlags::DETACH);
                }
            }
        }
    }
}

pub(crate) fn run(words: &[&str]) -> Output {
    program().args(words).output().expect("the program runs")
}

#[track_caller]
pub(crate) fn assert_success(output: &Output) {
    assert_fails_with(output, 0, "");
}

/// The exit code, and words of the message.
#[track_caller]
pub(crate) fn assert_fails_with(output: &Output, code: i32, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "{said}");
}

pub(crate) fn is_mounted(path: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    table.lines().any(|line| line.split(' ').nth(4).is_some_and(|at| Path::new(at) == path))
}

#[track_caller]
pub(crate) fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < until, "not soon: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes that do not repeat within any block.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}
