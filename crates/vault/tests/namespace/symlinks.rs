//! Symlinks of every length.

use strongroom_store::{Kind, RenameMode};
use strongroom_vault::error::errno as code;
use strongroom_vault::namespace::ROOT;
use strongroom_vault::{Damage, Error};

use crate::support::{Vault, creation, errno, on_both};

fn target(len: usize) -> Vec<u8> {
    (0..len).map(|index| b"abc/\xff."[index % 6]).collect()
}

fn links(vault: &Vault) -> usize {
    let top = vault.store.root().lookup(b".strongroom").unwrap();
    top.lookup(b"links").map_or(0, |links| links.entries().unwrap().len())
}

#[test]
fn targets_of_every_length_come_back() {
    on_both(|vault| {
        let lengths = [1, 2, 3, 4, 100, 3037, 3038, 3039, 3040, 4094, 4095];
        for len in lengths {
            let entry = vault.symlink(&len.to_string(), &target(len));
            assert_eq!((entry.attributes.kind, entry.attributes.len), (Kind::Symlink, len as u64));
        }
        assert!(links(&vault) >= 2);
        let vault = vault.remounted();
        for len in lengths {
            let entry = vault.find(&len.to_string()).unwrap();
            assert_eq!(entry.attributes.len, len as u64);
            for _ in 0..2 {
                assert_eq!(vault.namespace.read_link(entry.number).unwrap(), target(len));
            }
        }
        for len in lengths {
            vault.remove(&len.to_string()).unwrap();
        }
        assert_eq!(links(&vault), 0);
        let make = |target: &[u8]| errno(vault.namespace.make_symlink(ROOT, b"x", target, &creation(0o777)));
        assert_eq!((make(&target(4096)), make(b"")), (code::ENAMETOOLONG, code::ENOENT));
        let file = vault.file("f", 0).number;
        assert_eq!(errno(vault.namespace.read_link(file)), code::EINVAL);
    });
}

#[test]
fn a_long_target_goes_with_the_last_name() {
    on_both(|vault| {
        vault.symlink("a", &target(4000));
        vault.link("a", "b").unwrap();
        vault.remove("a").unwrap();
        assert_eq!(links(&vault), 1);
        assert_eq!(vault.namespace.read_link(vault.number("b")).unwrap(), target(4000));
        vault.file("f", 0);
        vault.rename("f", "b", RenameMode::Replace).unwrap();
        assert_eq!(links(&vault), 0);
    });
}

#[test]
fn forged_targets_are_errors() {
    on_both(|vault| {
        vault.symlink("a", &target(4000));
        vault.symlink("b", &target(10));
        let top = vault.store.root().lookup(b".strongroom").unwrap().lookup(b"links").unwrap();
        let name = &top.entries().unwrap()[0].name;
        let file = top.lookup(name).unwrap().open(strongroom_store::Access::ReadWrite).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, 1000).unwrap();
        file.write_at(&[byte[0] ^ 1], 1000).unwrap();
        let root = vault.store.root();
        root.make_symlink(b"stray", b"/etc/passwd").unwrap();
        let vault = vault.remounted();
        assert_eq!(vault.namespace.read_link(vault.number("b")).unwrap(), target(10));
        let damaged = vault.find("a").unwrap();
        let read = vault.namespace.read_link(damaged.number);
        assert!(matches!(read, Err(Error::Damaged(Damage::Name(_)))), "{read:?}");
        top.remove(name).unwrap();
        assert_eq!(read.unwrap_err().errno(), code::EIO);
        assert_eq!(vault.names(""), ["a", "b"]);
    });
}
