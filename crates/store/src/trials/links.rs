//! Further names for a file, and first names for one that has none.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::local::is_fuse;

use super::{Answer, Place, at, kept, lost, make, open, read, refused};

pub(super) fn hard(place: &Place<'_>) -> Answer {
    let [one, other] = ["one", "other"].map(|name| place.at(name));
    make(&one, b"text")?;
    if let Err(errno) = rustix::fs::linkat(CWD, &one, CWD, &other, AtFlags::empty()) {
        return refused("link", errno);
    }
    let seen = |path| fs::symlink_metadata(path).map_err(at("stat"));
    let (first, second) = (seen(&one)?, seen(&other)?);
    if (first.dev(), first.ino()) != (second.dev(), second.ino()) {
        return lost("the names of one file look like two files");
    }
    if first.nlink() != 2 || second.nlink() != 2 {
        return lost(format!("a file with two names says that it has {}", first.nlink()));
    }
    open(&one)?.write_all_at(b"more", 4).map_err(at("writing"))?;
    fs::remove_file(&one).map_err(at("removing one name"))?;
    match read(&other)? == b"textmore" {
        true => kept("a file may have several names"),
        false => lost("what was written under one name is not read under the other"),
    }
}

/// A program that serves a file system is not asked: it hears of the closing
/// some time later, so that what is found may be lost a moment afterwards, and
/// what JuiceFS leaves of it cannot be removed.
pub(super) fn unnamed(place: &Place<'_>) -> Answer {
    let directory = fs::File::open(&place.directory).map_err(at("opening the directory"))?;
    if is_fuse(&directory).map_err(at("statfs"))? {
        return lost("not asked of programs that serve files: some lose them later");
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match rustix::fs::open(&place.directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => fs::File::from(file),
        Err(errno) => return refused("O_TMPFILE", errno),
    };
    file.write_all_at(b"text", 0).map_err(at("writing"))?;
    let path = place.at("named");
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, link, CWD, &path, AtFlags::SYMLINK_FOLLOW).map_err(at("giving it a name"))?;
    drop(file);
    match read(&path) {
        Ok(bytes) if bytes == b"text" => kept("made without a name, and there once they have one"),
        _ => lost("a file made without a name is gone when it has one and is closed"),
    }
}
