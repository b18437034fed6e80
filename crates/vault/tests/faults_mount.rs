//! Faults while a vault is mounted after a crash, and a store that is full.

mod support;

use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_store::faulty::{Call, Effect, FaultyStore, Plan};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{Access, Store};
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Namespace, Opening, ROOT};
use strongroom_vault::{OpenOptions, Vault, read_header_copies};
use support::{create_file, options, read_all, write};

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

fn small_journal() -> OpenOptions {
    OpenOptions { journal_len: 1 << 20, ..options() }
}

fn open_for_writing(names: &Namespace, name: &str) -> (u64, Arc<strongroom_vault::content::Content>) {
    let entry = names.lookup(ROOT, name.as_bytes()).unwrap();
    let opening = Opening { write: true, ..Opening::default() };
    (entry.number, names.open(entry.number, opening).unwrap())
}

fn close(vault: &Vault, number: u64) {
    vault.namespace().release(number);
    vault.namespace().forget(number, 1);
}

/// An empty vault on a faulty store, open with a small journal.
fn opened_on(faulty: fn(MemoryStore) -> FaultyStore) -> (FaultyStore, Arc<dyn Store>, Vault) {
    let memory = MemoryStore::new();
    support::create(&memory, Suite::Xaes256Gcm, BlockSize::MIN);
    let store = faulty(memory);
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let vault = support::open_with(Arc::clone(&shared), support::engine(), &small_journal()).unwrap();
    (store, shared, vault)
}

/// A vault whose session died with records in its journal, and what its files
/// must hold.
fn crashed() -> (MemoryStore, Vec<(&'static str, Vec<u8>)>) {
    let memory = MemoryStore::new();
    support::create(&memory, Suite::Xaes256Gcm, BlockSize::MIN);
    let open = |options: &OpenOptions| {
        support::open_with(Arc::new(memory.clone()), support::engine(), options).unwrap()
    };
    let vault = open(&small_journal());
    let mut files = Vec::new();
    for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
        let bytes = vec![index as u8 + 1; 30_000 + index];
        let (entry, content) = create_file(vault.namespace(), name);
        write(&content, 0, &bytes).unwrap();
        drop(content);
        close(&vault, entry.number);
        files.push((name, bytes));
    }
    vault.close().unwrap();
    let vault = open(&small_journal());
    for (name, bytes) in &mut files {
        let (_, content) = open_for_writing(vault.namespace(), name);
        bytes[5000..15_000].fill(9);
        write(&content, 5000, &bytes[5000..15_000]).unwrap();
        content.sync().unwrap();
        bytes.truncate(28_000);
        content.set_len(28_000).unwrap();
        content.sync().unwrap();
    }
    let (_, content) = create_file(vault.namespace(), "d");
    write(&content, 0, &[4; 9000]).unwrap();
    content.sync().unwrap();
    files.push(("d", vec![4; 9000]));
    drop(content);
    vault.abandon();
    (memory, files)
}

fn check(vault: &Vault, files: &[(&str, Vec<u8>)], what: &str) {
    for (name, bytes) in files {
        let found = vault.namespace().lookup(ROOT, name.as_bytes());
        let entry = found.unwrap_or_else(|error| panic!("{what}, {name}: {error}"));
        let content = vault.namespace().open(entry.number, Opening::default());
        let content = content.unwrap_or_else(|error| panic!("{what}, {name}: {error}"));
        let read = read_all(&content).unwrap_or_else(|error| panic!("{what}, {name}: {error}"));
        assert!(read == *bytes, "{what}: {name} reads wrong");
        assert_eq!(content.verify(&mut |_| {}).unwrap().damage, [], "{what}: {name}");
        drop(content);
        close(vault, entry.number);
    }
}

/// Mounts with a plan in force; gives whether that succeeded.
fn mount_failing(store: &FaultyStore, plan: Plan) -> bool {
    let (header, root) = support::unlock(store.memory());
    store.fail(plan);
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    match Vault::open(shared, support::engine(), header, root, &small_journal()) {
        Ok(vault) => {
            // What the sweep over the files meets is the same fault or none.
            let _ = vault.settle();
            vault.abandon();
            true
        }
        Err(_) => false,
    }
}

#[test]
fn every_call_of_a_recovery_fails_once() {
    let (memory, files) = crashed();
    let store = FaultyStore::injecting(memory.snapshot());
    assert!(mount_failing(&store, Plan { times: 0, ..Plan::once(0, EIO) }));
    let calls = store.calls(None);
    let effects = [
        Effect::Fails(EIO),
        Effect::Fails(ENOSPC),
        Effect::ShortRead(0),
        Effect::ShortRead(3000),
        Effect::PartialWrite { bytes: 512, errno: EIO },
        Effect::LosesUnsynced(EIO),
    ];
    let mut failed = 0;
    for after in 0..calls {
        for effect in effects {
            let what = format!("call {after}, {effect:?}");
            let loses = matches!(effect, Effect::LosesUnsynced(_));
            let memory = memory.snapshot();
            let store = if loses { FaultyStore::new(memory) } else { FaultyStore::injecting(memory) };
            let plan = Plan { call: None, after, times: 1, effect };
            failed += usize::from(!mount_failing(&store, plan));
            store.heal();
            let shared: Arc<dyn Store> = Arc::new(store.clone());
            let vault = support::open_with(shared, support::engine(), &small_journal())
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            check(&vault, &files, &what);
            vault.settle().unwrap();
            vault.close().unwrap();
            let shared: Arc<dyn Store> = Arc::new(store.clone());
            let vault = support::open_with(shared, support::engine(), &small_journal()).unwrap();
            assert!(!vault.is_settling(), "{what}");
            check(&vault, &files, &what);
            vault.close().unwrap();
        }
    }
    assert!(failed > 20, "most faults of a recovery end it: {failed} of {calls}");
}

#[test]
fn every_call_of_a_clean_end_fails_once() {
    let (memory, files) = crashed();
    let prepare = |store: &FaultyStore| {
        let shared: Arc<dyn Store> = Arc::new(store.clone());
        let vault = support::open_with(shared, support::engine(), &small_journal()).unwrap();
        vault.settle().unwrap();
        let (number, content) = open_for_writing(vault.namespace(), "a");
        write(&content, 0, &[7; 10_000]).unwrap();
        drop(content);
        close(&vault, number);
        vault
    };
    let mut files = files;
    files[0].1[..10_000].fill(7);
    let store = FaultyStore::injecting(memory.snapshot());
    let vault = prepare(&store);
    let before = store.calls(None);
    vault.close().unwrap();
    let calls = store.calls(None) - before;
    for after in 0..calls {
        for effect in [Effect::Fails(EIO), Effect::PartialWrite { bytes: 512, errno: ENOSPC }] {
            let what = format!("call {after}, {effect:?}");
            let store = FaultyStore::injecting(memory.snapshot());
            let vault = prepare(&store);
            store.fail(Plan { call: None, after, times: 1, effect });
            // Whoever is told that it failed may try again.
            if vault.close().is_err() {
                vault.close().unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            drop(vault);
            let shared: Arc<dyn Store> = Arc::new(store.clone());
            let vault = support::open_with(shared, support::engine(), &small_journal()).unwrap();
            assert!(!vault.is_settling(), "{what}");
            check(&vault, &files, &what);
            vault.close().unwrap();
            let copies = read_header_copies(&store).unwrap().map(Option::unwrap);
            assert!(copies[0] == copies[1], "{what}: both copies of the header are written");
        }
    }
}

#[test]
fn an_overwrite_of_allocated_data_never_fails_for_space() {
    for (round, suite) in Suite::ALL.into_iter().enumerate() {
        let block_size = BlockSize::from_shift([12, 14, 16, 13][round % 4]).unwrap();
        let store = MemoryStore::with_capacity(1 << 32);
        support::create(&store, suite, block_size);
        let shared: Arc<dyn Store> = Arc::new(store.clone());
        let options = OpenOptions { journal_len: 64 * block_size.bytes().max(16 << 10), ..options() };
        let vault = support::open_with(shared, support::engine(), &options).unwrap();
        let mut model: Vec<u8> = vec![1; 150 * block_size.bytes() as usize + 77];
        let (_, content) = create_file(vault.namespace(), "f");
        write(&content, 0, &model).unwrap();
        content.sync().unwrap();
        let space = store.space().unwrap();
        let used = (space.total - space.free) * space.fragment;
        store.set_capacity(Some(used));
        assert_eq!(write(&content, model.len() as u64 * 2, &[1; 100]).unwrap_err().errno(), ENOSPC);
        let made = vault.namespace().create(ROOT, b"g", &support::CREATION, Opening::default());
        let full = made.and_then(|(_, other)| write(&other, 0, &[1; 100]));
        assert_eq!(full.unwrap_err().errno(), ENOSPC, "the store is full");
        let mut rng = support::Rng(round as u64);
        for step in 0..400 {
            let offset = rng.below(model.len() as u64 - 1);
            let len = (1 + rng.below(3 * block_size.bytes())).min(model.len() as u64 - offset);
            let data = vec![rng.next() as u8; len as usize];
            write(&content, offset, &data).unwrap_or_else(|error| panic!("step {step}: {error}"));
            model[offset as usize..][..data.len()].copy_from_slice(&data);
            if rng.below(3) == 0 {
                content.sync().unwrap_or_else(|error| panic!("step {step}: {error}"));
            }
        }
        content.sync().unwrap();
        assert!(vault.counters().checkpoints.load(std::sync::atomic::Ordering::Relaxed) > 0);
        assert!(read_all(&content).unwrap() == model);
        // The process dies while the store is full: what was synced is there.
        vault.abandon();
        store.set_capacity(None);
        let shared: Arc<dyn Store> = Arc::new(store.clone());
        let vault = support::open_with(shared, support::engine(), &options).unwrap();
        check(&vault, &[("f", model)], "after the crash");
        vault.close().unwrap();
        let private = store.root().lookup(b".strongroom").unwrap();
        assert!(private.lookup(b"header.0").unwrap().open(Access::Read).is_ok());
    }
}

#[test]
fn a_cut_that_failed_is_made_up_for_by_the_next_commit() {
    let (store, shared, vault) = opened_on(FaultyStore::injecting);
    let (entry, content) = create_file(vault.namespace(), "f");
    write(&content, 0, &[3; 50_000]).unwrap();
    let (other, beside) = create_file(vault.namespace(), "g");
    write(&beside, 0, &[4; 50_000]).unwrap();
    vault.sync().unwrap();
    content.set_len(9000).unwrap();
    write(&beside, 0, &[5; 50_000]).unwrap();
    store.fail(Plan::once(0, EIO).of(Call::SetLen));
    assert_eq!(vault.sync().unwrap_err().errno(), EIO);
    store.heal();
    drop((content, beside));
    close(&vault, entry.number);
    close(&vault, other.number);
    vault.close().unwrap();
    let vault = support::open_with(shared, support::engine(), &small_journal()).unwrap();
    check(&vault, &[("f", vec![3; 9000]), ("g", vec![5; 50_000])], "after a cut that failed");
    vault.close().unwrap();
}

#[test]
fn a_file_whose_header_page_was_lost_by_a_barrier_gets_it_again() {
    let (store, shared, vault) = opened_on(FaultyStore::new);
    let (entry, content) = create_file(vault.namespace(), "f");
    write(&content, 0, &[3; 9000]).unwrap();
    drop(content);
    close(&vault, entry.number);
    // Its pages and blocks are written out, and no barrier has covered them.
    let (number, content) = open_for_writing(vault.namespace(), "f");
    store.fail(Plan { effect: Effect::LosesUnsynced(EIO), ..Plan::once(0, EIO).of(Call::SyncAll) });
    assert_eq!(content.sync().unwrap_err().errno(), EIO);
    store.heal();
    content.sync().unwrap();
    drop(content);
    close(&vault, number);
    vault.close().unwrap();
    // What had never been durable is lost, and says so.
    let vault = support::open_with(shared, support::engine(), &small_journal()).unwrap();
    let (number, content) = open_for_writing(vault.namespace(), "f");
    assert_eq!(content.plain_len(), 9000);
    assert_eq!(read_all(&content).unwrap_err().errno(), EIO);
    write(&content, 0, &[4; 9000]).unwrap();
    drop(content);
    close(&vault, number);
    check(&vault, &[("f", vec![4; 9000])], "after a lost header page");
    vault.close().unwrap();
}

/// The stored length is checked at each opening: what a failed write has left
/// behind the end is cut off again, if not at once then by the next commit.
#[test]
fn a_write_that_failed_halfway_leaves_no_longer_file() {
    let fresh = |vault: &Vault| create_file(vault.namespace(), "f");
    for (synced, cuts_fail) in [(false, false), (false, true), (true, false), (true, true)] {
        let (store, shared, vault) = opened_on(FaultyStore::injecting);
        let (entry, content) = fresh(&vault);
        write(&content, 0, &[3; 9000]).unwrap();
        if synced {
            content.sync().unwrap();
        }
        store.fail(Plan {
            effect: Effect::PartialWrite { bytes: 5000, errno: ENOSPC },
            ..Plan::once(0, EIO).of(Call::Write)
        });
        if cuts_fail {
            store.fail(Plan::from(0, EIO).of(Call::SetLen));
        }
        let len = 100 << 10;
        assert_eq!(write(&content, 400_000, &vec![4; len]).unwrap_err().errno(), ENOSPC);
        assert_eq!(content.plain_len(), 9000);
        store.heal();
        drop(content);
        close(&vault, entry.number);
        vault.close().unwrap();
        let vault = support::open_with(shared, support::engine(), &small_journal()).unwrap();
        let what = format!("synced {synced}, cuts fail {cuts_fail}");
        check(&vault, &[("f", vec![3; 9000])], &what);
        vault.close().unwrap();
    }
}

/// A cut that goes through a block has to read it. When it cannot, nothing is
/// cut: neither what is read, nor, with the next commit, the stored file.
#[test]
fn a_cut_that_failed_cuts_nothing() {
    let (store, shared, vault) = opened_on(FaultyStore::injecting);
    let (entry, content) = create_file(vault.namespace(), "f");
    write(&content, 0, &[3; 20_000]).unwrap();
    content.sync().unwrap();
    store.fail(Plan::once(0, EIO).of(Call::Read));
    assert_eq!(content.set_len(6000).unwrap_err().errno(), EIO);
    write(&content, 0, &[4; 10]).unwrap();
    content.sync().unwrap();
    let expected: Vec<u8> = (0..20_000).map(|at| if at < 10 { 4 } else { 3 }).collect();
    assert_eq!(read_all(&content).unwrap(), expected);
    drop(content);
    close(&vault, entry.number);
    vault.close().unwrap();
    let vault = support::open_with(shared, support::engine(), &small_journal()).unwrap();
    check(&vault, &[("f", expected)], "after a cut that failed");
    vault.close().unwrap();
}
