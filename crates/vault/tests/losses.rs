//! A store whose barriers fail again and again, each time with what they should have made durable lost: who
//! synced is told, and what was synced before or afterwards is there, also when the power fails in the end.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use strongroom_format::vault::Suite;
use strongroom_store::faulty::{Call, EVERYTHING, Effect, FaultyStore, NOTHING, Plan};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{RenameMode, Store};
use strongroom_units::BlockSize;
use strongroom_vault::content::Content;
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Error, OpenOptions, Vault};
use support::{Rng, options, read_all, write};

const BLOCK: u64 = 4096;
const EIO: i32 = 5;
const ENOENT: i32 = 2;
const ESTALE: i32 = 116;

/// A block: what it may hold.
type Allowed = Vec<u8>;

struct Trial {
    store: Arc<FaultyStore>,
    vault: Vault,
    rng: Rng,
    files: BTreeMap<String, (Arc<Content>, Vec<Allowed>)>,
    next: u8,
    /// A file whose making failed is made again.
    unmade: Option<(String, u64)>,
    log: Vec<String>,
}

fn open(store: Arc<dyn Store>) -> Vault {
    let options = OpenOptions { journal_len: 8 << 20, ..options() };
    support::open_with(store, support::engine(), &options).unwrap()
}

impl Trial {
    fn new(seed: u64) -> Trial {
        let memory = MemoryStore::new();
        support::create(&memory, Suite::Xaes256Gcm, BlockSize::MIN);
        let store = Arc::new(FaultyStore::new(memory));
        let vault = open(Arc::clone(&store) as Arc<dyn Store>);
        vault.sync().unwrap();
        Trial { store, vault, rng: Rng(seed), files: BTreeMap::new(), next: 1, unmade: None, log: Vec::new() }
    }

    fn byte(&mut self) -> u8 {
        self.next = self.next % 250 + 1;
        self.next
    }

    fn step(&mut self, number: usize) {
        if self.rng.below(6) == 0 {
            let call = [Call::SyncData, Call::SyncAll, Call::SyncStore][self.rng.below(3) as usize];
            self.store.heal();
            let plan = Plan { effect: Effect::LosesUnsynced(EIO), ..Plan::once(self.rng.below(3), EIO) };
            self.store.fail(plan.of(call));
            self.log.push(format!("{number}: {call:?} is going to lose"));
        }
        match self.rng.below(10) {
            _ if self.unmade.is_some() || self.files.len() < 2 => self.make(number),
            0 if self.files.len() < 12 => self.make(number),
            1 => {
                let synced = self.vault.sync().is_ok();
                self.log.push(format!("{number}: sync of all {synced}"));
            }
            _ => self.overwrite(number),
        }
    }

    fn make(&mut self, number: usize) {
        let planned = (format!("file {}", self.files.len()), 1 + self.rng.below(60));
        let (name, blocks) = self.unmade.take().unwrap_or(planned);
        let byte = self.byte();
        let names = self.vault.namespace();
        let opening = Opening { write: true, truncate: true, ..Opening::default() };
        let content = match names.lookup(ROOT, name.as_bytes()) {
            Ok(entry) => names.open(entry.number, opening),
            Err(_) => Ok(support::create_file(names, &name).1),
        };
        let made = content.and_then(|content| {
            write(&content, 0, &vec![byte; (blocks * BLOCK) as usize])?;
            content.sync()?;
            Ok(content)
        });
        self.log.push(format!("{number}: {name} of {blocks} as {byte}: {}", made.is_ok()));
        match made {
            Ok(content) => drop(self.files.insert(name, (content, vec![vec![byte]; blocks as usize]))),
            Err(Error::Damaged(damage)) => panic!("{number}: {name} does not open: {damage:?}"),
            Err(_) => self.unmade = Some((name, blocks)),
        }
    }

    fn overwrite(&mut self, number: usize) {
        let index = self.rng.below(self.files.len() as u64) as usize;
        let name = self.files.keys().nth(index).unwrap().clone();
        let byte = self.byte();
        let (first, count) = (self.rng.below(60), 1 + self.rng.below(6));
        let (content, allowed) = self.files.get_mut(&name).unwrap();
        let first = first % allowed.len() as u64;
        let count = count.min(allowed.len() as u64 - first);
        let range = first as usize..(first + count) as usize;
        allowed[range.clone()].iter_mut().for_each(|block| block.push(byte));
        let data = vec![byte; (count * BLOCK) as usize];
        let synced = write(content, first * BLOCK, &data)
            .and_then(|()| if byte.is_multiple_of(2) { content.sync() } else { content.sync_data() });
        self.log.push(format!("{number}: {name} {range:?} as {byte}: {}", synced.is_ok()));
        if synced.is_ok() {
            allowed[range].iter_mut().for_each(|block| *block = vec![byte]);
        }
    }
}

/// Every file has to be there, and each block to hold what it may.
fn compare(files: &[(&str, &Vec<Allowed>)], vault: &Vault, what: &str) {
    for (name, allowed) in files {
        let fail = |why: &dyn std::fmt::Display| -> ! { panic!("{what}: {name}: {why}") };
        let entry = vault.namespace().lookup(ROOT, name.as_bytes()).unwrap_or_else(|error| fail(&error));
        let content = vault.namespace().open(entry.number, Opening::default());
        let content = content.unwrap_or_else(|error| fail(&error));
        let found = read_all(&content).unwrap_or_else(|error| fail(&error));
        assert_eq!(found.len() as u64, allowed.len() as u64 * BLOCK, "{what}: {name}");
        for (index, (block, allowed)) in found.chunks(BLOCK as usize).zip(*allowed).enumerate() {
            if !allowed.iter().any(|byte| block.iter().all(|found| found == byte)) {
                fail(&format!("block {index} is {} and not one of {allowed:?}", block[0]));
            }
        }
    }
}

fn check_power_cuts(store: &FaultyStore, files: &[(&str, &Vec<Allowed>)], what: &str) {
    for image in [NOTHING, EVERYTHING, 5, 11] {
        let vault = open(Arc::new(store.image(store.position(), image)));
        compare(files, &vault, &format!("{what}, after a power cut"));
        vault.close().unwrap();
    }
}

#[test]
fn what_was_synced_before_and_after_a_loss_is_there() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40);
    for seed in 0..seeds {
        let mut trial = Trial::new(seed);
        (0..120).for_each(|number| trial.step(number));
        trial.store.heal();
        // What was lost of an overwrite reads as damaged until a commit; the first may tell of what failed before.
        let _ = trial.vault.sync();
        trial.vault.sync().unwrap();
        let files: Vec<_> = trial.files.iter().map(|(name, (_, allowed))| (name.as_str(), allowed)).collect();
        let what = format!("seed {seed}: {}", trial.log.join("\n"));
        compare(&files, &trial.vault, &what);
        check_power_cuts(&trial.store, &files, &what);
    }
}

/// Overwrites its own files, syncs each time, and tells what each block may hold.
fn overwrite_and_sync(vault: &Vault, writer: u64, rng: &mut Rng) -> Vec<(String, Vec<Allowed>)> {
    let make = |file: u64, rng: &mut Rng| {
        let name = format!("file {writer} {file}");
        let content = support::create_file(vault.namespace(), &name).1;
        let blocks = 1 + rng.below(200);
        let mut attempts = 0;
        while let Err(error) =
            write(&content, 0, &vec![7; (blocks * BLOCK) as usize]).and_then(|()| content.sync())
        {
            attempts += 1;
            assert!(attempts < 50, "{name}: {error:?}");
        }
        (name, content, vec![vec![7]; blocks as usize])
    };
    let mut files: Vec<_> = (0..3).map(|file| make(file, rng)).collect();
    for byte in 0..150 {
        let (_, content, allowed) = &mut files[rng.below(3) as usize];
        let first = rng.below(allowed.len() as u64);
        let count = (1 + rng.below(6)).min(allowed.len() as u64 - first);
        let range = first as usize..(first + count) as usize;
        allowed[range.clone()].iter_mut().for_each(|block| block.push(byte));
        let synced = write(content, first * BLOCK, &vec![byte; (count * BLOCK) as usize])
            .and_then(|()| if byte.is_multiple_of(2) { content.sync() } else { content.sync_data() });
        if synced.is_ok() {
            allowed[range].iter_mut().for_each(|block| *block = vec![byte]);
        }
    }
    files.into_iter().map(|(name, _, allowed)| (name, allowed)).collect()
}

/// Lets barriers lose what they should cover, now and then.
fn lose(store: &FaultyStore, rng: &mut Rng) {
    let call = [Call::SyncData, Call::SyncAll, Call::SyncStore][rng.below(3) as usize];
    let plan = Plan { effect: Effect::LosesUnsynced(EIO), ..Plan::once(rng.below(3), EIO) };
    store.fail(plan.of(call));
    std::thread::sleep(Duration::from_millis(20 + rng.below(40)));
    store.heal();
}

/// The same by several threads, beside one that syncs everything: what one barrier has lost another may be told
/// of, and what a third one covers may have been lost by the first.
#[test]
fn so_it_is_when_several_write_and_somebody_syncs_everything() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(15);
    for seed in 0..seeds {
        let memory = MemoryStore::new();
        support::create(&memory, Suite::Xaes256Gcm, BlockSize::MIN);
        let store = Arc::new(FaultyStore::new(memory));
        let vault = open(Arc::clone(&store) as Arc<dyn Store>);
        vault.sync().unwrap();
        let files: Vec<(String, Vec<Allowed>)> = std::thread::scope(|scope| {
            let (done, vault, store) = (Arc::new(()), &vault, &*store);
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    scope.spawn(move || overwrite_and_sync(vault, writer, &mut Rng(seed * 10 + writer)))
                })
                .collect();
            let works = Arc::downgrade(&done);
            let still = works.clone();
            scope.spawn(move || {
                while works.strong_count() > 0 {
                    let _ = vault.sync();
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            scope.spawn(move || {
                let mut rng = Rng(seed);
                while still.strong_count() > 0 {
                    lose(store, &mut rng);
                }
            });
            let files: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            drop(done);
            files.into_iter().flat_map(Result::unwrap).collect()
        });
        store.heal();
        let _ = vault.sync();
        vault.sync().unwrap();
        let files: Vec<_> = files.iter().map(|(name, allowed)| (name.as_str(), allowed)).collect();
        compare(&files, &vault, &format!("seed {seed}"));
        check_power_cuts(&store, &files, &format!("seed {seed}"));
    }
}

/// A vault on a store of which barriers are to lose what they should cover, and a file that was closed unsynced.
fn released(blocks: &[u8]) -> (Arc<FaultyStore>, Vault, u64) {
    let memory = MemoryStore::new();
    support::create(&memory, Suite::Xaes256Gcm, BlockSize::MIN);
    let store = Arc::new(FaultyStore::new(memory));
    let vault = open(Arc::clone(&store) as Arc<dyn Store>);
    vault.sync().unwrap();
    let (entry, content) = support::create_file(vault.namespace(), "file");
    for (at, &byte) in blocks.iter().enumerate() {
        write(&content, at as u64 * BLOCK, &vec![byte; BLOCK as usize]).unwrap();
    }
    drop(content);
    vault.namespace().release(entry.number);
    (store, vault, entry.number)
}

fn reopened(vault: &Vault, number: u64) -> Arc<Content> {
    vault.namespace().open(number, Opening { write: true, ..Opening::default() }).unwrap()
}

fn lose_once(store: &FaultyStore, call: Call) {
    store.heal();
    store.fail(Plan { effect: Effect::LosesUnsynced(EIO), ..Plan::once(0, EIO) }.of(call));
}

fn is_io_error<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Store(error)) if error.errno() == EIO)
}

/// Who closes a file that has lost blocks does not make it whole.
#[test]
fn what_is_written_to_a_file_that_lost_something_and_was_closed_is_there() {
    let (store, vault, number) = released(&[7, 8]);
    vault.sync().unwrap();
    let content = reopened(&vault, number);
    write(&content, 2 * BLOCK, &[9; BLOCK as usize]).unwrap();
    lose_once(&store, Call::SyncAll);
    assert!(is_io_error(content.sync()));
    store.heal();
    drop(content);
    vault.namespace().release(number);
    let content = reopened(&vault, number);
    write(&content, 2 * BLOCK, &[9; BLOCK as usize]).unwrap();
    content.sync().unwrap();
    for image in [NOTHING, EVERYTHING, 3, 8] {
        let vault = open(Arc::new(store.image(store.position(), image)));
        let entry = vault.namespace().lookup(ROOT, b"file").unwrap();
        let found = read_all(&vault.namespace().open(entry.number, Opening::default()).unwrap()).unwrap();
        assert_eq!(found[2 * BLOCK as usize..], [9; BLOCK as usize]);
    }
}

/// What stands in the journal of a file that was never durable is of no use without its header page.
#[test]
fn a_header_page_that_is_lost_is_written_again_where_a_replay_looks_for_it() {
    let (store, vault, number) = released(&[7, 8, 9]);
    let content = reopened(&vault, number);
    write(&content, BLOCK, &[1; BLOCK as usize]).unwrap();
    lose_once(&store, Call::SyncAll);
    assert!(is_io_error(content.sync()));
    store.heal();
    for (at, byte) in [7, 1, 9].into_iter().enumerate() {
        write(&content, at as u64 * BLOCK, &vec![byte; BLOCK as usize]).unwrap();
    }
    content.sync().unwrap();
    for image in [NOTHING, EVERYTHING, 3, 8] {
        let vault = open(Arc::new(store.image(store.position(), image)));
        let entry = vault.namespace().lookup(ROOT, b"file").unwrap();
        let found = read_all(&vault.namespace().open(entry.number, Opening::default()).unwrap()).unwrap();
        let expected: Vec<u8> = [7, 1, 9].into_iter().flat_map(|byte| vec![byte; BLOCK as usize]).collect();
        assert!(found == expected, "image {image}");
    }
}

/// A file that a barrier of the store has covered while it was open is not taken for one that was never durable.
#[test]
fn what_who_syncs_all_was_promised_is_there_after_a_later_loss_and_a_power_cut() {
    for of_store in [false, true] {
        let (store, vault, number) = released(&[7, 8]);
        let content = reopened(&vault, number);
        vault.sync().unwrap();
        let promised = store.position();
        write(&content, 2 * BLOCK, &[9; BLOCK as usize]).unwrap();
        if of_store {
            make_and_close(&vault, "other");
            lose_once(&store, Call::SyncStore);
            vault.sync().unwrap_err();
        } else {
            lose_once(&store, Call::SyncAll);
        }
        assert!(is_io_error(content.sync()));
        store.heal();
        write(&content, 2 * BLOCK, &[9; BLOCK as usize]).unwrap();
        content.sync().unwrap();
        for position in promised..=store.position() {
            for image in [NOTHING, EVERYTHING, 3, 8, 21] {
                let vault = open(Arc::new(store.image(position, image)));
                let entry = vault.namespace().lookup(ROOT, b"file").unwrap();
                let content = vault.namespace().open(entry.number, Opening::default());
                let content = content.unwrap_or_else(|error| panic!("{position}, image {image}: {error:?}"));
                let found = support::read(&content, 0, 2 * BLOCK as usize).unwrap();
                assert!(found[..BLOCK as usize] == [7; BLOCK as usize], "{position}, image {image}");
                assert!(found[BLOCK as usize..] == [8; BLOCK as usize], "{position}, image {image}");
            }
        }
    }
}

/// As after a crash: what was never durable is whole or is not there.
fn is_whole_or_gone(store: Arc<FaultyStore>, name: &str, expected: &[u8]) {
    store.heal();
    let vault = open(store);
    match vault.namespace().lookup(ROOT, name.as_bytes()) {
        Ok(entry) => {
            let content = vault.namespace().open(entry.number, Opening::default()).unwrap();
            assert!(read_all(&content).is_ok_and(|found| found == expected));
        }
        Err(error) => assert_eq!(error.errno(), ENOENT),
    }
    vault.close().unwrap();
}

/// What is lost of a file that is open, and that nobody syncs, is told when the vault is closed. Whoever has synced
/// the file knows.
#[test]
fn who_closes_a_vault_is_told_what_is_lost_of_open_files() {
    for is_told in [false, true] {
        let (store, vault, _) = released(&[7, 8]);
        vault.sync().unwrap();
        let (entry, content) = support::create_file(vault.namespace(), "new");
        write(&content, 0, &[1; BLOCK as usize]).unwrap();
        lose_once(&store, Call::SyncData);
        vault.sync().unwrap_err();
        // What a later barrier covers does not come back.
        vault.sync().unwrap();
        if is_told {
            assert!(is_io_error(content.sync()));
        }
        drop(content);
        vault.namespace().release(entry.number);
        // An error that is over, and of which all are told that it concerns.
        store.heal();
        store.fail(Plan::once(0, EIO).of(Call::SyncStore));
        let before = store.fired();
        assert_eq!(is_io_error(vault.close()), !is_told);
        assert_eq!(store.fired(), before + 1);
    }
}

/// What is lost of a file that nobody synced is told at the latest when the vault is closed, and the next session
/// looks for it.
#[test]
fn who_closes_a_vault_is_told_what_is_lost_of_closed_files() {
    for is_noticed_before in [false, true] {
        let (store, vault, _) = released(&[7, 8]);
        lose_once(&store, Call::SyncStore);
        if is_noticed_before {
            // What a later barrier covers does not come back.
            vault.sync().unwrap_err();
            vault.sync().unwrap();
        }
        assert!(is_io_error(vault.close()));
        is_whole_or_gone(store, "file", &[[7; BLOCK as usize], [8; BLOCK as usize]].concat());
    }
}

/// What the kernel forgets is still lost; what somebody removes is not.
#[test]
fn a_loss_ends_with_the_file_alone() {
    let (store, vault, number) = released(&[7, 8]);
    lose_once(&store, Call::SyncStore);
    vault.sync().unwrap_err();
    store.heal();
    vault.namespace().forget(number, 1);
    assert!(is_io_error(vault.close()), "forgotten");

    let (store, vault, number) = released(&[7, 8]);
    lose_once(&store, Call::SyncStore);
    vault.sync().unwrap_err();
    store.heal();
    vault.namespace().forget(number, 1);
    vault.namespace().remove(ROOT, b"file").unwrap();
    vault.close().expect("removed");
}

/// What a barrier of the store loses of a file that was never durable, and that nobody has open, is lost whole, as in
/// a crash: its name is free.
#[test]
fn a_closed_file_that_is_lost_is_not_there_and_may_be_made_again() {
    for is_listed in [false, true] {
        let (store, vault, number) = released(&[7, 8]);
        lose_once(&store, Call::SyncStore);
        vault.sync().unwrap_err();
        vault.sync().unwrap();
        let names = vault.namespace();
        // The kernel looks it up again, since it knows the name.
        let opening = Opening { write: true, truncate: true, ..Opening::default() };
        assert_eq!(names.open(number, opening).err().map(|error| error.errno()), Some(ESTALE));
        if is_listed {
            assert!(listed(&vault).is_empty());
        } else {
            assert_eq!(names.lookup(ROOT, b"file").err().map(|error| error.errno()), Some(ENOENT));
        }
        let content = support::create_file(names, "file").1;
        write(&content, 0, &[9; BLOCK as usize]).unwrap();
        content.sync().unwrap();
        for image in [NOTHING, EVERYTHING, 3, 8] {
            is_there_after_a_power_cut(&store, image, &[9; BLOCK as usize]);
        }
        assert_eq!(listed(&vault), ["file"]);
    }
}

/// Whatever a power cut keeps: the file is there.
fn is_there_after_a_power_cut(store: &FaultyStore, image: u64, expected: &[u8]) {
    let vault = open(Arc::new(store.image(store.position(), image)));
    let entry = vault.namespace().lookup(ROOT, b"file").unwrap();
    let found = read_all(&vault.namespace().open(entry.number, Opening::default()).unwrap()).unwrap();
    assert!(found == expected, "image {image}");
}

fn listed(vault: &Vault) -> Vec<String> {
    let names = vault.namespace();
    let directory = names.open_directory(ROOT).unwrap();
    let mut found = Vec::new();
    names
        .read_directory(&directory, 0, &mut |item| {
            found.push(String::from_utf8(item.name.to_vec()).unwrap());
            true
        })
        .unwrap();
    found.retain(|name| name != "." && name != "..");
    found
}

/// A barrier that fails need not lose anything.
#[test]
fn a_closed_file_that_is_not_lost_stays() {
    let (store, vault, number) = released(&[7, 8]);
    store.fail(Plan::once(0, EIO).of(Call::SyncStore));
    vault.sync().unwrap_err();
    assert_eq!(listed(&vault), ["file"]);
    let content = reopened(&vault, number);
    let expected = [[7; BLOCK as usize], [8; BLOCK as usize]].concat();
    assert!(read_all(&content).unwrap() == expected);
    assert!(is_io_error(content.sync()), "told of the barrier");
    content.sync().unwrap();
    for image in [NOTHING, EVERYTHING, 3, 8] {
        is_there_after_a_power_cut(&store, image, &expected);
    }
}

/// Only what was never durable is taken for lost: what was synced and is spoilt is an error.
#[test]
fn what_was_durable_is_not_taken_for_lost() {
    for by_sync_of_all in [false, true] {
        let (store, vault, number) = released(&[7, 8]);
        if by_sync_of_all {
            vault.sync().unwrap();
        } else {
            let content = reopened(&vault, number);
            content.sync().unwrap();
            drop(content);
            vault.namespace().release(number);
        }
        make_and_close(&vault, "other");
        lose_once(&store, Call::SyncStore);
        vault.sync().unwrap_err();
        store.heal();
        let node = stored_file(&*store, 3 * BLOCK);
        node.open(strongroom_store::Access::ReadWrite).unwrap().set_len(0).unwrap();
        assert_eq!(vault.namespace().open(number, Opening::default()).err().map(|e| e.errno()), Some(EIO));
        assert!(listed(&vault).contains(&"file".to_owned()));
    }
}

/// The stored file with at least so many bytes.
fn stored_file(store: &dyn Store, least: u64) -> strongroom_store::NodeRef {
    let root = store.root();
    let mut entries = root.entries().unwrap().into_iter().map(|entry| root.lookup(&entry.name).unwrap());
    let is_it = |node: &strongroom_store::NodeRef| {
        node.kind() == strongroom_store::Kind::File && node.attributes().unwrap().len >= least
    };
    entries.find(is_it).expect("stored")
}

/// A symlink is a record in a stored file of its own.
#[test]
fn a_symlink_that_is_lost_is_not_there_and_may_be_made_again() {
    let (store, vault, _) = released(&[7]);
    vault.sync().unwrap();
    let link = || vault.namespace().make_symlink(ROOT, b"link", b"target", &support::CREATION);
    let made = link().unwrap();
    lose_once(&store, Call::SyncStore);
    vault.sync().unwrap_err();
    vault.sync().unwrap();
    vault.namespace().forget(made.number, 1);
    assert_eq!(listed(&vault), ["file"]);
    let made = link().unwrap();
    vault.sync().unwrap();
    assert_eq!(vault.namespace().read_link(made.number).unwrap(), b"target");
}

/// Whoever ends the mount is told of what was taken out of the tree, unless somebody who synced everything was.
#[test]
fn what_is_found_lost_is_told() {
    for is_told in [false, true] {
        let (store, vault, number) = released(&[7, 8]);
        lose_once(&store, Call::SyncStore);
        if is_told {
            vault.sync().unwrap_err();
        } else {
            assert!(is_io_error(vault.namespace().sync_directory(ROOT)));
        }
        store.heal();
        assert!(vault.namespace().open(number, Opening::default()).is_err());
        assert!(!listed(&vault).contains(&"file".to_owned()));
        assert_eq!(is_io_error(vault.close()), !is_told);
    }
}

/// A file of one block that nobody syncs.
fn make_and_close(vault: &Vault, name: &str) {
    let (entry, content) = support::create_file(vault.namespace(), name);
    write(&content, 0, &[1; BLOCK as usize]).unwrap();
    drop(content);
    vault.namespace().release(entry.number);
}

/// What the barrier was another's has lost is told to whoever syncs the directory, once.
#[test]
fn who_syncs_a_directory_is_told_what_is_lost_in_it() {
    let (store, vault, _) = released(&[7, 8]);
    let names = vault.namespace();
    let other = names.make_directory(ROOT, b"other", &support::CREATION).unwrap().number;
    lose_once(&store, Call::SyncStore);
    vault.sync().unwrap_err();
    vault.sync().unwrap();
    names.sync_directory(other).expect("nothing in this one");
    assert!(is_io_error(names.sync_directory(ROOT)));
    names.sync_directory(ROOT).expect("it was told");
}

/// A file that is open when a barrier of the store fails is asked for its own when it is closed.
#[test]
fn what_a_barrier_loses_of_a_file_that_is_closed_afterwards_is_told() {
    let (store, vault, _) = released(&[7]);
    let (entry, content) = support::create_file(vault.namespace(), "open");
    write(&content, 0, &[3; 2 * BLOCK as usize]).unwrap();
    lose_once(&store, Call::SyncStore);
    vault.sync().unwrap_err();
    store.heal();
    drop(content);
    vault.namespace().release(entry.number);
    assert!(is_io_error(vault.sync()), "of the one that was open");
    vault.sync().unwrap();
}

/// The file that a program replaces by one that was lost stays.
#[test]
fn what_is_lost_is_not_renamed_over_another() {
    let (store, vault, _) = released(&[7, 8]);
    let names = vault.namespace();
    let (entry, content) = support::create_file(names, "target");
    write(&content, 0, &[5; BLOCK as usize]).unwrap();
    content.sync().unwrap();
    drop(content);
    names.release(entry.number);
    lose_once(&store, Call::SyncStore);
    vault.sync().unwrap_err();
    vault.sync().unwrap();
    for _ in 0..3 {
        names.rename(ROOT, b"file", ROOT, b"target", RenameMode::Replace).unwrap_err();
    }
    assert_eq!(listed(&vault), ["target"]);
    let content = names.open(names.lookup(ROOT, b"target").unwrap().number, Opening::default()).unwrap();
    assert_eq!(read_all(&content).unwrap(), [5; BLOCK as usize]);
}

#[test]
fn a_lost_file_with_two_names_is_under_neither() {
    let (store, vault, number) = released(&[7, 8]);
    vault.namespace().link(number, ROOT, b"second").unwrap();
    lose_once(&store, Call::SyncStore);
    vault.sync().unwrap_err();
    vault.sync().unwrap();
    let found = listed(&vault);
    assert!(found.is_empty() || found == ["file", "second"], "{found:?}");
    for name in found {
        let entry = vault.namespace().lookup(ROOT, name.as_bytes()).unwrap();
        read_all(&vault.namespace().open(entry.number, Opening::default()).unwrap()).unwrap();
    }
}
