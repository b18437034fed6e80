//! Models of threads that share a file, a journal and the table of live
//! contents: the real code, on a store in memory, under a scheduler that
//! chooses at each lock and each atomic who goes on.
//!
//! Built by `cargo xtask model` alone, which passes `--cfg strongroom_model`.
//! A schedule that fails is printed, though what the kernel draws at random
//! (ids, nonces) differs from run to run. Sound orders that the scheduler did
//! not draw are not seen; deadlocks that it did are.

use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use strongroom_engine_cpu::CpuEngine;
use strongroom_format::vault::Suite;
use strongroom_store::memory::MemoryStore;
use strongroom_store::{RenameMode, Store};
use strongroom_units::BlockSize;

use crate::content::Content;
use crate::namespace::{Namespace, Opening, ROOT};
use crate::support;
use crate::{Options, Vault};

const WRITING: Opening = Opening { write: true, truncate: false, exclusive: false, kill_suid_sgid: false };
const BLOCK: usize = 4096;

/// Orders of each kind that are tried of each model.
fn orders() -> usize {
    std::env::var("STRONGROOM_MODEL_ORDERS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// Who goes on: anybody, or the thread of the highest priority, which changes
/// a few times. The latter finds orders that the former hardly draws, and is
/// not for stories in which somebody asks again and again until another is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Schedules {
    Fair,
    All,
}

/// Tries `story` in many orders.
fn explore(schedules: Schedules, story: impl Fn() + Send + Sync + 'static) {
    let story: Arc<dyn Fn() + Send + Sync> = Arc::new(story);
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    let random = Arc::clone(&story);
    Runner::new(RandomScheduler::new(orders()), config.clone()).run(move || random());
    if schedules == Schedules::All {
        Runner::new(PctScheduler::new(4, orders()), config).run(move || story());
    }
}

/// A vault with a file `file` of two blocks of ones, durable and closed.
fn base(journal_len: u64) -> impl Fn() -> Arc<Vault> + Send + Sync {
    let store = MemoryStore::new();
    support::create(&store, Suite::XChaCha20Poly1305, BlockSize::MIN);
    let options = Options { journal_len, ..support::options() };
    // A vault has locks of the scheduler's: each is made in an order of its own.
    move || {
        let store: Arc<dyn Store> = Arc::new(store.snapshot());
        let engine = Arc::new(CpuEngine::new());
        let vault = support::open_with(store, engine, &options).expect("it opens");
        let (entry, content) = support::create_file(vault.namespace(), "file");
        support::write(&content, 0, &[1; 2 * BLOCK]).expect("written");
        content.sync().expect("synced");
        drop(content);
        vault.namespace().release(entry.number);
        vault.namespace().forget(entry.number, 1);
        Arc::new(vault)
    }
}

/// Opens a file, does something with it, and closes it.
fn with<T>(names: &Namespace, name: &str, work: impl FnOnce(&Content) -> T) -> T {
    let entry = names.lookup(ROOT, name.as_bytes()).expect("it is there");
    let content = names.open(entry.number, WRITING).expect("it opens");
    let done = work(&content);
    drop(content);
    names.release(entry.number);
    names.forget(entry.number, 1);
    done
}

/// All of a file, which is one byte over and over.
fn uniform(content: &Content) -> (u8, usize) {
    let bytes = support::read_all(content).expect("it reads");
    let first = bytes.first().copied().unwrap_or_default();
    assert!(bytes.iter().all(|&byte| byte == first), "neither old nor new");
    (first, bytes.len())
}

/// Whoever opens a file while others write, commit and close it finds what
/// was written last, and no third.
#[test]
fn a_file_that_is_closed_while_it_is_committed_is_found_as_it_was_left() {
    let make = base(1 << 20);
    explore(Schedules::All, move || {
        let vault = make();
        let writer = {
            let vault = Arc::clone(&vault);
            thread::spawn(move || {
                with(vault.namespace(), "file", |content| {
                    support::write(content, 0, &[2; 2 * BLOCK]).expect("written");
                });
                // Closed here, with a commit under way or not.
                with(vault.namespace(), "file", |content| assert_eq!(uniform(content), (2, 2 * BLOCK)));
            })
        };
        let committer = {
            let vault = Arc::clone(&vault);
            thread::spawn(move || vault.sync().expect("synced"))
        };
        with(vault.namespace(), "file", |content| {
            let (byte, len) = uniform(content);
            assert!(len == 2 * BLOCK && (byte == 1 || byte == 2));
        });
        writer.join().expect("it ended");
        committer.join().expect("it ended");
        vault.close().expect("closed");
        with(vault.namespace(), "file", |content| assert_eq!(uniform(content), (2, 2 * BLOCK)));
    });
}

/// A rename commits what it moves without a handle of it, while the last
/// handle is closed.
#[test]
fn a_file_that_is_closed_while_a_rename_commits_it_keeps_its_length() {
    let make = base(1 << 20);
    explore(Schedules::All, move || {
        let vault = make();
        let names = vault.namespace();
        support::create_file(names, "target");
        let entry = names.lookup(ROOT, b"file").expect("there");
        let content = names.open(entry.number, WRITING).expect("it opens");
        content.set_len(BLOCK as u64).expect("cut");
        drop(content);
        let closer = {
            let vault = Arc::clone(&vault);
            thread::spawn(move || vault.namespace().release(entry.number))
        };
        names.rename(ROOT, b"file", ROOT, b"target", RenameMode::Replace).expect("renamed");
        closer.join().expect("it ended");
        with(names, "target", |content| assert_eq!(uniform(content), (1, BLOCK)));
        vault.close().expect("closed");
    });
}

/// Writers that fill a small journal together neither wait for ever nor fail,
/// and in the end nothing is promised any more. (Without a thread of its own
/// for commits, whoever needs room commits, until those who have promises are
/// done: only fair orders end.)
#[test]
fn promises_of_journal_space_are_kept_and_given_back() {
    let make = base(40 * BLOCK as u64 * 2);
    explore(Schedules::Fair, move || {
        let vault = make();
        let write = |byte: u8, vault: &Arc<Vault>| {
            let vault = Arc::clone(vault);
            thread::spawn(move || {
                for round in 0..3 {
                    with(vault.namespace(), "file", |content| {
                        support::write(content, 0, &[byte + round; 2 * BLOCK]).expect("written");
                        if round == 1 {
                            content.sync().expect("synced");
                        }
                    });
                }
            })
        };
        let writers = [write(10, &vault), write(20, &vault)];
        with(vault.namespace(), "file", |content| {
            content.set_len(BLOCK as u64).expect("cut");
        });
        writers.into_iter().for_each(|writer| writer.join().expect("it ended"));
        with(vault.namespace(), "file", uniform);
        vault.close().expect("closed");
        assert_eq!(vault.promised(), 0, "slots are promised to nobody");
    });
}
