//! What becomes of bytes: written, cut, removed, mapped, or never written.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{FallocateFlags, fallocate};

use super::{Answer, Place, at, kept, lost, make, open, read, refused};
use crate::low::Mapping;

/// Where the byte behind a hole stands.
const FAR: u64 = 8 << 20;
/// What is kept or punched out.
const PIECE: u64 = 256 << 10;

/// Bytes that repeat nowhere soon.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 * 7) as u8).collect()
}

pub(super) fn contents(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    let mut bytes = pattern(100_000);
    make(&path, &bytes)?;
    let file = open(&path)?;
    bytes[40_000..50_000].fill(1);
    file.write_all_at(&bytes[40_000..50_000], 40_000).map_err(at("overwriting"))?;
    let mut seen = vec![0; bytes.len()];
    File::open(&path).and_then(|other| other.read_exact_at(&mut seen, 0)).map_err(at("reading beside"))?;
    drop(file);
    match seen == bytes && read(&path)? == bytes {
        true => kept("what was written is read"),
        false => lost("what was written is not what is read"),
    }
}

pub(super) fn lengths(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    make(&path, &pattern(20_000))?;
    let file = open(&path)?;
    file.set_len(10_000).map_err(at("cutting"))?;
    file.set_len(30_000).map_err(at("extending"))?;
    file.write_all_at(b"end", 50_000).map_err(at("writing behind the end"))?;
    drop(file);
    let mut expected = pattern(10_000);
    expected.resize(50_000, 0);
    expected.extend(b"end");
    match read(&path)? == expected {
        true => kept("cut, extended, and zeros where nothing was written"),
        false => lost("what was cut comes back, or what was never written is not zeros"),
    }
}

pub(super) fn removed(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    make(&path, b"before")?;
    let file = open(&path)?;
    fs::remove_file(&path).map_err(at("removing"))?;
    file.write_all_at(b"behind", 6).map_err(at("writing to it once it is removed"))?;
    let mut bytes = [0; 12];
    file.read_exact_at(&mut bytes, 0).map_err(at("reading it once it is removed"))?;
    match &bytes == b"beforebehind" && path.symlink_metadata().is_err() {
        true => kept("who has a removed file open goes on using it"),
        false => lost("a removed file is another for whoever has it open"),
    }
}

pub(super) fn empty_after_removal(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    make(&path, b"text")?;
    let _file = open(&path)?;
    fs::remove_file(&path).map_err(at("removing"))?;
    let mut entries = fs::read_dir(&place.directory).map_err(at("listing"))?;
    match entries.next() {
        None => kept("a removed file leaves no name"),
        Some(entry) => {
            let name = entry.map_err(at("listing"))?.file_name();
            lost(format!("a removed file that is open stays as {}", name.to_string_lossy()))
        }
    }
}

pub(super) fn holes(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    make(&path, b"")?;
    let file = open(&path)?;
    file.write_all_at(b"far", FAR).map_err(at("writing far behind the end"))?;
    file.sync_all().map_err(at("fsync"))?;
    let stored = file.metadata().map_err(at("stat"))?.blocks() * 512;
    match stored < FAR / 2 {
        true => kept(format!("{} MiB of hole take {} KiB", FAR >> 20, stored >> 10)),
        false => lost(format!("{} MiB of hole take {} MiB", FAR >> 20, stored >> 20)),
    }
}

pub(super) fn punching(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    let mut bytes = pattern(3 * PIECE as usize);
    make(&path, &bytes)?;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if let Err(errno) = fallocate(open(&path)?, flags, PIECE, PIECE) {
        return refused("punching", errno);
    }
    bytes[PIECE as usize..2 * PIECE as usize].fill(0);
    match read(&path)? == bytes {
        true => kept("what was written can be given back"),
        false => lost("the range still reads otherwise than zeros"),
    }
}

pub(super) fn reserving(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    make(&path, b"text")?;
    if let Err(errno) = fallocate(open(&path)?, FallocateFlags::KEEP_SIZE, 0, PIECE) {
        return refused("reserving", errno);
    }
    match read(&path)? == b"text" {
        true => kept("space can be reserved"),
        false => lost("reserving changes what is read"),
    }
}

pub(super) fn shared_mappings(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    make(&path, &pattern(8192))?;
    let file = open(&path)?;
    let mapping = Mapping::new(&file, 0).map_err(at("mmap"))?;
    // Brought in before it is changed.
    let before = mapping.bytes(0..8).to_vec();
    file.write_all_at(b"by write", 0).map_err(at("writing"))?;
    let is_seen = mapping.bytes(0..8).to_vec() == b"by write" && before == pattern(8);
    match is_seen && !mapping.has_faulted() {
        true => kept("what is written is seen in a mapping"),
        false => lost("what is written is not seen in a mapping"),
    }
}
