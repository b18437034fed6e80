//! Devices that go wrong under the load of a mount: one that errs once in
//! 10,000 results, one that stalls, one that disappears. With the default
//! checks the user notices nothing but in `status`. It needs `/dev/fuse`, and
//! root or `fusermount3`.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde_json::Value;
use support::Place;

const WRITERS: u64 = 4;
const BLOCK: usize = 4096;
const BLOCKS: usize = 256;
/// Blocks that each writer still handles after the device has failed.
const AFTERWARDS: u64 = 200;
/// A device that has not failed by then does not fail.
const LIMIT: Duration = Duration::from_secs(120);

/// What the device's engine has to tell.
fn device(place: &Place) -> Value {
    place.status()["engines"][1].clone()
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
    let path = place.at(&file_name(writer));
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
        while device(place)[counter].as_u64() == Some(0) && began.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(100));
        }
        has_failed.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("nothing was wrong or lost")).collect()
    });
    let device = device(&place);
    assert!(device[counter].as_u64() > Some(0), "{engine}: {device}");
    assert!(!is_for_good || device["quarantined"] == true, "{engine}: {device}");
    place.umount();
    // An engine that has no part in it reads what was stored.
    place.mount(&["--engine", "reference"]);
    for (writer, content) in contents.iter().enumerate() {
        let found = fs::read(place.at(&file_name(writer as u64))).expect("read");
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
