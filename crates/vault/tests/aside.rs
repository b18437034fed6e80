//! What a crash takes away is kept: files that were spoiled while a crashed
//! session is listed, whoever spoiled them.

mod attack_model;
mod support;

use attack_model::{BLOCK, Resting, content};
use strongroom_format::vault::Suite;
use strongroom_store::{Access, NodeRef, Store};
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Error, OpenOptions, Recovered, Vault};
use support::{create_file, options, write};

/// A file of an earlier session, `old`, and one that the session which then
/// crashed has made durable, `new`.
fn crashed() -> Resting {
    let resting = Resting::with(Suite::Xaes256Gcm, &[("old", content(1, 3 * BLOCK))]);
    let vault = support::open(std::sync::Arc::new(resting.store.clone()));
    let (_, written) = create_file(vault.namespace(), "new");
    write(&written, 0, &content(2, 2 * BLOCK)).unwrap();
    written.sync().unwrap();
    vault.abandon();
    resting
}

fn aside(resting: &Resting) -> Vec<(String, NodeRef)> {
    let private = resting.store.root().lookup(b".strongroom").unwrap();
    let Ok(aside) = private.lookup(b"aside") else { return Vec::new() };
    let names = aside.entries().unwrap().into_iter().map(|entry| entry.name);
    names.map(|name| (String::from_utf8(name.clone()).unwrap(), aside.lookup(&name).unwrap())).collect()
}

fn open(vault: &Vault, name: &str) -> Result<u64, Error> {
    let entry = vault.namespace().lookup(ROOT, name.as_bytes())?;
    let content = vault.namespace().open(entry.number, Opening::default())?;
    let len = content.plain_len();
    vault.namespace().release(entry.number);
    Ok(len)
}

fn recovered(vault: &Vault) -> Vec<Recovered> {
    vault.recovered().into_values().collect()
}

#[test]
fn a_spoiled_first_sector_loses_nothing_more_than_itself() {
    let resting = crashed();
    let (file, inode) = (resting.file("new"), resting.node("new").id().inode);
    file.put(0, &[0; 512]);
    let before = file.bytes();
    let vault = support::open_with(std::sync::Arc::new(resting.store.clone()), support::engine(), &options())
        .unwrap();
    assert!(open(&vault, "new").unwrap_err().is_not_found());
    assert!(recovered(&vault).contains(&Recovered::Removed));
    vault.settle().unwrap();
    vault.close().unwrap();
    let kept = aside(&resting);
    let [(name, node)] = &kept[..] else { panic!("{} kept", kept.len()) };
    assert_eq!(*name, format!("unknown.{inode}"));
    let mut bytes = vec![0; before.len() + 1];
    let read = node.open(Access::Read).unwrap().read_at(&mut bytes, 0).unwrap();
    assert!(bytes[..read] == before, "the copy is as the file was");
    resting.mount().demand_whole("old", &resting.files["old"]);
}

#[test]
fn a_sector_that_names_a_session_which_ended_well_is_damage() {
    let resting = crashed();
    resting.file("old").put(1024, &[0; 512]);
    let before = resting.file("old").bytes();
    let vault = support::open(std::sync::Arc::new(resting.store.clone()));
    assert!(matches!(open(&vault, "old"), Err(Error::Damaged(_))));
    vault.settle().unwrap();
    vault.close().unwrap();
    assert_eq!(aside(&resting).len(), 0);
    let node = {
        let root = resting.store.root();
        let names = root.entries().unwrap().into_iter().map(|entry| entry.name);
        let mut nodes = names.filter(|name| !name.starts_with(b".")).map(|name| root.lookup(&name).unwrap());
        nodes.find(|node| node.attributes().unwrap().len == before.len() as u64).expect("it is not cut")
    };
    let mut bytes = vec![0; before.len()];
    node.open(Access::Read).unwrap().read_at(&mut bytes, 0).unwrap();
    assert!(bytes == before, "nothing of it was touched");
}

#[test]
fn what_holds_zeros_alone_is_not_kept() {
    let resting = crashed();
    let len = resting.file("new").len() as usize;
    resting.file("new").put(0, &vec![0; len]);
    let vault = support::open(std::sync::Arc::new(resting.store.clone()));
    assert!(open(&vault, "new").unwrap_err().is_not_found());
    assert!(recovered(&vault).contains(&Recovered::Removed));
    vault.close().unwrap();
    assert_eq!(aside(&resting).len(), 0);
}

/// Who only reads does not see it, and changes nothing; who writes removes it.
#[test]
fn a_file_that_was_never_durable_is_not_there() {
    let resting = crashed();
    let store = || std::sync::Arc::new(resting.store.clone());
    let vault = support::open(store());
    let (_, written) = create_file(vault.namespace(), "lost");
    write(&written, 0, &content(3, BLOCK)).unwrap();
    vault.abandon();
    let count = || {
        let names = resting.store.root().entries().unwrap().into_iter().map(|entry| entry.name);
        names.filter(|name| !name.starts_with(b".")).count()
    };
    let reading = OpenOptions { writable: false, ..options() };
    let vault = support::open_with(store(), support::engine(), &reading).unwrap();
    assert!(open(&vault, "lost").unwrap_err().is_not_found());
    assert_eq!(open(&vault, "new"), Ok(2 * BLOCK as u64));
    assert_eq!(count(), 3, "who reads changes nothing");
    let vault = support::open(store());
    vault.settle().unwrap();
    vault.close().unwrap();
    assert_eq!(count(), 2);
    assert_eq!(aside(&resting).len(), 1);
}

/// The directory's `fsync` promises the name, so that it has to make the file
/// durable too.
#[test]
fn a_directory_that_was_synced_keeps_its_new_files() {
    let resting = Resting::with(Suite::Xaes256Gcm, &[]);
    let store = || std::sync::Arc::new(resting.store.clone());
    let vault = support::open(store());
    let (_, written) = create_file(vault.namespace(), "new");
    write(&written, 0, &content(3, BLOCK)).unwrap();
    vault.namespace().sync_directory(ROOT).unwrap();
    vault.abandon();
    let vault = support::open(store());
    assert_eq!(open(&vault, "new"), Ok(BLOCK as u64));
}
