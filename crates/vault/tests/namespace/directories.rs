//! Making, removing and listing directories.

use strongroom_store::Kind;
use strongroom_vault::error::errno as code;
use strongroom_vault::namespace::directory::Item;
use strongroom_vault::namespace::{Opening, ROOT};
use strongroom_vault::{Damage, Error};

use crate::support::{creation, errno, on_both};
use strongroom_format::vault::names::is_long_name;

#[test]
fn directories_nest_and_go_when_empty() {
    on_both(|vault| {
        vault.directory("a");
        vault.directory("a/b");
        vault.file("a/b/c", 2);
        assert_eq!(errno(vault.namespace.make_directory(ROOT, b"a", &creation(0o755))), code::EEXIST);
        let vault = vault.remounted();
        assert_eq!(vault.check_open("a/b/c"), Ok(2));
        assert_eq!(errno(vault.remove_directory("a")), code::ENOTEMPTY);
        assert_eq!(errno(vault.remove_directory("a/b/c")), code::ENOTDIR);
        assert_eq!(errno(vault.remove("a/b")), code::EISDIR);
        vault.remove("a/b/c").unwrap();
        vault.remove_directory("a/b").unwrap();
        vault.remove_directory("a").unwrap();
        assert_eq!(vault.names(""), Vec::<String>::new());
        assert_eq!(vault.private("temporary").entries().unwrap(), []);
        assert_eq!(errno(vault.remove_directory("a")), code::ENOENT);
    });
}

#[test]
fn a_removed_directory_takes_no_entries() {
    on_both(|vault| {
        let number = vault.directory("a").number;
        let handle = vault.namespace.open_directory(number).unwrap();
        vault.remove_directory("a").unwrap();
        let write = Opening { write: true, ..Opening::default() };
        assert_eq!(errno(vault.namespace.create(number, b"f", &creation(0o600), write)), code::ENOENT);
        assert_eq!(errno(vault.namespace.make_directory(number, b"f", &creation(0o700))), code::ENOENT);
        vault.file("f", 0);
        assert_eq!(errno(vault.namespace.link(vault.number("f"), number, b"g")), code::ENOENT);
        let rename = vault.namespace.rename(ROOT, b"f", number, b"g", strongroom_store::RenameMode::Replace);
        assert_eq!(errno(rename), code::ENOENT);
        let mut names = Vec::new();
        let mut take = |item: Item<'_>| {
            names.push(item.name.to_vec());
            true
        };
        vault.namespace.read_directory(&handle, 0, &mut take).unwrap();
        assert_eq!(names, [&b"."[..], b".."]);
    });
}

#[test]
fn left_over_side_files_do_not_keep_a_directory() {
    on_both(|vault| {
        let number = vault.directory("a").number;
        vault.file(&format!("a/{}", "n".repeat(255)), 0);
        let root = vault.store.root();
        let stored = root.lookup(&vault.stored(&root)[0]).unwrap();
        let long = vault.stored(&stored).into_iter().find(|name| is_long_name(name)).unwrap();
        assert_eq!(errno(vault.remove_directory("a")), code::ENOTEMPTY);
        // As a crash between the two removals leaves it.
        stored.remove(&long).unwrap();
        assert_eq!(vault.stored(&stored).len(), 1);
        let handle = vault.namespace.open_directory(number).unwrap();
        let mut count = 0;
        vault
            .namespace
            .read_directory(&handle, 0, &mut |_| {
                count += 1;
                true
            })
            .unwrap();
        assert_eq!(count, 2);
        vault.remove_directory("a").unwrap();
        assert_eq!(vault.private("temporary").entries().unwrap(), []);
        assert_eq!(vault.reports.take(), []);
    });
}

#[test]
fn what_a_crash_left_in_passing_is_swept() {
    on_both(|vault| {
        vault.directory("a");
        let temporary = vault.private("temporary");
        let half = temporary.make_directory(b"0123", 0o700).unwrap();
        half.make_directory(b".id", 0o700).unwrap().create(b"whatever", 0o600).unwrap();
        temporary.make_directory(b"4567", 0o700).unwrap();
        temporary.create(b"89ab", 0o600).unwrap();
        vault.namespace.sweep().unwrap();
        assert_eq!(temporary.entries().unwrap(), []);
        assert!(vault.exists("a"));
    });
}

#[test]
fn a_listing_goes_on_where_it_stopped() {
    on_both(|vault| {
        let directory = vault.directory("d");
        let names: Vec<String> = (0..50).map(|index| format!("file {index:02}")).collect();
        for name in &names {
            vault.file(&format!("d/{name}"), 0);
        }
        let handle = vault.namespace.open_directory(directory.number).unwrap();
        let mut listed = Vec::new();
        let mut offset = 0;
        loop {
            let mut room = 7;
            let mut next = offset;
            let mut take = |item: Item<'_>| {
                room -= 1;
                if room == 0 {
                    return false;
                }
                next = item.next;
                listed.push((String::from_utf8(item.name.to_vec()).unwrap(), item.inode, item.kind));
                true
            };
            vault.namespace.read_directory(&handle, offset, &mut take).unwrap();
            if next == offset {
                break;
            }
            offset = next;
        }
        assert_eq!(listed[0], (".".to_owned(), directory.attributes.id.inode, Some(Kind::Directory)));
        let above = vault.namespace.attributes(ROOT).unwrap().id.inode;
        assert_eq!(listed[1], ("..".to_owned(), above, Some(Kind::Directory)));
        let mut entries = listed.split_off(2);
        entries.sort_by(|one, two| one.0.cmp(&two.0));
        assert_eq!(entries.iter().map(|entry| entry.0.clone()).collect::<Vec<_>>(), names);
        for (name, inode, kind) in entries {
            assert_eq!(vault.find(&format!("d/{name}")).unwrap().attributes.id.inode, inode);
            assert!(matches!(kind, None | Some(Kind::File)));
        }
    });
}

#[test]
fn a_handle_lists_one_state_until_it_is_rewound() {
    on_both(|vault| {
        vault.file("a", 0);
        vault.file("b", 0);
        let handle = vault.namespace.open_directory(ROOT).unwrap();
        let count = |offset| {
            let mut count = 0;
            vault
                .namespace
                .read_directory(&handle, offset, &mut |_| {
                    count += 1;
                    true
                })
                .unwrap();
            count
        };
        assert_eq!(count(0), 4);
        vault.remove("a").unwrap();
        vault.file("c", 0);
        vault.file("d", 0);
        assert_eq!(count(1), 3, "the rest of what was there");
        assert_eq!(count(0), 5, "what is there now");
        assert_eq!(count(u64::MAX), 0);
    });
}

#[test]
fn a_listing_with_attributes_counts_lookups() {
    on_both(|vault| {
        vault.file("a", 5);
        vault.directory("b");
        vault.symlink("c", b"target");
        let vault = vault.remounted();
        let handle = vault.namespace.open_directory(ROOT).unwrap();
        let mut listed = Vec::new();
        vault
            .namespace
            .read_directory_plus(&handle, 0, &mut |item, entry| {
                listed.push((item.name.to_vec(), entry.map(|entry| (entry.number, entry.attributes.len))));
                true
            })
            .unwrap();
        assert_eq!(listed.len(), 5);
        assert!(listed[..2].iter().all(|(_, entry)| entry.is_none()));
        assert_eq!(vault.namespace.known(), 4);
        for (name, entry) in &listed[2..] {
            let (number, len) = entry.unwrap();
            match &name[..] {
                b"a" => assert_eq!(len, 5),
                b"c" => assert_eq!(len, 6),
                _ => assert_eq!(name, b"b"),
            }
            vault.namespace.forget(number, 1);
        }
        assert_eq!(vault.namespace.known(), 1);
        vault.namespace.read_directory_plus(&handle, 0, &mut |_, entry| entry.is_none()).unwrap();
        assert_eq!(vault.namespace.known(), 1, "what is not taken is not counted");
        vault.remove("a").unwrap();
        let known = vault.namespace.known();
        let mut names = Vec::new();
        let mut take = |item: Item<'_>, _: Option<&_>| {
            names.push(item.name.to_vec());
            true
        };
        vault.namespace.read_directory_plus(&handle, 2, &mut take).unwrap();
        assert_eq!(names.len(), 2, "what was removed since is left out");
        assert_eq!(vault.namespace.known(), known + 2);
    });
}

#[test]
fn what_does_not_open_is_left_out_and_reported() {
    on_both(|vault| {
        vault.directory("a");
        vault.file("b", 0);
        let root = vault.store.root();
        for forged in [&b"not-a-sealed-name-at-all"[..], b"~short", b"stray file", b".hidden", b"\xff\xfe"] {
            root.create(forged, 0o600).unwrap();
        }
        assert_eq!(vault.names(""), ["a", "b"]);
        let reports = vault.reports.take();
        assert_eq!(reports.len(), 5);
        assert!(
            reports.iter().all(|(number, error)| {
                *number == ROOT && matches!(error, Error::Damaged(Damage::Name(_)))
            })
        );
    });
}
