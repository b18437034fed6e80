//! The times of a file are as durable as `fsync` promises, whatever the journal replays, and cost no
//! barrier of their own where a commit has one anyway.

mod support;

use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_store::faulty::{FaultyStore, NOTHING};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{SetTime, Store, Timestamp};
use strongroom_units::BlockSize;
use strongroom_vault::Vault;
use strongroom_vault::content::Content;
use strongroom_vault::namespace::{Changes, ROOT};

const OLD: Timestamp = Timestamp { seconds: 1_000, nanoseconds: 1 };
const NEW: Timestamp = Timestamp { seconds: 2_000, nanoseconds: 2 };

struct Trial {
    store: Arc<FaultyStore>,
    vault: Vault,
    number: u64,
    content: Arc<Content>,
}

impl Trial {
    /// A file of which everything is durable, with the old time.
    fn new() -> Trial {
        let memory = MemoryStore::new();
        support::create(&memory, Suite::Xaes256Gcm, BlockSize::from_shift(12).unwrap());
        let store = Arc::new(FaultyStore::new(memory));
        let vault = support::open(Arc::clone(&store) as Arc<dyn Store>);
        let (entry, content) = support::create_file(vault.namespace(), "file");
        let trial = Trial { store, vault, number: entry.number, content };
        trial.write();
        trial.modified(OLD);
        trial.content.sync().unwrap();
        trial
    }

    fn write(&self) {
        support::write(&self.content, 0, b"some bytes").unwrap();
    }

    fn modified(&self, time: Timestamp) {
        let changes = Changes { modified: SetTime::To(time), ..Changes::NONE };
        self.vault.namespace().set_attributes(self.number, &changes).unwrap();
    }

    /// The time that is left when the power fails now, at the worst.
    fn left(&self) -> Timestamp {
        let image = self.store.image(self.store.position(), NOTHING);
        let vault = support::open(Arc::new(image));
        let entry = vault.namespace().lookup(ROOT, b"file").unwrap();
        let opened = vault.namespace().open(entry.number, strongroom_vault::namespace::Opening::default());
        opened.unwrap();
        vault.namespace().attributes(entry.number).unwrap().modified
    }

    /// Barriers that `work` waits for.
    fn barriers(&self, work: impl FnOnce()) -> usize {
        let before = self.store.barriers().len();
        work();
        self.store.barriers().len() - before
    }
}

#[test]
fn a_new_files_time_is_durable_with_it() {
    assert_eq!(Trial::new().left(), OLD);
}

#[test]
fn a_time_that_comes_with_data_costs_one_barrier() {
    let trial = Trial::new();
    trial.write();
    trial.modified(NEW);
    assert_eq!(trial.barriers(|| trial.content.sync().unwrap()), 1);
    assert_eq!(trial.left(), NEW);
}

#[test]
fn a_record_that_is_replayed_does_not_bring_an_older_time_back() {
    let trial = Trial::new();
    trial.write();
    trial.content.sync().unwrap();
    trial.modified(NEW);
    trial.content.sync().unwrap();
    assert_eq!(trial.left(), NEW);
}

#[test]
fn a_time_outlives_the_record_that_held_it() {
    let trial = Trial::new();
    let (_, other) = support::create_file(trial.vault.namespace(), "other");
    support::write(&other, 0, &[1; 64 << 10]).unwrap();
    other.sync().unwrap();
    trial.write();
    trial.modified(NEW);
    trial.content.sync().unwrap();
    // Both segments of the journal are used again.
    for round in 0..128 {
        support::write(&other, 0, &[round; 64 << 10]).unwrap();
        other.sync_data().unwrap();
    }
    assert!(trial.vault.counters().checkpoints.load(std::sync::atomic::Ordering::Relaxed) >= 2);
    assert_eq!(trial.left(), NEW);
}

#[test]
fn a_sync_of_data_alone_leaves_times_to_the_next() {
    let trial = Trial::new();
    trial.modified(NEW);
    assert_eq!(trial.barriers(|| trial.content.sync_data().unwrap()), 0);
    trial.content.sync().unwrap();
    assert_eq!(trial.left(), NEW);
}
