//! Models of threads that share a file, a journal, the table of live contents
//! and the tree: the real code, on a store in memory, under a scheduler that
//! chooses at each lock and each atomic who goes on.
//!
//! Built by `cargo xtask model` alone, which passes `--cfg strongroom_model`.
//! A schedule that fails is printed, though what the kernel draws at random
//! (ids, nonces) differs from run to run.

mod pool;

use std::sync::Arc;

use strongroom_engine_cpu::CpuEngine;
use strongroom_format::vault::Suite;
use strongroom_model::{Schedules, draw, explore, thread};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{RenameMode, Store};
use strongroom_units::BlockSize;

use crate::content::Content;
use crate::namespace::{Namespace, Opening, ROOT};
use crate::support::{self, CREATION};
use crate::{OpenOptions, Vault};

const WRITING: Opening = Opening { write: true, truncate: false, exclusive: false, kill_suid_sgid: false };
const BLOCK: usize = 4096;

fn roomy() -> OpenOptions {
    OpenOptions { journal_len: 1 << 20, ..support::options() }
}

/// A journal that a few writes fill.
fn cramped() -> OpenOptions {
    OpenOptions { journal_len: 40 * BLOCK as u64 * 2, ..support::options() }
}

/// A store with a vault, for each order one of its own.
fn stores() -> impl Fn() -> Arc<dyn Store> + Send + Sync {
    let store = MemoryStore::new();
    support::create(&store, Suite::XChaCha20Poly1305, BlockSize::MIN);
    move || Arc::new(store.snapshot())
}

/// A vault has locks of the scheduler's: each is made in an order of its own.
fn open(store: &Arc<dyn Store>, options: &OpenOptions) -> Vault {
    support::open_with(Arc::clone(store), Arc::new(CpuEngine::new()), options).expect("it opens")
}

/// A vault with a file `file` of two blocks of ones, durable and closed.
fn base(options: OpenOptions) -> impl Fn() -> Arc<Vault> + Send + Sync {
    let store = stores();
    move || {
        let vault = open(&store(), &options);
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
    let make = base(roomy());
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
    let make = base(roomy());
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

/// Two writers of `file`, who fill a small journal together, and one who cuts
/// it meanwhile; in the end nothing is promised any more.
fn fill_the_journal(vault: &Arc<Vault>) {
    let write = |byte: u8| {
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
    let writers = [write(10), write(20)];
    with(vault.namespace(), "file", |content| {
        content.set_len(BLOCK as u64).expect("cut");
    });
    writers.into_iter().for_each(|writer| writer.join().expect("it ended"));
    with(vault.namespace(), "file", uniform);
    vault.close().expect("closed");
    assert_eq!(vault.promised(), 0, "slots are promised to nobody");
}

/// Neither do they wait for ever, nor fail. (Without a thread of its own
/// for commits, whoever needs room commits, until those who have promises are
/// done: only fair orders end.)
#[test]
fn promises_of_journal_space_are_kept_and_given_back() {
    let make = base(cramped());
    explore(Schedules::Fair, move || fill_the_journal(&make()));
}

/// The same with the thread that commits, as a daemon has it: who waits for
/// room is told of it, and closing the vault ends the thread.
#[test]
fn who_waits_for_the_committer_is_woken() {
    let make = base(OpenOptions { background: true, ..cramped() });
    explore(Schedules::Fair, move || fill_the_journal(&make()));
}

/// After a crash, a file that was never made durable is settled, also when
/// the directory that holds it is moved while the vault is swept.
#[test]
fn a_directory_that_is_moved_during_the_sweep_is_settled() {
    let store = stores();
    explore(Schedules::All, move || {
        let store = store();
        let before = open(&store, &roomy());
        let directory = |parent, name: &str| {
            before.namespace().make_directory(parent, name.as_bytes(), &CREATION).expect("made").number
        };
        let places = [directory(ROOT, "one"), directory(ROOT, "two")];
        let moving = directory(places[0], "moving");
        let names = before.namespace();
        let (_, content) = names.create(moving, b"file", &CREATION, WRITING).expect("created");
        support::write(&content, 0, &[1; 2 * BLOCK]).expect("written");
        drop(content);
        before.abandon();

        let vault = Arc::new(open(&store, &roomy()));
        assert!(vault.is_settling());
        let sweep = {
            let vault = Arc::clone(&vault);
            thread::spawn(move || vault.settle().expect("settled"))
        };
        let names = vault.namespace();
        let number = |parent, name: &str| names.lookup(parent, name.as_bytes()).expect("there").number;
        let (one, two) = (number(ROOT, "one"), number(ROOT, "two"));
        // Which of the two the sweep sees first is not known.
        let to = match draw() % 3 {
            0 => (one, "another"),
            1 => (two, "moving"),
            _ => {
                names.rename(one, b"moving", two, b"aside", RenameMode::Replace).expect("renamed");
                names.rename(two, b"aside", one, b"back", RenameMode::Replace).expect("renamed");
                (one, "back")
            }
        };
        if to.1 != "back" {
            names.rename(one, b"moving", to.0, to.1.as_bytes(), RenameMode::Replace).expect("renamed");
        }
        sweep.join().expect("it ended");
        assert!(!vault.is_settling());
        vault.close().expect("closed");
        drop(vault);

        let after = open(&store, &OpenOptions { writable: false, ..roomy() });
        let names = after.namespace();
        let number = |parent, name: &str| names.lookup(parent, name.as_bytes()).expect("there").number;
        let place = if to.0 == one { "one" } else { "two" };
        let found = names.lookup(number(number(ROOT, place), to.1), b"file");
        assert!(found.unwrap_err().is_not_found(), "what a crash explains is settled: it is taken away");
    });
}
