//! Attacks on what binds a file to its name, around renames, links and files
//! that are open: a file opens under the name that it has, and one that does
//! not is bound to no other by what the user does with it.

mod attack_model;
mod support;

use attack_model::{Resting, content};
use strongroom_format::vault::Suite;
use strongroom_store::{Kind, RenameMode, Store};
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Damage, Error, Result, Vault};
use support::{CREATION, options, read_all, write};

const MISPLACED: Error = Error::Damaged(Damage::Home);

fn resting() -> Resting {
    Resting::with(Suite::Xaes256Gcm, &[("f", content(1, 5000)), ("g", content(2, 6000))])
}

fn mount(resting: &Resting) -> Vault {
    let options = strongroom_vault::Options { journal_len: 1 << 20, ..options() };
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
