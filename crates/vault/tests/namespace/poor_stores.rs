//! Stores that cannot do everything: what a vault on them lacks it refuses by
//! name, and the rest works.

use std::sync::Arc;

use strongroom_store::faulty::{Call, FaultyStore, Plan};
use strongroom_store::memory::MemoryStore;
use strongroom_store::{RenameMode, SetTime, Store, Timestamp, XattrMode};
use strongroom_vault::error::errno as code;
use strongroom_vault::namespace::{Changes, ROOT};

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

/// sshfs knows an inode by the name under which it was found, and no more once that is removed.
#[test]
fn an_inode_that_the_store_has_forgotten_is_gone_if_it_had_one_name() {
    let times = Changes { modified: SetTime::To(Timestamp { seconds: 5, nanoseconds: 0 }), ..Changes::NONE };
    for has_another in [false, true] {
        let store = Arc::new(FaultyStore::injecting(MemoryStore::new()));
        let vault = on_store(Arc::clone(&store) as Arc<dyn Store>);
        let number = vault.file("a", 5000).number;
        if has_another {
            vault.link("a", "b").unwrap();
        }
        // What is left of it is what is asked last.
        vault.file("other", 5000);
        let before = store.calls(Some(Call::Attributes));
        vault.remove("other").unwrap();
        let asked = store.calls(Some(Call::Attributes)) - before;
        store.fail(Plan::from(asked - 1, code::ESTALE).of(Call::Attributes));
        vault.remove("a").unwrap();
        store.fail(Plan::from(0, code::ESTALE).of(Call::SetTimes));
        let set = vault.namespace.set_attributes(number, &times);
        match has_another {
            true => assert_eq!(errno(set), code::ESTALE),
            false => assert_eq!(set.unwrap().links, 0),
        }
        assert_eq!(errno(vault.namespace.set_attributes(ROOT, &times)), code::ESTALE, "nobody removes it");
        store.heal();
        if has_another {
            let vault = vault.remounted();
            assert_eq!(vault.check_open("b"), Ok(5000), "what was not synced yet is committed");
        }
    }
}
