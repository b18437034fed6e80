//! What was written and nobody asked to be synced becomes durable by itself, all of it. That the thread which sees to
//! this sleeps for less than the five seconds that are promised, the compiler holds.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom_format::vault::Suite;
use strongroom_store::Store;
use strongroom_store::faulty::{FaultyStore, NOTHING};
use strongroom_store::memory::MemoryStore;
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{OpenOptions, Vault};
use support::{create_file, options, read_all, write};

/// Far more than is promised: a test on a busy machine judges no times.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is left of a file when the power fails now, and takes all that no barrier has covered.
fn left(store: &FaultyStore, name: &str) -> Option<Vec<u8>> {
    let image = store.image(store.position(), NOTHING);
    let vault = support::open(Arc::new(image));
    let entry = vault.namespace().lookup(ROOT, name.as_bytes()).ok()?;
    let content = vault.namespace().open(entry.number, Opening::default()).expect("no damage");
    Some(read_all(&content).expect("no damage"))
}

fn becomes(store: &FaultyStore, name: &str, wanted: &[u8]) {
    let began = Instant::now();
    while left(store, name).as_deref() != Some(wanted) {
        assert!(began.elapsed() < PATIENCE, "{name} was never made durable");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn close(vault: &Vault, number: u64) {
    vault.namespace().release(number);
    vault.namespace().forget(number, 1);
}

#[test]
fn what_was_written_becomes_durable_unasked() {
    let memory = MemoryStore::new();
    support::create(&memory, Suite::Xaes256Gcm, BlockSize::MIN);
    let store = FaultyStore::new(memory);
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let options = OpenOptions { background: true, ..options() };
    let vault = support::open_with(shared, support::engine(), &options).unwrap();

    let (_, open) = create_file(vault.namespace(), "open");
    write(&open, 0, &[1; 50_000]).unwrap();
    open.sync().unwrap();
    write(&open, 3000, &[2; 20_000]).unwrap();
    open.set_len(40_000).unwrap();
    let mut wanted = vec![1; 40_000];
    wanted[3000..23_000].fill(2);
    assert_eq!(left(&store, "open"), Some(vec![1; 50_000]), "not before a commit");

    let (entry, closed) = create_file(vault.namespace(), "closed");
    write(&closed, 0, &[3; 9000]).unwrap();
    drop(closed);
    close(&vault, entry.number);

    becomes(&store, "open", &wanted);
    becomes(&store, "closed", &[3; 9000]);
    drop(open);
    vault.abandon();
}
