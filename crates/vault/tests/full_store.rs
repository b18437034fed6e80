//! A store without a free byte: what is allocated can be overwritten for ever,
//! what was synced stays, files can be removed, and the vault ends cleanly.
//!
//! The store's capacity is set to what is in use at the worst moment: while
//! data that has been acknowledged stands in the journal alone. Nothing here
//! gives the store space again.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use strongroom_format::vault::Suite;
use strongroom_store::Store;
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::content::{Allocate, Content};
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{OpenOptions, Vault, read_header_copies};
use support::{create_file, options, read_all, write};

const ENOSPC: i32 = 28;

/// One suite and block size each.
const KINDS: [(Suite, u8); 3] = [(Suite::ALL[0], 12), (Suite::ALL[1], 13), (Suite::ALL[2], 16)];

/// A vault on a store with a limit, and what its files hold.
struct Full {
    store: MemoryStore,
    options: OpenOptions,
    vault: Vault,
    block: u64,
    files: Vec<(String, u64, Arc<Content>, Vec<u8>)>,
    stamp: u8,
}

impl Full {
    fn new(suite: Suite, shift: u8) -> Full {
        let store = MemoryStore::with_capacity(1 << 32);
        let block_size = BlockSize::from_shift(shift).unwrap();
        support::create(&store, suite, block_size);
        let options = OpenOptions { journal_len: 64 * block_size.bytes().max(16 << 10), ..options() };
        let vault = open(&store, &options);
        Full { store, options, vault, block: block_size.bytes(), files: Vec::new(), stamp: 0 }
    }

    fn file(&mut self, name: &str) -> usize {
        let (entry, content) = create_file(self.vault.namespace(), name);
        self.files.push((name.to_owned(), entry.number, content, Vec::new()));
        self.files.len() - 1
    }

    fn try_write(&mut self, file: usize, offset: u64, len: u64) -> Result<(), i32> {
        self.stamp = self.stamp.wrapping_add(1);
        let data: Vec<u8> = (0..len).map(|at| self.stamp ^ (at / 61) as u8).collect();
        let (_, _, content, model) = &mut self.files[file];
        write(content, offset, &data).map_err(|error| error.errno())?;
        let end = (offset + len) as usize;
        if model.len() < end {
            model.resize(end, 0);
        }
        model[offset as usize..end].copy_from_slice(&data);
        Ok(())
    }

    fn write(&mut self, file: usize, offset: u64, len: u64) {
        let name = self.files[file].0.clone();
        self.try_write(file, offset, len)
            .unwrap_or_else(|errno| panic!("errno {errno} writing {len} bytes at {offset} of {name}"));
    }

    fn sync(&self, file: usize) {
        let (name, _, content, _) = &self.files[file];
        content.sync().unwrap_or_else(|error| panic!("syncing {name}: {error}"));
    }

    fn set_len(&mut self, file: usize, len: u64) {
        let (_, _, content, model) = &mut self.files[file];
        content.set_len(len).unwrap();
        model.resize(len as usize, 0);
    }

    fn len(&self, file: usize) -> u64 {
        self.files[file].3.len() as u64
    }

    /// From now on the store has no free page.
    fn fill(&mut self) {
        let space = self.store.space().unwrap();
        self.store.set_capacity(Some((space.total - space.free) * space.fragment));
        let made = self.vault.namespace().create(ROOT, b"more", &support::CREATION, Opening::default());
        assert_eq!(made.map(drop).unwrap_err().errno(), ENOSPC, "a new file is refused");
        let far = 2 * self.len(0) + 1000 * self.block;
        assert_eq!(self.try_write(0, far, self.block), Err(ENOSPC), "and so are new blocks");
    }

    /// Overwrites every byte of every file but holes, in pieces of each
    /// length, so often that the journal is emptied several times.
    fn overwrite_everything(&mut self, skip: &dyn Fn(&str, u64) -> bool) {
        let before = self.vault.counters().checkpoints.load(Ordering::Relaxed);
        let mut rounds = 0;
        while rounds < 3 || self.vault.counters().checkpoints.load(Ordering::Relaxed) < before + 3 {
            for file in 0..self.files.len() {
                let piece = [self.block, 1000, 3 * self.block + 77][rounds % 3];
                let (len, name) = (self.len(file), self.files[file].0.clone());
                let mut at = 0;
                while at < len {
                    let part = piece.min(len - at);
                    let mut blocks = at / self.block..=(at + part - 1) / self.block;
                    if !blocks.any(|block| skip(&name, block)) {
                        self.write(file, at, part);
                    }
                    at += part;
                    if (at / piece).is_multiple_of(7) {
                        self.sync(file);
                    }
                }
            }
            rounds += 1;
            assert!(rounds < 200, "the journal is never emptied");
        }
        self.vault.sync().unwrap();
        for (name, _, content, model) in &self.files {
            assert!(read_all(content).unwrap() == *model, "{name} reads wrong");
        }
    }

    /// Ends cleanly and looks again, still without space.
    fn close_and_check(self) {
        let Full { store, options, vault, files, .. } = self;
        let mut kept = Vec::new();
        for (name, number, content, model) in files {
            drop(content);
            vault.namespace().release(number);
            vault.namespace().forget(number, 1);
            kept.push((name, model));
        }
        vault.close().unwrap_or_else(|error| panic!("closing on a full store: {error}"));
        drop(vault);
        let copies = read_header_copies(&store).unwrap().map(Option::unwrap);
        assert!(copies[0] == copies[1], "both copies of the header are written");
        // The journal's own space is free again, which is what this mount needs.
        let vault = open(&store, &options);
        assert!(!vault.is_settling(), "a clean end lists no crash");
        check(&vault, &kept);
        vault.close().unwrap();
    }

    /// The process dies; the next mount finds what was synced. The journal of
    /// the mount after it is what has to fit besides.
    fn die_and_check(self) {
        let Full { store, options, vault, files, .. } = self;
        let kept: Vec<_> = files.into_iter().map(|(name, _, _, model)| (name, model)).collect();
        vault.abandon();
        drop(vault);
        let space = store.space().unwrap();
        store.set_capacity(Some(space.total * space.fragment + options.journal_len));
        let vault = open(&store, &options);
        check(&vault, &kept);
        vault.settle().unwrap();
        vault.close().unwrap();
    }
}

fn open(store: &MemoryStore, options: &OpenOptions) -> Vault {
    support::open_with(Arc::new(store.clone()), support::engine(), options).unwrap()
}

fn check(vault: &Vault, files: &[(String, Vec<u8>)]) {
    for (name, model) in files {
        let entry = vault.namespace().lookup(ROOT, name.as_bytes()).unwrap();
        let content = vault.namespace().open(entry.number, Opening::default()).unwrap();
        assert!(read_all(&content).unwrap() == *model, "{name} reads wrong");
        assert_eq!(content.verify(&mut |_| {}).unwrap().damage, [], "{name}");
        drop(content);
        vault.namespace().release(entry.number);
        vault.namespace().forget(entry.number, 1);
    }
}

const fn no_hole(_: &str, _: u64) -> bool {
    false
}

/// Runs `story` on each kind, once to a clean end and once to a crash.
fn tell(story: impl Fn(&mut Full)) {
    for (suite, shift) in KINDS {
        for dies in [false, true] {
            let mut full = Full::new(suite, shift);
            story(&mut full);
            if dies {
                full.die_and_check();
            } else {
                full.close_and_check();
            }
        }
    }
}

#[test]
fn every_allocated_byte_is_overwritten_on_a_full_store() {
    tell(|full| {
        for (name, blocks) in [("small", 1), ("group", 128), ("groups", 150)] {
            let file = full.file(name);
            full.write(file, 0, blocks * full.block + 77);
            full.sync(file);
        }
        let unsynced = full.file("unsynced");
        full.write(unsynced, 0, 9 * full.block);
        full.fill();
        full.overwrite_everything(&no_hole);
    });
}

#[test]
fn what_was_appended_and_synced_in_small_pieces_has_its_place() {
    tell(|full| {
        let log = full.file("log");
        full.write(log, 0, 100);
        full.sync(log);
        // Small appends go to the journal, and so does the page of the next
        // group: none of it has been written home when the store is full.
        while full.len(log) < 140 * full.block {
            let end = full.len(log);
            full.write(log, end, full.block / 2 + 11);
            full.sync(log);
        }
        full.fill();
        full.overwrite_everything(&no_hole);
    });
}

#[test]
fn what_was_written_behind_a_cut_has_its_place() {
    tell(|full| {
        let file = full.file("file");
        full.write(file, 0, 60 * full.block);
        full.sync(file);
        full.set_len(file, full.block + 5);
        // Behind a cut that is not durable yet nothing is written in place.
        full.write(file, 3 * full.block, 2 * full.block);
        full.sync(file);
        full.fill();
        full.overwrite_everything(&|_, at| at == 2);
    });
}

#[test]
fn what_was_written_into_holes_has_its_place() {
    tell(|full| {
        let file = full.file("file");
        full.write(file, 0, 10);
        full.sync(file);
        full.set_len(file, 500 * full.block);
        full.sync(file);
        for at in [7, 130, 131, 300, 499] {
            full.write(file, at * full.block, full.block);
            full.sync(file);
        }
        full.fill();
        let data = [0, 7, 130, 131, 300, 499];
        full.overwrite_everything(&|_, at| !data.contains(&at));
    });
}

#[test]
fn reserved_space_takes_its_first_write_on_a_full_store() {
    let mut full = Full::new(Suite::ALL[0], 12);
    let file = full.file("file");
    full.write(file, 0, 10);
    full.sync(file);
    let len = 40 * full.block;
    full.files[file].2.allocate(Allocate::Reserve { keep_len: false }, 0, len).unwrap();
    full.files[file].3.resize(len as usize, 0);
    full.sync(file);
    full.fill();
    full.overwrite_everything(&no_hole);
    full.close_and_check();
}

#[test]
fn files_are_removed_and_written_anew_on_a_full_store() {
    tell(|full| {
        for name in ["a", "b", "c"] {
            let file = full.file(name);
            full.write(file, 0, 40 * full.block);
            full.sync(file);
        }
        full.fill();
        full.overwrite_everything(&no_hole);
        let (_, number, content, _) = full.files.remove(1);
        drop(content);
        full.vault.namespace().release(number);
        full.vault.namespace().remove(ROOT, b"b").unwrap();
        full.vault.namespace().forget(number, 1);
        // A file that the journal still knows gives its space back with the
        // next commit, which comes by itself every few seconds.
        full.vault.sync().unwrap();
        let file = full.file("d");
        full.write(file, 0, 39 * full.block);
        full.overwrite_everything(&no_hole);
    });
}
