//! Names: every length, what is refused, and what the store gets to see.

use strongroom_store::RenameMode;
use strongroom_vault::error::errno as code;
use strongroom_vault::namespace::{Options, ROOT};

use crate::support::{OPTIONS, errno, on_both, on_both_with};

fn long(len: usize) -> String {
    "n".repeat(len)
}

#[test]
fn every_length_is_found_and_listed_again() {
    for folding in [false, true] {
        on_both_with(Options { folding, ..OPTIONS }, |vault| {
            let mut names = vec![".hidden".to_owned(), "naïve ☃".to_owned(), "-rf *".to_owned()];
            names.extend([1, 2, 142, 143, 144, 174, 175, 176, 254, 255].map(long));
            for name in &names {
                vault.file(name, 1);
            }
            names.sort();
            let vault = vault.mounted_with(Options { folding, ..OPTIONS });
            assert_eq!(vault.names(""), names);
            for name in &names {
                assert_eq!(vault.check_open(name), Ok(1), "{name}");
            }
            let longest = vault.stored(&vault.store.root()).iter().map(Vec::len).max();
            assert!(longest <= Some(255));
            for name in &names {
                vault.remove(name).unwrap();
            }
            assert_eq!(vault.stored(&vault.store.root()), Vec::<Vec<u8>>::new(), "side files went too");
            assert_eq!(vault.reports.take(), []);
        });
    }
}

#[test]
fn impossible_names_are_refused() {
    on_both(|vault| {
        let lookup = |name: &[u8]| errno(vault.namespace.lookup(ROOT, name));
        assert_eq!(lookup(&[b'n'; 256]), code::ENAMETOOLONG);
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
            assert_eq!(lookup(name), code::EINVAL, "{name:?}");
        }
        assert_eq!(lookup(b".strongroom"), code::ENOENT);
        assert_eq!(lookup(b".id"), code::ENOENT);
    });
}

#[test]
fn stored_names_tell_nothing_and_differ_by_directory() {
    on_both(|vault| {
        vault.directory("one");
        vault.directory("two");
        vault.file("one/secret", 0);
        vault.file("two/secret", 0);
        let stored = |name: &str| {
            let number = vault.number(name);
            let directory = vault.namespace.attributes(number).unwrap().id;
            let root = vault.store.root();
            let names = vault.stored(&root);
            let node =
                names.iter().map(|name| root.lookup(name).unwrap()).find(|node| node.id() == directory);
            vault.stored(&node.unwrap())
        };
        let (one, two) = (stored("one"), stored("two"));
        assert_eq!((one.len(), two.len()), (1, 1));
        assert_ne!(one, two);
        assert!(!String::from_utf8_lossy(&one[0]).contains("secret"));
    });
}

#[test]
fn long_names_take_their_side_files_along() {
    on_both(|vault| {
        let root = vault.store.root();
        let sides = || vault.stored(&root).iter().filter(|name| name.starts_with(b".n~")).count();
        vault.directory(&long(200));
        assert_eq!(sides(), 1);
        vault.rename(&long(200), &long(255), RenameMode::Replace).unwrap();
        assert_eq!(sides(), 1);
        vault.rename(&long(255), "short", RenameMode::Replace).unwrap();
        assert_eq!(sides(), 0);
        vault.file(&long(250), 0);
        vault.file(&long(251), 0);
        vault.rename(&long(250), &long(251), RenameMode::Replace).unwrap();
        assert_eq!(sides(), 1);
        assert_eq!(vault.names(""), [long(251), "short".to_owned()]);
        assert_eq!(errno(vault.rename(&long(251), "short", RenameMode::Replace)), code::EISDIR);
        assert_eq!(errno(vault.rename("short", &long(251), RenameMode::NoReplace)), code::EEXIST);
        assert_eq!(sides(), 1, "a rename that failed changed none");
        vault.rename(&long(251), "short", RenameMode::Exchange).unwrap();
        assert_eq!(vault.names(""), [long(251), "short".to_owned()]);
        vault.remove_directory(&long(251)).unwrap();
        assert_eq!(sides(), 0);
    });
}
