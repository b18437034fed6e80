//! Errors on demand, and space that runs out.

use std::io::IoSliceMut;

use rustix::io::Errno;
use strongroom_store::faulty::{Call, Effect, FaultyStore, Plan};
use strongroom_store::local::{LocalStore, OpenMode};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{Access, AllocateMode, Error, Result, Store, XattrMode};

const EIO: i32 = Errno::IO.raw_os_error();

/// A workload that touches most calls.
fn workload(store: &dyn Store) -> Result<()> {
    let root = store.root();
    let (node, file) = root.create(b"file", 0o600)?;
    file.write_at(b"0123456789", 0)?;
    file.sync_data()?;
    node.set_xattr(b"user.a", b"1", XattrMode::Any)?;
    let directory = root.make_directory(b"directory", 0o700)?;
    root.rename(b"file", &*directory, b"moved", strongroom_store::RenameMode::Replace)?;
    directory.sync()?;
    directory.entries()?;
    let again = directory.lookup(b"moved")?.open(Access::Read)?;
    again.read_at(&mut [0; 10], 0)?;
    store.sync_all()
}

#[test]
fn every_call_can_fail_once() {
    let calm = FaultyStore::injecting(MemoryStore::new());
    workload(&calm).unwrap();
    let calls = calm.calls(None);
    assert_eq!((calls, calm.calls(Some(Call::Write)), calm.fired()), (12, 1, 0));
    for after in 0..calls {
        let store = FaultyStore::new(MemoryStore::new());
        store.fail(Plan::once(after, EIO));
        assert_eq!(workload(&store).unwrap_err().errno(), EIO, "call {after}");
        assert_eq!((store.fired(), store.calls(None)), (1, after + 1));
        // The call itself had no effect, and the next ones work.
        store.root().entries().unwrap();
    }
}

#[test]
fn kinds_bounds_and_healing() {
    let store = FaultyStore::new(MemoryStore::new());
    let (_, file) = store.root().create(b"file", 0o600).unwrap();
    store.fail(Plan { times: 2, ..Plan::once(1, EIO).of(Call::Write) });
    let results: Vec<bool> = (0..4).map(|_| file.write_at(b"x", 0).is_ok()).collect();
    assert_eq!(results, [true, false, false, true]);
    store.fail(Plan::from(0, Errno::STALE.raw_os_error()));
    assert_eq!(file.len(), Err(Error::new(Errno::STALE.raw_os_error(), "fstat")));
    assert!(store.root().lookup(b"file").is_err() && store.space().is_err());
    store.heal();
    assert_eq!(file.len(), Ok(1));
}

#[test]
fn short_transfers() {
    let store = FaultyStore::new(MemoryStore::new());
    let (_, file) = store.root().create(b"file", 0o600).unwrap();
    store.fail(Plan { effect: Effect::PartialWrite { bytes: 4, errno: EIO }, ..Plan::once(0, 0) });
    assert_eq!(file.write_at(b"0123456789", 0).unwrap_err().errno(), EIO);
    assert_eq!(file.len(), Ok(4));
    file.write_at(b"0123456789", 0).unwrap();
    store.fail(Plan { effect: Effect::ShortRead(3), ..Plan::from(0, 0) });
    let (mut a, mut b) = ([0; 2], [0; 8]);
    assert_eq!(file.read_at(&mut b, 0), Ok(3));
    let buffers = &mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
    assert_eq!(file.read_vectored_at(buffers, 0), Ok(3));
}

#[test]
fn read_only_for_a_while() {
    let store = FaultyStore::new(MemoryStore::new());
    let (_, file) = store.root().create(b"file", 0o600).unwrap();
    file.write_at(b"text", 0).unwrap();
    store.fail(Plan { effect: Effect::ReadOnly, ..Plan::from(0, 0) });
    let refusal = Errno::ROFS.raw_os_error();
    assert_eq!(file.write_at(b"x", 0).unwrap_err().errno(), refusal);
    assert_eq!(file.sync_data().unwrap_err().errno(), refusal);
    assert_eq!(store.root().remove(b"file").unwrap_err().errno(), refusal);
    assert_eq!(file.read_at(&mut [0; 9], 0), Ok(4));
    store.heal();
    file.write_at(b"x", 0).unwrap();
}

#[test]
fn a_failed_barrier_loses_what_it_should_have_covered() {
    let store = FaultyStore::new(MemoryStore::new());
    let (_, file) = store.root().create(b"file", 0o600).unwrap();
    file.write_at(b"synced", 0).unwrap();
    file.sync_all().unwrap();
    file.write_at(b"unsynced", 0).unwrap();
    let before = store.position();
    store.fail(Plan { effect: Effect::LosesUnsynced(EIO), ..Plan::once(0, 0) }.of(Call::SyncData));
    assert_eq!(file.sync_data().unwrap_err().errno(), EIO);
    // The next barrier succeeds and brings nothing back.
    file.sync_data().unwrap();
    assert_eq!(file.len(), Ok(6));
    for seed in 0..50 {
        let image = store.image(store.position(), seed);
        assert_eq!(image.root().lookup(b"file").unwrap().open(Access::Read).unwrap().len(), Ok(6));
    }
    // A cut before the failure may still have it.
    let length = |seed| {
        let file = store.image(before, seed).root().lookup(b"file").unwrap();
        file.open(Access::Read).unwrap().len().unwrap()
    };
    assert!((0..50).any(|seed| length(seed) == 8));
}

#[test]
fn a_plain_failed_barrier_makes_nothing_durable() {
    let store = FaultyStore::new(MemoryStore::new());
    store.root().create(b"file", 0o600).unwrap();
    for call in [Call::SyncDirectory, Call::SyncStore] {
        store.fail(Plan::once(0, EIO).of(call));
    }
    assert!(store.root().sync().is_err() && store.sync_all().is_err());
    assert_eq!(store.barriers(), [0; 0]);
    assert!(store.image(store.position(), 0).root().lookup(b"file").is_err());
}

#[test]
fn space_runs_out_but_not_for_overwrites() {
    let store = MemoryStore::with_capacity(10 * 4096);
    let root = store.root();
    let (_, file) = root.create(b"file", 0o600).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    file.allocate(AllocateMode::KeepLength, 4096, 5 * 4096).unwrap();
    let (_, other) = root.create(b"other", 0o600).unwrap();
    other.write_at(&[2; 4 * 4096], 0).unwrap();
    let full = Errno::NOSPC.raw_os_error();
    assert_eq!(store.space().unwrap().free, 0);
    assert_eq!(other.write_at(&[2], 4 * 4096).unwrap_err().errno(), full);
    assert_eq!(file.allocate(AllocateMode::Extend, 0, 7 * 4096).unwrap_err().errno(), full);
    assert_eq!(other.len(), Ok(4 * 4096));
    // Allocated and reserved space can be written.
    file.write_at(&[3; 6 * 4096], 0).unwrap();
    other.write_at(&[4; 4 * 4096], 0).unwrap();
    // What is freed can be used again, an open file's only when it is closed.
    other.set_len(4096).unwrap();
    assert_eq!(store.space().unwrap().free, 3);
    root.remove(b"file").unwrap();
    assert_eq!(store.space().unwrap().free, 3);
    drop(file);
    assert_eq!(store.space().unwrap().free, 9);
    store.set_capacity(None);
    other.write_at(&[5; 100 * 4096], 0).unwrap();
}

#[test]
fn a_read_only_local_store_refuses_changes() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("file"), b"text").unwrap();
    let store = LocalStore::open(place.path(), OpenMode::ReadOnly).unwrap();
    let root = store.root();
    let node = root.lookup(b"file").unwrap();
    let refusal = |result: Result<()>| assert_eq!(result.unwrap_err().errno(), Errno::ROFS.raw_os_error());
    refusal(node.open(Access::ReadWrite).map(drop));
    refusal(root.create(b"x", 0o600).map(drop));
    refusal(root.create_unnamed(0o600).map(drop));
    refusal(root.make_directory(b"x", 0o700).map(drop));
    refusal(root.make_symlink(b"x", b"y").map(drop));
    refusal(root.make_special(b"x", strongroom_store::Kind::Fifo, 0o600, 0).map(drop));
    refusal(root.link(&*node, b"x"));
    refusal(root.remove(b"file"));
    refusal(root.remove_directory(b"file"));
    refusal(root.rename(b"file", &*root, b"x", strongroom_store::RenameMode::Replace));
    refusal(node.set_mode(0o600));
    refusal(node.set_owner(None, None));
    let omit = strongroom_store::SetTime::Omit;
    refusal(node.set_times(omit, omit));
    refusal(node.set_xattr(b"user.a", b"1", XattrMode::Any));
    refusal(node.remove_xattr(b"user.a"));
    let file = node.open(Access::Read).unwrap();
    refusal(file.set_times(omit, omit));
    assert_eq!(file.read_at(&mut [0; 9], 0), Ok(4));
    assert_eq!(root.entries().unwrap().len(), 1);
}

#[test]
fn nodes_of_different_stores_do_not_mix() {
    let (a, b) = (MemoryStore::new(), MemoryStore::new());
    let (node, _) = a.root().create(b"file", 0o600).unwrap();
    let elsewhere = Errno::XDEV.raw_os_error();
    assert_eq!(b.root().link(&*node, b"x").unwrap_err().errno(), elsewhere);
    let rename = a.root().rename(b"file", &*b.root(), b"x", strongroom_store::RenameMode::Replace);
    assert_eq!(rename.unwrap_err().errno(), elsewhere);
}

#[test]
fn probes_answer_and_leave_nothing() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = LocalStore::open(place.path(), OpenMode::Writable).unwrap();
    let found = store.probe().unwrap();
    assert!(!found.case_folding && found.unnamed);
    assert_eq!(store.root().entries().unwrap(), []);
    assert!(strongroom_store::local::raise_file_limit().unwrap() >= 256);
}
