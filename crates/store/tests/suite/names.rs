//! Directories and names.

use rustix::io::Errno;
use strongroom_store::{Access, Kind, NodeRef, RenameMode};

use super::{Subject, content, listing, refused};

fn file(directory: &NodeRef, name: &str, data: &[u8]) -> NodeRef {
    let (node, file) = directory.create(name.as_bytes(), 0o644).unwrap();
    file.write_at(data, 0).unwrap();
    node
}

fn read(directory: &NodeRef, name: &str) -> Vec<u8> {
    content(&directory.lookup(name.as_bytes()).unwrap().open(Access::Read).unwrap())
}

pub(crate) fn create_and_look_up(subject: &Subject) {
    let root = subject.root();
    let (node, opened) = root.create(b"file", 0o640).unwrap();
    opened.write_at(b"text", 0).unwrap();
    assert_eq!(node.kind(), Kind::File);
    assert_eq!(node.attributes().unwrap().mode, 0o640);
    assert_eq!(node.attributes().unwrap(), opened.attributes().unwrap());
    let found = root.lookup(b"file").unwrap();
    assert_eq!(found.id(), node.id());
    assert_eq!(content(&found.open(Access::Read).unwrap()), b"text");

    let directory = root.make_directory(b"directory", 0o750).unwrap();
    assert_eq!(directory.kind(), Kind::Directory);
    assert_eq!(directory.attributes().unwrap().mode, 0o750);
    assert_eq!(directory.attributes().unwrap().links, 2);
    assert_eq!(root.attributes().unwrap().links, 3);
    directory.create(b"below", 0o600).unwrap();
    let again = root.lookup(b"directory").unwrap();
    assert_eq!(listing(&again), ["below"]);
    assert_eq!(listing(&root), ["directory", "file"]);
    for (name, node) in [(&b"file"[..], &node), (b"directory", &directory)] {
        let (found, attributes) = root.lookup_with_attributes(name).unwrap();
        assert_eq!((found.id(), attributes), (node.id(), node.attributes().unwrap()));
        assert_eq!(root.identify(name).unwrap(), node.id());
    }
    refused(root.lookup_with_attributes(b"missing"), Errno::NOENT);
    refused(root.identify(b"missing"), Errno::NOENT);
    for entry in root.entries().unwrap() {
        let node = root.lookup(&entry.name).unwrap();
        assert_eq!(entry.inode, node.id().inode);
        assert!(entry.kind.is_none_or(|kind| kind == node.kind()));
    }
}

pub(crate) fn bad_names(subject: &Subject) {
    let root = subject.root();
    let other = file(&root, "other", b"");
    for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0b", b"../other"] {
        refused(root.lookup(name), Errno::INVAL);
        refused(root.lookup_with_attributes(name), Errno::INVAL);
        refused(root.identify(name), Errno::INVAL);
        refused(root.create(name, 0o600), Errno::INVAL);
        refused(root.make_directory(name, 0o700), Errno::INVAL);
        refused(root.make_symlink(name, b"target"), Errno::INVAL);
        refused(root.make_special(name, Kind::Fifo, 0o600, 0), Errno::INVAL);
        refused(root.link(&*other, name), Errno::INVAL);
        refused(root.remove(name), Errno::INVAL);
        refused(root.remove_directory(name), Errno::INVAL);
        refused(root.rename(name, &*root, b"x", RenameMode::Replace), Errno::INVAL);
        refused(root.rename(b"other", &*root, name, RenameMode::Replace), Errno::INVAL);
    }
    let longest = vec![b'n'; subject.store.limits().name_max];
    let longer = [&longest[..], b"n"].concat();
    root.create(&longest, 0o600).unwrap();
    root.lookup(&longest).unwrap();
    refused(root.lookup(&longer), Errno::NAMETOOLONG);
    refused(root.create(&longer, 0o600), Errno::NAMETOOLONG);
    // Bytes that are no text are names like any other.
    root.create(b"\xff\xfe \n", 0o600).unwrap();
    root.lookup(b"\xff\xfe \n").unwrap();
}

pub(crate) fn errors(subject: &Subject) {
    let root = subject.root();
    let plain = file(&root, "file", b"");
    let directory = root.make_directory(b"directory", 0o755).unwrap();
    refused(root.lookup(b"none"), Errno::NOENT);
    refused(root.create(b"file", 0o600), Errno::EXIST);
    refused(root.create(b"directory", 0o600), Errno::EXIST);
    refused(root.make_directory(b"file", 0o600), Errno::EXIST);
    refused(root.make_symlink(b"file", b"x"), Errno::EXIST);
    refused(root.make_special(b"file", Kind::Fifo, 0o600, 0), Errno::EXIST);
    refused(root.link(&*plain, b"directory"), Errno::EXIST);
    refused(root.link(&*directory, b"second"), Errno::PERM);
    refused(root.remove(b"none"), Errno::NOENT);
    refused(root.remove_directory(b"none"), Errno::NOENT);
    refused(root.remove(b"directory"), Errno::ISDIR);
    refused(root.remove_directory(b"file"), Errno::NOTDIR);
    refused(plain.lookup(b"x"), Errno::NOTDIR);
    refused(plain.create(b"x", 0o600), Errno::NOTDIR);
    refused(plain.make_directory(b"x", 0o600), Errno::NOTDIR);
    refused(plain.entries(), Errno::NOTDIR);
    refused(plain.sync(), Errno::NOTDIR);
    refused(plain.remove(b"x"), Errno::NOTDIR);
    refused(directory.open(Access::Read), Errno::ISDIR);
    refused(directory.read_link(), Errno::INVAL);
    refused(plain.read_link(), Errno::INVAL);
    refused(root.make_special(b"x", Kind::File, 0o600, 0), Errno::INVAL);
    refused(root.make_symlink(b"x", b""), Errno::NOENT);
}

pub(crate) fn long_listing(subject: &Subject) {
    let root = subject.root();
    let directory = root.make_directory(b"many", 0o755).unwrap();
    // More than 64 KiB of names.
    let name = |number: usize| format!("{number:04}-{}", "x".repeat(200));
    for number in 0..400 {
        directory.create(name(number).as_bytes(), 0o600).unwrap();
    }
    let expected: Vec<String> = (0..400).map(name).collect();
    assert_eq!(listing(&directory), expected);
    if subject.traits.sorted {
        let names = directory.entries().unwrap().into_iter().map(|entry| entry.name);
        assert!(names.eq(expected.iter().map(|name| name.as_bytes().to_vec())));
    }
    for name in &expected {
        directory.remove(name.as_bytes()).unwrap();
    }
    assert_eq!(directory.entries().unwrap(), []);
}

pub(crate) fn kinds(subject: &Subject) {
    let root = subject.root();
    let link = root.make_symlink(b"link", b"anything at all").unwrap();
    assert_eq!(link.kind(), Kind::Symlink);
    assert_eq!(link.read_link().unwrap(), b"anything at all");
    assert_eq!(root.lookup(b"link").unwrap().read_link().unwrap(), b"anything at all");
    assert_eq!(link.attributes().unwrap().len, 15);
    refused(link.open(Access::Read), Errno::INVAL);
    let longest = vec![b't'; subject.store.limits().symlink_max];
    let longer = [&longest[..], b"t"].concat();
    assert_eq!(root.make_symlink(b"longest", &longest).unwrap().read_link().unwrap(), longest);
    refused(root.make_symlink(b"longer", &longer), Errno::NAMETOOLONG);
    let fifo = root.make_special(b"fifo", Kind::Fifo, 0o622, 0).unwrap();
    assert_eq!((fifo.kind(), fifo.attributes().unwrap().mode), (Kind::Fifo, 0o622));
    refused(fifo.open(Access::Read), Errno::INVAL);
    let socket = root.make_special(b"socket", Kind::Socket, 0o600, 0).unwrap();
    assert_eq!(socket.kind(), Kind::Socket);
    // A hard link to a symlink is one to the symlink itself.
    root.link(&*link, b"link2").unwrap();
    assert_eq!(root.lookup(b"link2").unwrap().id(), link.id());
}

pub(crate) fn removal(subject: &Subject) {
    let root = subject.root();
    file(&root, "file", b"1");
    let directory = root.make_directory(b"directory", 0o755).unwrap();
    file(&directory, "inner", b"2");
    refused(root.remove_directory(b"directory"), Errno::NOTEMPTY);
    directory.remove(b"inner").unwrap();
    root.remove_directory(b"directory").unwrap();
    root.remove(b"file").unwrap();
    assert_eq!(listing(&root), [""; 0]);
    assert_eq!(root.attributes().unwrap().links, 2);
    // The directory's node is still there, and nothing can be made in it.
    refused(directory.create(b"late", 0o600), Errno::NOENT);
    refused(directory.make_directory(b"late", 0o600), Errno::NOENT);
    refused(directory.lookup(b"late"), Errno::NOENT);
    assert_eq!(directory.attributes().unwrap().links, 0);
}

pub(crate) fn links(subject: &Subject) {
    let root = subject.root();
    let node = file(&root, "one", b"shared");
    let directory = root.make_directory(b"directory", 0o755).unwrap();
    directory.link(&*node, b"two").unwrap();
    assert_eq!(node.attributes().unwrap().links, 2);
    assert_eq!(directory.lookup(b"two").unwrap().id(), node.id());
    refused(directory.link(&*node, b"two"), Errno::EXIST);
    node.open(Access::ReadWrite).unwrap().write_at(b"S", 0).unwrap();
    assert_eq!(read(&directory, "two"), b"Shared");
    root.remove(b"one").unwrap();
    assert_eq!(node.attributes().unwrap().links, 1);
    directory.remove(b"two").unwrap();
    assert_eq!(node.attributes().unwrap().links, 0);
    // What has lost its last name gets none again.
    refused(root.link(&*node, b"three"), Errno::NOENT);
}

pub(crate) fn rename(subject: &Subject) {
    let root = subject.root();
    let node = file(&root, "a", b"A");
    let directory = root.make_directory(b"directory", 0o755).unwrap();
    root.rename(b"a", &*directory, b"b", RenameMode::Replace).unwrap();
    refused(root.lookup(b"a"), Errno::NOENT);
    assert_eq!(directory.lookup(b"b").unwrap().id(), node.id());
    let replaced = file(&root, "c", b"C");
    directory.rename(b"b", &*root, b"c", RenameMode::Replace).unwrap();
    assert_eq!(read(&root, "c"), b"A");
    assert_eq!(replaced.attributes().unwrap().links, 0);
    assert_eq!(content(&replaced.open(Access::Read).unwrap()), b"C");
    refused(root.rename(b"none", &*root, b"x", RenameMode::Replace), Errno::NOENT);
    refused(root.rename(b"c", &*root, b"directory", RenameMode::Replace), Errno::ISDIR);
    refused(root.rename(b"directory", &*root, b"c", RenameMode::Replace), Errno::NOTDIR);
    // Onto itself, and onto another name of the same inode: nothing happens.
    root.rename(b"c", &*root, b"c", RenameMode::Replace).unwrap();
    root.link(&*node, b"d").unwrap();
    root.rename(b"c", &*root, b"d", RenameMode::Replace).unwrap();
    assert_eq!(listing(&root), ["c", "d", "directory"]);
}

pub(crate) fn rename_directories(subject: &Subject) {
    let root = subject.root();
    let a = root.make_directory(b"a", 0o755).unwrap();
    let b = a.make_directory(b"b", 0o755).unwrap();
    let c = root.make_directory(b"c", 0o755).unwrap();
    refused(root.rename(b"a", &*b, b"x", RenameMode::Replace), Errno::INVAL);
    refused(root.rename(b"a", &*a, b"x", RenameMode::Replace), Errno::INVAL);
    refused(a.rename(b"b", &*root, b"a", RenameMode::Replace), Errno::NOTEMPTY);
    refused(root.rename(b"c", &*root, b"a", RenameMode::Replace), Errno::NOTEMPTY);
    assert_eq!((root.attributes().unwrap().links, a.attributes().unwrap().links), (4, 3));
    a.rename(b"b", &*root, b"c", RenameMode::Replace).unwrap();
    assert_eq!(root.lookup(b"c").unwrap().id(), b.id());
    assert_eq!((root.attributes().unwrap().links, a.attributes().unwrap().links), (4, 2));
    assert_eq!(c.attributes().unwrap().links, 0);
    refused(root.rename(b"a", &*c, b"x", RenameMode::Replace), Errno::NOENT);
    // Now that b lies beside a, a may go into it.
    root.rename(b"a", &*b, b"a", RenameMode::Replace).unwrap();
    assert_eq!((root.attributes().unwrap().links, b.attributes().unwrap().links), (3, 3));
}

pub(crate) fn rename_modes(subject: &Subject) {
    let root = subject.root();
    file(&root, "a", b"A");
    file(&root, "b", b"B");
    refused(root.rename(b"a", &*root, b"b", RenameMode::NoReplace), Errno::EXIST);
    assert_eq!((read(&root, "a"), read(&root, "b")), (b"A".to_vec(), b"B".to_vec()));
    root.rename(b"a", &*root, b"c", RenameMode::NoReplace).unwrap();
    refused(root.rename(b"b", &*root, b"none", RenameMode::Exchange), Errno::NOENT);
    root.rename(b"b", &*root, b"c", RenameMode::Exchange).unwrap();
    assert_eq!((read(&root, "b"), read(&root, "c")), (b"A".to_vec(), b"B".to_vec()));
    // A file and a directory, across directories.
    let outer = root.make_directory(b"outer", 0o755).unwrap();
    let inner = outer.make_directory(b"inner", 0o755).unwrap();
    refused(root.rename(b"outer", &*outer, b"inner", RenameMode::Exchange), Errno::INVAL);
    refused(outer.rename(b"inner", &*root, b"outer", RenameMode::Exchange), Errno::INVAL);
    outer.rename(b"inner", &*root, b"b", RenameMode::Exchange).unwrap();
    assert_eq!(root.lookup(b"b").unwrap().id(), inner.id());
    assert_eq!(read(&outer, "inner"), b"A");
    assert_eq!((root.attributes().unwrap().links, outer.attributes().unwrap().links), (4, 2));
}

pub(crate) fn whiteout(subject: &Subject) {
    if !subject.traits.whiteout {
        return;
    }
    let root = subject.root();
    let node = file(&root, "a", b"A");
    root.rename(b"a", &*root, b"b", RenameMode::Whiteout).unwrap();
    assert_eq!(root.lookup(b"b").unwrap().id(), node.id());
    let left = root.lookup(b"a").unwrap().attributes().unwrap();
    assert_eq!((left.kind, left.device), (Kind::CharacterDevice, 0));
}

pub(crate) fn symlinks_not_followed(subject: &Subject) {
    let root = subject.root();
    root.make_symlink(b"up", b"..").unwrap();
    root.make_symlink(b"etc", b"/etc").unwrap();
    file(&root, "file", b"F");
    root.make_symlink(b"alias", b"file").unwrap();
    for name in [&b"up"[..], b"etc", b"alias"] {
        let node = root.lookup(name).unwrap();
        assert_eq!(node.kind(), Kind::Symlink);
        assert_eq!(root.identify(name).unwrap(), node.id());
        refused(node.lookup(b"passwd"), Errno::NOTDIR);
        refused(node.entries(), Errno::NOTDIR);
        refused(root.create(name, 0o600), Errno::EXIST);
    }
    root.rename(b"file", &*root, b"alias", RenameMode::Replace).unwrap();
    assert_eq!(root.lookup(b"alias").unwrap().kind(), Kind::File);
}

pub(crate) fn unnamed(subject: &Subject) {
    let root = subject.root();
    let (node, opened) = root.create_unnamed(0o600).unwrap();
    opened.write_at(b"made first", 0).unwrap();
    assert_eq!(node.attributes().unwrap().links, 0);
    assert_eq!(listing(&root), [""; 0]);
    root.link(&*node, b"named").unwrap();
    assert_eq!(node.attributes().unwrap().links, 1);
    assert_eq!(read(&root, "named"), b"made first");
    let (second, _) = root.create_unnamed(0o600).unwrap();
    refused(root.link(&*second, b"named"), Errno::EXIST);
}

pub(crate) fn nodes_outlive_names(subject: &Subject) {
    let root = subject.root();
    let (node, opened) = root.create(b"file", 0o600).unwrap();
    let directory = root.make_directory(b"directory", 0o755).unwrap();
    root.rename(b"file", &*directory, b"moved", RenameMode::Replace).unwrap();
    root.rename(b"directory", &*root, b"elsewhere", RenameMode::Replace).unwrap();
    opened.write_at(b"still", 0).unwrap();
    assert_eq!(read(&directory, "moved"), b"still");
    directory.remove(b"moved").unwrap();
    opened.write_at(b" open", 5).unwrap();
    assert_eq!(content(&node.open(Access::Read).unwrap()), b"still open");
    node.set_mode(0o611).unwrap();
    assert_eq!(opened.attributes().unwrap().mode, 0o611);
    drop(opened);
    assert_eq!(node.attributes().unwrap().len, 10);
}
