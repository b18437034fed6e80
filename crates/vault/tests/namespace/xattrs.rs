//! Extended attributes: sealed, bound to their inode, limited.

use std::sync::Arc;

use strongroom_store::faulty::{Call, FaultyStore};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{Kind, NodeRef, Store, XattrMode};
use strongroom_vault::Error;
use strongroom_vault::error::errno as code;
use strongroom_vault::namespace::{Changes, Options, ROOT};

use crate::support::{OPTIONS, Vault, creation, errno, on_both, on_both_with, on_store};

fn set(vault: &Vault, number: u64, name: &[u8], value: &[u8], mode: XattrMode) -> Result<(), Error> {
    vault.namespace.set_xattr(number, name, value, mode, false)
}

/// The stored inode of a node. False where the store keeps no attributes.
fn stored(vault: &Vault, number: u64) -> NodeRef {
    let id = vault.namespace.attributes(number).unwrap().id;
    let root = vault.store.root();
    let nodes = root.entries().unwrap().into_iter().map(|entry| root.lookup(&entry.name).unwrap());
    nodes.into_iter().find(|node| node.id() == id).unwrap()
}

#[test]
fn values_come_back_by_name() {
    on_both(|vault| {
        let numbers = [vault.file("f", 0).number, vault.directory("d").number, ROOT];
        for number in numbers {
            set(&vault, number, b"user.one", b"value", XattrMode::Create).unwrap();
            set(&vault, number, b"user.empty", b"", XattrMode::Any).unwrap();
            set(&vault, number, b"security.two", &[9; 1000], XattrMode::Any).unwrap();
            assert_eq!(errno(set(&vault, number, b"user.one", b"", XattrMode::Create)), code::EEXIST);
            assert_eq!(errno(set(&vault, number, b"user.none", b"", XattrMode::Replace)), code::ENODATA);
            set(&vault, number, b"user.one", b"other", XattrMode::Replace).unwrap();
        }
        let numbers_after: Vec<u64> = {
            let vault = &vault;
            ["f", "d", ""].iter().map(|path| vault.number(path)).collect()
        };
        for number in numbers_after {
            let value = |name: &[u8]| vault.namespace.xattr(number, name);
            assert_eq!(value(b"user.one"), Ok(b"other".to_vec()));
            assert_eq!(value(b"user.empty"), Ok(Vec::new()));
            assert_eq!(value(b"security.two"), Ok(vec![9; 1000]));
            assert_eq!(errno(value(b"user.none")), code::ENODATA);
            let mut names = vault.namespace.xattr_names(number).unwrap();
            names.sort();
            assert_eq!(names, [&b"security.two"[..], b"user.empty", b"user.one"]);
            vault.namespace.remove_xattr(number, b"user.one").unwrap();
            assert_eq!(errno(vault.namespace.remove_xattr(number, b"user.one")), code::ENODATA);
            assert_eq!(vault.namespace.xattr_names(number).unwrap().len(), 2);
        }
    });
}

#[test]
fn a_closed_file_is_opened_for_its_id() {
    on_both(|vault| {
        let number = vault.file("f", 0).number;
        set(&vault, number, b"user.one", b"value", XattrMode::Any).unwrap();
        let vault = vault.remounted();
        let number = vault.number("f");
        assert_eq!(vault.namespace.xattr(number, b"user.one"), Ok(b"value".to_vec()));
        set(&vault, number, b"user.two", b"more", XattrMode::Any).unwrap();
        vault.rename("f", "g", strongroom_store::RenameMode::Replace).unwrap();
        assert_eq!(vault.namespace.xattr(number, b"user.two"), Ok(b"more".to_vec()));
    });
}

#[test]
fn the_store_sees_neither_name_nor_value() {
    on_both(|vault| {
        let number = vault.file("f", 0).number;
        set(&vault, number, b"user.secret", b"plain value", XattrMode::Any).unwrap();
        let node = stored(&vault, number);
        let names = node.xattr_names().unwrap();
        assert_eq!(names.len(), 1);
        assert!(names[0].starts_with(b"user.strongroom."));
        assert!(!names[0].windows(6).any(|part| part == b"secret"));
        let value = node.xattr(&names[0]).unwrap();
        assert!(!value.windows(5).any(|part| part == b"plain"));
        set(&vault, number, b"user.secret", b"plain value", XattrMode::Any).unwrap();
        assert_ne!(node.xattr(&names[0]).unwrap(), value, "equal values look different");
    });
}

#[test]
fn a_value_moved_to_another_inode_or_name_does_not_open() {
    on_both(|vault| {
        let (one, two) = (vault.file("one", 0).number, vault.file("two", 0).number);
        set(&vault, one, b"user.a", b"1", XattrMode::Any).unwrap();
        // Of a file known to have no attributes the store is not asked.
        set(&vault, two, b"user.own", b"1", XattrMode::Any).unwrap();
        let (from, to) = (stored(&vault, one), stored(&vault, two));
        let name = from.xattr_names().unwrap().remove(0);
        to.set_xattr(&name, &from.xattr(&name).unwrap(), XattrMode::Any).unwrap();
        let moved = vault.namespace.xattr(two, b"user.a");
        assert_eq!(errno(moved), code::ENODATA, "its name is bound to the other inode");
        assert_eq!(vault.namespace.xattr_names(two).unwrap(), [b"user.own"]);
        assert_eq!(vault.reports.take().len(), 1, "the moved one is told of");
        set(&vault, one, b"user.b", b"2", XattrMode::Any).unwrap();
        let other = from.xattr_names().unwrap().into_iter().find(|found| *found != name).unwrap();
        from.set_xattr(&name, &from.xattr(&other).unwrap(), XattrMode::Any).unwrap();
        assert_eq!(errno(vault.namespace.xattr(one, b"user.a")), code::EIO);
        from.set_xattr(b"user.strongroom.stray", b"x", XattrMode::Any).unwrap();
        from.set_xattr(b"user.other", b"x", XattrMode::Any).unwrap();
        assert_eq!(vault.namespace.xattr_names(one).unwrap().len(), 2, "the store's own are not ours");
        assert_eq!(vault.reports.take().len(), 1, "the stray one is told of");
    });
}

#[test]
fn classes_and_lengths_are_bounded() {
    on_both(|vault| {
        let number = vault.file("f", 0).number;
        let try_name = |name: &[u8]| set(&vault, number, name, b"", XattrMode::Any);
        for name in [&b"system.other"[..], b"other", b"user"] {
            assert_eq!(errno(try_name(name)), code::EOPNOTSUPP);
        }
        let name = |len: usize| [&b"user."[..], &vec![b'x'; len - 5]].concat();
        assert_eq!(try_name(&name(163)), Ok(()));
        assert_eq!(errno(try_name(&name(164))), code::ERANGE);
        let mut listed = vault.namespace.xattr_names(number).unwrap();
        assert_eq!(listed.pop(), Some(name(163)));
        let large = set(&vault, number, b"user.large", &vec![1; 65536], XattrMode::Any);
        assert_eq!(errno(large), 7, "E2BIG");
    });
}

#[test]
fn symlinks_and_fifos_have_attributes_of_their_own() {
    on_both_with(Options { owners: false, ..OPTIONS }, |vault| {
        let fifo = vault.namespace.make_special(ROOT, b"p", Kind::Fifo, 0, &creation(0o600)).unwrap();
        for number in [vault.symlink("s", b"t").number, fifo.number] {
            set(&vault, number, b"security.x", b"1", XattrMode::Any).unwrap();
        }
        let vault = vault.remounted();
        for name in ["s", "p"] {
            let number = vault.number(name);
            assert_eq!(vault.namespace.xattr(number, b"security.x"), Ok(b"1".to_vec()));
        }
        // A value is bound to its inode.
        let root = vault.store.root();
        let stored = vault.stored(&root);
        let [one, other] = [0, 1].map(|index| root.lookup(&stored[index]).unwrap());
        let [from, to] = [&one, &other].map(|node| node.xattr_names().unwrap().remove(0));
        assert_ne!(from, to, "and so is its name");
        other.set_xattr(&to, &one.xattr(&from).unwrap(), XattrMode::Any).unwrap();
        let read = ["s", "p"].map(|name| vault.namespace.xattr(vault.number(name), b"security.x"));
        assert_eq!(read.iter().filter(|read| read.is_err()).count(), 1, "{read:?}");
    });
}

/// The kernel asks for a capability before the first write to every file, and
/// a change of owner or mode asks for a list.
#[test]
fn the_store_is_not_asked_for_attributes_of_what_was_just_made() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let vault = on_store(Arc::clone(&store) as Arc<dyn Store>);
    let asked = || {
        [Call::Xattr, Call::XattrNames, Call::RemoveXattr]
            .map(|call| store.calls(Some(call)))
            .iter()
            .sum::<u64>()
    };
    let numbers = [vault.file("f", 0).number, vault.directory("d").number];
    let before = asked();
    for number in numbers {
        assert_eq!(errno(vault.namespace.xattr(number, b"security.capability")), code::ENODATA);
        assert_eq!(vault.namespace.xattr_names(number), Ok(Vec::new()));
        assert_eq!(errno(vault.namespace.remove_xattr(number, b"user.one")), code::ENODATA);
        let changes = Changes { uid: Some(7), mode: Some(0o600), ..Changes::NONE };
        vault.namespace.set_attributes(number, &changes).unwrap();
    }
    vault.file("d/below", 0);
    assert_eq!(asked(), before);
    for number in numbers {
        set(&vault, number, b"user.one", b"value", XattrMode::Any).unwrap();
        assert_eq!(vault.namespace.xattr(number, b"user.one"), Ok(b"value".to_vec()));
    }
}
