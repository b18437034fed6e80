//! A vault that is read beside its writer: what was synced before a file was
//! opened is seen, every read is of one commit, and nothing is an error that
//! is no damage.

mod reader_model;
mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reader_model::{Trial, read_sectors, write_sectors};
use strongroom_format::vault::Suite;
use strongroom_store::local::{LocalStore, OpenMode};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{Access, Kind, NodeRef, RenameMode, Store};
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Damage, Error, OpenOptions, Result, Vault, Writers};
use support::{Rng, options, write};

/// A writer's.
const WRITING: Opening = Opening { write: true, truncate: false, exclusive: false, kill_suid_sgid: false };

fn beside(store: &Arc<dyn Store>, writers: Writers) -> Result<Vault> {
    let options = OpenOptions { writable: false, writers, ..options() };
    support::open_with(Arc::clone(store), support::engine(), &options)
}

fn memory(suite: Suite, block_size: BlockSize) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    support::create(&*store, suite, block_size);
    store
}

fn small(block_size: BlockSize) -> OpenOptions {
    OpenOptions { journal_len: 48 * block_size.bytes().max(16 << 10), ..options() }
}

/// Random histories, in which the reader looks at random moments: the writer
/// commits, empties its journal, ends, comes again, and crashes in between.
#[test]
fn every_read_is_of_one_commit_not_older_than_the_last_sync_before_the_opening() {
    for seed in 0..24 {
        let mut trial = Trial::new(seed);
        trial.play(500);
        assert!(trial.checked > 200, "history {seed} checked {} reads", trial.checked);
    }
}

/// How long the writer and its readers go on beside each other.
const TOGETHER: Duration = Duration::from_secs(4);

/// Sectors of the file that is written to at random.
const SECTORS: usize = 2400;

/// What the readers hold the file against: all its states from the first that
/// is of use on, each known before it can be committed.
#[derive(Default)]
struct States {
    states: BTreeMap<u64, Arc<Vec<u64>>>,
    next: u64,
    synced: u64,
}

struct Scratch(std::path::PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// On a real file system, from other threads, through a store of its own: one
/// file is changed and synced without end, another is replaced.
#[test]
fn readers_in_other_threads_see_whole_commits() {
    let path = std::env::temp_dir().join(format!("strongroom-readers-{}", std::process::id()));
    std::fs::create_dir(&path).expect("a directory");
    let scratch = Scratch(path);
    let store = |mode| Arc::new(LocalStore::open(&scratch.0, mode).expect("a store")) as Arc<dyn Store>;
    let writing = store(OpenMode::Writable);
    support::create(&*writing, Suite::ALL[0], BlockSize::MIN);
    let options = OpenOptions { background: true, journal_len: 4 << 20, ..options() };
    let writer = support::open_with(Arc::clone(&writing), support::engine(), &options).expect("opened");
    let reading = store(OpenMode::ReadOnly);
    let reader = beside(&reading, Writers::Present).expect("opened");
    let known = Mutex::new(States::default());
    let (replaced, ended, reads) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            change(&writer, &known, &replaced);
            ended.store(true, Ordering::Release);
        });
        for seed in 0..2 {
            let (reader, known, replaced, ended, reads) = (&reader, &known, &replaced, &ended, &reads);
            scope.spawn(move || {
                let mut rng = Rng(seed);
                while !ended.load(Ordering::Acquire) {
                    compare(reader, known, &mut rng);
                    whole(reader, replaced);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    writer.close().expect("closed");
    let reads = reads.into_inner();
    assert!(reads > 50 && replaced.into_inner() > 5, "{reads} reads are too few to tell anything");
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writer: changes `random`, and puts whole files in the place of `whole`.
fn change(vault: &Vault, known: &Mutex<States>, replaced: &AtomicU64) {
    let names = vault.namespace();
    let (entry, content) = support::create_file(names, "random");
    let mut rng = Rng(7);
    let mut state: Vec<u64> = Vec::new();
    let begun = Instant::now();
    for stamp in 1.. {
        if begun.elapsed() > TOGETHER {
            break;
        }
        let from = rng.below(SECTORS as u64) as usize;
        let len = 1 + rng.below(200) as usize;
        let cut = rng.below(12) == 0;
        match cut {
            true => state.truncate(from),
            false => {
                state.resize(state.len().max(from + len), 0);
                state[from..from + len].fill(stamp);
            }
        }
        {
            let mut known = locked(known);
            known.next = stamp;
            known.states.insert(stamp, Arc::new(state.clone()));
        }
        match cut {
            true => content.set_len(state.len() as u64 * 512).expect("cut"),
            false => write_sectors(&content, from, &state[from..from + len]).expect("written"),
        }
        if rng.below(3) == 0 {
            content.sync().expect("synced");
            let mut known = locked(known);
            known.synced = stamp;
            // Readers that began before are long gone.
            known.states = known.states.split_off(&stamp.saturating_sub(4000));
        }
        if rng.below(40) == 0 {
            replace(vault, stamp);
            replaced.store(stamp, Ordering::Release);
        }
    }
    names.release(entry.number);
}

/// Puts a file whose sectors all hold `stamp` in the place of `whole`.
fn replace(vault: &Vault, stamp: u64) {
    let names = vault.namespace();
    let (entry, content) = support::create_file(names, "new");
    write_sectors(&content, 0, &vec![stamp; 300]).expect("written");
    content.sync().expect("synced");
    names.rename(ROOT, b"new", ROOT, b"whole", RenameMode::Replace).expect("renamed");
    names.release(entry.number);
    names.forget(entry.number, 1);
}

/// Opens `random`, and reads it here and there: each read is of one state, not
/// older than the last sync before the opening.
fn compare(vault: &Vault, known: &Mutex<States>, rng: &mut Rng) {
    let names = vault.namespace();
    let since = locked(known).synced;
    let Ok(entry) = names.lookup(ROOT, b"random") else { return };
    let content = names.open(entry.number, Opening::default()).expect("opened");
    for _ in 0..4 {
        let from = rng.below(SECTORS as u64) as usize;
        let len = 1 + rng.below(400) as usize;
        let read = read_sectors(&content, from, len).expect("read");
        let known = locked(known);
        let is =
            |state: &Arc<Vec<u64>>| state[from.min(state.len())..(from + len).min(state.len())] == read[..];
        let found =
            (since == 0 && read.is_empty()) || known.states.range(since..).any(|(_, state)| is(state));
        assert!(found, "sectors {from}..{} since {since}: {read:?}", from + len);
        let size = names.attributes(entry.number).expect("asked").len;
        let is_size = |state: &Arc<Vec<u64>>| state.len() as u64 * 512 == size;
        assert!(since == 0 || known.states.range(since..).any(|(_, state)| is_size(state)), "{size}");
    }
    names.release(entry.number);
    names.forget(entry.number, 1);
}

/// Opens `whole`: it is one of the files that were put there, not an older one
/// than was there before, and all of it.
fn whole(vault: &Vault, replaced: &AtomicU64) {
    let names = vault.namespace();
    let least = replaced.load(Ordering::Acquire);
    let entry = match names.lookup(ROOT, b"whole") {
        Err(error) if error.is_not_found() && least == 0 => return,
        found => found.expect("there is always one"),
    };
    match names.open(entry.number, Opening::default()) {
        Ok(content) => {
            match read_sectors(&content, 0, 301) {
                Ok(read) => {
                    assert_eq!(read.len(), 300);
                    assert!(read[0] >= least && read.iter().all(|&stamp| stamp == read[0]), "{read:?}");
                }
                // It was removed since it was opened.
                Err(error) => assert_eq!(error, Error::Refused(116), "reading"),
            }
            names.release(entry.number);
        }
        Err(error) => assert_eq!(error, Error::Refused(116), "opening"),
    }
    names.forget(entry.number, 1);
}

/// The one stored file at the top.
fn stored_file(store: &Arc<dyn Store>) -> NodeRef {
    let top = store.root();
    let nodes = top.entries().unwrap().into_iter().map(|entry| top.lookup(&entry.name).unwrap());
    nodes.into_iter().find(|node| node.kind() == Kind::File).expect("a file")
}

/// A bit turned over in a stored file.
fn spoil(node: &NodeRef, offset: u64) {
    let file = node.open(Access::ReadWrite).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, offset).unwrap();
    file.write_at(&[byte[0] ^ 1], offset).unwrap();
}

/// The vault beside a writer, with a file of three groups that is home.
fn spoilt(offset: u64) -> (Arc<dyn Store>, Vault, Vault) {
    let store = memory(Suite::ALL[0], BlockSize::MIN);
    let writer = support::open_with(Arc::clone(&store), support::engine(), &small(BlockSize::MIN)).unwrap();
    let (entry, content) = support::create_file(writer.namespace(), "file");
    write(&content, 0, &vec![1; 300 * 4096]).unwrap();
    content.sync().unwrap();
    writer.namespace().release(entry.number);
    spoil(&stored_file(&store), offset);
    let reader = beside(&store, Writers::Present).unwrap();
    (store, writer, reader)
}

#[test]
fn damage_beside_a_writer_is_damage() {
    // A block, a node page, the header page.
    for (offset, of_block) in [(4096 + 5 * 4096 + 100, true), (129 * 4096 + 2000, false), (2000, false)] {
        let (_store, _writer, reader) = spoilt(offset);
        let entry = reader.namespace().lookup(ROOT, b"file").unwrap();
        let read = reader.namespace().open(entry.number, Opening::default());
        let read = read.and_then(|content| support::read(&content, 0, 200 * 4096));
        match read.expect_err("it is damaged") {
            Error::Damaged(Damage::Blocks { first, blocks, .. }) => {
                assert!(of_block && first.0 == 5 && blocks == 1, "{first:?}");
            }
            Error::Damaged(Damage::Page(_)) => assert!(!of_block),
            error => panic!("{error}"),
        }
    }
}

/// A durable record that does not open any more, with a later one behind it.
#[test]
fn a_damaged_journal_beside_a_writer_is_damage() {
    let store = memory(Suite::ALL[0], BlockSize::MIN);
    let writer = support::open_with(Arc::clone(&store), support::engine(), &small(BlockSize::MIN)).unwrap();
    let (_, content) = support::create_file(writer.namespace(), "file");
    for stamp in 0..4 {
        write(&content, 0, &[stamp; 4096]).unwrap();
        content.sync().unwrap();
    }
    let reader = beside(&store, Writers::Present).unwrap();
    let entry = reader.namespace().lookup(ROOT, b"file").unwrap();
    let journal = {
        let private = store.root().lookup(b".strongroom").unwrap();
        let names = private.entries().unwrap().into_iter().map(|entry| entry.name);
        let name = names.into_iter().find(|name| name.starts_with(b"journal.") && name.ends_with(b".0"));
        private.lookup(&name.expect("a journal")).unwrap()
    };
    // What was read before it was spoilt is known; a new reader is told.
    let record = record_at(&journal, 2);
    spoil(&journal, record + 80);
    let opened = reader.namespace().open(entry.number, Opening::default());
    assert_eq!(support::read(&opened.unwrap(), 0, 4096).unwrap(), vec![3; 4096]);
    match beside(&store, Writers::Present).map(drop).expect_err("it is damaged") {
        Error::Damaged(Damage::Journal(_)) => {}
        error => panic!("{error}"),
    }
}

/// Where the record of this sequence number begins.
fn record_at(journal: &NodeRef, sequence: u64) -> u64 {
    let file = journal.open(Access::Read).unwrap();
    let mut clear = [0; 24];
    let slots = file.len().unwrap() / 4096;
    (1..slots)
        .map(|slot| slot * 4096)
        .find(|&offset| {
            file.read_at(&mut clear, offset).unwrap();
            clear.starts_with(b"SRjr") && clear[16..24] == sequence.to_le_bytes()
        })
        .expect("the record")
}

/// A reader that was there first sees what a writer does that comes later, and
/// goes, and comes again.
#[test]
fn a_writer_may_come_and_go() {
    let store = memory(Suite::ALL[0], BlockSize::MIN);
    let open = || support::open_with(Arc::clone(&store), support::engine(), &small(BlockSize::MIN)).unwrap();
    let reader = beside(&store, Writers::MayCome).unwrap();
    let names = reader.namespace();
    for round in 1..4u8 {
        assert!(!reader.has_writer());
        let writer = open();
        let opening = Opening { write: true, ..Opening::default() };
        let (entry, content) = writer.namespace().create(ROOT, b"file", &support::CREATION, opening).unwrap();
        // Of what nobody has committed, nothing is seen.
        let before = names.lookup(ROOT, b"file").unwrap();
        assert_eq!(before.attributes.len, u64::from(round - 1) * 4096);
        write(&content, 0, &vec![round; usize::from(round) * 4096]).unwrap();
        assert_eq!(names.attributes(before.number).unwrap().len, u64::from(round - 1) * 4096);
        assert!(reader.has_writer());
        content.sync().unwrap();
        assert_eq!(names.attributes(before.number).unwrap().len, u64::from(round) * 4096);
        let found = names.open(before.number, Opening::default()).unwrap();
        assert!(support::read(&found, 0, 8 * 4096).unwrap().iter().all(|&byte| byte == round));
        writer.namespace().release(entry.number);
        match round {
            2 => writer.abandon(),
            _ => writer.close().unwrap(),
        }
        assert!(support::read(&found, 0, 8 * 4096).unwrap().iter().all(|&byte| byte == round));
        names.release(before.number);
        names.forget(before.number, 1);
        if round == 2 {
            // Its session is listed until somebody recovers it.
            open().close().unwrap();
        }
        names.lookup(ROOT, b"file").unwrap();
    }
}

/// The file of a lookup is removed before it is opened; an open one is read
/// until its blocks are used for something else.
#[test]
fn what_is_removed_is_stale_and_not_damaged() {
    let store = memory(Suite::ALL[0], BlockSize::MIN);
    let writer = support::open_with(Arc::clone(&store), support::engine(), &small(BlockSize::MIN)).unwrap();
    let reader = beside(&store, Writers::Present).unwrap();
    let (_, content) = support::create_file(writer.namespace(), "file");
    write(&content, 0, &vec![1; 8 * 4096]).unwrap();
    content.sync().unwrap();
    let entry = reader.namespace().lookup(ROOT, b"file").unwrap();
    let open = reader.namespace().open(entry.number, Opening::default()).unwrap();
    writer.namespace().remove(ROOT, b"file").unwrap();
    // Uncommitted, and of a file that is gone: it reaches its home unrecorded.
    write(&content, 0, &vec![2; 8 * 4096]).unwrap();
    let (other, busy) = support::create_file(writer.namespace(), "busy");
    for stamp in 0..200u8 {
        write(&busy, 0, &vec![stamp; 4 * 4096]).unwrap();
        busy.sync().unwrap();
    }
    match support::read(&open, 0, 8 * 4096) {
        Ok(read) => assert!(read.iter().all(|&byte| byte == 1)),
        Err(error) => assert_eq!(error, Error::Refused(116)),
    }
    writer.namespace().release(other.number);
    let gone = reader.namespace().lookup(ROOT, b"file").map(drop).expect_err("removed");
    assert!(gone.is_not_found());
}

/// A version that goes back while the file is open is nobody's commit.
#[test]
fn a_file_that_goes_back_while_it_is_read_is_an_error() {
    const LEN: usize = 300 * 4096;
    let store = memory(Suite::ALL[0], BlockSize::MIN);
    let change = |byte: u8| {
        let writer = support::open_with(Arc::clone(&store), support::engine(), &options()).unwrap();
        let names = writer.namespace();
        let content = match names.lookup(ROOT, b"file") {
            Ok(entry) => names.open(entry.number, WRITING).unwrap(),
            Err(_) => names.create(ROOT, b"file", &support::CREATION, WRITING).unwrap().1,
        };
        write(&content, 0, &vec![byte; LEN]).unwrap();
        writer.close().unwrap();
    };
    let stored = || {
        let root = store.root();
        let entries = root.entries().unwrap().into_iter();
        let mut files =
            entries.filter_map(|entry| root.lookup(&entry.name).ok()?.open(Access::ReadWrite).ok());
        files.find(|file| file.len().unwrap() as usize > LEN).expect("the stored file")
    };
    change(1);
    let mut before = vec![0; stored().len().unwrap() as usize];
    stored().read_at(&mut before, 0).unwrap();
    change(2);
    let reader = beside(&store, Writers::MayCome).unwrap();
    let entry = reader.namespace().lookup(ROOT, b"file").unwrap();
    let open = reader.namespace().open(entry.number, Opening::default()).unwrap();
    assert!(support::read(&open, 0, 4096).unwrap() == [2; 4096]);
    stored().write_at(&before, 0).unwrap();
    let read = support::read(&open, 200 * 4096, 4096);
    assert!(matches!(read, Err(Error::Damaged(Damage::Page(_)))), "{:?}", read.map(|bytes| bytes[0]));
    drop(open);
    reader.namespace().release(entry.number);
    reader.namespace().forget(entry.number, 1);
    let entry = reader.namespace().lookup(ROOT, b"file").unwrap();
    let open = reader.namespace().open(entry.number, Opening::default()).unwrap();
    assert!(support::read(&open, 200 * 4096, 4096).unwrap() == [1; 4096]);
}
