//! Read-only mounts beside a mount for writing. They need `/dev/fuse`, and
//! root or `fusermount3`.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Place, assert_success, noise, run};

mod support;

/// How long a writer and its readers go on beside each other.
const TOGETHER: Duration = Duration::from_secs(4);

/// Where the vault of `place` is mounted to be read.
fn read_beside(place: &Place) -> PathBuf {
    let other = place.directory.path().join("other");
    fs::create_dir_all(&other).expect("made");
    assert_success(&place.try_mount_at(&other, &["--read-only"]));
    other
}

fn end(directory: &Path) {
    assert_success(&run(&["umount", directory.to_str().expect("text")]));
}

/// What `status` says of the mount at `directory`.
fn status(directory: &Path) -> Value {
    let said = run(&["status", "--json", directory.to_str().expect("text")]);
    assert_success(&said);
    serde_json::from_slice::<Value>(&said.stdout).expect("JSON")["mounts"][0].clone()
}

/// Writes, and returns when it is synced.
fn store(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).expect("made");
    file.write_all(bytes).expect("written");
    file.sync_all().expect("synced");
}

#[test]
fn what_was_synced_is_seen_at_the_next_opening() {
    let place = Place::new();
    place.mount(&[]);
    store(&place.at("file"), b"first");
    let other = read_beside(&place);
    assert_eq!(fs::read(other.join("file")).expect("read"), b"first");
    for round in 0..40u64 {
        let bytes = noise(1 + (round as usize * 7919) % 600_000, round);
        store(&place.at("file"), &bytes);
        assert_eq!(fs::metadata(other.join("file")).expect("there").len(), bytes.len() as u64);
        assert!(fs::read(other.join("file")).expect("read") == bytes, "round {round}");
        // Names are seen at once.
        let (name, renamed) = (format!("new {round}"), format!("{} {round}", "n".repeat(240)));
        store(&place.at(&name), &bytes);
        fs::create_dir(place.at(&format!("directory {round}"))).expect("made");
        fs::rename(place.at(&name), place.at(&format!("directory {round}/{renamed}"))).expect("renamed");
        let moved = other.join(format!("directory {round}/{renamed}"));
        assert!(fs::read(&moved).expect("read") == bytes, "round {round}");
        let listed = fs::read_dir(moved.parent().expect("a directory")).expect("listed");
        assert_eq!(
            listed.map(|entry| entry.expect("there").file_name()).collect::<Vec<_>>(),
            [renamed.as_str()]
        );
        assert!(!other.join(&name).exists());
        if round % 3 == 0 {
            fs::remove_dir_all(place.at(&format!("directory {round}"))).expect("removed");
            assert!(!moved.exists());
        }
    }
    // Appended to while the reader has it open: it is asked for what is behind
    // the end that it knew.
    let mut log = File::create(place.at("log")).expect("made");
    log.write_all(b"one ").expect("written");
    log.sync_all().expect("synced");
    let mut reading = File::open(other.join("log")).expect("opened");
    let mut read = String::new();
    reading.read_to_string(&mut read).expect("read");
    log.write_all(b"two").expect("written");
    log.sync_data().expect("synced");
    reading.read_to_string(&mut read).expect("read");
    assert_eq!(read, "one two");
    let said = status(&other);
    assert_eq!(
        (&said["read_only"], &said["beside_writer"], &said["errors"]["damaged_requests"]),
        (&true.into(), &true.into(), &0.into()),
        "{said}"
    );
    drop((log, reading));
    end(&other);
    place.umount();
}

#[test]
fn a_reader_that_was_there_first_sees_the_writer_that_comes() {
    let place = Place::new();
    place.mount(&[]);
    store(&place.at("file"), b"before");
    place.umount();
    let other = read_beside(&place);
    assert_eq!(fs::read(other.join("file")).expect("read"), b"before");
    assert_eq!(status(&other)["beside_writer"], false);
    for round in 0..6 {
        place.mount(&[]);
        let text = format!("round {round}");
        store(&place.at("file"), text.as_bytes());
        assert_eq!(fs::read_to_string(other.join("file")).expect("read"), text);
        assert_eq!(status(&other)["beside_writer"], true);
        // Synced, it survives the daemon, and is seen before anybody recovers it.
        if round % 2 == 1 {
            store(&place.at("file"), b"killed");
            place.crash();
            assert_eq!(fs::read_to_string(other.join("file")).expect("read"), "killed");
        } else {
            place.umount();
            assert_eq!(fs::read_to_string(other.join("file")).expect("read"), text);
            assert_eq!(status(&other)["beside_writer"], false);
        }
    }
    end(&other);
    place.mount(&[]);
    assert_eq!(fs::read(place.at("file")).expect("read"), b"killed");
    place.umount();
}

/// Blocks of the file that is written to at random.
const BLOCKS: u64 = 600;
const BLOCK: usize = 4096;

/// A block that says which it is, and its version.
fn block(index: u64, version: u64) -> Vec<u8> {
    let mut bytes = noise(BLOCK, index << 32 | version);
    bytes[..8].copy_from_slice(&index.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// One file is overwritten and synced without end, and one is replaced, with
/// the smallest journal, which is emptied again and again. Two readers open
/// and compare both.
#[test]
fn readers_beside_a_writer_that_syncs_without_end() {
    let place = Place::new();
    place.mount(&["--journal-size", "16MiB"]);
    for name in ["random", "whole"] {
        store(&place.at(name), &(0..BLOCKS).flat_map(|index| block(index, 1)).collect::<Vec<_>>());
    }
    let other = read_beside(&place);
    let synced: Vec<AtomicU64> = (0..=BLOCKS).map(|_| AtomicU64::new(1)).collect();
    let (ended, openings) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            write_without_end(&place, &synced);
            ended.store(true, Ordering::Release);
        });
        for offset in 0..2 {
            let (other, synced, ended, openings) = (&other, &synced, &ended, &openings);
            scope.spawn(move || {
                while !ended.load(Ordering::Acquire) {
                    compare(other, synced, offset);
                    openings.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(openings.into_inner() > 5, "too little was read to tell anything");
    let said = status(&other);
    assert_eq!(
        (&said["errors"]["damaged_requests"], &said["beside_writer"]),
        (&0.into(), &true.into()),
        "{said}"
    );
    end(&other);
    place.umount();
}

fn write_without_end(place: &Place, synced: &[AtomicU64]) {
    let file = File::options().write(true).open(place.at("random")).expect("opened");
    let begun = Instant::now();
    let mut index = 0;
    for version in 2.. {
        if begun.elapsed() > TOGETHER {
            return;
        }
        let written: Vec<u64> = (0..1 + version % 90).map(|at| (index + at * 7) % BLOCKS).collect();
        index = (index + 131) % BLOCKS;
        for &index in &written {
            file.write_all_at(&block(index, version), index * BLOCK as u64).expect("written");
        }
        file.sync_data().expect("synced");
        for &index in &written {
            synced[index as usize].store(version, Ordering::Release);
        }
        if version % 16 == 0 {
            store(&place.at("new"), &(0..BLOCKS).flat_map(|index| block(index, version)).collect::<Vec<_>>());
            fs::rename(place.at("new"), place.at("whole")).expect("renamed");
            synced[BLOCKS as usize].store(version, Ordering::Release);
        }
    }
}

/// Opens both files and compares every block of them.
fn compare(mount: &Path, synced: &[AtomicU64], offset: u64) {
    let known: Vec<u64> = synced.iter().map(|version| version.load(Ordering::Acquire)).collect();
    let mut file = File::open(mount.join("random")).expect("opened");
    let mut bytes = vec![0; BLOCK];
    for index in 0..BLOCKS {
        let index = (index * 7 + offset * 300) % BLOCKS;
        file.seek(SeekFrom::Start(index * BLOCK as u64)).expect("sought");
        file.read_exact(&mut bytes).expect("read");
        let version = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
        assert!(bytes == block(index, version), "block {index} is none that was written");
        assert!(
            version >= known[index as usize],
            "block {index} is of {version}, not {}",
            known[index as usize]
        );
    }
    // It may be replaced while it is read, and be gone then.
    match fs::read(mount.join("whole")) {
        Ok(whole) => {
            let version = u64::from_le_bytes(whole[8..16].try_into().expect("eight bytes"));
            assert!(version >= known[BLOCKS as usize], "older than was synced");
            assert!(whole == (0..BLOCKS).flat_map(|index| block(index, version)).collect::<Vec<_>>());
        }
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::STALE.raw_os_error()), "{error}");
        }
    }
}

#[test]
fn damage_beside_a_writer_is_named() {
    let place = Place::new();
    place.mount(&[]);
    store(&place.at("file"), &noise(900_000, 1));
    let mut stored = fs::read_dir(place.vault()).expect("listed").map(|entry| entry.expect("there").path());
    let stored = stored.find(|path| path.is_file()).expect("a stored file");
    let file = File::options().read(true).write(true).open(&stored).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, 4096 + 77 * 4096).expect("read");
    file.write_all_at(&[byte[0] ^ 1], 4096 + 77 * 4096).expect("written");
    let other = read_beside(&place);
    let error = fs::read(other.join("file")).expect_err("damaged");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    let said = status(&other);
    assert!(said["errors"]["damaged_requests"].as_u64() > Some(0), "{said}");
    assert!(said.to_string().contains("\"file\""), "{said}");
    end(&other);
    place.umount();
}
