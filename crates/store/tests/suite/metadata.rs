//! Attributes, times, extended attributes, special files, space.

use rustix::io::Errno;
use strongroom_store::{Kind, SetTime, Timestamp, XattrMode};

use super::{Subject, refused};

pub(crate) fn mode_and_owner(subject: &Subject) {
    let root = subject.root();
    let (file, _) = root.create(b"file", 0o600).unwrap();
    let looked_up = root.lookup(b"file").unwrap();
    let directory = root.make_directory(b"directory", 0o700).unwrap();
    let fifo = root.make_special(b"fifo", Kind::Fifo, 0o600, 0).unwrap();
    for node in [&file, &looked_up, &directory, &fifo] {
        for mode in [0o644, 0o1777, 0o000, 0o755] {
            node.set_mode(mode).unwrap();
            assert_eq!(node.attributes().unwrap().mode, mode);
        }
    }
    let link = root.make_symlink(b"link", b"file").unwrap();
    refused(link.set_mode(0o600), Errno::OPNOTSUPP);
    let before = file.attributes().unwrap();
    file.set_owner(None, None).unwrap();
    file.set_owner(Some(before.uid), None).unwrap();
    link.set_owner(None, Some(before.gid)).unwrap();
    let after = file.attributes().unwrap();
    assert_eq!((after.uid, after.gid), (before.uid, before.gid));
    if before.uid == 0 {
        looked_up.set_owner(Some(7), Some(8)).unwrap();
        link.set_owner(Some(9), None).unwrap();
        let (file, link) = (file.attributes().unwrap(), link.attributes().unwrap());
        assert_eq!((file.uid, file.gid, link.uid, link.gid), (7, 8, 9, before.gid));
    }
}

pub(crate) fn times(subject: &Subject) {
    let root = subject.root();
    let (created, file) = root.create(b"file", 0o600).unwrap();
    let looked_up = root.lookup(b"file").unwrap();
    let link = root.make_symlink(b"link", b"file").unwrap();
    let directory = root.make_directory(b"directory", 0o700).unwrap();
    let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
    for (number, node) in [&created, &looked_up, &link, &directory].into_iter().enumerate() {
        let accessed = time(1_000_000 + number as i64, 123_456_789);
        let modified = time(1_500_000_000, 999_999_999);
        node.set_times(SetTime::To(accessed), SetTime::To(modified)).unwrap();
        let found = node.attributes().unwrap();
        assert_eq!((found.accessed, found.modified), (accessed, modified));
        node.set_times(SetTime::Omit, SetTime::To(time(5, 0))).unwrap();
        let found = node.attributes().unwrap();
        assert_eq!((found.accessed, found.modified), (accessed, time(5, 0)));
    }
    file.set_times(SetTime::To(time(-5, 1)), SetTime::Omit).unwrap();
    let found = file.attributes().unwrap();
    assert_eq!((found.accessed, found.modified), (time(-5, 1), time(5, 0)));
    file.set_times(SetTime::Now, SetTime::Now).unwrap();
    assert!(file.attributes().unwrap().modified > time(500_000_000, 0));
    // Writing sets the time of modification, reading through us sets none.
    file.set_times(SetTime::To(time(5, 0)), SetTime::To(time(5, 0))).unwrap();
    file.read_at(&mut [0; 1], 0).unwrap();
    file.write_at(b"x", 0).unwrap();
    assert!(file.attributes().unwrap().modified > time(500_000_000, 0));
    file.read_at(&mut [0; 1], 0).unwrap();
    assert_eq!(file.attributes().unwrap().accessed, time(5, 0));
    let before = root.attributes().unwrap().modified;
    std::thread::sleep(std::time::Duration::from_millis(20));
    root.remove(b"link").unwrap();
    assert!(root.attributes().unwrap().modified > before);
}

pub(crate) fn xattrs(subject: &Subject) {
    let root = subject.root();
    let (file, _) = root.create(b"file", 0o600).unwrap();
    let looked_up = root.lookup(b"file").unwrap();
    let directory = root.make_directory(b"directory", 0o700).unwrap();
    for node in [&looked_up, &directory] {
        refused(node.xattr(b"user.none"), Errno::NODATA);
        refused(node.remove_xattr(b"user.none"), Errno::NODATA);
        refused(node.set_xattr(b"user.a", b"1", XattrMode::Replace), Errno::NODATA);
        node.set_xattr(b"user.a", b"1", XattrMode::Create).unwrap();
        refused(node.set_xattr(b"user.a", b"2", XattrMode::Create), Errno::EXIST);
        node.set_xattr(b"user.a", b"\0three\xff", XattrMode::Replace).unwrap();
        node.set_xattr(b"user.b", b"", XattrMode::Any).unwrap();
        assert_eq!(node.xattr(b"user.a").unwrap(), b"\0three\xff");
        assert_eq!(node.xattr(b"user.b").unwrap(), b"");
        let mut names = node.xattr_names().unwrap();
        names.retain(|name| name.starts_with(b"user."));
        names.sort();
        assert_eq!(names, [b"user.a".to_vec(), b"user.b".to_vec()]);
        node.remove_xattr(b"user.a").unwrap();
        refused(node.xattr(b"user.a"), Errno::NODATA);
        refused(node.set_xattr(b"nowhere.a", b"", XattrMode::Any), Errno::OPNOTSUPP);
        refused(node.set_xattr(b"user.a", &[0; 65_537], XattrMode::Any), Errno::TOOBIG);
    }
    assert_eq!(file.xattr(b"user.b").unwrap(), b"");
    // Longer than any first guess, as far as every file system goes.
    let long: Vec<u8> = (0..2_000u32).map(|i| i as u8).collect();
    looked_up.set_xattr(b"user.long", &long, XattrMode::Any).unwrap();
    assert_eq!(looked_up.xattr(b"user.long").unwrap(), long);
    for number in 0..40 {
        let name = format!("user.{}{number:02}", "n".repeat(20));
        directory.set_xattr(name.as_bytes(), b"", XattrMode::Any).unwrap();
    }
    assert!(directory.xattr_names().unwrap().len() >= 41);
    // The class for users is closed to all but files and directories.
    let link = root.make_symlink(b"link", b"file").unwrap();
    refused(link.set_xattr(b"user.a", b"1", XattrMode::Any), Errno::PERM);
    let fifo = root.make_special(b"fifo", Kind::Fifo, 0o600, 0).unwrap();
    refused(fifo.set_xattr(b"user.a", b"1", XattrMode::Any), Errno::PERM);
}

pub(crate) fn special(subject: &Subject) {
    if !subject.traits.device_nodes {
        return;
    }
    let root = subject.root();
    let device = rustix::fs::makedev(1, 3);
    for (name, kind) in [(&b"c"[..], Kind::CharacterDevice), (b"b", Kind::BlockDevice)] {
        let node = root.make_special(name, kind, 0o640, device).unwrap();
        let found = node.attributes().unwrap();
        assert_eq!((found.kind, found.mode, found.device), (kind, 0o640, device));
        assert_eq!(root.lookup(name).unwrap().kind(), kind);
    }
}

pub(crate) fn space_and_limits(subject: &Subject) {
    let space = subject.store.space().unwrap();
    assert!(space.fragment > 0 && space.free <= space.total && space.available <= space.free);
    assert!(space.files_free <= space.files);
    let limits = subject.store.limits();
    assert!(limits.name_max >= 143 && limits.symlink_max >= 255);
}
