//! What settling would throw away is kept: files that were spoiled while a
//! crashed session is listed, whoever spoiled them.

mod attack_model;
mod support;

use attack_model::{BLOCK, Resting, content};
use strongroom_format::vault::Suite;
use strongroom_store::{Access, NodeRef, Store, XattrMode};
use strongroom_vault::error::errno;
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Error, Options, Recovered, Vault};
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
    resting.file("new").put(0, &[0; 512]);
    let before = resting.file("new").bytes();
    let inode = resting.node("new").id().inode;
    let vault = support::open_with(std::sync::Arc::new(resting.store.clone()), support::engine(), &options())
        .unwrap();
    assert_eq!(open(&vault, "new"), Ok(0));
    assert!(recovered(&vault).contains(&Recovered::SetAside));
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
    assert_eq!(open(&vault, "new"), Ok(0));
    assert!(recovered(&vault).contains(&Recovered::Emptied));
    vault.close().unwrap();
    assert_eq!(aside(&resting).len(), 0);
}

/// The values are bound to an id that is lost: who may write removes them, and
/// who only reads does not see them.
#[test]
fn attributes_of_a_file_that_was_never_durable_are_neither_read_nor_damage() {
    const LIST: &[u8] = b"system.posix_acl_access";
    let resting = crashed();
    let store = || std::sync::Arc::new(resting.store.clone());
    let vault = support::open(store());
    let names = vault.namespace();
    let (lost, written) = create_file(names, "lost");
    write(&written, 0, &content(3, BLOCK)).unwrap();
    let old = names.lookup(ROOT, b"old").unwrap().number;
    for number in [lost.number, old] {
        names.set_xattr(number, b"user.one", b"kept", XattrMode::Any, false).unwrap();
    }
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, id) in [(1u16, u32::MAX), (2, 1000), (4, u32::MAX), (16, u32::MAX), (32, u32::MAX)] {
        list.extend([&tag.to_le_bytes()[..], &4u16.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    names.set_xattr(lost.number, LIST, &list, XattrMode::Any, false).unwrap();
    vault.abandon();

    let stored = || resting.node("lost").xattr_names().unwrap().len();
    assert_eq!(stored(), 2);
    let reading = Options { writable: false, ..options() };
    // Asked for before the file is opened, and after.
    for opens_first in [false, true] {
        let vault = support::open_with(store(), support::engine(), &reading).unwrap();
        let names = vault.namespace();
        let lost = names.lookup(ROOT, b"lost").unwrap().number;
        if opens_first {
            names.open(lost, Opening::default()).unwrap();
        }
        assert_eq!(names.xattr_names(lost), Ok(Vec::new()));
        for name in [&b"user.one"[..], LIST] {
            assert_eq!(names.xattr(lost, name), Err(Error::Refused(errno::ENODATA)));
        }
        assert_eq!(open(&vault, "lost"), Ok(0));
        let old = names.lookup(ROOT, b"old").unwrap().number;
        assert_eq!(names.xattr(old, b"user.one"), Ok(b"kept".to_vec()));
        assert_eq!(names.xattr_names(old), Ok(vec![b"user.one".to_vec()]));
    }
    assert_eq!(stored(), 2, "who reads changes nothing");
    let vault = support::open(store());
    vault.settle().unwrap();
    vault.close().unwrap();
    assert_eq!(stored(), 0);
    let vault = support::open_with(store(), support::engine(), &reading).unwrap();
    let lost = vault.namespace().lookup(ROOT, b"lost").unwrap().number;
    assert_eq!(vault.namespace().xattr_names(lost), Ok(Vec::new()));
}
