//! Attacks on what binds a file to its name, around renames, links and files
//! that are open: a file opens under the name that it has, and one that does
//! not is bound to no other by what the user does with it.

mod attack_model;
mod support;

use std::sync::Arc;

use attack_model::{Resting, content};
use strongroom_format::vault::Suite;
use strongroom_store::faulty::{Call, EVERYTHING, Effect, FaultyStore, Plan};
use strongroom_store::{InodeId, Kind, NodeRef, RenameMode, Store};
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Damage, Error, Result, Vault};
use support::{CREATION, options, read_all, write};

const MISPLACED: Error = Error::Damaged(Damage::Home);

fn resting() -> Resting {
    Resting::with(Suite::Xaes256Gcm, &[("f", content(1, 5000)), ("g", content(2, 6000))])
}

fn mount(resting: &Resting) -> Vault {
    let options = strongroom_vault::OpenOptions { journal_len: 1 << 20, ..options() };
    support::open_with(std::sync::Arc::new(resting.store.clone()), support::engine(), &options).unwrap()
}

/// Reads a file as it is opened anew.
fn look(vault: &Vault, name: &str) -> Result<Vec<u8>> {
    let names = vault.namespace();
    let entry = names.lookup(ROOT, name.as_bytes())?;
    let found = names.open(entry.number, Opening::default()).map(|content| {
        let bytes = read_all(&content).unwrap();
        names.release(entry.number);
        bytes
    });
    names.forget(entry.number, 1);
    found
}

/// Finds what is there and opens it.
fn opened(vault: &Vault, name: &[u8]) -> Result<()> {
    let names = vault.namespace();
    let entry = names.lookup(ROOT, name)?;
    let found = names.open(entry.number, Opening::default()).map(|_| names.release(entry.number));
    names.forget(entry.number, 1);
    found
}

/// Opens a file, changes a byte, and makes that durable.
fn commit(vault: &Vault, name: &str, byte: u8) {
    let names = vault.namespace();
    let entry = names.lookup(ROOT, name.as_bytes()).unwrap();
    let content = names.open(entry.number, Opening { write: true, ..Opening::default() }).unwrap();
    write(&content, 0, &[byte]).unwrap();
    content.sync().unwrap();
    drop(content);
    names.release(entry.number);
    names.forget(entry.number, 1);
}

fn rename(vault: &Vault, from: &str, to: &str) -> Result<()> {
    vault.namespace().rename(ROOT, from.as_bytes(), ROOT, to.as_bytes(), RenameMode::Replace)
}

/// Links the stored file of one name over that of another.
fn link_over(resting: &Resting, from: &[u8], over: &[u8]) {
    let root = resting.store.root();
    root.remove(over).unwrap();
    root.link(&*root.lookup(from).unwrap(), over).unwrap();
}

#[test]
fn a_file_that_is_open_does_not_open_under_a_name_that_it_was_linked_to() {
    for is_closed in [false, true] {
        let resting = resting();
        let [f, g] = ["f", "g"].map(|name| resting.stored_name(name));
        let vault = mount(&resting);
        let names = vault.namespace();
        let entry = names.lookup(ROOT, b"f").unwrap();
        let open = names.open(entry.number, Opening { write: true, ..Opening::default() }).unwrap();
        // What is not committed keeps the content, whoever closes it.
        write(&open, 0, &[7; 100]).unwrap();
        let right = read_all(&open).unwrap();
        let release = || {
            names.release(entry.number);
            names.forget(entry.number, 1);
        };
        let mut open = Some(open);
        if is_closed {
            open = None;
            release();
        }
        link_over(&resting, &f, &g);
        assert_eq!(look(&vault, "g").unwrap_err(), MISPLACED, "closed: {is_closed}");
        assert_eq!(look(&vault, "f").unwrap(), right, "closed: {is_closed}");
        if open.take().is_some() {
            release();
        }
        vault.close().unwrap();
    }
}

/// The name before a rename is one for as long as a crash may leave the file
/// there: until the first commit, in the same opening or another, in the same
/// mount or another.
#[test]
fn the_first_commit_after_a_rename_forgets_the_name_before() {
    for is_mounted_again in [false, true] {
        let resting = resting();
        let [before, other] = ["f", "g"].map(|name| resting.stored_name(name));
        let mut vault = mount(&resting);
        rename(&vault, "f", "h").unwrap();
        if is_mounted_again {
            vault.close().unwrap();
            drop(vault);
            vault = mount(&resting);
        }
        commit(&vault, "h", 9);
        vault.close().unwrap();
        drop(vault);
        let now = resting.stored_name("h");
        assert_ne!(now, other);
        let root = resting.store.root();
        root.rename(&now, &*root, &before, RenameMode::Replace).unwrap();
        assert_eq!(look(&mount(&resting), "f").unwrap_err(), MISPLACED, "again: {is_mounted_again}");
        root.rename(&before, &*root, &now, RenameMode::Replace).unwrap();
        assert_eq!(look(&mount(&resting), "h").unwrap()[0], 9);
    }
}

#[test]
fn a_rename_that_is_refused_binds_to_no_other_name() {
    let resting = resting();
    let vault = mount(&resting);
    let made = vault.namespace().make_directory(ROOT, b"d", &CREATION).unwrap();
    vault.namespace().forget(made.number, 1);
    assert!(matches!(rename(&vault, "f", "d"), Err(Error::Refused(_))));
    commit(&vault, "f", 9);
    vault.close().unwrap();
    drop(vault);
    let [f, d] = ["f", "d"].map(|name| resting.stored_name(name));
    let root = resting.store.root();
    root.rename(&f, &*root, &d, RenameMode::Exchange).unwrap();
    assert_eq!(look(&mount(&resting), "d").unwrap_err(), MISPLACED);
}

/// Makes the directory `d` with a file and a symlink in it, both durable.
fn make_filled(vault: &Vault) {
    let names = vault.namespace();
    let made = names.make_directory(ROOT, b"d", &CREATION).unwrap().number;
    let opening = Opening { write: true, ..Opening::default() };
    let (entry, content) = names.create(made, b"f", &CREATION, opening).unwrap();
    write(&content, 0, &[7; 5000]).unwrap();
    content.sync().unwrap();
    drop(content);
    names.release(entry.number);
    names.forget(entry.number, 1);
    let link = names.make_symlink(made, b"s", b"target", &CREATION).unwrap();
    names.forget(link.number, 1);
    names.forget(made, 1);
}

/// The stored name of what was found by its plain one.
fn stored_in(directory: &NodeRef, id: InodeId) -> Vec<u8> {
    let entries = directory.entries().unwrap().into_iter().map(|entry| entry.name);
    entries.into_iter().find(|name| directory.lookup(name).unwrap().id() == id).unwrap()
}

/// What stands in a directory is put into its place, in the store as it is
/// after the directory refused to be exchanged with it.
#[test]
fn an_exchange_with_what_is_within_binds_to_no_other_name() {
    for name in [&b"f"[..], b"s"] {
        for outward in [false, true] {
            let resting = resting();
            let vault = mount(&resting);
            make_filled(&vault);
            vault.close().unwrap();
            drop(vault);
            let vault = mount(&resting);
            let names = vault.namespace();
            let made = names.lookup(ROOT, b"d").unwrap().number;
            let (from, to) = ((ROOT, &b"d"[..]), (made, name));
            let (from, to) = if outward { (to, from) } else { (from, to) };
            let refused = names.rename(from.0, from.1, to.0, to.1, RenameMode::Exchange);
            assert_eq!(refused.unwrap_err(), Error::Refused(22), "EINVAL");
            let id = names.lookup(made, name).unwrap().attributes.id;
            let past = resting.copy();
            let root = past.store.root();
            let directory = names.attributes(made).unwrap().id;
            let stored_d = stored_in(&resting.store.root(), directory);
            let within = resting.store.root().lookup(&stored_d).unwrap();
            let stored = stored_in(&within, id);
            root.rename(&stored_d, &*root, b"away", RenameMode::Replace).unwrap();
            let away = root.lookup(b"away").unwrap();
            away.rename(&stored, &*root, &stored_d, RenameMode::Replace).unwrap();
            assert_eq!(opened(&mount(&past), b"d").unwrap_err(), MISPLACED, "{name:?}, outward: {outward}");
            vault.abandon();
        }
    }
}

/// A file that is to be renamed into a directory that was removed.
#[test]
fn a_rename_into_a_removed_directory_binds_to_no_other_name() {
    let resting = resting();
    let vault = mount(&resting);
    let names = vault.namespace();
    let made = names.make_directory(ROOT, b"d", &CREATION).unwrap().number;
    // It has been entered.
    assert!(names.lookup(made, b"g").unwrap_err().is_not_found());
    names.remove_directory(ROOT, b"d").unwrap();
    vault.sync().unwrap();
    let before = resting.store.fingerprint();
    let refused = names.rename(ROOT, b"f", made, b"g", RenameMode::Replace);
    assert_eq!(refused.unwrap_err(), Error::Refused(2), "ENOENT");
    assert_eq!(resting.store.fingerprint(), before, "nothing was written");
    vault.abandon();
}

/// A side file that cannot be made keeps the store from being asked: the file
/// goes on as if nobody had asked for the rename.
#[test]
fn a_rename_whose_side_file_fails_leaves_no_second_name() {
    let memory = resting();
    let store = Arc::new(FaultyStore::new(memory.store.snapshot()));
    let vault = support::open_with(Arc::clone(&store) as Arc<dyn Store>, support::engine(), &options());
    let vault = vault.unwrap();
    let long = "n".repeat(255);
    let creates = Plan { call: Some(Call::Create), after: 0, times: 1, effect: Effect::Fails(28) };
    store.fail(creates);
    assert!(rename(&vault, "f", &long).is_err());
    store.heal();
    commit(&vault, "f", 9);
    rename(&vault, "g", &long).unwrap();
    vault.close().unwrap();
    drop(vault);
    let resting = after(&store);
    let [f, other] = ["f", &long].map(|name| resting.stored_name(name));
    let root = resting.store.root();
    root.rename(&f, &*root, &other, RenameMode::Exchange).unwrap();
    assert_eq!(look(&mount(&resting), &long).unwrap_err(), MISPLACED);
}

/// A further name that cannot be given unbinds nothing.
#[test]
fn a_link_whose_side_file_fails_leaves_the_file_bound() {
    let memory = resting();
    let store = Arc::new(FaultyStore::new(memory.store.snapshot()));
    let vault = support::open_with(Arc::clone(&store) as Arc<dyn Store>, support::engine(), &options());
    let vault = vault.unwrap();
    let names = vault.namespace();
    let entry = names.lookup(ROOT, b"f").unwrap();
    store.fail(Plan { call: Some(Call::Create), after: 0, times: 1, effect: Effect::Fails(28) });
    assert!(names.link(entry.number, ROOT, &[b'n'; 255]).is_err());
    store.heal();
    names.forget(entry.number, 1);
    vault.close().unwrap();
    drop(vault);
    let resting = after(&store);
    let [f, g] = ["f", "g"].map(|name| resting.stored_name(name));
    let root = resting.store.root();
    root.rename(&f, &*root, &g, RenameMode::Exchange).unwrap();
    assert_eq!(look(&mount(&resting), "g").unwrap_err(), MISPLACED);
}

/// A store that takes no more links has not given a second name.
#[test]
fn a_link_that_the_store_refuses_leaves_the_inode_bound() {
    const EMLINK: i32 = 31;
    let memory = resting();
    memory.change(|vault| {
        for name in [&b"s"[..], b"t"] {
            let made = vault.namespace().make_symlink(ROOT, name, b"target", &CREATION).unwrap();
            vault.namespace().forget(made.number, 1);
        }
    });
    let store = Arc::new(FaultyStore::new(memory.store.snapshot()));
    let vault = support::open_with(Arc::clone(&store) as Arc<dyn Store>, support::engine(), &options());
    let vault = vault.unwrap();
    let names = vault.namespace();
    for name in [&b"f"[..], b"s"] {
        let entry = names.lookup(ROOT, name).unwrap();
        store.fail(Plan::from(0, EMLINK).of(Call::Link));
        assert_eq!(names.link(entry.number, ROOT, b"second").unwrap_err().errno(), EMLINK);
        store.heal();
        names.forget(entry.number, 1);
    }
    vault.close().unwrap();
    drop(vault);
    let resting = after(&store);
    let root = resting.store.root();
    for (from, to) in [("f", "g"), ("s", "t")] {
        let [from, stored] = [from, to].map(|name| resting.stored_name(name));
        root.rename(&from, &*root, &stored, RenameMode::Exchange).unwrap();
        assert_eq!(opened(&mount(&resting), to.as_bytes()).unwrap_err(), MISPLACED, "{to}");
    }
}

/// The vault as its store has it.
fn after(store: &FaultyStore) -> Resting {
    let store = store.image(store.position(), EVERYTHING);
    Resting { store, files: std::collections::BTreeMap::new() }
}

/// Two files and two symlinks that somebody has exchanged are errors. They stay
/// so under the names that the user gives them.
#[test]
fn what_does_not_belong_is_bound_to_no_name_by_a_rename_or_a_link() {
    let resting = resting();
    let vault = mount(&resting);
    for (name, target) in [("s", b"one".as_slice()), ("t", b"two")] {
        let made = vault.namespace().make_symlink(ROOT, name.as_bytes(), target, &CREATION).unwrap();
        vault.namespace().forget(made.number, 1);
    }
    vault.close().unwrap();
    drop(vault);
    let root = resting.store.root();
    for pair in [["f", "g"], ["s", "t"]] {
        let [one, other] = pair.map(|name| resting.stored_name(name));
        root.rename(&one, &*root, &other, RenameMode::Exchange).unwrap();
    }

    let vault = mount(&resting);
    let names = vault.namespace();
    assert_eq!(look(&vault, "f").unwrap_err(), MISPLACED);
    rename(&vault, "f", "moved").unwrap();
    assert_eq!(look(&vault, "moved").unwrap_err(), MISPLACED);
    let entry = names.lookup(ROOT, b"g").unwrap();
    assert_eq!(names.link(entry.number, ROOT, b"linked").unwrap_err(), MISPLACED);
    names.forget(entry.number, 1);
    assert_eq!(look(&vault, "g").unwrap_err(), MISPLACED);

    rename(&vault, "s", "moved symlink").unwrap();
    for name in [&b"moved symlink"[..], b"t"] {
        let entry = names.lookup(ROOT, name).unwrap();
        assert_eq!(entry.attributes.kind, Kind::File, "a file that does not open stands for it");
        assert_eq!(names.open(entry.number, Opening::default()).unwrap_err(), MISPLACED);
        names.forget(entry.number, 1);
    }
    vault.close().unwrap();
}
