//! Devices that go wrong under the load of a mount: one that errs once in
//! 10,000 results, one that stalls, one that disappears. With the default
//! checks the user notices nothing but in `status`. It needs `/dev/fuse`, and
//! root or `fusermount3`.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strongroom");

const WRITERS: u64 = 4;
const BLOCK: usize = 4096;
const BLOCKS: usize = 256;
/// Blocks that each writer still handles after the device has failed.
const AFTERWARDS: u64 = 200;
/// A device that has not failed by then does not fail.
const LIMIT: Duration = Duration::from_secs(120);

/// A vault, and its mount, which goes with it.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { directory: TempDir::new().expect("a directory") };
        fs::create_dir(place.mount_point()).expect("a directory");
        fs::write(place.path("password"), "correct horse\n").expect("written");
        let mut init = place.program("init");
        init.arg(place.path("vault")).args(["--recovery-out", "none", "--kdf-memory", "8MiB"]);
        succeed(init.args(["--kdf-time", "1"]).arg("--password-file").arg(place.path("password")));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn mount_point(&self) -> PathBuf {
        self.path("plain")
    }

    fn program(&self, command: &str) -> Command {
        let mut program = Command::new(PROGRAM);
        program.arg(command);
        program
    }

    fn mount(&self, options: &[&str]) {
        let mut mount = self.program("mount");
        mount.arg(self.path("vault")).arg(self.mount_point()).args(options);
        mount.arg("--log").arg(self.path("log")).arg("--password-file").arg(self.path("password"));
        succeed(&mut mount);
    }

    fn umount(&self) {
        succeed(self.program("umount").arg(self.mount_point()));
    }

    /// What the device's engine has to tell.
    fn device(&self) -> Value {
        let output = succeed(self.program("status").arg("--json").arg(self.mount_point()));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        document["mounts"][0]["engines"][1].clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Fails where nothing is mounted any more.
        let _ = self.program("umount").arg("--abort").arg(self.mount_point()).output();
    }
}

#[track_caller]
fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn file_name(writer: u64) -> String {
    format!("file {writer}")
}

/// Writes and reads blocks of a file around the page cache until told to
/// stop; what the file has to hold.
fn work(place: &Place, writer: u64, has_failed: &AtomicBool) -> Vec<u8> {
    let path = place.mount_point().join(file_name(writer));
    let mut options = File::options();
    options.read(true).write(true).create_new(true).custom_flags(OFlags::DIRECT.bits() as i32);
    let file = options.open(path).expect("a file");
    let mut content = vec![0; BLOCK * BLOCKS];
    file.write_all_at(&content, 0).expect("written");
    let mut state = writer;
    let mut left = AFTERWARDS;
    while left > 0 {
        left -= u64::from(has_failed.load(Ordering::Relaxed));
        let at = draw(&mut state) as usize % BLOCKS * BLOCK;
        if draw(&mut state).is_multiple_of(2) {
            let word = draw(&mut state).to_le_bytes();
            let block = &mut content[at..at + BLOCK];
            block.iter_mut().zip(word.iter().cycle()).for_each(|(byte, word)| *byte = *word);
            file.write_all_at(block, at as u64).expect("written");
        } else {
            let mut found = vec![0; BLOCK];
            file.read_exact_at(&mut found, at as u64).expect("read");
            assert!(found == content[at..at + BLOCK], "file {writer} at {at}");
        }
        if draw(&mut state).is_multiple_of(256) {
            file.sync_data().expect("synced");
        }
    }
    content
}

/// Loads a mount on the device until `counter` says that it has failed and
/// for a while after that, and looks at everything once more without it.
fn survives(engine: &str, counter: &str, is_for_good: bool) {
    let place = Place::new();
    place.mount(&["--engine", engine, "-o", "policy=fixed,use=1"]);
    let has_failed = AtomicBool::new(false);
    let contents: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let (place, has_failed) = (&place, &has_failed);
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || work(place, writer, has_failed))).collect();
        let began = Instant::now();
        while place.device()[counter].as_u64() == Some(0) && began.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(100));
        }
        has_failed.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("nothing was wrong or lost")).collect()
    });
    let device = place.device();
    assert!(device[counter].as_u64() > Some(0), "{engine}: {device}");
    assert!(!is_for_good || device["quarantined"] == true, "{engine}: {device}");
    place.umount();
    // An engine that has no part in it reads what was stored.
    place.mount(&["--engine", "reference"]);
    for (writer, content) in contents.iter().enumerate() {
        let found = fs::read(place.mount_point().join(file_name(writer as u64))).expect("read");
        assert!(found == *content, "{engine}: file {writer}");
    }
    place.umount();
}

#[test]
fn a_device_that_errs_once_in_ten_thousand_results_harms_no_byte() {
    survives("sim-rarely-wrong", "mismatches", true);
}

#[test]
fn a_device_that_stalls_under_load_harms_no_byte() {
    survives("sim-stalls", "lost", false);
}

#[test]
fn a_device_that_disappears_under_load_harms_no_byte() {
    survives("sim-gone", "lost", false);
}
