//! Access control lists on inodes.

use strongroom_store::XattrMode;
use strongroom_vault::error::errno as code;
use strongroom_vault::namespace::acl::Acl;
use strongroom_vault::namespace::{Changes, Creation, Opening, Options, Owner};

use crate::support::{OPTIONS, Vault, errno, on_both, on_both_with};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
const NOBODY: u32 = u32::MAX;

fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&permissions.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

/// Owner, user 1000, owning group, mask, others.
fn named(owner: u16, user: u16, group: u16, mask: u16, other: u16) -> Vec<u8> {
    list(&[
        (1, owner, NOBODY),
        (2, user, 1000),
        (4, group, NOBODY),
        (0x10, mask, NOBODY),
        (0x20, other, NOBODY),
    ])
}

fn set(vault: &Vault, number: u64, name: &[u8], value: &[u8]) -> i32 {
    vault
        .namespace
        .set_xattr(number, name, value, XattrMode::Any, false)
        .map_or_else(|error| error.errno(), |()| 0)
}

fn mode(vault: &Vault, number: u64) -> u32 {
    vault.namespace.attributes(number).unwrap().mode
}

#[test]
fn a_list_that_is_a_mode_is_one() {
    on_both(|vault| {
        let number = vault.file("f", 0).number;
        let minimal = list(&[(1, 7, NOBODY), (4, 5, NOBODY), (0x20, 1, NOBODY)]);
        assert_eq!(set(&vault, number, ACCESS, &named(6, 7, 4, 6, 0)), 0);
        assert_eq!(mode(&vault, number), 0o660);
        assert_eq!(vault.namespace.xattr(number, ACCESS), Ok(named(6, 7, 4, 6, 0)));
        assert_eq!(vault.namespace.xattr_names(number), Ok(vec![ACCESS.to_vec()]));
        assert_eq!(set(&vault, number, ACCESS, &minimal), 0);
        assert_eq!(mode(&vault, number), 0o751);
        assert_eq!(errno(vault.namespace.xattr(number, ACCESS)), code::ENODATA);
        assert_eq!(vault.namespace.remove_xattr(number, ACCESS), Ok(()));
    });
}

#[test]
fn chmod_changes_the_mask() {
    on_both(|vault| {
        let number = vault.file("f", 0).number;
        assert_eq!(set(&vault, number, ACCESS, &named(6, 7, 4, 6, 0)), 0);
        let vault = vault.remounted();
        let number = vault.number("f");
        let change = Changes { mode: Some(0o4745), ..Changes::NONE };
        assert_eq!(vault.namespace.set_attributes(number, &change).unwrap().mode, 0o4745);
        assert_eq!(vault.namespace.xattr(number, ACCESS), Ok(named(7, 7, 4, 4, 5)));
        assert_eq!(set(&vault, number, ACCESS, &named(7, 7, 7, 7, 7)), 0);
        assert_eq!(mode(&vault, number), 0o4777);
        vault.namespace.set_attributes(number, &Changes { mode: Some(0o2777), ..Changes::NONE }).unwrap();
        vault.namespace.set_xattr(number, ACCESS, &named(7, 7, 7, 7, 7), XattrMode::Any, true).unwrap();
        assert_eq!(mode(&vault, number), 0o777, "set-group-id goes when told");
    });
}

#[test]
fn default_lists_are_inherited() {
    on_both(|vault| {
        let parent = vault.directory("d").number;
        assert_eq!(set(&vault, parent, DEFAULT, &named(7, 6, 5, 7, 0)), 0);
        assert_eq!(mode(&vault, parent), 0o755, "a default list leaves the mode");
        let vault = vault.remounted();
        let parent = vault.number("d");
        let creation = |mode| Creation { mode, umask: 0o777, owner: Owner { uid: 0, gid: 0 } };
        let (file, _content) =
            vault.namespace.create(parent, b"f", &creation(0o640), Opening::default()).unwrap();
        vault.namespace.release(file.number);
        assert_eq!(file.attributes.mode, 0o640, "the umask counts for nothing");
        assert_eq!(vault.namespace.xattr(file.number, ACCESS), Ok(named(6, 6, 5, 4, 0)));
        assert_eq!(errno(vault.namespace.xattr(file.number, DEFAULT)), code::ENODATA);
        let directory = vault.namespace.make_directory(parent, b"e", &creation(0o777)).unwrap();
        assert_eq!(directory.attributes.mode, 0o770);
        assert_eq!(vault.namespace.xattr(directory.number, DEFAULT), Ok(named(7, 6, 5, 7, 0)));
        assert_eq!(vault.namespace.xattr(directory.number, ACCESS), Ok(named(7, 6, 5, 7, 0)));
        let minimal = list(&[(1, 7, NOBODY), (4, 5, NOBODY), (0x20, 0, NOBODY)]);
        assert_eq!(set(&vault, parent, DEFAULT, &minimal), 0);
        assert_eq!(vault.namespace.xattr(parent, DEFAULT), Ok(minimal), "stored, though it is a mode");
        let (file, _content) =
            vault.namespace.create(parent, b"g", &creation(0o666), Opening::default()).unwrap();
        vault.namespace.release(file.number);
        assert_eq!(file.attributes.mode, 0o640);
        assert_eq!(vault.namespace.xattr_names(file.number), Ok(Vec::new()));
        assert_eq!(set(&vault, parent, DEFAULT, &list(&[])), 0);
        assert_eq!(errno(vault.namespace.xattr(parent, DEFAULT)), code::ENODATA);
    });
}

#[test]
fn what_is_no_list_is_refused() {
    on_both(|vault| {
        let (file, directory) = (vault.file("f", 0).number, vault.directory("d").number);
        let link = vault.symlink("s", b"t").number;
        let unmasked = list(&[(1, 6, NOBODY), (2, 6, 1000), (4, 4, NOBODY), (0x20, 0, NOBODY)]);
        assert!(Acl::parse(&unmasked).is_err());
        assert_eq!(set(&vault, file, ACCESS, &unmasked), code::EINVAL);
        assert_eq!(set(&vault, directory, DEFAULT, b"\x02\0\0\0x"), code::EINVAL);
        assert_eq!(set(&vault, file, DEFAULT, &named(7, 7, 7, 7, 7)), code::EACCES);
        assert_eq!(set(&vault, link, ACCESS, &named(7, 7, 7, 7, 7)), code::EOPNOTSUPP);
        assert_eq!(mode(&vault, file), 0o644);
    });
}

#[test]
fn without_lists_there_are_none() {
    on_both(|vault| {
        let number = vault.directory("d").number;
        assert_eq!(set(&vault, number, DEFAULT, &named(7, 7, 7, 7, 7)), 0);
        let vault = vault.mounted_with(Options { acl: false, ..OPTIONS });
        let number = vault.number("d");
        assert_eq!(errno(vault.namespace.xattr(number, DEFAULT)), code::EOPNOTSUPP);
        assert_eq!(vault.namespace.xattr_names(number), Ok(Vec::new()));
        let creation = Creation { mode: 0o777, umask: 0o022, owner: Owner { uid: 0, gid: 0 } };
        let made = vault.namespace.make_directory(number, b"e", &creation).unwrap();
        assert_eq!(made.attributes.mode, 0o755);
    });
    on_both_with(Options { acl: false, ..OPTIONS }, |vault| {
        let number = vault.file("f", 0).number;
        assert_eq!(set(&vault, number, ACCESS, &named(7, 7, 7, 7, 7)), code::EOPNOTSUPP);
    });
}
