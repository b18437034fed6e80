//! Images must be cheap: crash tests draw them by the hundred thousand.

use std::time::{Duration, Instant};

use strongroom_store::Store;
use strongroom_store::faulty::FaultyStore;
use strongroom_store::memory::MemoryStore;

#[test]
fn thousands_of_images_a_second() {
    let store = FaultyStore::new(MemoryStore::new());
    let root = store.root();
    let files: Vec<_> = (0..8).map(|n| root.create(format!("{n}").as_bytes(), 0o600).unwrap().1).collect();
    for round in 0..200usize {
        let file = &files[round % 8];
        file.write_at(&vec![round as u8; 1 + round * 97 % 20_000], (round * 4096 % 300_000) as u64).unwrap();
        if round % 5 == 0 {
            file.sync_data().unwrap();
        }
    }
    let start = Instant::now();
    let mut distinct = std::collections::HashSet::new();
    let count = 5_000;
    for number in 0..count {
        let cut = number as usize % (store.position() + 1);
        distinct.insert(store.image(cut, number).fingerprint());
    }
    let taken = start.elapsed();
    println!("{count} images, {} distinct, in {taken:?}", distinct.len());
    assert!(distinct.len() as u64 > count / 2);
    // Ten times what a slow and busy machine needs.
    assert!(taken < Duration::from_secs(50), "{taken:?}");
}
