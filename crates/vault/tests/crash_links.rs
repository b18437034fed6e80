//! A crash between a further name of a file and the header that knows of it.

mod support;

use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_store::Store;
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::Vault;
use strongroom_vault::namespace::{Opening, ROOT};

fn open_by_name(vault: &Vault, name: &str) {
    let names = vault.namespace();
    let entry = names.lookup(ROOT, name.as_bytes()).unwrap();
    let content =
        names.open(entry.number, Opening::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(support::read_all(&content).unwrap(), b"content");
    drop(content);
    names.release(entry.number);
    names.forget(entry.number, 1);
}

/// Whichever of two names is met first after the crash, both stay good.
#[test]
fn both_names_survive_a_crash_that_took_the_header() {
    for first in ["one", "two"] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        support::create(&*store, Suite::Xaes256Gcm, BlockSize::from_shift(12).unwrap());
        let vault = support::open(Arc::clone(&store));
        let (entry, content) = support::create_file(vault.namespace(), "one");
        support::write(&content, 0, b"content").unwrap();
        content.sync().unwrap();
        drop(content);
        vault.namespace().link(entry.number, ROOT, b"two").unwrap();
        vault.abandon();
        drop(vault);

        let recovered = support::open(Arc::clone(&store));
        open_by_name(&recovered, first);
        recovered.settle().unwrap();
        recovered.close().unwrap();
        drop(recovered);

        let clean = support::open(store);
        assert!(!clean.is_settling(), "the crash is forgotten");
        open_by_name(&clean, "one");
        open_by_name(&clean, "two");
        clean.close().unwrap();
    }
}
