//! Prefetch around faults, through a real mount: that it spares requests, and that it
//! never shows or keeps what is not so.

mod memory;

use memory::served::{Served, can_mount};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use strongroom_fuse::abi::Opcode;

const BLOCK: usize = 4096;
const WINDOW_BLOCKS: u64 = 16;

/// Numbers without an order that anybody could foresee (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// A block that says in each of its words which one it is.
fn block(value: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    bytes.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
    bytes
}

/// Makes a file of so many blocks, each with its number, of which the kernel
/// holds nothing.
fn make(served: &Served, name: &str, blocks: u64) {
    let data: Vec<u8> = (0..blocks).flat_map(block).collect();
    fs::write(served.path(name), &data).unwrap();
    forget(&served.path(name));
    // Handles are given back when nobody waits for them any more.
    wait_until(|| {
        let statistics = served.handle.statistics();
        let count = |opcode| statistics.operation(opcode).count;
        count(Opcode::Open) + count(Opcode::Create) == count(Opcode::Release)
    });
}

/// Has the kernel write back and drop what it holds of a file.
fn forget(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

fn wait_until(holds: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < limit, "it never came to hold");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn read_block(file: &File, index: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    file.read_exact_at(&mut bytes, index * BLOCK as u64).unwrap();
    bytes
}

#[test]
fn what_is_missed_twice_is_fetched_with_its_neighbours() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let windows = 16;
    // The last page is not whole, and nobody may tell the kernel of it.
    make(&served, "file", windows * WINDOW_BLOCKS);
    let len = (1 << 20) - 100;
    set_len(&served.path("file"), &[len]);
    forget(&served.path("file"));
    let file = File::open(served.path("file")).unwrap();
    for place in [3, 9] {
        (0..windows)
            .for_each(|window| assert!(read_block(&file, window * 16 + place) == block(window * 16 + place)));
    }
    let whole_pages = len - len % BLOCK as u64;
    wait_until(|| served.handle.statistics().bytes_prefetched >= whole_pages);
    assert_eq!(served.handle.statistics().bytes_prefetched, whole_pages);
    let reads = served.handle.statistics().operation(Opcode::Read).count;
    let mut random = Random(7);
    for _ in 0..2000 {
        let index = random.below(windows * WINDOW_BLOCKS - 1);
        assert!(read_block(&file, index) == block(index));
    }
    assert_eq!(served.handle.statistics().operation(Opcode::Read).count, reads);
    assert_eq!(fs::metadata(served.path("file")).unwrap().len(), len);
}

#[test]
fn nothing_is_fetched_of_what_is_open_for_writing() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    make(&served, "file", 64);
    let file = OpenOptions::new().read(true).write(true).open(served.path("file")).unwrap();
    for index in (0..64).map(|step| step * 37 % 64) {
        file.write_all_at(&block(1000 + index), index * BLOCK as u64).unwrap();
        let other = (index + 29) % 64;
        let found = read_block(&file, other);
        assert!(found == block(other) || found == block(1000 + other));
    }
    assert_eq!(served.handle.statistics().bytes_prefetched, 0);
    drop(file);
    let data: Vec<u8> = (0..64).flat_map(|index| block(1000 + index)).collect();
    assert!(fs::read(served.path("file")).unwrap() == data);
}

/// What a writer has said of a file's blocks.
struct Versions {
    /// Versions that were begun and that were done, by block.
    blocks: Vec<(AtomicU64, AtomicU64)>,
    /// Cuts that were begun and that were made good again.
    cuts: (AtomicU64, AtomicU64),
    ended: AtomicBool,
}

impl Versions {
    fn write(&self, file: &File, index: u64) {
        let (begun, done) = &self.blocks[index as usize];
        let version = begun.fetch_add(1, Ordering::SeqCst) + 1;
        file.write_all_at(&block(version), index * BLOCK as u64).unwrap();
        done.store(version, Ordering::SeqCst);
    }

    /// Writes, closes, opens, cuts and makes longer, for a while.
    fn change(&self, path: &Path, until: Instant) {
        let mut random = Random(11);
        let len = (self.blocks.len() * BLOCK) as u64;
        while Instant::now() < until {
            let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
            for _ in 0..1 + random.below(6) {
                self.write(&file, random.below(self.blocks.len() as u64));
            }
            drop(file);
            if random.below(64) == 0 {
                let kept = random.below(self.blocks.len() as u64);
                self.cuts.0.fetch_add(1, Ordering::SeqCst);
                set_len(path, &[kept * BLOCK as u64 + random.below(4096), len]);
                let file = OpenOptions::new().write(true).open(path).unwrap();
                (kept..self.blocks.len() as u64).for_each(|index| self.write(&file, index));
                drop(file);
                self.cuts.1.fetch_add(1, Ordering::SeqCst);
            }
        }
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Reads blocks here and there, each of which has to be one that was done
    /// before or begun meanwhile.
    fn watch(&self, path: &Path, seed: u64) {
        let mut random = Random(seed);
        while !self.ended.load(Ordering::SeqCst) {
            let file = File::open(path).unwrap();
            for _ in 0..random.below(200) {
                let index = random.below(self.blocks.len() as u64);
                let (begun, done) = &self.blocks[index as usize];
                let mended = self.cuts.1.load(Ordering::SeqCst);
                let least = done.load(Ordering::SeqCst);
                let mut bytes = [0; BLOCK];
                let whole = file.read_exact_at(&mut bytes, index * BLOCK as u64).is_ok();
                let most = begun.load(Ordering::SeqCst);
                if self.cuts.0.load(Ordering::SeqCst) != mended {
                    continue;
                }
                // The kernel lets a read see half of a write that is under way.
                let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
                let strange: Vec<u64> = words.filter(|version| !(least..=most).contains(version)).collect();
                assert!(whole && strange.is_empty(), "block {index}: {strange:?} not in {least}..={most}");
            }
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }
}

/// Changes a file's length by its path, again and again: `truncate` of the C
/// library, which opens no handle.
fn set_len(path: &Path, lengths: &[u64]) {
    let program = "my $path = shift; truncate($path, $_) or die for @ARGV";
    let lengths = lengths.iter().map(u64::to_string);
    assert!(Command::new("perl").args(["-e", program]).arg(path).args(lengths).status().unwrap().success());
}

#[test]
fn what_is_cut_while_it_is_fetched_stays_cut() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    // A fill of each takes long enough for the cut to fall into one.
    let windows = 128;
    let blocks = windows * WINDOW_BLOCKS;
    make(&served, "slow", blocks);
    let file = File::open(served.path("slow")).unwrap();
    let kept = 16;
    for place in [1, 2] {
        for window in 0..windows {
            read_block(&file, window * WINDOW_BLOCKS + place);
        }
    }
    set_len(&served.path("slow"), &[kept, blocks].map(|count| count * BLOCK as u64));
    wait_until(|| {
        let before = served.handle.statistics().bytes_prefetched;
        std::thread::sleep(Duration::from_millis(20));
        before > 0 && served.handle.statistics().bytes_prefetched == before
    });
    let expected: Vec<u8> =
        (0..blocks).flat_map(|index| block(if index < kept { index } else { 0 })).collect();
    assert!(fs::read(served.path("slow")).unwrap() == expected);
}

#[test]
fn no_change_is_lost_to_a_fill_and_none_is_undone() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let count = 8 * WINDOW_BLOCKS;
    fs::write(served.path("slow"), vec![0; count as usize * BLOCK]).unwrap();
    let versions = Versions {
        blocks: (0..count).map(|_| Default::default()).collect(),
        cuts: Default::default(),
        ended: AtomicBool::new(false),
    };
    let path = served.path("slow");
    std::thread::scope(|scope| {
        for seed in [3, 5, 7] {
            let (versions, path) = (&versions, &path);
            scope.spawn(move || versions.watch(path, seed));
        }
        versions.change(&path, Instant::now() + Duration::from_secs(3));
    });
    let written: Vec<u8> =
        versions.blocks.iter().flat_map(|(_, done)| block(done.load(Ordering::SeqCst))).collect();
    assert!(fs::read(&path).unwrap() == written, "as the kernel holds it");
    forget(&path);
    assert!(fs::read(&path).unwrap() == written, "as it was written back");
    assert!(served.handle.statistics().bytes_prefetched > 0, "nothing was prefetched");
}

#[test]
fn many_who_open_a_file_while_it_is_fetched_are_all_let_in() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    for round in 0..32 {
        let name = format!("{round}/slow");
        fs::create_dir(served.path(&round.to_string())).unwrap();
        make(&served, &name, WINDOW_BLOCKS);
        let path = served.path(&name);
        let file = File::open(&path).unwrap();
        [1, 2].iter().for_each(|&place| assert!(read_block(&file, place) == block(place)));
        // While its window is filled, more of it are opened than there are threads
        // that serve, and the fill has to wait for some who read what it reads.
        std::thread::scope(|scope| {
            for hand in 0..24 {
                let (path, file) = (&path, &file);
                scope.spawn(move || match hand % 2 {
                    0 => drop(OpenOptions::new().write(true).open(path).unwrap()),
                    _ => assert!(read_block(file, 3 + hand / 2) == block(3 + hand / 2)),
                });
            }
        });
    }
    assert!(served.handle.statistics().bytes_prefetched > 0, "nothing was prefetched");
}
