//! One suite that every store passes: a directory on the disk, one on tmpfs,
//! the store in memory, and the faulty store without faults.

mod suite;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strongroom_store::faulty::{FaultyStore, FileSync};
use strongroom_store::local::{LocalStore, OpenMode};
use strongroom_store::memory::MemoryStore;
use suite::{TESTS, Traits};

/// Runs the whole suite, each test in a directory of its own.
fn run(open: impl Fn() -> suite::Subject) {
    for (name, test) in TESTS {
        println!("{name}");
        test(&open());
    }
}

fn on_directory(parent: Option<&Path>) {
    // The modes in the suite are meant as they stand.
    rustix::process::umask(rustix::fs::Mode::empty());
    let place = || match parent {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    };
    // Privileged classes of attributes and device nodes need root.
    let root = rustix::process::geteuid().is_root();
    run(|| {
        let directory = place().expect("a temporary directory can be made");
        let store = LocalStore::open(directory.path(), OpenMode::Writable).expect("it opens");
        let traits = Traits { device_nodes: root, whiteout: root, ..Traits::default() };
        suite::Subject { store: Arc::new(store), traits, keep: Some(Box::new(directory)) }
    });
}

#[test]
fn local_on_disk() {
    on_directory(None);
}

#[test]
fn local_on_tmpfs() {
    let tmpfs = PathBuf::from("/dev/shm");
    assert!(tmpfs.is_dir(), "/dev/shm is mounted");
    on_directory(Some(&tmpfs));
}

#[test]
fn memory() {
    run(|| suite::Subject::new(MemoryStore::new(), Traits { sorted: true, ..Traits::default() }));
}

#[test]
fn faulty_without_faults() {
    for model in [FileSync::OwnChanges, FileSync::WholeJournal] {
        run(|| suite::Subject::new(FaultyStore::with_model(MemoryStore::new(), model), Traits::default()));
    }
}
