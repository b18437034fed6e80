//! A write session that is renewed while the vault is mounted, as after a
//! suspension or when the machine was copied.

mod support;

use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_store::Store;
use strongroom_store::faulty::FaultyStore;
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Opening, ROOT};
use support::{create_file, options, read_all, write};

#[test]
fn what_was_made_after_a_renewal_is_as_safe_from_crashes_as_before() {
    for suite in Suite::ALL {
        let memory = MemoryStore::new();
        support::create(&memory, suite, BlockSize::MIN);
        let store = Arc::new(FaultyStore::new(memory));
        let vault =
            support::open_with(Arc::clone(&store) as Arc<dyn Store>, support::engine(), &options()).unwrap();
        let synced = create_file(vault.namespace(), "synced").1;
        write(&synced, 0, &[1; 9000]).unwrap();
        vault.renew_sessions().unwrap();
        write(&synced, 4096, &[2; 100]).unwrap();
        synced.sync().unwrap();
        let (entry, never) = create_file(vault.namespace(), "never synced");
        write(&never, 0, &[3; 20_000]).unwrap();
        drop(never);
        vault.namespace().release(entry.number);
        vault.abandon();
        let mut right = vec![1; 9000];
        right[4096..4196].fill(2);
        for seed in 0..64 {
            let image: Arc<dyn Store> = Arc::new(store.image(store.position(), seed));
            let vault = support::open(image);
            let names = vault.namespace();
            let open = |name: &str| {
                let entry = names.lookup(ROOT, name.as_bytes())?;
                names.open(entry.number, Opening::default())
            };
            assert!(read_all(&open("synced").unwrap()).unwrap() == right, "{suite:?}, image {seed}");
            match open("never synced") {
                Ok(content) => {
                    let bytes = read_all(&content).unwrap_or_else(|error| panic!("image {seed}: {error}"));
                    assert!(bytes.iter().all(|&byte| byte == 3), "{suite:?}, image {seed}");
                }
                Err(error) => assert!(error.is_not_found(), "{suite:?}, image {seed}: {error}"),
            }
        }
    }
}
