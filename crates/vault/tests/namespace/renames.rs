//! Renames in every mode, over everything.

use strongroom_store::{Kind, RenameMode};
use strongroom_vault::error::errno as code;
use strongroom_vault::namespace::{Opening, Options, ROOT};

use crate::support::{OPTIONS, Vault, creation, errno, on_both, on_both_with};

use RenameMode::{Exchange, NoReplace, Replace};

#[test]
fn a_file_moves_with_its_binding() {
    on_both(|vault| {
        vault.directory("d");
        vault.file("a", 11);
        vault.rename("a", "b", Replace).unwrap();
        vault.rename("b", "d/c", NoReplace).unwrap();
        assert_eq!(vault.check_open("d/c"), Ok(11));
        let vault = vault.remounted();
        assert_eq!(vault.check_open("d/c"), Ok(11));
        assert!(!vault.exists("a") && !vault.exists("b"));
        assert_eq!(errno(vault.rename("a", "e", Replace)), code::ENOENT);
        assert_eq!(errno(vault.rename("d/c", "e", RenameMode::Whiteout)), code::EINVAL);
        assert_eq!(errno(vault.rename("d/c", "e", Exchange)), code::ENOENT);
    });
}

#[test]
fn an_open_file_moves_too() {
    on_both(|vault| {
        vault.directory("d");
        let number = vault.file("a", 11).number;
        let content = vault.namespace.open(number, Opening { write: true, ..Opening::default() }).unwrap();
        for (from, to) in [("a", "b"), ("b", "d/c"), ("d/c", "d/e")] {
            vault.rename(from, to, Replace).unwrap();
            assert_eq!(vault.check_open(to), Ok(11));
        }
        content.set_len(12).unwrap();
        vault.namespace.release(number);
        drop(content);
        let vault = vault.remounted();
        assert_eq!(vault.check_open("d/e"), Ok(12));
    });
}

#[test]
fn a_replaced_file_is_gone_unless_it_has_another_name() {
    on_both(|vault| {
        for name in ["a", "b", "c"] {
            vault.file(name, u64::from(name.as_bytes()[0]));
        }
        let replaced = vault.number("b");
        vault.rename("a", "b", Replace).unwrap();
        assert_eq!(vault.check_open("b"), Ok(97));
        assert_eq!(vault.namespace.attributes(replaced).unwrap().links, 0);
        vault.link("c", "d").unwrap();
        vault.rename("b", "c", Replace).unwrap();
        assert_eq!(errno(vault.rename("d", "c", NoReplace)), code::EEXIST);
        let vault = vault.remounted();
        assert_eq!((vault.check_open("c"), vault.check_open("d")), (Ok(97), Ok(99)));
        assert_eq!(vault.names(""), ["c", "d"]);
    });
}

#[test]
fn two_names_of_one_file_both_stay() {
    on_both(|vault| {
        let long = "n".repeat(255);
        vault.file("a", 1);
        vault.link("a", &long).unwrap();
        vault.rename("a", &long, Replace).unwrap();
        vault.rename(&long, "a", Replace).unwrap();
        vault.rename("a", "a", Replace).unwrap();
        vault.rename("a", &long, Exchange).unwrap();
        assert_eq!(vault.names(""), ["a".to_owned(), long.clone()]);
        let vault = vault.remounted();
        assert_eq!((vault.check_open("a"), vault.check_open(&long)), (Ok(1), Ok(1)));
    });
}

fn replace_directories(vault: &Vault) {
    for name in ["empty", "full", "moved", "with a list"] {
        vault.directory(name);
    }
    vault.file("full/f", 3);
    vault.file("moved/m", 4);
    vault.file("file", 5);
    assert_eq!(errno(vault.rename("moved", "full", Replace)), code::ENOTEMPTY);
    assert_eq!(errno(vault.rename("file", "empty", Replace)), code::EISDIR);
    assert_eq!(errno(vault.rename("moved", "file", Replace)), code::ENOTDIR);
    assert_eq!(errno(vault.rename("moved", "empty", NoReplace)), code::EEXIST);
    assert_eq!(errno(vault.rename("full/f", "full", Replace)), code::EISDIR);
    let replaced = vault.number("empty");
    vault.rename("moved", "empty", Replace).unwrap();
    let write = Opening { write: true, ..Opening::default() };
    assert_eq!(errno(vault.namespace.create(replaced, b"x", &creation(0o600), write)), code::ENOENT);
    assert_eq!(vault.names(""), ["empty", "file", "full", "with a list"]);
    assert_eq!(vault.private("temporary").entries().unwrap(), []);
    assert_eq!(vault.check_open("empty/m"), Ok(4));
}

#[test]
fn a_directory_replaces_an_empty_one_alone() {
    on_both(|vault| {
        replace_directories(&vault);
        let vault = vault.remounted();
        assert_eq!((vault.check_open("empty/m"), vault.check_open("full/f")), (Ok(4), Ok(3)));
    });
}

#[test]
fn directories_move_between_directories() {
    on_both(|vault| {
        for name in ["a", "a/b", "c", "a/full", "c/empty"] {
            vault.directory(name);
        }
        vault.file("a/b/f", 8);
        vault.file("a/full/g", 9);
        assert_eq!(errno(vault.rename("a/b", "a", Replace)), code::ENOTEMPTY);
        assert_eq!(errno(vault.rename("a", "a/b/x", Replace)), code::EINVAL);
        vault.rename("a/b", "c/b", Replace).unwrap();
        assert_eq!(vault.check_open("c/b/f"), Ok(8));
        vault.rename("a/full", "c/empty", Replace).unwrap();
        let vault = vault.remounted();
        assert_eq!((vault.check_open("c/b/f"), vault.check_open("c/empty/g")), (Ok(8), Ok(9)));
        assert_eq!(
            (vault.names("a"), vault.names("c")),
            (Vec::new(), vec!["b".to_owned(), "empty".to_owned()])
        );
    });
}

#[test]
fn exchanged_entries_belong_where_they_are() {
    on_both(|vault| {
        vault.directory("d");
        vault.file("d/x", 1);
        vault.file("e", 2);
        vault.symlink("s", b"t");
        vault.rename("d/x", "e", Exchange).unwrap();
        assert_eq!((vault.check_open("d/x"), vault.check_open("e")), (Ok(2), Ok(1)));
        vault.rename("d", "e", Exchange).unwrap();
        vault.rename("s", "d", Exchange).unwrap();
        let vault = vault.remounted();
        assert_eq!((vault.check_open("e/x"), vault.check_open("s")), (Ok(2), Ok(1)));
        assert_eq!(vault.find("d").unwrap().attributes.kind, Kind::Symlink);
    });
}

#[test]
fn names_exist_once_in_a_folding_store_too() {
    on_both_with(Options { folding: true, ..OPTIONS }, |vault| {
        vault.file("Name", 1);
        vault.file("name", 2);
        let stored = vault.stored(&vault.store.root());
        assert!(stored.iter().flatten().all(|byte| !byte.is_ascii_uppercase()));
        vault.rename("Name", "NAME", NoReplace).unwrap();
        assert_eq!((vault.check_open("NAME"), vault.check_open("name")), (Ok(1), Ok(2)));
    });
}

#[test]
fn a_rename_that_fails_leaves_the_binding() {
    on_both(|vault| {
        let number = vault.file("a", 1).number;
        vault.directory("gone");
        let gone = vault.number("gone");
        vault.remove_directory("gone").unwrap();
        assert_eq!(errno(vault.namespace.rename(ROOT, b"a", gone, b"b", Replace)), code::ENOENT);
        vault.namespace.forget(number, u64::MAX);
        assert_eq!(vault.check_open("a"), Ok(1));
    });
}
