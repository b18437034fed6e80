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
use crate::node::{Attributes, Entry, Opened, Space, TimedAttributes};
use strongroom_engine::Buffer;

pub use crate::abi::request::SetXattr;
pub use crate::arguments::{
    Allocate, Context, CopyRange, CreateMode, Ioctl, Negotiated, OpenFlags, Read, Release, Rename, Seek,
    SetAttributes, SetTime, Write,
};
pub use crate::node::{Handle, NodeId};

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
    /// when the handle is not one of this node: a read for a prefetch may come
    /// when the handle has been given back, and its number to another file.
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
