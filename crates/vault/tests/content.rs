//! Contents against a model in memory: every operation, every suite, several
//! block sizes, with commits, remounts and a journal small enough to fill.

mod support;

use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_format::vault::Suite;
use strongroom_store::memory::MemoryStore;
use strongroom_store::{SetTime, Store, Timestamp};
use strongroom_units::BlockSize;
use strongroom_vault::content::{Allocate, Content};
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Error, OpenOptions, Vault};
use support::{Rng, create_file, options, read, read_all, write};

/// One file and what it should hold.
struct Pair {
    vault: Vault,
    number: u64,
    content: Arc<Content>,
    model: Vec<u8>,
}

fn reopen(store: &Arc<dyn Store>, engine: &Arc<dyn Engine>, options: &OpenOptions, model: Vec<u8>) -> Pair {
    let vault = support::open_with(Arc::clone(store), Arc::clone(engine), options).unwrap();
    let entry = vault.namespace().lookup(ROOT, b"file").unwrap();
    assert_eq!(entry.attributes.len, model.len() as u64, "the length of a closed file");
    let opening = Opening { write: true, ..Opening::default() };
    let content = vault.namespace().open(entry.number, opening).unwrap();
    Pair { vault, number: entry.number, content, model }
}

fn random_history(suite: Suite, block_size: BlockSize, engine: Arc<dyn Engine>, seed: u64, steps: usize) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    support::create(&*store, suite, block_size);
    let options = OpenOptions { journal_len: 160 * block_size.bytes().max(16 << 10), ..options() };
    let vault = support::open_with(Arc::clone(&store), Arc::clone(&engine), &options).unwrap();
    let (entry, content) = create_file(vault.namespace(), "file");
    let mut pair = Pair { vault, number: entry.number, content, model: Vec::new() };
    let mut rng = Rng(seed);
    let span = block_size.bytes() * 300;
    for step in 0..steps {
        let offset = rng.below(span);
        let scale = rng.below(16);
        let len = 1 + rng.below(1 << scale);
        // Now and then whole blocks, many of them.
        let (offset, len) = match rng.below(6) {
            0 => (offset - offset % block_size.bytes(), (1 + rng.below(12)) * block_size.bytes()),
            _ => (offset, len),
        };
        match rng.below(20) {
            0..=8 => {
                let data: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
                write(&pair.content, offset, &data).unwrap();
                let end = (offset + len) as usize;
                if pair.model.len() < end {
                    pair.model.resize(end, 0);
                }
                pair.model[offset as usize..end].copy_from_slice(&data);
            }
            9..=11 => {
                let got = read(&pair.content, offset, len as usize).unwrap();
                let start = pair.model.len().min(offset as usize);
                let end = pair.model.len().min((offset + len) as usize);
                assert_eq!(got, pair.model[start..end], "step {step} of seed {seed}");
            }
            12 => {
                let to = if rng.below(4) == 0 { 0 } else { offset };
                pair.content.set_len(to).unwrap();
                pair.model.resize(to as usize, 0);
            }
            13 => {
                let how = if rng.below(2) == 0 { Allocate::Punch } else { Allocate::Zero { keep_len: true } };
                pair.content.allocate(how, offset, len).unwrap();
                let end = pair.model.len().min((offset + len) as usize);
                let start = end.min(offset as usize);
                pair.model[start..end].fill(0);
            }
            14..=15 => pair.content.sync().unwrap(),
            16 => pair.vault.sync().unwrap(),
            17 => check_seeks(&pair, offset),
            18 => {
                let verification = pair.content.verify(&mut |_| {}).unwrap();
                assert_eq!(verification.damage, [], "step {step} of seed {seed}");
            }
            _ => {
                let Pair { vault, number, content, model } = pair;
                drop(content);
                vault.namespace().release(number);
                vault.close().unwrap();
                drop(vault);
                pair = reopen(&store, &engine, &options, model);
            }
        }
        assert_eq!(pair.content.plain_len(), pair.model.len() as u64, "step {step} of seed {seed}");
    }
    assert!(read_all(&pair.content).unwrap() == pair.model, "the whole file, seed {seed}");
    pair.vault.close().unwrap();
}

/// Holes are never data in the model; data may be zeros.
fn check_seeks(pair: &Pair, offset: u64) {
    match pair.content.seek_data(offset) {
        Ok(data) => {
            let (start, end) = (offset as usize, data as usize);
            assert!(pair.model[start.min(end)..end].iter().all(|&byte| byte == 0));
        }
        Err(Error::Refused(6)) => {
            let start = pair.model.len().min(offset as usize);
            assert!(pair.model[start..].iter().all(|&byte| byte == 0));
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn random_histories_read_as_written_on_every_suite_and_block_size() {
    for (index, suite) in Suite::ALL.into_iter().enumerate() {
        for (at, shift) in [12, 14, 17].into_iter().enumerate() {
            let block_size = BlockSize::from_shift(shift).unwrap();
            let steps = [600, 400, 120][at];
            for round in 0..2 {
                random_history(
                    suite,
                    block_size,
                    support::engine(),
                    (index * 10 + at + 100 * round) as u64,
                    steps,
                );
            }
        }
    }
}

#[test]
fn random_histories_read_as_written_through_an_unruly_engine() {
    let engine = Arc::new(UnrulyEngine::new(support::engine(), 5, Faults::harmless()));
    random_history(Suite::Xaes256Gcm, BlockSize::MIN, engine, 77, 150);
}

#[test]
fn a_write_session_table_that_runs_full_makes_room() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
    let vault = support::open(Arc::clone(&store));
    let (entry, content) = create_file(vault.namespace(), "file");
    let mut model = vec![1; 100 * 4096];
    write(&content, 0, &model).unwrap();
    drop(content);
    vault.namespace().release(entry.number);
    vault.close().unwrap();
    for round in 0..40u64 {
        let mut pair = reopen(&store, &support::engine(), &options(), model);
        for at in [round * 2, round * 2 + 1] {
            let data = vec![round as u8; 4096];
            write(&pair.content, at * 4096, &data).unwrap();
            pair.model[(at * 4096) as usize..][..4096].copy_from_slice(&data);
        }
        assert!(read_all(&pair.content).unwrap() == pair.model, "round {round}");
        model = pair.model;
        drop(pair.content);
        pair.vault.namespace().release(pair.number);
        pair.vault.close().unwrap();
    }
}

#[test]
fn times_that_were_set_stay_through_commits_and_checkpoints() {
    let memory = MemoryStore::new();
    let store: Arc<dyn Store> = Arc::new(memory);
    support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
    let mut vault = support::open(Arc::clone(&store));
    let (entry, content) = create_file(vault.namespace(), "file");
    let mut number = entry.number;
    let mut content = Some(content);
    for round in 0..6i64 {
        let open = content.take().unwrap_or_else(|| {
            number = vault.namespace().lookup(ROOT, b"file").unwrap().number;
            vault.namespace().open(number, Opening { write: true, ..Opening::default() }).unwrap()
        });
        write(&open, 4096 * (round as u64 / 2), &[round as u8; 6000]).unwrap();
        if round == 3 {
            open.set_len(5000).unwrap();
        }
        let at = Timestamp { seconds: 1_000_000 + round, nanoseconds: 123_456_789 };
        open.set_times(SetTime::To(at), SetTime::To(at)).unwrap();
        if round % 2 == 1 {
            open.sync().unwrap();
        }
        drop(open);
        vault.namespace().release(number);
        vault.close().unwrap();
        vault = support::open(Arc::clone(&store));
        let attributes = vault.namespace().lookup(ROOT, b"file").unwrap().attributes;
        assert_eq!(attributes.modified, at, "round {round}");
    }
}

/// Whole blocks are sealed before the file is locked; when its last block has
/// to grow as well, that has been in vain.
#[test]
fn many_whole_blocks_behind_a_part_of_one() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
    let vault = support::open(store);
    let (entry, content) = create_file(vault.namespace(), "file");
    let blocks: Vec<u8> = (0..16 * 4096u32).map(|at| (at / 7) as u8).collect();
    let mut model = vec![0; 3 * 4096];
    model[..100].fill(5);
    for _ in 0..2 {
        write(&content, 0, &[5; 100]).unwrap();
        write(&content, 3 * 4096, &blocks).unwrap();
        assert!(read_all(&content).unwrap() == [&model[..], &blocks].concat());
        content.sync().unwrap();
        content.set_len(100).unwrap();
    }
    vault.namespace().release(entry.number);
}

/// Writes to the journal alone give the stored file its time; seldom, but at
/// once after the user has set another.
#[test]
fn a_write_to_the_journal_alone_changes_the_time() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
    let vault = support::open(store);
    let (entry, content) = create_file(vault.namespace(), "file");
    write(&content, 0, &[1; 4096]).unwrap();
    content.sync().unwrap();
    let modified = || vault.namespace().attributes(entry.number).unwrap().modified;
    let long_ago = Timestamp { seconds: 1_000_000, nanoseconds: 0 };
    for round in 0..3 {
        write(&content, 0, &[round; 4096]).unwrap();
        content.set_times(SetTime::Omit, SetTime::To(long_ago)).unwrap();
        assert_eq!(modified(), long_ago);
        write(&content, 0, &[round; 4096]).unwrap();
        assert!(modified() > long_ago, "round {round}");
    }
    vault.namespace().release(entry.number);
}
