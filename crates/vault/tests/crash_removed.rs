//! A removed file that is still written to: until its removal is durable a crash may bring it back, as it was.

mod support;

use std::sync::Arc;

use strongroom_format::vault::Suite;
use strongroom_store::Store;
use strongroom_store::faulty::FaultyStore;
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Opening, ROOT};

const LEN: usize = 3 * 4096;

#[test]
fn a_file_whose_removal_a_crash_undoes_is_as_it_was() {
    let memory = MemoryStore::new();
    support::create(&memory, Suite::Xaes256Gcm, BlockSize::from_shift(12).unwrap());
    let store = Arc::new(FaultyStore::new(memory));
    let vault = support::open(Arc::clone(&store) as Arc<dyn Store>);
    let (_, content) = support::create_file(vault.namespace(), "file");
    support::write(&content, 0, &[1; LEN]).unwrap();
    content.sync().unwrap();
    vault.namespace().remove(ROOT, b"file").unwrap();
    support::write(&content, 4096, &[2; 4096]).unwrap();
    assert_eq!(
        support::read(&content, 4096, 4096).unwrap(),
        [2; 4096],
        "who has it open sees what was written"
    );

    let mut brought_back = 0;
    for seed in 0..64 {
        let recovered = support::open(Arc::new(store.image(store.position(), seed)));
        let Ok(entry) = recovered.namespace().lookup(ROOT, b"file") else { continue };
        let again = recovered.namespace().open(entry.number, Opening::default()).unwrap();
        assert_eq!(support::read_all(&again).expect("whole"), [1; LEN], "image {seed}");
        brought_back += 1;
    }
    assert!(brought_back > 0, "some images have the file");
}
