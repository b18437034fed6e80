//! Ends of every kind over both transports, again and again: nothing hangs,
//! and nothing is left behind.
//!
//! `STRONGROOM_ROUNDS` says how often (3 by default), `STRONGROOM_LOOKUPS` how
//! many names are looked up (3,000 by default). The long form is
//!
//! ```text
//! STRONGROOM_ROUNDS=100 STRONGROOM_LOOKUPS=1000000 cargo test --release -p strongroom-fuse --test endings
//! ```

mod memory;

use memory::served::{Offered, Served, can_mount, has_rings};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strongroom_fuse::abi::Opcode;
use strongroom_fuse::{Ended, MountOptions, SessionOptions, TransportChoice, UnmountMode};

/// These tests count descriptors of the process.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn transports() -> Vec<TransportChoice> {
    match (can_mount(), has_rings()) {
        (false, _) => Vec::new(),
        (true, false) => vec![TransportChoice::Device],
        (true, true) => vec![TransportChoice::Device, TransportChoice::Ring],
    }
}

fn served(transport: TransportChoice) -> Served {
    let served = Served::with(&MountOptions::default(), SessionOptions { transport, ..Default::default() });
    let served = served.unwrap();
    fs::write(served.path("file"), vec![7; 300_000]).unwrap();
    let name = served.handle.transport().unwrap().name;
    assert_eq!(name == "io-uring", transport == TransportChoice::Ring);
    served
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Programs that use the mount until it fails them.
fn users(directory: &Path) -> Vec<Child> {
    let read = "while dd if=\"$0/file\" of=/dev/null bs=4k iflag=nocache 2>&1; do :; done";
    // What lies below the mount has no such file.
    let make = "while [ -e \"$0/file\" ] && echo x > \"$0/new\" && rm \"$0/new\"; do :; done";
    let list = "while ls -l \"$0/file\"; do :; done";
    let start = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(directory);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    [read, make, list].map(start).into()
}

/// None of them may hang: every one ends by itself, soon.
fn join(users: Vec<Child>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    for mut user in users {
        while user.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "a program hangs on a mount that has ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn nothing_hangs_when_a_mount_is_taken_away() {
    let _alone = alone();
    for transport in transports() {
        let before = descriptors();
        for _ in 0..number("STRONGROOM_ROUNDS", 3) {
            let mut served = served(transport);
            let users = users(&served.path(""));
            std::thread::sleep(Duration::from_millis(30));
            served.handle.unmount(UnmountMode::Lazy).unwrap();
            join(users);
            assert_eq!(served.ended().unwrap(), Ended::Unmounted);
        }
        assert_eq!(descriptors(), before, "{transport:?}");
    }
}

#[test]
fn nothing_hangs_when_a_connection_is_aborted() {
    let _alone = alone();
    for transport in transports() {
        let before = descriptors();
        for _ in 0..number("STRONGROOM_ROUNDS", 3) {
            let mut served = served(transport);
            let users = users(&served.path(""));
            std::thread::sleep(Duration::from_millis(30));
            served.handle.abort().unwrap();
            served.ended().unwrap();
            join(users);
        }
        assert_eq!(descriptors(), before, "{transport:?}");
    }
}

#[test]
fn nothing_hangs_when_the_daemon_is_killed() {
    let _alone = alone();
    for transport in transports() {
        for _ in 0..number("STRONGROOM_ROUNDS", 3) {
            let directory = tempfile::tempdir().unwrap();
            let offered = (transport == TransportChoice::Ring).then(Offered::new);
            let mut daemon = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "a_daemon_to_be_killed", "--ignored", "--nocapture"])
                .env("STRONGROOM_KILLED_MOUNT", directory.path())
                .env("STRONGROOM_KILLED_RING", if offered.is_some() { "1" } else { "0" })
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let mount = directory.path().join("mount");
            let deadline = Instant::now() + Duration::from_secs(60);
            while !is_mounted(&mount) {
                assert!(Instant::now() < deadline, "the daemon does not mount");
                std::thread::sleep(Duration::from_millis(5));
            }
            fs::write(mount.join("file"), vec![7; 300_000]).unwrap();
            drop(offered);
            let users = users(&mount);
            std::thread::sleep(Duration::from_millis(30));
            daemon.kill().unwrap();
            daemon.wait().unwrap();
            join(users);
            rustix::mount::unmount(&mount, rustix::mount::UnmountFlags::DETACH).unwrap();
        }
    }
}

fn is_mounted(directory: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().any(|line| line.split(' ').nth(4).is_some_and(|point| Path::new(point) == directory))
}

/// Run by the test above, in a process of its own.
#[test]
#[ignore = "run by nothing_hangs_when_the_daemon_is_killed"]
fn a_daemon_to_be_killed() {
    let directory = std::env::var_os("STRONGROOM_KILLED_MOUNT").unwrap();
    let mount = Path::new(&directory).join("mount");
    fs::create_dir(&mount).unwrap();
    let ring = std::env::var("STRONGROOM_KILLED_RING").is_ok_and(|ring| ring == "1");
    let transport = if ring { TransportChoice::Ring } else { TransportChoice::Device };
    let filesystem = std::sync::Arc::new(memory::Memory::new());
    let mount = strongroom_fuse::Mount::new(&mount, &MountOptions::default()).unwrap();
    let options = SessionOptions { transport, ..Default::default() };
    strongroom_fuse::Session::new(mount, filesystem, options).run().unwrap();
}

#[test]
fn every_lookup_is_given_back() {
    let _alone = alone();
    for transport in transports() {
        let served = served(transport);
        let before = served.filesystem.node_count();
        let mut left = number("STRONGROOM_LOOKUPS", 3_000);
        while left > 0 {
            let batch = left.min(1_000);
            for index in 0..batch {
                let file = File::create(served.path(&format!("n{index}"))).unwrap();
                file.write_all_at(b"x", 0).unwrap();
            }
            for index in 0..batch {
                fs::metadata(served.path(&format!("n{index}"))).unwrap();
                fs::remove_file(served.path(&format!("n{index}"))).unwrap();
                assert!(fs::metadata(served.path(&format!("n{index}"))).is_err());
            }
            left -= batch;
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        // Forgetting comes by the device and after the answer.
        while served.filesystem.node_count() > before {
            assert!(Instant::now() < deadline, "{} nodes are left", served.filesystem.node_count() - before);
            std::thread::sleep(Duration::from_millis(10));
        }
        let counted = served.handle.statistics();
        let forgotten =
            counted.operation(Opcode::Forget).count + counted.operation(Opcode::BatchForget).count;
        assert!(forgotten > 0 && counted.malformed == 0 && counted.panics == 0, "{counted:?}");
        assert_eq!(served.unmount(), Ended::Unmounted);
    }
}
