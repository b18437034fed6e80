//! Changes to the store by somebody without keys.

use strongroom_store::{NodeRef, RenameMode};
use strongroom_vault::error::errno as code;
use strongroom_vault::{Damage, Error};

use crate::support::{Vault, errno, on_both};

/// The stored name of an entry of the top directory, and that directory.
fn stored(vault: &Vault, path: &str) -> (NodeRef, Vec<u8>) {
    let id = vault.find(path).unwrap().attributes.id;
    let root = vault.store.root();
    let names = vault.stored(&root);
    let name = names.into_iter().find(|name| root.lookup(name).unwrap().id() == id).unwrap();
    (root, name)
}

#[test]
fn a_file_under_another_name_does_not_open() {
    on_both(|vault| {
        vault.file("one", 1);
        vault.file("two", 2);
        let ((root, one), (_, two)) = (stored(&vault, "one"), stored(&vault, "two"));
        let vault = vault.remounted();
        root.rename(&one, &*root, &two, RenameMode::Exchange).unwrap();
        assert_eq!(vault.check_open("one"), Err(Error::Damaged(Damage::Home)));
        assert_eq!(vault.check_open("two"), Err(Error::Damaged(Damage::Home)));
        root.rename(&one, &*root, &two, RenameMode::Exchange).unwrap();
        let vault = vault.remounted();
        assert_eq!((vault.check_open("one"), vault.check_open("two")), (Ok(1), Ok(2)));
    });
}

#[test]
fn a_file_in_another_directory_does_not_open() {
    on_both(|vault| {
        vault.directory("d");
        vault.file("d/f", 1);
        let ((root, directory), file) = (stored(&vault, "d"), vault.find("d/f").unwrap());
        vault.namespace.forget(file.number, u64::MAX);
        let node = root.lookup(&directory).unwrap();
        let name = vault.stored(&node).remove(0);
        node.rename(&name, &*root, &name, RenameMode::Replace).unwrap();
        assert_eq!(vault.names(""), ["d"], "its name does not open there");
        assert_eq!(vault.reports.take().len(), 1);
    });
}

#[test]
fn directories_without_their_record_are_damaged() {
    on_both(|vault| {
        for name in ["none", "forged", "another's"] {
            vault.directory(name);
            vault.file(&format!("{name}/f"), 0);
        }
        let node = |name| {
            let (root, stored) = stored(&vault, name);
            root.lookup(&stored).unwrap()
        };
        let [none, forged, other] = ["none", "forged", "another's"].map(node);
        let record = |node: &NodeRef| node.lookup(b".id").unwrap();
        let name = |node: &NodeRef| record(node).entries().unwrap().remove(0).name;
        let (mut changed, theirs) = (name(&forged), name(&none));
        changed[10] = if changed[10] == b'A' { b'B' } else { b'A' };
        for node in [&none, &forged, &other] {
            record(node).remove(&name(node)).unwrap();
        }
        record(&forged).create(&changed, 0o600).unwrap();
        record(&other).create(&theirs, 0o600).unwrap();
        let vault = vault.remounted();
        for name in ["none", "forged"] {
            let number = vault.number(name);
            let found = vault.namespace.lookup(number, b"f");
            assert!(matches!(found, Err(Error::Damaged(Damage::Name(_)))), "{name}: {found:?}");
            let handle = vault.namespace.open_directory(number).unwrap();
            assert_eq!(errno(vault.namespace.read_directory(&handle, 0, &mut |_| true)), code::EIO);
        }
        let found = vault.namespace.lookup(vault.number("another's"), b"f");
        assert!(
            matches!(found, Err(Error::Damaged(Damage::Home))),
            "it says that it belongs elsewhere: {found:?}"
        );
        assert_eq!(vault.names(""), ["another's", "forged", "none"]);
        assert_eq!(errno(vault.remove_directory("none")), code::ENOTEMPTY);
    });
}

#[test]
fn a_long_name_with_another_side_file_is_left_out() {
    on_both(|vault| {
        let (one, two) = ("1".repeat(250), "2".repeat(250));
        vault.file(&one, 1);
        vault.file(&two, 2);
        let root = vault.store.root();
        let sides: Vec<_> = vault.stored(&root).into_iter().filter(|name| name.starts_with(b".n")).collect();
        root.rename(&sides[0], &*root, &sides[1], RenameMode::Exchange).unwrap();
        let vault = vault.remounted();
        assert_eq!(vault.names(""), Vec::<String>::new());
        assert_eq!(vault.reports.take().len(), 2);
        assert_eq!(vault.check_open(&one), Ok(1), "found by name it opens");
        root.remove(&sides[0]).unwrap();
        assert_eq!(vault.names(""), Vec::<String>::new());
        assert_eq!(vault.reports.take().len(), 2);
    });
}
