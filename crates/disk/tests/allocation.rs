//! A server that backs swap must not ask for memory while it serves: once a
//! disk is open and its workers have started, requests allocate nothing.

mod support;

use std::alloc::System;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use strongroom_disk::nbd::Server;
use strongroom_disk::{Bytes, Device, FileBacking, Piece, Volume, VolumeOptions};
use strongroom_engine::Buffer;
use strongroom_format::luks::{CipherSpec, Segment};
use strongroom_keys::SecretBytes;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LEN: u64 = 8 << 20;

/// In memory, where large requests are done in place.
fn volume(cipher: &str, sector_size: u32) -> Arc<Volume> {
    let file = tempfile::tempfile_in("/dev/shm").expect("a file");
    file.set_len(LEN).expect("sparse");
    let encryption = CipherSpec::parse(cipher).expect("known");
    let segment = Segment { offset: 0, size: None, iv_tweak: 0, encryption, sector_size };
    let mut key = SecretBytes::zeroed(if cipher.contains("xts") { 64 } else { 32 });
    (0..).zip(key.expose_mut()).for_each(|(value, byte)| *byte = value);
    let backing = Arc::new(FileBacking::from_file(file));
    backing.map().expect("mapped");
    let options = VolumeOptions::default();
    Arc::new(Volume::open(&support::engine(), backing, segment, &key, options).expect("opens"))
}

/// Fails when `work` allocates.
#[track_caller]
fn without_allocation(what: &str, work: impl FnOnce()) {
    let region = Region::new(ALLOCATOR);
    work();
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0), "{what} allocates");
}

/// One test, which prints what the harness would.
fn main() {
    requests_allocate_nothing();
    println!("test requests_allocate_nothing ... ok");
    println!("test result: ok. 1 passed; 0 failed; 0 ignored");
}

fn requests_allocate_nothing() {
    for (cipher, sector) in
        [("aes-xts-plain64", 512), ("aes-xts-plain64", 4096), ("twofish-cbc-essiv:sha256", 512)]
    {
        let volume = volume(cipher, sector);
        by_bytes(&volume);
        many_pieces(&*volume, u64::from(sector));
        through_nbd(volume);
    }
    let region = Region::new(ALLOCATOR);
    drop(Buffer::new(10));
    assert_ne!(region.change().allocations, 0, "nothing is counted");
}

/// What the raw file does.
fn by_bytes(volume: &Arc<Volume>) {
    let bytes = Bytes::new(Arc::clone(volume));
    let mut buffer = Buffer::new(1 << 20);
    without_allocation("a request by bytes", || {
        for (offset, len) in [(0, 4096), (4096, 1 << 20), (1000, 100), (511, 70_000), (512, 512)] {
            bytes.write(offset, len, &mut buffer).expect("written");
            bytes.read(offset, len, &mut buffer).expect("read");
        }
        bytes.write_zeroes(700, 1_000_000).expect("zeroed");
        bytes.discard(0, 1 << 20).expect("discarded");
        volume.flush().expect("flushed");
    });
}

/// More pieces than a batch has segments.
fn many_pieces(device: &dyn Device, sector: u64) {
    let mut buffer = Buffer::new(1 << 20);
    let piece = |at: u64| Piece { offset: at * sector, start: (at * sector) as usize, len: sector as usize };
    let pieces: Vec<Piece> = (0..200).map(piece).collect();
    let mut outcomes: Vec<_> = pieces.iter().map(|_| Ok(())).collect();
    without_allocation("a request of many pieces", || {
        device.write(&pieces, &mut buffer, &mut outcomes);
        device.read(&pieces, &mut buffer, &mut outcomes);
    });
    assert!(outcomes.iter().all(Result::is_ok));
}

/// What the NBD server does for one client, whose own part allocates nothing.
fn through_nbd(volume: Arc<Volume>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let server = Server::bind(&path, volume).expect("bound");
    let handle = server.handle();
    let serving = std::thread::spawn(|| server.run());
    let mut stream = UnixStream::connect(&path).expect("connected");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    // Fixed newstyle without zeros; EXPORT_NAME of no name.
    let option = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    stream.write_all(&option).expect("sent");
    stream.read_exact(&mut [0; 10]).expect("size and flags");
    // Until every worker has started, which allocates.
    for _ in 0..200 {
        requests(&mut stream);
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    without_allocation("a request through NBD", || (0..50).for_each(|_| requests(&mut stream)));
    drop(stream);
    handle.stop();
    serving.join().expect("ends");
}

/// A write with FUA, reads, zeros and a flush.
fn requests(stream: &mut UnixStream) {
    let mut data = [7; 8192];
    for (flags, command, offset, len) in
        [(1, 1, 0, 8192), (0, 0, 0, 8192), (0, 0, 65536, 4096), (0, 6, 8192, 131_072), (0, 3, 0, 0)]
    {
        let mut head = [0; 28];
        head[..4].copy_from_slice(&0x2560_9513u32.to_be_bytes());
        head[4..6].copy_from_slice(&u16::to_be_bytes(flags));
        head[6..8].copy_from_slice(&u16::to_be_bytes(command));
        head[16..24].copy_from_slice(&u64::to_be_bytes(offset));
        head[24..].copy_from_slice(&u32::to_be_bytes(len));
        stream.write_all(&head).expect("sent");
        if command == 1 {
            stream.write_all(&data).expect("sent");
        }
        let mut reply = [0; 16];
        stream.read_exact(&mut reply).expect("answered");
        assert_eq!(reply[4..8], [0; 4], "no error");
        if command == 0 {
            stream.read_exact(&mut data[..len as usize]).expect("data");
        }
    }
}
