//! What a request asks of a file system, in the units of the wire.

use crate::node::{Handle, NodeId, Timestamp};

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

/// What was agreed with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Minor version of the protocol.
    pub minor: u32,
    /// Bits of [`init`](crate::abi::flags::init) in use.
    pub flags: u64,
    /// Longest read or write, in bytes.
    pub transfer_max: usize,
}
