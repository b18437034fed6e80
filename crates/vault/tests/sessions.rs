//! What a mount holds for as long as it lasts: write sessions, which are renewed
//! meanwhile, as after a suspension or when the machine was copied; and keys,
//! with all that they were used for.

mod support;

use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_store::Store;
use strongroom_store::faulty::FaultyStore;
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{OpenOptions, Writers};
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

/// Keys, journal and tables hold the store, and nothing else does once the
/// vault is gone.
#[track_caller]
fn demand_nothing_left(store: &Arc<MemoryStore>, what: &str) {
    assert_eq!(Arc::strong_count(store), 1, "{what}: something has kept the store, and with it the keys");
}

#[test]
fn a_vault_that_is_gone_keeps_nothing() {
    for background in [false, true] {
        for ending in ["dropped", "abandoned", "closed"] {
            let store = Arc::new(MemoryStore::new());
            support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
            let with = OpenOptions { background, ..options() };
            let shared = Arc::clone(&store) as Arc<dyn Store>;
            let vault = support::open_with(shared, support::engine(), &with).unwrap();
            for name in ["open", "removed", "released"] {
                let (entry, content) = create_file(vault.namespace(), name);
                write(&content, 0, &[1; 20_000]).unwrap();
                content.sync().unwrap();
                write(&content, 4096, &[2; 100]).unwrap();
                drop(content);
                match name {
                    "removed" => vault.namespace().remove(ROOT, name.as_bytes()).unwrap(),
                    "released" => vault.namespace().release(entry.number),
                    _ => {}
                }
            }
            match ending {
                "abandoned" => vault.abandon(),
                "closed" => vault.close().unwrap(),
                _ => {}
            }
            drop(vault);
            demand_nothing_left(&store, &format!("{ending}, background: {background}"));
        }
    }
}

#[test]
fn a_recovery_that_is_gone_keeps_nothing() {
    let store = Arc::new(MemoryStore::new());
    support::create(&*store, Suite::Xaes256Gcm, BlockSize::MIN);
    let vault = support::open(Arc::clone(&store) as Arc<dyn Store>);
    let (_, content) = create_file(vault.namespace(), "file");
    write(&content, 0, &[1; 20_000]).unwrap();
    content.sync().unwrap();
    write(&content, 0, &[2; 20_000]).unwrap();
    content.sync().unwrap();
    vault.abandon();
    drop((content, vault));
    for (writable, writers) in [
        (false, Writers::KeptOut),
        (false, Writers::MayCome),
        (true, Writers::KeptOut),
        (true, Writers::KeptOut),
    ] {
        let with = OpenOptions { writable, writers, background: writable, ..options() };
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let vault = support::open_with(shared, support::engine(), &with).unwrap();
        let entry = vault.namespace().lookup(ROOT, b"file").unwrap();
        let content = vault.namespace().open(entry.number, Opening::default()).unwrap();
        assert_eq!(read_all(&content).unwrap(), [2; 20_000]);
        drop(vault);
        assert!(Arc::strong_count(&store) > 1, "whoever has a file open can read on");
        drop(content);
        demand_nothing_left(&store, &format!("writable: {writable}, {writers:?}"));
    }
}
