//! Inodes of a local store, each held by a descriptor.

use std::any::Any;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RawDir, RenameFlags, Stat, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::file::LocalFile;
use super::handle::Handle;
use super::unsynced::Note;
use super::{Shared, checked_name, error, open_quietly, proc_link};
use crate::{
    Access, Attributes, DirectoryEntry, FileRef, InodeId, Kind, Node, NodeRef, RenameMode, Result, SetTime,
    Timestamp, XattrMode,
};

/// Bytes asked of the kernel per reading of a directory.
const DIRECTORY_BUFFER: usize = 64 << 10;
/// Beyond what any extended attribute or list of their names can take.
const XATTR_BUFFER_MAX: usize = 128 << 10;

/// One inode of a local store.
#[derive(Debug)]
pub(super) struct LocalNode {
    store: Arc<Shared>,
    fd: Arc<OwnedFd>,
    /// The descriptor is an ordinary one, of the root or a file just created,
    /// and good for all calls; an `O_PATH` one else.
    is_ordinary: bool,
    id: InodeId,
    kind: Kind,
}

impl LocalNode {
    /// The node of the inode that `fd` refers to, and its attributes.
    pub(super) fn from_fd(
        store: Arc<Shared>,
        fd: Arc<OwnedFd>,
        is_ordinary: bool,
    ) -> Result<(LocalNode, Attributes)> {
        let found = attributes_of(&fd)?;
        Ok((LocalNode { store, fd, is_ordinary, id: found.id, kind: found.kind }, found))
    }

    /// The entry `name`, by a descriptor that grants nothing but reference.
    fn entry(&self, name: &[u8]) -> Result<(NodeRef, Attributes)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty()).map_err(error("openat"))?;
        let (node, found) = LocalNode::from_fd(Arc::clone(&self.store), Arc::new(fd), false)?;
        Ok((Arc::new(node), found))
    }

    /// A node and an open file that share one ordinary descriptor; where the
    /// file has to be the only one that is open to be written, they do not.
    fn opened(&self, fd: OwnedFd) -> Result<(NodeRef, FileRef)> {
        let fd = Arc::new(fd);
        let is_served = self.is_of_fuse();
        let of_node = if is_served { Arc::new(reference_to(&fd)?) } else { Arc::clone(&fd) };
        let (node, _) = LocalNode::from_fd(Arc::clone(&self.store), of_node, !is_served)?;
        let file = LocalFile::new(Arc::clone(&self.store), Handle::new(fd, is_served), node.id);
        Ok((Arc::new(node), Arc::new(file)))
    }

    /// A file without a name, whether or not the store keeps what is named
    /// later.
    pub(super) fn try_create_unnamed(&self, mode: u32) -> Result<(NodeRef, FileRef)> {
        let _timing = self.store.times.names.begin();
        self.store.writable("openat")?;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let fd = rustix::fs::openat(&self.fd, ".", flags, mode).map_err(error("openat"))?;
        quieten(&fd);
        self.opened(fd)
    }

    /// Gives `node` the further name `name`, whether or not the store keeps it.
    pub(super) fn link_raw(&self, node: &dyn Node, name: &[u8]) -> Result<()> {
        let _change = self.changing();
        let node = local(node, "linkat")?;
        match rustix::fs::linkat(&node.fd, "", &self.fd, name, AtFlags::EMPTY_PATH) {
            // So are callers refused who may not read every file.
            Err(Errno::NOENT) => {
                let link = proc_link(node.fd.as_fd());
                rustix::fs::linkat(rustix::fs::CWD, link, &self.fd, name, AtFlags::SYMLINK_FOLLOW)
            }
            other => other,
        }
        .map_err(error("linkat"))
    }

    /// Whether `node` may be named here: what has no name yet may, what has one
    /// where files can have several.
    fn takes_link(&self, node: &LocalNode) -> Result<bool> {
        if let Some(true) = self.store.links.get() {
            return Ok(true);
        }
        if attributes_of(&node.fd)?.links == 0 {
            return Ok(true);
        }
        if let Some(kept) = self.store.links.get() {
            return Ok(*kept);
        }
        let kept = super::probe::links_in(self)?;
        Ok(*self.store.links.get_or_init(|| kept))
    }

    /// Sets an extended attribute; errors as the system has them.
    pub(super) fn set_xattr_raw(&self, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.store.writable("setxattr")?;
        let _change = self.changing();
        let flags = match mode {
            XattrMode::Any => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        rustix::fs::setxattr(proc_link(self.fd.as_fd()), name, value, flags).map_err(error("setxattr"))
    }

    /// What came of a call on extended attributes. Some systems that have none
    /// say so in other words than `EOPNOTSUPP`, which callers go on after.
    fn xattrs<T>(&self, done: Result<T>) -> Result<T> {
        done.map_err(|failed| {
            let lacking = match Errno::from_raw_os_error(failed.errno()) {
                Errno::NOSYS => true,
                Errno::IO => self.store.lacks_xattrs(),
                _ => false,
            };
            if lacking { error(failed.operation())(Errno::OPNOTSUPP) } else { failed }
        })
    }

    /// Whether a program serves the file system.
    pub(super) fn is_of_fuse(&self) -> bool {
        self.store.unsynced.is_of_fuse()
    }

    /// Whether that an opening for writing was refused so leaves the file to be
    /// read: it is immutable, or another's. The owner of one that lacks the
    /// right is told, and may give it to himself.
    fn is_for_reading(&self, refusal: Errno) -> bool {
        let is_anothers = || {
            let found = rustix::fs::fstat(&self.fd);
            found.is_ok_and(|found| found.st_uid != rustix::process::geteuid().as_raw())
        };
        match refusal {
            Errno::PERM | Errno::ROFS | Errno::TXTBSY => true,
            Errno::ACCESS => is_anothers(),
            _ => false,
        }
    }

    /// This directory, open for reading.
    fn open_directory(&self) -> Result<OwnedFd> {
        open_quietly(&self.fd, ".", OFlags::RDONLY | OFlags::DIRECTORY).map_err(error("openat"))
    }

    /// The entries or attributes are changed before what is returned goes.
    fn changing(&self) -> Note<'_> {
        self.store.unsynced.node(self.id, self.kind, &self.fd)
    }

    /// Begins a change of the entry `name`.
    fn change<'a>(&self, name: &'a [u8], operation: &'static str) -> Result<&'a [u8]> {
        self.store.writable(operation)?;
        checked_name(name, operation)
    }
}

/// A descriptor of the same inode that grants nothing but reference.
fn reference_to(fd: &OwnedFd) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open(proc_link(fd.as_fd()), flags, Mode::empty()).map_err(error("openat"))
}

/// Finds the local node behind `node`.
fn local<'a>(node: &'a dyn Node, operation: &'static str) -> Result<&'a LocalNode> {
    node.as_any().downcast_ref::<LocalNode>().ok_or(error(operation)(Errno::XDEV))
}

impl Node for LocalNode {
    fn id(&self) -> InodeId {
        self.id
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn attributes(&self) -> Result<Attributes> {
        let _timing = self.store.times.names.begin();
        attributes_of(&self.fd)
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        let _timing = self.store.times.names.begin();
        self.store.writable("chmod")?;
        let _change = self.changing();
        let mode = Mode::from_raw_mode(mode & 0o7777);
        if self.is_ordinary {
            return rustix::fs::fchmod(&self.fd, mode).map_err(error("fchmod"));
        }
        rustix::fs::chmod(proc_link(self.fd.as_fd()), mode).map_err(error("chmod"))
    }

    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let _timing = self.store.times.names.begin();
        self.store.writable("fchownat")?;
        let _change = self.changing();
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(&self.fd, "", uid, gid, AtFlags::EMPTY_PATH).map_err(error("fchownat"))
    }

    fn set_times(&self, accessed: SetTime, modified: SetTime) -> Result<()> {
        let _timing = self.store.times.names.begin();
        self.store.writable("utimensat")?;
        let _change = self.changing();
        let times = timestamps(accessed, modified);
        match rustix::fs::utimensat(&self.fd, "", &times, AtFlags::EMPTY_PATH) {
            // Kernels before 5.8 know no empty path here.
            Err(Errno::INVAL) => {
                let link = proc_link(self.fd.as_fd());
                rustix::fs::utimensat(rustix::fs::CWD, link, &times, AtFlags::empty())
            }
            other => other,
        }
        .map_err(error("utimensat"))
    }

    fn read_link(&self) -> Result<Vec<u8>> {
        let _timing = self.store.times.names.begin();
        if self.kind != Kind::Symlink {
            return Err(error("readlinkat")(Errno::INVAL));
        }
        let target = rustix::fs::readlinkat(&self.fd, "", Vec::new()).map_err(error("readlinkat"))?;
        Ok(target.into_bytes())
    }

    fn open(&self, access: Access) -> Result<FileRef> {
        let _timing = self.store.times.names.begin();
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::ReadWrite => OFlags::RDWR,
        };
        if access == Access::ReadWrite {
            self.store.writable("openat")?;
        }
        match self.kind {
            Kind::File => (),
            Kind::Directory => return Err(error("openat")(Errno::ISDIR)),
            _ => return Err(error("openat")(Errno::INVAL)),
        }
        let link = proc_link(self.fd.as_fd());
        let open = |flags| open_quietly(rustix::fs::CWD, &link, flags);
        let file = |fd, is_served| {
            let handle = Handle::new(Arc::new(fd), is_served);
            LocalFile::new(Arc::clone(&self.store), handle, self.id)
        };
        match open(flags) {
            Ok(fd) => Ok(Arc::new(file(fd, self.is_of_fuse() && access == Access::ReadWrite))),
            Err(refusal) if access == Access::ReadWrite && self.is_for_reading(refusal) => {
                let fd = open(OFlags::RDONLY).map_err(|_| error("openat")(refusal))?;
                Ok(Arc::new(file(fd, false).read_only(refusal)))
            }
            Err(errno) => Err(error("openat")(errno)),
        }
    }

    fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        let _timing = self.store.times.names.begin();
        let link = proc_link(self.fd.as_fd());
        self.xattrs(read_growing("getxattr", |buffer| rustix::fs::getxattr(&link, name, buffer)))
    }

    fn set_xattr(&self, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let _timing = self.store.times.names.begin();
        self.xattrs(self.set_xattr_raw(name, value, mode))
    }

    fn xattr_names(&self) -> Result<Vec<Vec<u8>>> {
        let _timing = self.store.times.names.begin();
        let link = proc_link(self.fd.as_fd());
        let list = self.xattrs(read_growing("listxattr", |buffer| rustix::fs::listxattr(&link, buffer)))?;
        Ok(list.split(|&byte| byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
    }

    fn remove_xattr(&self, name: &[u8]) -> Result<()> {
        let _timing = self.store.times.names.begin();
        self.store.writable("removexattr")?;
        let _change = self.changing();
        let removed = rustix::fs::removexattr(proc_link(self.fd.as_fd()), name);
        self.xattrs(removed.map_err(error("removexattr")))
    }

    fn lookup(&self, name: &[u8]) -> Result<NodeRef> {
        Ok(self.lookup_with_attributes(name)?.0)
    }

    fn lookup_with_attributes(&self, name: &[u8]) -> Result<(NodeRef, Attributes)> {
        let _timing = self.store.times.names.begin();
        self.entry(checked_name(name, "openat")?)
    }

    fn identify(&self, name: &[u8]) -> Result<InodeId> {
        let _timing = self.store.times.names.begin();
        let name = checked_name(name, "fstatat")?;
        let found =
            rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).map_err(error("fstatat"))?;
        Ok(InodeId { device: found.st_dev, inode: found.st_ino })
    }

    fn entry_attributes(&self, name: &[u8]) -> Result<Attributes> {
        let _timing = self.store.times.names.begin();
        let name = checked_name(name, "fstatat")?;
        let found =
            rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).map_err(error("fstatat"))?;
        attributes(&found)
    }

    fn entries(&self) -> Result<Vec<DirectoryEntry>> {
        let _timing = self.store.times.names.begin();
        let fd = self.open_directory()?;
        let mut buffer = vec![MaybeUninit::uninit(); DIRECTORY_BUFFER];
        let mut reader = RawDir::new(fd, &mut buffer);
        let mut entries = Vec::new();
        while let Some(entry) = reader.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(error("getdents64")(errno)),
            };
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let kind = kind_of(entry.file_type());
                entries.push(DirectoryEntry { name: name.to_vec(), inode: entry.ino(), kind });
            }
        }
        Ok(entries)
    }

    fn create(&self, name: &[u8], mode: u32) -> Result<(NodeRef, FileRef)> {
        let _timing = self.store.times.names.begin();
        let name = self.change(name, "openat")?;
        let _change = self.changing();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let fd = rustix::fs::openat(&self.fd, name, flags, mode).map_err(error("openat"))?;
        quieten(&fd);
        self.opened(fd)
    }

    fn create_unnamed(&self, mode: u32) -> Result<(NodeRef, FileRef)> {
        self.store.writable("openat")?;
        // Two at a time both try, which harms nothing but takes twice as long.
        let is_kept = match self.store.unnamed.get() {
            Some(is_kept) => *is_kept,
            None => {
                let is_kept = super::probe::unnamed_in(self)?;
                *self.store.unnamed.get_or_init(|| is_kept)
            }
        };
        if !is_kept {
            return Err(error("openat")(Errno::OPNOTSUPP));
        }
        self.try_create_unnamed(mode)
    }

    fn make_directory(&self, name: &[u8], mode: u32) -> Result<NodeRef> {
        let _timing = self.store.times.names.begin();
        let name = self.change(name, "mkdirat")?;
        let _change = self.changing();
        let mode = Mode::from_raw_mode(mode & 0o7777);
        rustix::fs::mkdirat(&self.fd, name, mode).map_err(error("mkdirat"))?;
        Ok(self.entry(name)?.0)
    }

    fn make_special(&self, name: &[u8], kind: Kind, mode: u32, device: u64) -> Result<NodeRef> {
        let _timing = self.store.times.names.begin();
        let name = self.change(name, "mknodat")?;
        let _change = self.changing();
        let kind = match kind {
            Kind::Fifo => FileType::Fifo,
            Kind::Socket => FileType::Socket,
            Kind::BlockDevice => FileType::BlockDevice,
            Kind::CharacterDevice => FileType::CharacterDevice,
            Kind::File | Kind::Directory | Kind::Symlink => return Err(error("mknodat")(Errno::INVAL)),
        };
        let mode = Mode::from_raw_mode(mode & 0o7777);
        rustix::fs::mknodat(&self.fd, name, kind, mode, device).map_err(error("mknodat"))?;
        Ok(self.entry(name)?.0)
    }

    fn make_symlink(&self, name: &[u8], target: &[u8]) -> Result<NodeRef> {
        let _timing = self.store.times.names.begin();
        let name = self.change(name, "symlinkat")?;
        let _change = self.changing();
        rustix::fs::symlinkat(target, &self.fd, name).map_err(error("symlinkat"))?;
        Ok(self.entry(name)?.0)
    }

    fn link(&self, node: &dyn Node, name: &[u8]) -> Result<()> {
        let _timing = self.store.times.names.begin();
        let name = self.change(name, "linkat")?;
        if !self.takes_link(local(node, "linkat")?)? {
            return Err(error("linkat")(Errno::OPNOTSUPP));
        }
        self.link_raw(node, name)
    }

    fn remove(&self, name: &[u8]) -> Result<()> {
        let _timing = self.store.times.names.begin();
        let name = self.change(name, "unlinkat")?;
        let _change = self.changing();
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()).map_err(error("unlinkat"))
    }

    fn remove_directory(&self, name: &[u8]) -> Result<()> {
        let _timing = self.store.times.names.begin();
        let name = self.change(name, "unlinkat")?;
        let _change = self.changing();
        rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR).map_err(error("unlinkat"))
    }

    fn rename(&self, name: &[u8], to: &dyn Node, to_name: &[u8], mode: RenameMode) -> Result<()> {
        let _timing = self.store.times.names.begin();
        let name = self.change(name, "renameat2")?;
        let _change = self.changing();
        let to_name = checked_name(to_name, "renameat2")?;
        let to = local(to, "renameat2")?;
        let _other_change = to.changing();
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
            RenameMode::Whiteout => RenameFlags::WHITEOUT,
        };
        rustix::fs::renameat_with(&self.fd, name, &to.fd, to_name, flags).map_err(error("renameat2"))
    }

    fn sync(&self) -> Result<()> {
        let _timing = self.store.times.barriers.begin_rare();
        let fd = self.open_directory()?;
        rustix::io::retry_on_intr(|| rustix::fs::fsync(&fd)).map_err(error("fsync"))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Sets `O_NOATIME` on a file just created. It is asked for only now because
/// a refusal at the creating call would leave the file behind; without it
/// reads may dirty the inode, which harms nothing. No other flag that can be
/// set so was set when it was created.
fn quieten(fd: &OwnedFd) {
    let _ = rustix::fs::fcntl_setfl(fd, OFlags::NOATIME);
}

/// Reads into a buffer that grows until the answer fits. Nearly all values
/// fit at once; the system's own bound is 64 KiB.
fn read_growing(
    operation: &'static str,
    mut read: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> Result<Vec<u8>> {
    let mut value = vec![0; 512];
    loop {
        match read(&mut value) {
            Ok(count) => {
                value.truncate(count);
                return Ok(value);
            }
            Err(Errno::RANGE) if value.len() < XATTR_BUFFER_MAX => value.resize(value.len() * 16, 0),
            Err(errno) => return Err(error(operation)(errno)),
        }
    }
}

/// The attributes of the inode behind a descriptor of any kind.
pub(super) fn attributes_of(fd: impl AsFd) -> Result<Attributes> {
    attributes(&rustix::fs::fstat(fd).map_err(error("fstat"))?)
}

fn attributes(found: &Stat) -> Result<Attributes> {
    let invalid = || error("fstat")(Errno::IO);
    // Of another type where rustix goes through libc.
    let time = |seconds: i64, nanoseconds: Option<u32>| {
        Ok(Timestamp { seconds, nanoseconds: nanoseconds.ok_or_else(invalid)? })
    };
    Ok(Attributes {
        id: InodeId { device: found.st_dev, inode: found.st_ino },
        kind: kind_of(FileType::from_raw_mode(found.st_mode)).ok_or_else(invalid)?,
        mode: found.st_mode & 0o7777,
        links: u32::try_from(found.st_nlink).unwrap_or(u32::MAX),
        uid: found.st_uid,
        gid: found.st_gid,
        device: found.st_rdev,
        len: u64::try_from(found.st_size).map_err(|_| invalid())?,
        blocks: u64::try_from(found.st_blocks).map_err(|_| invalid())?,
        accessed: time(found.st_atime, u32::try_from(found.st_atime_nsec).ok())?,
        modified: time(found.st_mtime, u32::try_from(found.st_mtime_nsec).ok())?,
        changed: time(found.st_ctime, u32::try_from(found.st_ctime_nsec).ok())?,
    })
}

fn kind_of(kind: FileType) -> Option<Kind> {
    match kind {
        FileType::RegularFile => Some(Kind::File),
        FileType::Directory => Some(Kind::Directory),
        FileType::Symlink => Some(Kind::Symlink),
        FileType::Fifo => Some(Kind::Fifo),
        FileType::Socket => Some(Kind::Socket),
        FileType::BlockDevice => Some(Kind::BlockDevice),
        FileType::CharacterDevice => Some(Kind::CharacterDevice),
        FileType::Unknown => None,
    }
}

/// Both times in the system's form.
pub(super) fn timestamps(accessed: SetTime, modified: SetTime) -> Timestamps {
    let convert = |time| match time {
        SetTime::Omit => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        SetTime::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        SetTime::To(Timestamp { seconds, nanoseconds }) => {
            Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() }
        }
    };
    Timestamps { last_access: convert(accessed), last_modification: convert(modified) }
}
