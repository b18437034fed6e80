//! Attacks on the journal of a crashed session by parts of itself: slots and
//! records as they were, or that a failed barrier has voided. What they leave
//! is whole.

mod attack_model;
mod support;

use std::sync::Arc;

use attack_model::{BLOCK, Resting, Stored, content};
use strongroom_format::vault::Suite;
use strongroom_store::faulty::{Call, Effect, FaultyStore, Plan};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{Access, Store};
use strongroom_vault::error::errno;
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Damage, Error, OpenOptions, Vault};
use support::{options, read_all, write};

const LEN: usize = 3 * BLOCK;

fn mount(store: Arc<dyn Store>) -> Vault {
    let options = OpenOptions { journal_len: 1 << 20, ..options() };
    support::open_with(store, support::engine(), &options).unwrap()
}

/// The segment that is written to first.
fn segment(store: &MemoryStore) -> Stored {
    let private = store.root().lookup(b".strongroom").unwrap();
    let mut names = private.entries().unwrap().into_iter().map(|entry| entry.name);
    let name = names.find(|name| name.starts_with(b"journal.") && name.ends_with(b".0")).unwrap();
    Stored(private.lookup(&name).unwrap().open(Access::ReadWrite).unwrap())
}

/// The slots of a segment that begin so.
fn slots(segment: &Stored, magic: &[u8]) -> Vec<u64> {
    let offsets = (1..segment.len() / BLOCK as u64).map(|slot| slot * BLOCK as u64);
    offsets.filter(|&at| segment.part(at, magic.len()) == magic).collect()
}

/// What `f` holds after the recovery of a crashed store.
fn recovered(store: &MemoryStore) -> Vec<u8> {
    let vault = mount(Arc::new(store.clone()));
    vault.settle().unwrap();
    vault.close().unwrap();
    drop(vault);
    let vault = mount(Arc::new(store.clone()));
    let entry = vault.namespace().lookup(ROOT, b"f").unwrap();
    let open = vault.namespace().open(entry.number, Opening::default()).unwrap();
    let bytes = read_all(&open).unwrap();
    vault.close().unwrap();
    bytes
}

/// A record that cuts a file, with an older image of the page that it names in
/// that page's slot: as a crash leaves it that has lost the image alone.
#[test]
fn a_record_does_not_take_an_older_image_of_its_page() {
    let mut right = content(1, LEN);
    let resting = Resting::with(Suite::Xaes256Gcm, &[("f", right.clone())]);
    let vault = mount(Arc::new(resting.store.clone()));
    let entry = vault.namespace().lookup(ROOT, b"f").unwrap();
    let open = vault.namespace().open(entry.number, Opening { write: true, ..Opening::default() }).unwrap();
    right[BLOCK..2 * BLOCK].fill(7);
    write(&open, BLOCK as u64, &right[BLOCK..2 * BLOCK]).unwrap();
    open.sync().unwrap();
    let crashed = resting.store.snapshot();
    open.set_len(BLOCK as u64).unwrap();
    open.sync().unwrap();
    vault.abandon();
    drop((open, vault));

    let [before, after] = [&crashed, &resting.store].map(segment);
    before.replace(&after.bytes());
    let header_pages = slots(&before, b"SRpg\x01");
    let [.., older, newest] = header_pages[..] else { panic!("two commits have sealed the header page") };
    before.put(newest, &before.part(older, BLOCK));
    assert_eq!(recovered(&crashed), right);
}

/// A barrier fails, and what it voided is written again, with more. Somebody
/// removes that, so that a later record would follow the one that was voided.
#[test]
fn a_record_follows_the_one_that_it_names() {
    let mut right = content(1, LEN);
    let resting = Resting::with(Suite::Xaes256Gcm, &[("f", right.clone())]);
    let store = Arc::new(FaultyStore::new(resting.store.clone()));
    let vault = mount(Arc::clone(&store) as Arc<dyn Store>);
    let entry = vault.namespace().lookup(ROOT, b"f").unwrap();
    let open = vault.namespace().open(entry.number, Opening { write: true, ..Opening::default() }).unwrap();
    right[..BLOCK].fill(7);
    write(&open, 0, &right[..BLOCK]).unwrap();
    store.fail(Plan { call: Some(Call::SyncData), after: 0, times: 1, effect: Effect::Fails(errno::EIO) });
    open.sync().unwrap_err();
    for block in 1..3 {
        write(&open, (block * BLOCK) as u64, &[8; BLOCK]).unwrap();
        open.sync().unwrap();
    }
    vault.abandon();
    drop((open, vault));

    let segment = segment(&resting.store);
    let sequence = |at: u64| segment.part(at + 16, 8);
    let records = slots(&segment, b"SRjr");
    let [voided, again, _] = records[..] else { panic!("three records") };
    assert_eq!(sequence(voided), sequence(again));
    segment.put(again, &[0; BLOCK]);
    assert_eq!(recovered(&resting.store), right);
}

/// A later record says that the one which is gone was durable: it is no tear.
#[test]
fn a_durable_record_that_is_gone_is_damage() {
    let resting = Resting::with(Suite::Xaes256Gcm, &[("f", content(1, LEN))]);
    let vault = mount(Arc::new(resting.store.clone()));
    let entry = vault.namespace().lookup(ROOT, b"f").unwrap();
    let open = vault.namespace().open(entry.number, Opening { write: true, ..Opening::default() }).unwrap();
    for block in 0..3 {
        write(&open, (block * BLOCK) as u64, &[8; BLOCK]).unwrap();
        open.sync().unwrap();
    }
    vault.abandon();
    drop((open, vault));
    let segment = segment(&resting.store);
    let records = slots(&segment, b"SRjr");
    segment.put(records[1], &[0; BLOCK]);
    let (header, root) = support::unlock(&resting.store);
    let store: Arc<dyn Store> = Arc::new(resting.store.clone());
    let opened = Vault::open(store, support::engine(), header, root, &options());
    assert!(matches!(opened.map(drop), Err(Error::Damaged(Damage::Journal(_)))));
}
