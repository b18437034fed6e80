//! Files: creating, opening, linking, removing, and lookup counts.

use strongroom_store::Kind;
use strongroom_vault::error::errno as code;
use strongroom_vault::namespace::{Opening, Options, ROOT};

use crate::support::{OPTIONS, creation, errno, on_both};

const WRITE: Opening = Opening { write: true, truncate: false, exclusive: false, kill_suid_sgid: false };

#[test]
fn a_file_is_created_opened_and_removed() {
    on_both(|vault| {
        vault.file("a", 10_000);
        let exclusive = Opening { exclusive: true, ..WRITE };
        assert_eq!(errno(vault.namespace.create(ROOT, b"a", &creation(0o600), exclusive)), code::EEXIST);
        let (entry, content) = vault.namespace.create(ROOT, b"a", &creation(0o600), WRITE).unwrap();
        assert_eq!(content.plain_len(), 10_000, "it is opened as it is");
        assert_eq!((entry.attributes.len, entry.attributes.mode), (10_000, 0o644));
        vault.namespace.release(entry.number);
        let truncate = Opening { truncate: true, ..WRITE };
        let (entry, _content) = vault.namespace.create(ROOT, b"a", &creation(0o600), truncate).unwrap();
        assert_eq!(entry.attributes.len, 0);
        vault.namespace.release(entry.number);
        vault.remove("a").unwrap();
        assert!(!vault.exists("a"));
        assert_eq!(errno(vault.remove("a")), code::ENOENT);
    });
}

#[test]
fn an_open_file_outlives_its_name() {
    on_both(|vault| {
        let number = vault.file("a", 4).number;
        let content = vault.namespace.open(number, WRITE).unwrap();
        vault.remove("a").unwrap();
        assert_eq!(vault.namespace.attributes(number).unwrap().links, 0);
        content.set_len(77).unwrap();
        assert_eq!(vault.namespace.attributes(number).unwrap().len, 77);
        vault.file("a", 5);
        assert_eq!(vault.check_open("a"), Ok(5));
        assert_eq!(content.plain_len(), 77);
        vault.namespace.release(number);
        assert_eq!(vault.namespace.path(number), None);
    });
}

#[test]
fn links_open_by_every_name() {
    on_both(|vault| {
        vault.directory("d");
        let first = vault.file("a", 9);
        let second = vault.link("a", "d/b").unwrap();
        assert_eq!((second.number, second.attributes.links), (first.number, 2));
        assert_eq!(errno(vault.link("a", "d/b")), code::EEXIST);
        assert_eq!(errno(vault.link("d", "e")), code::EPERM);
        let vault = vault.remounted();
        assert_eq!((vault.check_open("d/b"), vault.check_open("a")), (Ok(9), Ok(9)));
        vault.remove("a").unwrap();
        let vault = vault.remounted();
        assert_eq!(vault.check_open("d/b"), Ok(9));
    });
}

#[test]
fn an_unnamed_file_is_bound_to_its_first_name() {
    on_both(|vault| {
        vault.directory("d");
        let directory = vault.number("d");
        let (entry, content) = match vault.namespace.create_unnamed(directory, &creation(0o600)) {
            Err(error) if error.errno() == code::EOPNOTSUPP => return,
            created => created.unwrap(),
        };
        assert_eq!(entry.attributes.links, 0);
        content.set_len(3).unwrap();
        let named = vault.namespace.link(entry.number, directory, b"named").unwrap();
        assert_eq!((named.number, named.attributes.links, named.attributes.len), (entry.number, 1, 3));
        vault.namespace.release(entry.number);
        drop(content);
        let vault = vault.remounted();
        assert_eq!(vault.check_open("d/named"), Ok(3));
    });
}

#[test]
fn special_files_keep_kind_and_device() {
    on_both(|vault| {
        let made = vault.namespace.make_special(ROOT, b"fifo", Kind::Fifo, 0, &creation(0o666)).unwrap();
        assert_eq!((made.attributes.kind, made.attributes.mode), (Kind::Fifo, 0o644));
        vault.namespace.make_special(ROOT, b"socket", Kind::Socket, 0, &creation(0o600)).unwrap();
        assert_eq!(errno(vault.namespace.open(made.number, WRITE)), code::ENXIO);
        assert_eq!(
            errno(vault.namespace.make_special(ROOT, b"x", Kind::Directory, 0, &creation(0o600))),
            code::EINVAL
        );
        let vault = vault.remounted();
        assert_eq!(vault.find("socket").unwrap().attributes.kind, Kind::Socket);
        assert_eq!(vault.names(""), ["fifo", "socket"]);
    });
}

#[test]
fn forgotten_inodes_are_known_no_more() {
    on_both(|vault| {
        let number = vault.file("a", 0).number;
        assert_eq!(vault.find("a").unwrap().number, number);
        assert_eq!(vault.namespace.known(), 2);
        vault.namespace.forget(number, 1);
        assert_eq!(vault.namespace.known(), 2, "one lookup is left");
        vault.namespace.forget(number, 1);
        assert_eq!(vault.namespace.known(), 1);
        assert_eq!(errno(vault.namespace.attributes(number)), code::ESTALE);
        assert_ne!(vault.number("a"), number, "numbers are not used again");
        vault.namespace.forget(ROOT, 1000);
        assert!(vault.namespace.attributes(ROOT).is_ok());
        assert!(!vault.exists("none"));
        assert_eq!(vault.namespace.known(), 2, "what is not found is not known");
    });
}

#[test]
fn paths_follow_renames() {
    on_both(|vault| {
        vault.directory("d");
        vault.directory("d/e");
        let number = vault.file("d/e/f", 0).number;
        assert_eq!(vault.namespace.path(number), Some(b"d/e/f".to_vec()));
        vault.rename("d/e", "g", strongroom_store::RenameMode::Replace).unwrap();
        assert_eq!(vault.namespace.path(number), Some(b"g/f".to_vec()));
        assert_eq!(vault.namespace.path(ROOT), Some(Vec::new()));
    });
}

#[test]
fn a_read_only_mount_changes_nothing() {
    on_both(|vault| {
        let file = vault.file("a", 6).number;
        vault.directory("d");
        vault.namespace.forget(file, 1);
        let before = vault.stored(&vault.store.root());
        let vault = vault.mounted_with(Options { read_only: true, ..OPTIONS });
        assert_eq!(vault.check_open("a"), Ok(6));
        let number = vault.number("a");
        let namespace = &vault.namespace;
        let refused = [
            errno(namespace.open(number, WRITE)),
            errno(namespace.create(ROOT, b"b", &creation(0o600), WRITE)),
            errno(namespace.create_unnamed(ROOT, &creation(0o600))),
            errno(namespace.make_directory(ROOT, b"b", &creation(0o700))),
            errno(namespace.make_symlink(ROOT, b"b", b"a", &creation(0o700))),
            errno(namespace.make_special(ROOT, b"b", Kind::Fifo, 0, &creation(0o700))),
            errno(vault.link("a", "b")),
            errno(vault.remove("a")),
            errno(vault.remove_directory("d")),
            errno(vault.rename("a", "b", strongroom_store::RenameMode::Replace)),
            errno(namespace.set_xattr(number, b"user.x", b"", strongroom_store::XattrMode::Any, false)),
            errno(namespace.remove_xattr(number, b"user.x")),
            errno(namespace.set_attributes(number, &strongroom_vault::namespace::Changes::NONE)),
            errno(namespace.sweep()),
        ];
        assert_eq!(refused, [code::EROFS; 14]);
        assert_eq!(vault.stored(&vault.store.root()), before);
    });
}
