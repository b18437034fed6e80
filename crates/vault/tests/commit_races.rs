//! What happens to a file while a commit of it is under way: who syncs it or renames it over another may
//! not be told that all is done before it is. A barrier that takes its time keeps the commit under way.

mod support;

use std::sync::Arc;
use std::time::Duration;

use strongroom_format::vault::Suite;
use strongroom_store::faulty::{Call, Effect, FaultyStore, NOTHING, Plan};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{RenameMode, Store};
use strongroom_units::BlockSize;
use strongroom_vault::Vault;
use strongroom_vault::content::Content;
use strongroom_vault::namespace::{Opening, ROOT};

/// How long a barrier takes, in milliseconds.
const LATE: u64 = 400;

struct Trial {
    store: Arc<FaultyStore>,
    vault: Vault,
}

impl Trial {
    fn new() -> Trial {
        let memory = MemoryStore::new();
        support::create(&memory, Suite::Xaes256Gcm, BlockSize::from_shift(12).unwrap());
        let store = Arc::new(FaultyStore::new(memory));
        let vault = support::open(Arc::clone(&store) as Arc<dyn Store>);
        Trial { store, vault }
    }

    /// Makes a file of which everything is durable, and closes it.
    fn file(&self, name: &str) -> u64 {
        let (entry, content) = support::create_file(self.vault.namespace(), name);
        support::write(&content, 0, b"first").unwrap();
        content.sync().unwrap();
        self.vault.namespace().release(entry.number);
        entry.number
    }

    fn open(&self, number: u64) -> Arc<Content> {
        self.vault.namespace().open(number, Opening { write: true, ..Opening::default() }).unwrap()
    }

    /// Begins a sync of everything, and does `meanwhile` while it waits for its first barrier.
    fn during_a_sync<T>(&self, meanwhile: impl FnOnce() -> T) -> T {
        let late = Effect::Late(LATE);
        self.store.fail(Plan { call: Some(Call::SyncData), after: 0, times: 1, effect: late });
        let done = std::thread::scope(|scope| {
            let before = self.store.fired();
            let sync = scope.spawn(|| self.vault.sync().unwrap());
            while self.store.fired() == before {
                assert!(!sync.is_finished(), "the sync has a barrier to wait for");
                std::thread::sleep(Duration::from_millis(1));
            }
            meanwhile()
        });
        self.store.heal();
        done
    }

    /// What a power cut leaves at the worst: what is durable.
    fn after_a_cut(&self, name: &str) -> Vec<u8> {
        let image = self.store.image(self.store.position(), NOTHING);
        let vault = support::open(Arc::new(image));
        let entry = vault.namespace().lookup(ROOT, name.as_bytes()).unwrap();
        let content = vault.namespace().open(entry.number, Opening::default()).unwrap();
        support::read_all(&content).unwrap()
    }
}

#[test]
fn a_sync_of_a_file_waits_for_the_commit_under_way() {
    let trial = Trial::new();
    let number = trial.file("file");
    let content = trial.open(number);
    support::write(&content, 0, b"newer").unwrap();
    let kept = trial.during_a_sync(|| {
        content.sync().unwrap();
        trial.after_a_cut("file")
    });
    assert_eq!(kept, b"newer", "what was acknowledged is durable");
}

#[test]
fn a_rename_over_a_file_waits_for_the_commit_under_way() {
    let trial = Trial::new();
    trial.file("target");
    let (entry, content) = support::create_file(trial.vault.namespace(), "source");
    support::write(&content, 0, b"newer").unwrap();
    let kept = trial.during_a_sync(|| {
        let names = trial.vault.namespace();
        names.rename(ROOT, b"source", ROOT, b"target", RenameMode::Replace).unwrap();
        names.sync_directory(ROOT).unwrap();
        trial.after_a_cut("target")
    });
    assert_eq!(kept, b"newer", "whoever sees the new name sees the new content");
    trial.vault.namespace().release(entry.number);
}

/// A file is cut, and again while the commit of the first cut is under way, to
/// no less: the second is not the first. What the commit has recorded behind
/// the second must not be brought home later, over what is written there then.
#[test]
fn a_cut_during_the_commit_of_another_is_not_lost() {
    let trial = Trial::new();
    let number = trial.file("file");
    let content = trial.open(number);
    support::write(&content, 0, &[1; 100_000]).unwrap();
    content.sync().unwrap();
    content.set_len(8192).unwrap();
    support::write(&content, 8192, &[2; 40_960]).unwrap();
    trial.during_a_sync(|| content.set_len(20_480).unwrap());
    content.sync().unwrap();
    // Nothing durable is behind the cut any more: this goes home at once.
    support::write(&content, 20_480, &[3; 20_480]).unwrap();
    let expected: Vec<u8> = [1; 8192].into_iter().chain([2; 12_288]).chain([3; 20_480]).collect();
    assert_eq!(support::read_all(&content).unwrap(), expected);
    drop(content);
    trial.vault.namespace().release(number);
    trial.vault.close().unwrap();
    let vault = support::open(Arc::clone(&trial.store) as Arc<dyn Store>);
    let entry = vault.namespace().lookup(ROOT, b"file").unwrap();
    let content = vault.namespace().open(entry.number, Opening::default()).unwrap();
    assert_eq!(support::read_all(&content).unwrap(), expected);
}
