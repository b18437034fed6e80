//! Byte storage under a vault: a tree of directories, files, symlinks and
//! special files, addressed by inode references that stay valid while the
//! inode is renamed or unlinked.
//!
//! Three implementations of one contract: [`local`] (a directory of this
//! machine), [`memory`] (for tests and simulation), and [`faulty`] (records
//! every write and barrier, builds the images that a power cut could leave,
//! and injects errors).
//!
//! Beside them stand [`mapped`]: the bytes of one file where the kernel keeps
//! them; [`claims`]: who uses a file; and [`trials`]: what a file system keeps.
//!
//! What this crate does not do: encrypt, cache, or know what it stores.
#![deny(unsafe_code)]

pub mod claims;
mod copying;
mod error;
pub mod faulty;
pub mod local;
mod low;
pub mod mapped;
pub mod memory;
pub mod trials;
mod types;

pub use error::{Error, Result};
pub use types::{
    Access, AllocateMode, Attributes, DirectoryEntry, InodeId, Kind, Limits, RenameMode, SetTime, Space,
    Timestamp, XattrMode, has_no_name,
};

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use copying::copy_through_memory;

/// A reference to an inode.
pub type NodeRef = Arc<dyn Node>;
/// An open file.
pub type FileRef = Arc<dyn File>;

/// A tree of inodes.
pub trait Store: Send + Sync {
    /// The top directory.
    fn root(&self) -> NodeRef;

    /// Makes everything written so far durable: one barrier for the whole
    /// store (`syncfs`).
    ///
    /// # Errors
    /// What the store reports; nothing may be assumed durable then.
    fn sync_all(&self) -> Result<()>;

    /// Free and used space.
    ///
    /// # Errors
    /// What the store reports.
    fn space(&self) -> Result<Space>;

    /// Longest name and symlink target in bytes, and what the store cannot do.
    fn limits(&self) -> Limits;
}

/// One inode, whatever its kind. Names are bytes without `/` and NUL.
pub trait Node: Send + Sync {
    /// Device and inode number: the identity behind hard links.
    fn id(&self) -> InodeId;

    /// What kind of inode this is; it never changes.
    fn kind(&self) -> Kind;

    /// Reads the attributes.
    ///
    /// # Errors
    /// What the store reports.
    fn attributes(&self) -> Result<Attributes>;

    /// Sets the permission bits (07777).
    ///
    /// # Errors
    /// What the store reports.
    fn set_mode(&self, mode: u32) -> Result<()>;

    /// Sets owner and group; `None` leaves one as it is.
    ///
    /// # Errors
    /// What the store reports.
    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()>;

    /// Sets access and modification time.
    ///
    /// # Errors
    /// What the store reports.
    fn set_times(&self, accessed: SetTime, modified: SetTime) -> Result<()>;

    /// The target of a symlink.
    ///
    /// # Errors
    /// `EINVAL` when this is no symlink, or what the store reports.
    fn read_link(&self) -> Result<Vec<u8>>;

    /// Opens a regular file.
    ///
    /// # Errors
    /// What the store reports.
    fn open(&self, access: Access) -> Result<FileRef>;

    /// An extended attribute's value.
    ///
    /// # Errors
    /// `ENODATA` when there is none of that name, `EOPNOTSUPP`, or what the
    /// store reports.
    fn xattr(&self, name: &[u8]) -> Result<Vec<u8>>;

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `EEXIST` or `ENODATA` by `mode`, `EOPNOTSUPP`, `ENOSPC`, `E2BIG`…
    fn set_xattr(&self, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;

    /// Names of all extended attributes.
    ///
    /// # Errors
    /// What the store reports.
    fn xattr_names(&self) -> Result<Vec<Vec<u8>>>;

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` when there is none of that name.
    fn remove_xattr(&self, name: &[u8]) -> Result<()>;

    /// The entry `name` of this directory; symlinks are not followed.
    ///
    /// # Errors
    /// `ENOENT`, or what the store reports.
    fn lookup(&self, name: &[u8]) -> Result<NodeRef>;

    /// As [`Node::lookup`], with the attributes that the entry has then.
    ///
    /// # Errors
    /// As [`Node::lookup`].
    fn lookup_with_attributes(&self, name: &[u8]) -> Result<(NodeRef, Attributes)> {
        let node = self.lookup(name)?;
        let attributes = node.attributes()?;
        Ok((node, attributes))
    }

    /// The identity of the entry `name` of this directory, for callers who may
    /// have its node already.
    ///
    /// # Errors
    /// As [`Node::lookup`].
    fn identify(&self, name: &[u8]) -> Result<InodeId> {
        Ok(self.lookup(name)?.id())
    }

    /// The attributes of the entry `name` of this directory, for callers who
    /// need no node of it.
    ///
    /// # Errors
    /// As [`Node::lookup`].
    fn entry_attributes(&self, name: &[u8]) -> Result<Attributes> {
        Ok(self.lookup_with_attributes(name)?.1)
    }

    /// All entries but `.` and `..`, in the store's order, in one go.
    ///
    /// # Errors
    /// What the store reports.
    fn entries(&self) -> Result<Vec<DirectoryEntry>>;

    /// Creates a regular file that must not exist, and opens it for reading
    /// and writing.
    ///
    /// # Errors
    /// `EEXIST`, or what the store reports.
    fn create(&self, name: &[u8], mode: u32) -> Result<(NodeRef, FileRef)>;

    /// Creates a regular file without a name (`O_TMPFILE`), which
    /// [`Node::link`] may name later.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, or what the store reports.
    fn create_unnamed(&self, mode: u32) -> Result<(NodeRef, FileRef)>;

    /// Creates a directory.
    ///
    /// # Errors
    /// `EEXIST`, or what the store reports.
    fn make_directory(&self, name: &[u8], mode: u32) -> Result<NodeRef>;

    /// Creates a FIFO, socket or device node.
    ///
    /// # Errors
    /// `EEXIST`, `EPERM`, or what the store reports.
    fn make_special(&self, name: &[u8], kind: Kind, mode: u32, device: u64) -> Result<NodeRef>;

    /// Creates a symlink.
    ///
    /// # Errors
    /// `EEXIST`, `ENAMETOOLONG`, or what the store reports.
    fn make_symlink(&self, name: &[u8], target: &[u8]) -> Result<NodeRef>;

    /// Gives `node` (of the same store) the further name `name` here.
    ///
    /// # Errors
    /// `EEXIST`, `EMLINK`, or what the store reports.
    fn link(&self, node: &dyn Node, name: &[u8]) -> Result<()>;

    /// Removes an entry that is no directory.
    ///
    /// # Errors
    /// `ENOENT`, or what the store reports.
    fn remove(&self, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTEMPTY`, or what the store reports.
    fn remove_directory(&self, name: &[u8]) -> Result<()>;

    /// Moves the entry `name` of this directory to `to_name` in `to` (of the
    /// same store), atomically.
    ///
    /// # Errors
    /// As `renameat2(2)`.
    fn rename(&self, name: &[u8], to: &dyn Node, to_name: &[u8], mode: RenameMode) -> Result<()>;

    /// Makes this directory's entries durable.
    ///
    /// # Errors
    /// What the store reports.
    fn sync(&self) -> Result<()>;

    /// For implementations: themselves, so that `link` and `rename` find the
    /// other node's own type.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// An open regular file. Short reads happen at the end of the file alone;
/// implementations repeat what the system cut short.
pub trait File: Send + Sync {
    /// Fills `buffer` from `offset`; fewer bytes than asked means the end.
    ///
    /// # Errors
    /// What the store reports.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;

    /// Fills the buffers in turn from `offset`; fewer bytes means the end.
    ///
    /// # Errors
    /// What the store reports.
    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize>;

    /// What is read from now on is not older than this call. A store that other
    /// machines write to may promise that to who opens a file alone, and give
    /// one that has it open what it was before (close-to-open consistency). For
    /// files that are open to be read; the default does nothing.
    ///
    /// # Errors
    /// What the store reports; none for a file that has been removed, which
    /// stays as it is.
    fn refresh(&self) -> Result<()> {
        Ok(())
    }

    /// What is read from now on will be read once: it need not stay in the
    /// system's memory, and what does should not be pushed out by it. A wish;
    /// the default does nothing.
    fn read_once(&self) {}

    /// Whether the file may be written: one that was asked for with
    /// [`Access::ReadWrite`] and may only be read is opened to be read.
    ///
    /// # Errors
    /// What every change of the file reports then.
    fn check_writable(&self) -> Result<()> {
        Ok(())
    }

    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    /// What the store reports; any part may have been written.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()>;

    /// Writes all the slices in turn at `offset`, in one call to the system
    /// where it can be.
    ///
    /// # Errors
    /// What the store reports; any part may have been written.
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()>;

    /// Copies `len` bytes at `at` of `from`, another file of the same store, to
    /// `offset`; gives fewer at the end of `from`. The default reads and
    /// writes them; a store may have a shorter way.
    ///
    /// # Errors
    /// What the store reports; any part may have been written.
    fn copy_from(&self, from: &dyn File, at: u64, offset: u64, len: u64) -> Result<u64> {
        copy_through_memory(self, offset, (from, at), len)
    }

    /// Makes the file's data, and the size needed to read it, durable.
    ///
    /// # Errors
    /// What the store reports. Nothing written since the last successful
    /// barrier may be assumed durable then, nor still in memory.
    fn sync_data(&self) -> Result<()>;

    /// As [`File::sync_data`], with all metadata.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    fn sync_all(&self) -> Result<()>;

    /// Length in bytes.
    ///
    /// # Errors
    /// What the store reports.
    fn len(&self) -> Result<u64>;

    /// True for an empty file.
    ///
    /// # Errors
    /// What the store reports.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or extends (by a hole) to `len` bytes.
    ///
    /// # Errors
    /// What the store reports.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Reserves or punches a range.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the store cannot, `ENOSPC`…
    fn allocate(&self, mode: AllocateMode, offset: u64, len: u64) -> Result<()>;

    /// The inode has no name any more, and nobody else has it open: nothing of it
    /// need become durable. A store that keeps it open for that closes it.
    fn abandon(&self) {}

    /// What was read or written before, and is kept in memory, is let go as far as the
    /// system lets it: what is read next is what is stored.
    fn drop_cached(&self) {}

    /// Attributes of the open inode.
    ///
    /// # Errors
    /// What the store reports.
    fn attributes(&self) -> Result<Attributes>;

    /// Sets access and modification time.
    ///
    /// # Errors
    /// What the store reports.
    fn set_times(&self, accessed: SetTime, modified: SetTime) -> Result<()>;

    /// For implementations: themselves, so that `copy_from` finds the other
    /// file's own type.
    fn as_any(&self) -> &dyn std::any::Any;
}
