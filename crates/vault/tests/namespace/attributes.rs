//! Attributes: what creation gives, what changes, and what damage hides.

use strongroom_store::{Access, Kind, RenameMode, SetTime, Timestamp, XattrMode};
use strongroom_vault::error::errno as code;
use strongroom_vault::namespace::{Changes, Creation, Opening, Options, Owner, ROOT};
use strongroom_vault::{Damage, Error};

use crate::support::{OPTIONS, creation, errno, on_both, on_both_with};

const USER: Owner = Owner { uid: 1234, gid: 2345 };

#[test]
fn what_is_created_belongs_to_its_creator() {
    on_both(|vault| {
        let creation = Creation { mode: 0o4777, umask: 0o027, owner: USER };
        let (entry, _content) = vault.namespace.create(ROOT, b"f", &creation, Opening::default()).unwrap();
        vault.namespace.release(entry.number);
        let mut found = vec![entry];
        found.push(vault.namespace.make_directory(ROOT, b"d", &creation).unwrap());
        found.push(vault.namespace.make_special(ROOT, b"p", Kind::Fifo, 0, &creation).unwrap());
        for entry in &found {
            let attributes = entry.attributes;
            assert_eq!((attributes.uid, attributes.gid), (1234, 2345));
            assert_eq!(attributes.mode, 0o4750, "set-user-id survives the change of owner");
        }
        let link = vault.namespace.make_symlink(ROOT, b"s", b"t", &creation).unwrap();
        assert_eq!((link.attributes.uid, link.attributes.gid), (1234, 2345));
    });
}

#[test]
fn a_set_group_id_directory_hands_its_group_on() {
    on_both(|vault| {
        let parent = vault.directory("d").number;
        let shared = Changes { gid: Some(777), mode: Some(0o2755), ..Changes::NONE };
        vault.namespace.set_attributes(parent, &shared).unwrap();
        let creation = Creation { mode: 0o755, umask: 0, owner: USER };
        let directory = vault.namespace.make_directory(parent, b"e", &creation).unwrap().attributes;
        assert_eq!((directory.uid, directory.gid, directory.mode), (1234, 777, 0o2755));
        let (file, _content) = vault.namespace.create(parent, b"f", &creation, Opening::default()).unwrap();
        vault.namespace.release(file.number);
        assert_eq!((file.attributes.uid, file.attributes.gid, file.attributes.mode), (1234, 777, 0o755));
    });
}

#[test]
fn directories_that_may_not_be_written_are_made_and_removed() {
    on_both(|vault| {
        let made = vault.namespace.make_directory(ROOT, b"d", &creation(0o555)).unwrap();
        assert_eq!(made.attributes.mode, 0o555);
        vault.remove_directory("d").unwrap();
        assert_eq!(vault.namespace.make_directory(ROOT, b"d", &creation(0)).unwrap().attributes.mode, 0);
        vault.remove_directory("d").unwrap();
    });
}

/// As an ordinary user this needs what stands in the way of the process to be
/// taken out of it; as root nothing does.
#[test]
fn modes_that_keep_the_owner_out_do_not_keep_the_vault_out() {
    on_both_with(Options { owners: false, ..OPTIONS }, |vault| {
        let shut = |path: &str, mode: u32| {
            let mode = Changes { mode: Some(mode), ..Changes::NONE };
            vault.namespace.set_attributes(vault.number(path), &mode).unwrap();
        };
        vault.directory("d");
        vault.directory("e");
        vault.file("d/f", 3);
        shut("d/f", 0o400);
        vault.rename("d/f", "d/g", RenameMode::Replace).unwrap();
        vault.link("d/g", "e/h").unwrap();
        let set = |path: &str, value: &[u8]| {
            vault.namespace.set_xattr(vault.number(path), b"user.x", value, XattrMode::Any, false).unwrap();
        };
        set("d/g", b"1");
        shut("d/g", 0);
        shut("d", 0);
        set("d/g", b"2");
        set("d", b"3");
        assert_eq!(vault.names("d"), ["g"]);
        assert_eq!(vault.find("d").unwrap().attributes.mode, 0, "what was widened is as it was");
        assert_eq!(errno(vault.remove_directory("d")), code::ENOTEMPTY);
        let vault = vault.mounted_with(Options { owners: false, ..OPTIONS });
        assert_eq!(vault.check_open("d/g"), Ok(3));
        assert_eq!(vault.namespace.xattr(vault.number("d/g"), b"user.x"), Ok(b"2".to_vec()));
        assert_eq!(vault.find("d/g").unwrap().attributes.mode, 0);
        vault.directory("empty");
        let mode = Changes { mode: Some(0), ..Changes::NONE };
        vault.namespace.set_attributes(vault.number("empty"), &mode).unwrap();
        vault.remove_directory("empty").unwrap();
        assert_eq!(vault.private("temporary").entries().unwrap(), []);
        // So that the directory of the test can be removed.
        let open = Changes { mode: Some(0o700), ..Changes::NONE };
        vault.namespace.set_attributes(vault.number("d"), &open).unwrap();
    });
}

#[test]
fn a_change_of_owner_takes_privileges_away() {
    on_both(|vault| {
        let number = vault.file("f", 0).number;
        let change = |changes: Changes| vault.namespace.set_attributes(number, &changes).unwrap();
        assert_eq!(change(Changes { mode: Some(0o6755), ..Changes::NONE }).mode, 0o6755);
        let changed = change(Changes { uid: Some(5), ..Changes::NONE });
        assert_eq!((changed.uid, changed.gid, changed.mode), (5, 0, 0o755));
        change(Changes { mode: Some(0o6745), ..Changes::NONE });
        assert_eq!(change(Changes { gid: Some(6), ..Changes::NONE }).mode, 0o2745, "an old record lock");
        let both = change(Changes { uid: Some(7), mode: Some(0o4711), ..Changes::NONE });
        assert_eq!((both.uid, both.mode), (7, 0o4711), "a mode that is asked for is given");
        assert_eq!(change(Changes { kill_suid_sgid: true, ..Changes::NONE }).mode, 0o711);
        let directory = vault.directory("d").number;
        vault.namespace.set_attributes(directory, &Changes { mode: Some(0o2777), ..Changes::NONE }).unwrap();
        let changed = vault.namespace.set_attributes(directory, &Changes { gid: Some(9), ..Changes::NONE });
        assert_eq!(changed.unwrap().mode, 0o2777, "a directory's bits stay");
    });
}

#[test]
fn lengths_change_and_take_privileges_when_told() {
    on_both(|vault| {
        let number = vault.file("f", 100).number;
        let change = |changes: Changes| vault.namespace.set_attributes(number, &changes);
        change(Changes { mode: Some(0o4755), ..Changes::NONE }).unwrap();
        let changed = change(Changes { len: Some(50), ..Changes::NONE }).unwrap();
        assert_eq!((changed.len, changed.mode), (50, 0o4755));
        let changed = change(Changes { len: Some(70_000), kill_suid_sgid: true, ..Changes::NONE }).unwrap();
        assert_eq!((changed.len, changed.mode), (70_000, 0o755));
        let cut = Changes { len: Some(0), ..Changes::NONE };
        let directory = vault.directory("d").number;
        assert_eq!(errno(vault.namespace.set_attributes(directory, &cut)), code::EISDIR);
        let link = vault.symlink("s", b"t").number;
        assert_eq!(errno(vault.namespace.set_attributes(link, &cut)), code::EINVAL);
        let mode = Changes { mode: Some(0o600), ..Changes::NONE };
        assert_eq!(errno(vault.namespace.set_attributes(link, &mode)), code::EOPNOTSUPP);
        let vault = vault.remounted();
        assert_eq!(vault.check_open("f"), Ok(70_000));
    });
}

#[test]
fn times_are_set_on_everything() {
    on_both(|vault| {
        let time = |seconds| Timestamp { seconds, nanoseconds: 7 };
        let changes =
            Changes { accessed: SetTime::To(time(1000)), modified: SetTime::To(time(-5)), ..Changes::NONE };
        let open = vault.file("open", 3).number;
        let _content = vault.namespace.open(open, Opening::default()).unwrap();
        let numbers =
            [open, vault.file("f", 3).number, vault.directory("d").number, vault.symlink("s", b"t").number];
        for number in numbers {
            let changed = vault.namespace.set_attributes(number, &changes).unwrap();
            assert_eq!((changed.accessed, changed.modified), (time(1000), time(-5)));
            let again = Changes { accessed: SetTime::To(time(2000)), ..Changes::NONE };
            let changed = vault.namespace.set_attributes(number, &again).unwrap();
            assert_eq!((changed.accessed, changed.modified), (time(2000), time(-5)));
        }
        let cut = Changes { len: Some(1), ..Changes::NONE };
        assert!(vault.namespace.set_attributes(open, &cut).unwrap().modified > time(-5));
        vault.namespace.release(open);
        let vault = vault.remounted();
        assert_eq!(vault.find("f").unwrap().attributes.modified, time(-5));
    });
}

#[test]
fn a_damaged_length_does_not_hide_the_file() {
    on_both(|vault| {
        let entry = vault.file("f", 10);
        let root = vault.store.root();
        let stored = root.lookup(&vault.stored(&root)[0]).unwrap();
        stored.open(Access::ReadWrite).unwrap().set_len(528_484).unwrap();
        assert_eq!(stored.id(), entry.attributes.id);
        let vault = vault.remounted();
        let found = vault.find("f").unwrap();
        assert_eq!(found.attributes.len, 528_484);
        let reports = vault.reports.take();
        assert!(
            matches!(reports[..], [(_, Error::Damaged(Damage::Length { stored: 528_484 }))]),
            "{reports:?}"
        );
        assert_eq!(errno(vault.check_open("f")), code::EIO);
        assert_eq!(vault.names(""), ["f"]);
        vault.rename("f", "g", RenameMode::Replace).unwrap();
        vault.remove("g").unwrap();
    });
}

#[test]
fn the_top_directory_counts_no_private_one() {
    on_both(|vault| {
        let before = vault.namespace.attributes(ROOT).unwrap().links;
        vault.directory("d");
        let empty = vault.find("d").unwrap().attributes.links;
        assert_eq!(before, empty, "as any directory without directories");
    });
}
