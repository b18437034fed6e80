//! Volumes that take their bytes from the page cache: the same bytes as by
//! system calls, and the same errors.

mod support;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use strongroom_disk::{Backing, Device, Error, FileBacking, Piece, Volume, VolumeOptions};
use strongroom_engine::Buffer;
use strongroom_format::luks::{CipherSpec, Segment};
use strongroom_keys::SecretBytes;
use strongroom_store::mapped::SharedBytes;

const LEN: u64 = 4 << 20;
const MIB: usize = 1 << 20;

/// A file that counts the bytes of either way, and can be cut in the middle of
/// a request.
#[derive(Debug)]
struct Watched {
    file: File,
    backing: FileBacking,
    by_calls: AtomicU64,
    in_place: AtomicU64,
    /// What the file is cut to while bytes are in use; none at `u64::MAX`.
    cut: AtomicU64,
}

impl Watched {
    fn new(directory: &str) -> Arc<Watched> {
        let file = tempfile::tempfile_in(directory).expect("a file");
        file.write_all_at(&vec![0x5a; LEN as usize], 0).expect("written");
        let backing = FileBacking::from_file(file.try_clone().expect("the same file"));
        backing.map().expect("mapped where it can be");
        let zero = AtomicU64::default;
        Arc::new(Watched { file, backing, by_calls: zero(), in_place: zero(), cut: AtomicU64::new(u64::MAX) })
    }

    /// Bytes in place and by calls since this was asked last.
    fn counts(&self) -> (u64, u64) {
        (self.in_place.swap(0, Ordering::Relaxed), self.by_calls.swap(0, Ordering::Relaxed))
    }

    fn cut_now(&self) {
        let cut = self.cut.load(Ordering::Relaxed);
        if cut != u64::MAX {
            self.file.set_len(cut).expect("cut");
        }
    }

    fn count(&self, done: bool, len: usize) -> bool {
        if done {
            self.in_place.fetch_add(len as u64, Ordering::Relaxed);
        }
        done
    }
}

impl Backing for Watched {
    fn len(&self) -> io::Result<u64> {
        self.backing.len()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.by_calls.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.backing.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.by_calls.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.backing.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.backing.sync()
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.backing.punch(offset, len)
    }

    fn allocated(&self, offset: u64, len: u64) -> io::Result<(u64, bool)> {
        self.backing.allocated(offset, len)
    }

    fn read_mapped(&self, offset: u64, len: usize, work: &mut dyn FnMut(SharedBytes<'_>) -> bool) -> bool {
        let done = self.backing.read_mapped(offset, len, &mut |bytes| {
            self.cut_now();
            work(bytes)
        });
        self.count(done, len)
    }
}

fn open(backing: Arc<dyn Backing>, cipher: &str, sector_size: u32) -> Volume {
    let encryption = CipherSpec::parse(cipher).expect("known");
    let segment = Segment { offset: 4096, size: None, iv_tweak: 3, encryption, sector_size };
    let mut key = SecretBytes::zeroed(64);
    (0..).zip(key.expose_mut()).for_each(|(value, byte)| *byte = value);
    Volume::open(&support::engine(), backing, segment, &key, VolumeOptions::default()).expect("opens")
}

fn data(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (((at + seed) / 5) ^ (at >> 11)) as u8).collect()
}

/// Writes through one volume and reads through the other.
fn exchange(writer: &Volume, reader: &Volume, seed: usize) {
    for (offset, len) in [(0, MIB), (8192, 64 << 10), (4096 * 5, 200 << 10), (2 << 20, 4096)] {
        let written = data(len, seed + len);
        writer.write_one(offset, len, &mut Buffer::copy_of(&written)).expect("written");
        let mut buffer = Buffer::new(len);
        reader.read_one(offset, len, &mut buffer).expect("read");
        assert!(buffer[..] == written, "{len} bytes at {offset}");
    }
}

#[test]
fn reading_in_place_reads_the_same_and_writing_goes_by_calls() {
    let lengths = [MIB, 64 << 10, 200 << 10, 4096].iter().sum::<usize>() as u64;
    for sector in [512, 4096] {
        let watched = Watched::new("/dev/shm");
        let mapped = open(Arc::clone(&watched) as Arc<dyn Backing>, "aes-xts-plain64", sector);
        let file = watched.file.try_clone().expect("the same file");
        let plain = open(Arc::new(FileBacking::from_file(file)), "aes-xts-plain64", sector);
        exchange(&mapped, &plain, 1);
        assert_eq!(watched.counts(), (0, lengths));
        exchange(&plain, &mapped, 2);
        let (in_place, by_calls) = watched.counts();
        assert!(in_place > MIB as u64 && by_calls == 4096, "{by_calls}");
    }
}

#[test]
fn on_a_disk_reading_is_in_place() {
    let directory = env!("CARGO_TARGET_TMPDIR");
    let kind = rustix::fs::statfs(Path::new(directory)).expect("told").f_type;
    if kind != 0xef53 {
        println!("{directory} is not on ext4: not tested");
        return;
    }
    let watched = Watched::new(directory);
    let volume = open(Arc::clone(&watched) as Arc<dyn Backing>, "aes-xts-plain64", 512);
    let written = data(MIB, 3);
    volume.write_one(0, MIB, &mut Buffer::copy_of(&written)).expect("written");
    assert_eq!(watched.counts(), (0, MIB as u64));
    volume.flush().expect("durable");
    let mut buffer = Buffer::new(MIB);
    volume.read_one(0, MIB, &mut buffer).expect("read");
    assert!(buffer[..] == written);
    let (in_place, by_calls) = watched.counts();
    assert_eq!(in_place + by_calls, MIB as u64);
    assert!(in_place > 0, "what was just written is in the page cache");
}

#[test]
fn other_ciphers_go_the_old_way() {
    let watched = Watched::new("/dev/shm");
    let volume = open(Arc::clone(&watched) as Arc<dyn Backing>, "serpent-xts-plain64", 512);
    exchange(&volume, &volume, 4);
    assert_eq!(watched.counts().0, 0);
}

#[test]
fn an_image_cut_in_the_middle_of_a_request_is_an_error_and_no_more() {
    for cut in [0, 300 << 10, (300 << 10) + 1000] {
        let watched = Watched::new("/dev/shm");
        let volume = open(Arc::clone(&watched) as Arc<dyn Backing>, "aes-xts-plain64", 512);
        watched.cut.store(cut, Ordering::Relaxed);
        let mut buffer = Buffer::new(MIB);
        let pieces = [Piece { offset: 0, start: 0, len: MIB }];
        let mut outcomes = [Ok(())];
        volume.read(&pieces, &mut buffer, &mut outcomes);
        let [outcome] = outcomes;
        let Err(Error::Io { source, .. }) = outcome else { panic!("cut to {cut}: {outcome:?}") };
        assert_eq!(source.kind(), io::ErrorKind::UnexpectedEof, "cut to {cut}");
        watched.cut.store(u64::MAX, Ordering::Relaxed);
        watched.file.set_len(LEN).expect("as long as before");
        exchange(&volume, &volume, 5);
    }
}
