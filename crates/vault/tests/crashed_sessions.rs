//! A vault whose program is killed again and again before it has settled what the last crash left: the header lists 16
//! sessions, and there may be more crashes than that.

mod support;

use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_format::vault::header::SESSIONS;
use strongroom_store::Store;
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Opening, ROOT};

#[test]
fn a_vault_opens_after_any_number_of_crashes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
    let crashes = 2 * SESSIONS + 3;
    for crash in 0..crashes {
        let vault = support::open(Arc::clone(&store));
        let (_, synced) = support::create_file(vault.namespace(), &format!("synced {crash}"));
        support::write(&synced, 0, format!("text {crash}").as_bytes()).unwrap();
        synced.sync().unwrap();
        // Blocks of it are home, and no page that knows of them.
        let (_, torn) = support::create_file(vault.namespace(), &format!("torn {crash}"));
        support::write(&torn, 0, &[7; 10_000]).unwrap();
        vault.abandon();
    }
    let vault = support::open(Arc::clone(&store));
    vault.settle().unwrap();
    for crash in 0..crashes {
        let entry = vault.namespace().lookup(ROOT, format!("synced {crash}").as_bytes()).unwrap();
        let content = vault.namespace().open(entry.number, Opening::default()).unwrap();
        assert_eq!(support::read_all(&content).unwrap(), format!("text {crash}").as_bytes());
        assert!(vault.namespace().lookup(ROOT, format!("torn {crash}").as_bytes()).is_err(), "never durable");
    }
    vault.close().unwrap();
    assert!(vault.header().sessions.iter().all(Option::is_none));
}
