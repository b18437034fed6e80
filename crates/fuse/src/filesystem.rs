//! What a file system answers: one method per request, on nodes and handles.
//!
//! Methods are called from several threads at once. Names are bytes without
//! NUL or `/`, never empty. With the flags that are negotiated the kernel
//! checks permissions (`default_permissions`); the file system applies the
//! umask ([`CreateMode`]), drops set-user-id bits where a request says so,
//! truncates on `open` with `O_TRUNC`, keeps the times of directories, and
//! refuses names that are too long for it with `NAMETOOLONG`.
//!
//! Methods that a file system does not have answer `NOSYS`, after which the
//! kernel for most of them never asks again.

use crate::abi::directory::{DirectoryEntries, DirectoryEntriesPlus};
use crate::abi::statx::Statx;
use crate::errno::Errno;
use crate::negotiation::Negotiated;
use crate::node::{Attributes, Entry, Opened, Space, TimedAttributes, Timestamp};
use strongroom_engine::Buffer;

pub use crate::abi::request::SetXattr;

/// Names a node to the kernel, from the entry that introduced it until its
/// lookups are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root directory, known from the start and never looked up.
    pub const ROOT: NodeId = NodeId(1);
}

/// Names an open file or directory; chosen by the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// Who asks. Zero everywhere for requests that the kernel makes on its own
/// account, such as writing back cached pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The request's number, by which an interrupt names it.
    pub unique: u64,
    /// User of the file-system access.
    pub uid: u32,
    /// Group of the file-system access.
    pub gid: u32,
    /// Thread that asks, in the daemon's process namespace; 0 when outside.
    pub pid: u32,
}

/// Mode of a node to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateMode {
    /// As the caller gave it, file type included, umask not applied.
    pub mode: u32,
    /// The caller's umask, to be applied unless the directory has a default
    /// access control list.
    pub umask: u32,
    /// Device number for a device node, else 0.
    pub rdev: u32,
}

impl CreateMode {
    /// The mode under the umask, for directories without a default list.
    #[must_use]
    pub fn masked(&self) -> u32 {
        self.mode & !(self.umask & 0o777)
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFlags {
    /// `O_*` bits, without those the kernel handles (`O_CREAT`, `O_EXCL` and
    /// `O_NOCTTY` on plain opens). With write-back caching the kernel may
    /// read through a handle opened for writing only.
    pub flags: u32,
    /// Truncation must drop set-user-id and executable set-group-id.
    pub kill_suid_sgid: bool,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time at which the request is handled.
    Now,
    /// This time.
    At(Timestamp),
}

/// Attributes to change; those that are `None` stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// The open file through which this comes, as with `ftruncate`.
    pub handle: Option<Handle>,
    /// Permissions, file type included.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of data.
    pub mtime: Option<SetTime>,
    /// Last change of attributes, which the kernel keeps under write-back.
    pub ctime: Option<Timestamp>,
    /// Drop set-user-id and executable set-group-id.
    pub kill_suid_sgid: bool,
}

/// A rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename<'a> {
    /// Directory of the old name.
    pub parent: NodeId,
    /// The old name.
    pub name: &'a [u8],
    /// Directory of the new name.
    pub new_parent: NodeId,
    /// The new name.
    pub new_name: &'a [u8],
    /// Bits of [`rename`](crate::abi::flags::rename).
    pub flags: u32,
}

/// A range to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The open file.
    pub handle: Handle,
    /// First byte.
    pub offset: u64,
    /// Bytes; at most the length of the buffer lent.
    pub size: usize,
    /// `O_*` bits of the open file.
    pub flags: u32,
}

/// A range to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The open file; guessed by the kernel when `cached`.
    pub handle: Handle,
    /// First byte.
    pub offset: u64,
    /// Bytes, at the start of the buffer lent.
    pub len: usize,
    /// `O_*` bits of the open file.
    pub flags: u32,
    /// The kernel writes back its cache, on nobody's account.
    pub cached: bool,
    /// Drop set-user-id and executable set-group-id.
    pub kill_suid_sgid: bool,
}

/// The end of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The open file, which the kernel will not name again.
    pub handle: Handle,
    /// `O_*` bits of the open file.
    pub flags: u32,
}

/// A range to allocate, zero or punch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocate {
    /// The open file.
    pub handle: Handle,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// `FALLOC_FL_*` bits.
    pub mode: u32,
}

/// Where to look for data or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seek {
    /// The open file.
    pub handle: Handle,
    /// From this byte.
    pub offset: u64,
    /// `SEEK_DATA` (3) or `SEEK_HOLE` (4).
    pub whence: u32,
}

/// A copy inside the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRange {
    /// Open file to read.
    pub handle: Handle,
    /// First byte to read.
    pub offset: u64,
    /// Node to write.
    pub to_node: NodeId,
    /// Open file to write.
    pub to_handle: Handle,
    /// First byte to write.
    pub to_offset: u64,
    /// Bytes.
    pub len: u64,
}

/// A device control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ioctl<'a> {
    /// The open file or directory.
    pub handle: Handle,
    /// Bits of `FUSE_IOCTL_*`.
    pub flags: u32,
    /// The control's number.
    pub command: u32,
    /// The caller's argument; an address in *its* memory, or a number.
    pub argument: u64,
    /// What the kernel read from that address.
    pub input: &'a [u8],
    /// Most bytes of output.
    pub output_len: u32,
}

/// A file system. See the module for what holds for every method.
///
/// Every method may be called from any worker thread, several at once. A
/// method that panics answers `EIO` and is counted.
#[allow(unused_variables)]
pub trait Filesystem: Send + Sync {
    /// Called once, before any other, with what was agreed with the kernel.
    ///
    /// # Errors
    /// Fails the mount: every access to it errs.
    fn init(&self, negotiated: &Negotiated) -> Result<(), Errno> {
        Ok(())
    }

    /// Called once, after every other, when the mount is gone.
    fn destroy(&self) {}

    /// Finds `name` in the directory `parent`.
    ///
    /// # Errors
    /// `NOENT`; [`Entry::absent`] instead lets the kernel remember it.
    fn lookup(&self, context: &Context, parent: NodeId, name: &[u8]) -> Result<Entry, Errno>;

    /// The kernel gives back `lookups` of the entries it was given for `node`.
    fn forget(&self, node: NodeId, lookups: u64) {}

    /// Reads attributes, through an open file if there is one.
    ///
    /// # Errors
    /// `STALE` when the node is gone.
    fn getattr(
        &self,
        context: &Context,
        node: NodeId,
        handle: Option<Handle>,
    ) -> Result<TimedAttributes, Errno>;

    /// Changes attributes and answers the new ones.
    ///
    /// # Errors
    /// `FBIG`, `NOSPC`, `ROFS` and the like.
    fn setattr(
        &self,
        context: &Context,
        node: NodeId,
        change: &SetAttributes,
    ) -> Result<TimedAttributes, Errno> {
        Err(Errno::NOSYS)
    }

    /// Appends the target of a symbolic link to `target`, which is empty.
    ///
    /// # Errors
    /// `INVAL` when it is no link.
    fn readlink(&self, context: &Context, node: NodeId, target: &mut Vec<u8>) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Makes a symbolic link to `target`.
    ///
    /// # Errors
    /// `EXIST`, `NOSPC` and the like.
    fn symlink(&self, context: &Context, parent: NodeId, name: &[u8], target: &[u8]) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Makes a file, device, pipe or socket, by the type in the mode.
    ///
    /// # Errors
    /// `EXIST`, `NOSPC` and the like.
    fn mknod(
        &self,
        context: &Context,
        parent: NodeId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `EXIST`, `NOSPC` and the like.
    fn mkdir(
        &self,
        context: &Context,
        parent: NodeId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Removes a name that is no directory. Its node lives on while it is
    /// open or looked up.
    ///
    /// # Errors
    /// `NOENT`, `ISDIR`.
    fn unlink(&self, context: &Context, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NOENT`, `NOTDIR`, `NOTEMPTY`.
    fn rmdir(&self, context: &Context, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Renames, replaces, exchanges or whites out, by the flags.
    ///
    /// # Errors
    /// `INVAL` for flags that are not supported; `EXIST`, `NOTEMPTY`.
    fn rename(&self, context: &Context, rename: &Rename<'_>) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Makes a further name for `node`, and counts a lookup of it.
    ///
    /// # Errors
    /// `EXIST`, `MLINK`, `PERM`.
    fn link(
        &self,
        context: &Context,
        node: NodeId,
        new_parent: NodeId,
        new_name: &[u8],
    ) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `NOSYS` would make the kernel open every file without asking.
    fn open(&self, context: &Context, node: NodeId, flags: OpenFlags) -> Result<Opened, Errno>;

    /// Makes a file and opens it; opens it if it is there and `O_EXCL` is not
    /// among the flags.
    ///
    /// # Errors
    /// `NOSYS` makes the kernel use `mknod` and `open`.
    fn create(
        &self,
        context: &Context,
        parent: NodeId,
        name: &[u8],
        mode: &CreateMode,
        flags: OpenFlags,
    ) -> Result<(Entry, Opened), Errno> {
        Err(Errno::NOSYS)
    }

    /// Makes and opens a file without a name, which `link` may give one later.
    ///
    /// # Errors
    /// `NOSYS` makes `O_TMPFILE` fail with `EOPNOTSUPP` for good.
    fn tmpfile(
        &self,
        context: &Context,
        parent: NodeId,
        mode: &CreateMode,
        flags: OpenFlags,
    ) -> Result<(Entry, Opened), Errno> {
        Err(Errno::NOSYS)
    }

    /// Reads into `buffer[..n]` and answers `n`, at most `read.size`; fewer
    /// only at the end of the file.
    ///
    /// The buffer is page-aligned and holds stale bytes. It may be moved out
    /// with [`Buffer::take`]; the same buffer must be back on success. One
    /// that is missing is replaced at the price of an allocation.
    ///
    /// # Errors
    /// `IO`, `BADMSG` and the like; nothing of the buffer is then sent. `BADF`
    /// when the handle is not one of this node: a read around what a program
    /// asked for may come when the handle has been given back, and its number
    /// to another file.
    fn read(&self, context: &Context, node: NodeId, read: &Read, buffer: &mut Buffer)
    -> Result<usize, Errno>;

    /// Writes `buffer[..write.len]` and answers how many bytes were written;
    /// fewer than all count as an error for cached writes.
    ///
    /// The payload begins at the buffer's first byte, which is page-aligned,
    /// and may be overwritten. The buffer may be moved out and back as in
    /// [`read`](Self::read).
    ///
    /// # Errors
    /// `NOSPC`, `FBIG` and the like.
    fn write(
        &self,
        context: &Context,
        node: NodeId,
        write: &Write,
        buffer: &mut Buffer,
    ) -> Result<usize, Errno> {
        Err(Errno::NOSYS)
    }

    /// A descriptor of the open file was closed; several may follow. An error
    /// is what `close` answers.
    ///
    /// # Errors
    /// Errors of writes that were put off.
    fn flush(&self, context: &Context, node: NodeId, handle: Handle) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// The last descriptor of the open file is gone. Nobody sees an error.
    ///
    /// # Errors
    /// Counted only.
    fn release(&self, context: &Context, node: NodeId, release: &Release) -> Result<(), Errno> {
        Ok(())
    }

    /// Makes a file's data durable, and its attributes unless `data_only`.
    ///
    /// # Errors
    /// `NOSYS` counts as success for good.
    fn fsync(&self, context: &Context, node: NodeId, handle: Handle, data_only: bool) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Opens a directory.
    ///
    /// # Errors
    /// `NOTDIR` and the like.
    fn opendir(&self, context: &Context, node: NodeId, flags: OpenFlags) -> Result<Opened, Errno> {
        Ok(Opened { handle: Handle(0), flags: 0 })
    }

    /// Lists a directory from `offset`: 0, or the offset of the last entry the
    /// kernel took. Stops when `entries` is full; adds none at the end.
    ///
    /// # Errors
    /// `IO` and the like.
    fn readdir(
        &self,
        context: &Context,
        node: NodeId,
        handle: Handle,
        offset: u64,
        entries: &mut DirectoryEntries<'_>,
    ) -> Result<(), Errno>;

    /// Lists a directory with each node's attributes. Every entry that names
    /// a node counts as one lookup of it. There is no default: the kernel asks
    /// so as a rule, and takes `NOSYS` for the answer to whoever lists.
    ///
    /// # Errors
    /// `IO` and the like.
    fn readdirplus(
        &self,
        context: &Context,
        node: NodeId,
        handle: Handle,
        offset: u64,
        entries: &mut DirectoryEntriesPlus<'_>,
    ) -> Result<(), Errno>;

    /// The last descriptor of the open directory is gone.
    ///
    /// # Errors
    /// Counted only.
    fn releasedir(&self, context: &Context, node: NodeId, release: &Release) -> Result<(), Errno> {
        Ok(())
    }

    /// Makes a directory's names durable.
    ///
    /// # Errors
    /// `NOSYS` counts as success for good.
    fn fsyncdir(
        &self,
        context: &Context,
        node: NodeId,
        handle: Handle,
        data_only: bool,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Tells of space and limits.
    ///
    /// # Errors
    /// `IO` and the like.
    fn statfs(&self, context: &Context, node: NodeId) -> Result<Space, Errno> {
        Err(Errno::NOSYS)
    }

    /// Sets an extended attribute. With `acl_kill_sgid` a set-group-id bit is
    /// dropped together with setting `system.posix_acl_access`.
    ///
    /// # Errors
    /// `EXIST` or `NODATA` by `XATTR_CREATE` (1) or `XATTR_REPLACE` (2) in the
    /// flags; `OPNOTSUPP` for a namespace; `NOSPC`; `RANGE`.
    fn setxattr(&self, context: &Context, node: NodeId, attribute: &SetXattr<'_>) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Appends the value of an extended attribute to `value`, which is empty.
    ///
    /// # Errors
    /// `NODATA`.
    fn getxattr(
        &self,
        context: &Context,
        node: NodeId,
        name: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Appends the names of all extended attributes, each with a NUL behind
    /// it, to `names`, which is empty.
    ///
    /// # Errors
    /// `IO` and the like.
    fn listxattr(&self, context: &Context, node: NodeId, names: &mut Vec<u8>) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NODATA`.
    fn removexattr(&self, context: &Context, node: NodeId, name: &[u8]) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Checks permissions; not asked while the kernel does.
    ///
    /// # Errors
    /// `ACCESS`.
    fn access(&self, context: &Context, node: NodeId, mask: u32) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Allocates, zeroes or punches a range, by `FALLOC_FL_*`.
    ///
    /// # Errors
    /// `OPNOTSUPP` for a mode that is not supported; `NOSPC`.
    fn fallocate(&self, context: &Context, node: NodeId, allocate: &Allocate) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Finds data or a hole.
    ///
    /// # Errors
    /// `NXIO` beyond the end.
    fn lseek(&self, context: &Context, node: NodeId, seek: &Seek) -> Result<u64, Errno> {
        Err(Errno::NOSYS)
    }

    /// Copies inside the file system and answers how many bytes were copied.
    ///
    /// # Errors
    /// `NOSYS` makes the kernel read and write instead.
    fn copy_file_range(&self, context: &Context, node: NodeId, copy: &CopyRange) -> Result<u64, Errno> {
        Err(Errno::NOSYS)
    }

    /// A device control: appends at most `ioctl.output_len` bytes to `output`
    /// and answers the call's result.
    ///
    /// # Errors
    /// `NOTTY` for an unknown control, `FS_IOC_GETFLAGS` included.
    fn ioctl(
        &self,
        context: &Context,
        node: NodeId,
        ioctl: &Ioctl<'_>,
        output: &mut Vec<u8>,
    ) -> Result<i32, Errno> {
        Err(Errno::NOTTY)
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// `NOSYS` counts as success for good.
    fn syncfs(&self, context: &Context, node: NodeId) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Attributes with the time of birth.
    ///
    /// # Errors
    /// `NOSYS` makes the kernel use [`getattr`](Self::getattr) for good.
    fn statx(&self, context: &Context, node: NodeId, handle: Option<Handle>) -> Result<Statx, Errno> {
        Err(Errno::NOSYS)
    }

    /// The caller of the request `unique` was hit by a signal.
    ///
    /// # Errors
    /// `NOSYS` tells the kernel to send no more interrupts, which is right
    /// where no request blocks for long; `AGAIN` to send this one again.
    fn interrupt(&self, unique: u64) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }
}

impl TimedAttributes {
    /// Attributes that hold for `timeout`.
    #[must_use]
    pub fn new(attributes: Attributes, timeout: std::time::Duration) -> TimedAttributes {
        TimedAttributes { attributes, timeout }
    }
}
