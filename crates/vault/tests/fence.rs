//! A writer whose vault another machine has taken over: it notices at its next
//! commit, and writes nothing more that the other could take for the vault's
//! state.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use strongroom_format::vault::Suite;
use strongroom_store::faulty::{Call, FaultyStore};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{RenameMode, Store};
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Creation, Opening, Owner, ROOT};
use strongroom_vault::{Error, Fence, Guards, OpenOptions, Vault};
use support::{create_file, options, read_all, write};

const ENOENT: i32 = 2;
const EIO: i32 = 5;

#[derive(Default)]
struct Flag(AtomicBool);

impl Fence for Flag {
    fn holds(&self) -> Result<bool, strongroom_store::Error> {
        Ok(!self.0.load(Ordering::Acquire))
    }
}

/// A fence that cannot be looked at for a while.
#[derive(Default)]
struct Hidden(AtomicBool);

impl Fence for Hidden {
    fn holds(&self) -> Result<bool, strongroom_store::Error> {
        match self.0.load(Ordering::Acquire) {
            true => Err(strongroom_store::Error::new(EIO, "open")),
            false => Ok(true),
        }
    }
}

fn open(store: &Arc<FaultyStore>, fence: &Arc<impl Fence + 'static>) -> strongroom_vault::Result<Vault> {
    let (header, root) = support::unlock(&**store);
    let guards = Guards { fence: Some(Arc::clone(fence) as Arc<dyn Fence>), ..Guards::default() };
    let store = Arc::clone(store) as Arc<dyn Store>;
    Vault::open(store, support::engine(), header, root, &OpenOptions { guards, ..options() })
}

#[test]
fn a_writer_that_lost_the_vault_writes_nothing_more_and_harms_nothing() {
    let memory = MemoryStore::new();
    support::create(&memory, Suite::Xaes256Gcm, BlockSize::MIN);
    let store = Arc::new(FaultyStore::injecting(memory));
    let flag = Arc::new(Flag::default());
    let old = open(&store, &flag).unwrap();
    let (_, content) = create_file(old.namespace(), "f");
    write(&content, 0, &[1; 9000]).unwrap();
    content.sync().unwrap();
    write(&content, 0, b"never synced").unwrap();

    // The other machine recovers, and goes on with the file.
    flag.0.store(true, Ordering::Release);
    let new = open(&store, &Arc::new(Flag::default())).unwrap();
    let entry = new.namespace().lookup(ROOT, b"f").unwrap();
    let opening = Opening { write: true, ..Opening::default() };
    let taken = new.namespace().open(entry.number, opening).unwrap();
    assert!(read_all(&taken).unwrap() == [1; 9000]);
    write(&taken, 100, b"the other's").unwrap();
    taken.sync().unwrap();

    let writes = store.calls(Some(Call::Write));
    assert_eq!(content.sync(), Err(Error::TakenOver));
    assert_eq!(write(&content, 0, b"more"), Err(Error::TakenOver), "known by now");
    assert_eq!(content.set_len(0), Err(Error::TakenOver));
    assert_eq!(old.sync(), Err(Error::TakenOver));
    assert_eq!(old.close(), Err(Error::TakenOver));
    assert_eq!(store.calls(Some(Call::Write)), writes, "nothing was written");
    old.abandon();

    assert_eq!(taken.verify(&mut |_| {}).unwrap().damage, []);
    drop(taken);
    new.namespace().release(entry.number);
    new.settle().unwrap();
    new.close().unwrap();
    let again = support::open(Arc::clone(&store) as Arc<dyn Store>);
    assert!(!again.is_settling(), "the old session left nothing behind");
    let entry = again.namespace().lookup(ROOT, b"f").unwrap();
    let content = again.namespace().open(entry.number, Opening::default()).unwrap();
    assert_eq!(read_all(&content).unwrap()[100..111], *b"the other's");
}

/// Names change in the store at once, without a commit that would look.
#[test]
fn a_writer_that_lost_the_vault_changes_no_names() {
    let memory = MemoryStore::new();
    support::create(&memory, Suite::Xaes256Gcm, BlockSize::MIN);
    let store = Arc::new(FaultyStore::injecting(memory));
    let flag = Arc::new(Flag::default());
    let old = open(&store, &flag).unwrap();
    let (_, content) = create_file(old.namespace(), "f");
    write(&content, 0, &[1; 9000]).unwrap();
    content.sync().unwrap();
    flag.0.store(true, Ordering::Release);
    // It has looked for its commit just now; a second later it looks for a name too.
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(old.namespace().remove(ROOT, b"f"), Err(Error::TakenOver));
    let creation = Creation { mode: 0o644, umask: 0, owner: Owner { uid: 0, gid: 0 } };
    let opening = Opening { write: true, ..Opening::default() };
    let created = old.namespace().create(ROOT, b"g", &creation, opening);
    assert_eq!(created.map(drop), Err(Error::TakenOver), "known by now");
    assert_eq!(old.namespace().make_directory(ROOT, b"d", &creation).map(drop), Err(Error::TakenOver));
    assert_eq!(old.namespace().rename(ROOT, b"f", ROOT, b"h", RenameMode::Replace), Err(Error::TakenOver));
    old.abandon();
    let new = open(&store, &Arc::new(Flag::default())).unwrap();
    assert!(new.namespace().lookup(ROOT, b"f").is_ok());
    for name in [&b"g"[..], b"d", b"h"] {
        assert_eq!(new.namespace().lookup(ROOT, name).map(drop).unwrap_err().errno(), ENOENT);
    }
}

#[test]
fn a_vault_that_is_lost_already_is_not_begun() {
    let memory = MemoryStore::new();
    support::create(&memory, Suite::Xaes256Gcm, BlockSize::MIN);
    let store = Arc::new(FaultyStore::injecting(memory));
    let flag = Arc::new(Flag::default());
    flag.0.store(true, Ordering::Release);
    assert_eq!(open(&store, &flag).map(drop), Err(Error::TakenOver));
    let (header, _) = support::unlock(&*store);
    assert_eq!(header.sessions.iter().flatten().count(), 0, "no session is listed");
}

/// A store that is gone for a while takes the fence with it, and brings it
/// back: that is no takeover.
#[test]
fn a_fence_that_cannot_be_looked_at_has_not_fallen() {
    let memory = MemoryStore::new();
    support::create(&memory, Suite::Xaes256Gcm, BlockSize::MIN);
    let store = Arc::new(FaultyStore::injecting(memory));
    let fence = Arc::new(Hidden::default());
    let vault = open(&store, &fence).unwrap();
    let (_, content) = create_file(vault.namespace(), "f");
    write(&content, 0, &[1; 9000]).unwrap();
    fence.0.store(true, Ordering::Release);
    assert_eq!(content.sync().unwrap_err().errno(), EIO);
    fence.0.store(false, Ordering::Release);
    write(&content, 0, &[2; 9000]).unwrap();
    content.sync().unwrap();
    vault.close().unwrap();
    let vault = open(&store, &fence).unwrap();
    let entry = vault.namespace().lookup(ROOT, b"f").unwrap();
    let content = vault.namespace().open(entry.number, Opening::default()).unwrap();
    assert!(read_all(&content).unwrap() == [2; 9000]);
}
