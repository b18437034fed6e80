//! Generations of the keys that seal files (section 2 of the format): each
//! file is of one, new files of the newest, and none below the lowest opens.

mod support;

use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_format::vault::header::Header;
use strongroom_keys::slots::seal_header;
use strongroom_store::Store;
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Error, Vault, write_header};
use support::{create_file, read_all, write};

/// Changes the header of a vault that nobody has open.
fn change_header(store: &dyn Store, change: impl Fn(&mut Header)) {
    let (mut header, root) = support::unlock(store);
    change(&mut header);
    seal_header(&mut header, &root);
    write_header(store, &mut header, &root).unwrap();
}

fn found(vault: &Vault, name: &str) -> Result<Vec<u8>, Error> {
    let names = vault.namespace();
    let entry = names.lookup(ROOT, name.as_bytes())?;
    read_all(&*names.open(entry.number, Opening { write: true, ..Opening::default() })?)
}

/// A vault with a file of each of two generations.
fn rotated(suite: Suite) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    support::create(&*store, suite, BlockSize::MIN);
    let vault = support::open(Arc::clone(&store));
    write(&create_file(vault.namespace(), "first").1, 0, &[1; 600_000]).unwrap();
    vault.close().unwrap();
    change_header(&*store, |header| header.generation = 2);
    let vault = support::open(Arc::clone(&store));
    write(&create_file(vault.namespace(), "second").1, 0, &[2; 600_000]).unwrap();
    vault.close().unwrap();
    store
}

#[test]
fn files_of_each_accepted_generation_open_and_are_written_to() {
    for suite in Suite::ALL {
        let store = rotated(suite);
        let vault = support::open(Arc::clone(&store));
        let names = vault.namespace();
        for (name, byte) in [("first", 1), ("second", 2)] {
            assert_eq!(found(&vault, name).unwrap(), [byte; 600_000], "{suite}: {name}");
            let entry = names.lookup(ROOT, name.as_bytes()).unwrap();
            let content = names.open(entry.number, Opening { write: true, ..Opening::default() }).unwrap();
            write(&content, 300_000, &[9; 100_000]).unwrap();
            content.sync().unwrap();
        }
        // The journal of a crash has commits of both.
        vault.abandon();
        let vault = support::open(Arc::clone(&store));
        for (name, byte) in [("first", 1), ("second", 2)] {
            let content = found(&vault, name).unwrap();
            assert!(content[300_000..400_000].iter().all(|&found| found == 9), "{suite}: {name}");
            assert!(content[..300_000].iter().all(|&found| found == byte), "{suite}: {name}");
        }
        vault.close().unwrap();
    }
}

#[test]
fn none_below_the_lowest_opens() {
    let store = rotated(Suite::Xaes256Gcm);
    change_header(&*store, |header| header.generation_min = 2);
    let vault = support::open(store);
    let refused = found(&vault, "first").unwrap_err();
    assert!(refused.to_string().contains("key generation"), "{refused}");
    assert_eq!(found(&vault, "second").unwrap(), [2; 600_000]);
    vault.close().unwrap();
}

#[test]
fn a_page_that_claims_another_generation_does_not_open() {
    let store = rotated(Suite::Xaes256Gcm);
    change_header(&*store, |header| header.generation = 3);
    let vault = support::open(Arc::clone(&store));
    assert_eq!(found(&vault, "first").unwrap(), [1; 600_000]);
    vault.close().unwrap();
    // The clear part of the first node page claims the other generation.
    let node = 4096 + 128 * 4096 + 4096;
    for entry in store.root().entries().unwrap() {
        let Ok(node_ref) = store.root().lookup(&entry.name) else { continue };
        if node_ref.kind() != strongroom_store::Kind::File || entry.name.starts_with(b".") {
            continue;
        }
        let file = node_ref.open(strongroom_store::Access::ReadWrite).unwrap();
        let mut generation = [0; 4];
        file.read_at(&mut generation, node + 8).unwrap();
        file.write_at(&(u32::from_le_bytes(generation) % 3 + 1).to_le_bytes(), node + 8).unwrap();
    }
    let vault = support::open(store);
    for name in ["first", "second"] {
        assert!(matches!(found(&vault, name), Err(Error::Damaged(_))), "{name}");
    }
}
