//! The plain side: directories that are open while anything is written in
//! them, and inodes that are given what the vault says of them.
//!
//! Everything is named from an open directory and no link is followed, so that
//! neither a deep tree nor somebody who writes there can lead a name astray.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, fchmod, fchown, fsetxattr,
    futimens, linkat, lsetxattr, mkdirat, mknodat, openat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use strongroom_store::{Attributes, Kind, Timestamp};

use super::losses::Losses;

/// A plain name with its value.
pub(super) type Xattr = (Vec<u8>, Vec<u8>);

/// A directory that is being filled. It is given its attributes when nobody
/// writes in it any more, and before its own directory is.
pub(super) struct Directory {
    fd: OwnedFd,
    /// Plain path, for messages.
    pub(super) path: Vec<u8>,
    /// What it is to be given; the top of the destination stays as it is.
    attributes: Option<(Attributes, Vec<Xattr>)>,
    losses: Arc<Losses>,
    _parent: Option<Arc<Directory>>,
}

impl Directory {
    /// The destination.
    ///
    /// # Errors
    /// What the system reports.
    pub(super) fn top(path: &Path, losses: Arc<Losses>) -> Result<Directory, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Directory { fd, path: Vec::new(), attributes: None, losses, _parent: None })
    }

    /// Makes the directory `name` in this one, or goes on in it.
    pub(super) fn make(
        self: &Arc<Directory>,
        name: &[u8],
        path: Vec<u8>,
        attributes: Attributes,
        xattrs: Vec<Xattr>,
    ) -> Result<Directory, Errno> {
        match mkdirat(&self.fd, name, Mode::RWXU) {
            Err(Errno::EXIST) | Ok(()) => {}
            Err(errno) => return Err(errno),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty())?;
        // One that an earlier run has completed may let nobody write.
        fchmod(&fd, Mode::RWXU)?;
        let (losses, parent) = (Arc::clone(&self.losses), Some(Arc::clone(self)));
        Ok(Directory { fd, path, attributes: Some((attributes, xattrs)), losses, _parent: parent })
    }

    /// Creates or empties a file.
    pub(super) fn create(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        match openat(&self.fd, name, flags, mode) {
            // A completed file may be read-only, and a link is not followed.
            Err(Errno::ACCESS | Errno::LOOP | Errno::TXTBSY) => {
                unlinkat(&self.fd, name, AtFlags::empty())?;
                openat(&self.fd, name, flags, mode)
            }
            other => other,
        }
    }

    /// Whether a file is there with this length and time: it was completed.
    pub(super) fn has(&self, name: &[u8], len: u64, modified: Timestamp) -> bool {
        let Ok(found) = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
        FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            && u64::try_from(found.st_size) == Ok(len)
            && found.st_mtime == modified.seconds
            && i64::try_from(found.st_mtime_nsec) == Ok(i64::from(modified.nanoseconds))
    }

    /// Gives a file that is there, by its path from `top`, another name here.
    pub(super) fn link(&self, top: &Directory, path: &[u8], name: &[u8]) -> Result<(), Errno> {
        self.replacing(name, || linkat(&top.fd, path, &self.fd, name, AtFlags::empty()))
    }

    /// Makes a symlink.
    pub(super) fn symlink(&self, name: &[u8], target: &[u8], attributes: &Attributes) -> Result<(), Errno> {
        self.replacing(name, || symlinkat(target, &self.fd, name))?;
        self.give(name, attributes)
    }

    /// Makes a FIFO, socket or device node.
    pub(super) fn special(&self, name: &[u8], attributes: &Attributes) -> Result<(), Errno> {
        let kind = match attributes.kind {
            Kind::Fifo => FileType::Fifo,
            Kind::Socket => FileType::Socket,
            Kind::BlockDevice => FileType::BlockDevice,
            _ => FileType::CharacterDevice,
        };
        let mode = Mode::from_raw_mode(attributes.mode);
        self.replacing(name, || mknodat(&self.fd, name, kind, mode, attributes.device))?;
        self.give(name, attributes)
    }

    fn replacing(&self, name: &[u8], make: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
        match make() {
            Err(Errno::EXIST) => {
                unlinkat(&self.fd, name, AtFlags::empty())?;
                make()
            }
            other => other,
        }
    }

    /// Gives an inode that is not open its owner and times.
    fn give(&self, name: &[u8], attributes: &Attributes) -> Result<(), Errno> {
        if is_root() {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            rustix::fs::chownat(&self.fd, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        utimensat(&self.fd, name, &times(attributes), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Gives an inode that is not open its extended attributes.
    pub(super) fn give_xattrs(&self, name: &[u8], path: &[u8], xattrs: &[Xattr]) {
        let place = [format!("/proc/self/fd/{}/", self.fd.as_raw_fd()).as_bytes(), name].concat();
        for (xattr, value) in xattrs {
            if let Err(errno) = lsetxattr(&place, &xattr[..], value, XattrFlags::empty()) {
                refuse_xattr(&self.losses, path, xattr, errno);
            }
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let Some((attributes, xattrs)) = &self.attributes else { return };
        give_open(&self.fd, attributes, xattrs, &self.path, &self.losses);
        if let Err(errno) = futimens(&self.fd, &times(attributes)) {
            self.losses.refuse(&self.path, std::io::Error::from(errno));
        }
    }
}

/// Gives an open inode its owner, mode and extended attributes.
pub(super) fn give_open(
    fd: impl AsFd,
    attributes: &Attributes,
    xattrs: &[Xattr],
    path: &[u8],
    losses: &Losses,
) {
    let fd = fd.as_fd();
    let refuse = |errno: Errno| losses.refuse(path, std::io::Error::from(errno));
    if is_root() {
        let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
        fchown(fd, Some(uid), Some(gid)).unwrap_or_else(refuse);
    }
    fchmod(fd, Mode::from_raw_mode(attributes.mode)).unwrap_or_else(refuse);
    for (name, value) in xattrs {
        if let Err(errno) = fsetxattr(fd, &name[..], value, XattrFlags::empty()) {
            refuse_xattr(losses, path, name, errno);
        }
    }
}

/// Gives an open file its times: it is complete.
pub(super) fn give_times(fd: impl AsFd, attributes: &Attributes) -> Result<(), Errno> {
    futimens(fd, &times(attributes))
}

fn refuse_xattr(losses: &Losses, path: &[u8], name: &[u8], errno: Errno) {
    let (name, error) = (crate::report::shown(name), std::io::Error::from(errno));
    losses.refuse(path, format!("the attribute {name}: {error}"));
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn times(attributes: &Attributes) -> Timestamps {
    let time = |time: Timestamp| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    Timestamps { last_access: time(attributes.accessed), last_modification: time(attributes.modified) }
}
