//! Stores that cannot do everything: what a vault on them lacks it refuses by
//! name, and the rest works.

use std::sync::Arc;

use strongroom_store::faulty::{Call, FaultyStore, Plan};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{RenameMode, XattrMode};
use strongroom_vault::error::errno as code;
use strongroom_vault::namespace::ROOT;

use crate::support::{Vault, creation, errno, on_store};

use RenameMode::{Exchange, NoReplace, Replace};

/// A vault on a store on which these calls always fail so.
fn without(lacking: &[(Call, i32)]) -> Vault {
    let store = FaultyStore::injecting(MemoryStore::new());
    for (call, errno) in lacking {
        store.fail(Plan::from(0, *errno).of(*call));
    }
    on_store(Arc::new(store))
}

/// A tree is made, changed and found again, by what every store can.
fn works(vault: Vault) {
    for directory in ["d", "d/e", "empty"] {
        vault.directory(directory);
    }
    vault.file("d/file", 100_000);
    vault.file("d/e/other", 5);
    vault.symlink("d/symlink", b"file");
    vault.rename("d/e/other", "d/moved", NoReplace).unwrap();
    vault.rename("d/moved", "d/file", Replace).unwrap();
    vault.rename("d", "empty", Replace).unwrap();
    vault.remove("empty/symlink").unwrap();
    vault.remove_directory("empty/e").unwrap();
    let vault = vault.remounted();
    assert_eq!(vault.names(""), ["empty"]);
    assert_eq!(vault.names("empty"), ["file"]);
    assert_eq!(vault.check_open("empty/file"), Ok(5));
    assert!(vault.reports.take().is_empty(), "nothing is damaged");
}

#[test]
fn without_links_a_file_has_one_name() {
    for words in [code::EOPNOTSUPP, code::EMLINK] {
        let vault = without(&[(Call::Link, words)]);
        vault.file("a", 11);
        assert_eq!(errno(vault.link("a", "b")), words);
        assert!(!vault.exists("b"));
        assert_eq!(vault.check_open("a"), Ok(11));
        vault.remove("a").unwrap();
        works(vault);
    }
}

#[test]
fn without_attributes_there_are_none() {
    use Call::{RemoveXattr, SetXattr, Xattr, XattrNames};
    let vault = without(&[Xattr, SetXattr, XattrNames, RemoveXattr].map(|call| (call, code::EOPNOTSUPP)));
    let number = vault.file("a", 11).number;
    let vault = vault.remounted();
    let again = vault.number("a");
    assert_eq!(vault.find("a").unwrap().attributes.len, 11, "{number}");
    let set = vault.namespace.set_xattr(again, b"user.x", b"1", XattrMode::Any, false);
    assert_eq!(errno(set), code::EOPNOTSUPP);
    let read = errno(vault.namespace.xattr(again, b"user.x"));
    assert!([code::ENODATA, code::EOPNOTSUPP].contains(&read), "{read}");
    vault.remove("a").unwrap();
    works(vault);
}

#[test]
fn without_an_exchange_an_empty_directory_is_replaced_all_the_same() {
    for words in [code::EINVAL, code::EOPNOTSUPP, code::ENOSYS] {
        let vault = without(&[(Call::Exchange, words)]);
        vault.file("a", 1);
        vault.file("b", 2);
        assert_eq!(errno(vault.rename("a", "b", Exchange)), words);
        assert_eq!((vault.check_open("a"), vault.check_open("b")), (Ok(1), Ok(2)));
        let vault = vault.remounted();
        assert_eq!((vault.check_open("a"), vault.check_open("b")), (Ok(1), Ok(2)));
        vault.remove("a").unwrap();
        vault.remove("b").unwrap();
        works(vault);
    }
}

#[test]
fn without_unnamed_files_and_reservations_the_rest_works() {
    let vault = without(&[(Call::CreateUnnamed, code::EOPNOTSUPP), (Call::Allocate, code::EOPNOTSUPP)]);
    let made = vault.namespace.create_unnamed(ROOT, &creation(0o600));
    assert_eq!(errno(made.map(|_| ())), code::EOPNOTSUPP);
    works(vault);
}
