//! What a file system says of its nodes: attributes, entries, opened files
//! and free space, in the units of the wire.

use std::time::Duration;

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

/// A point in time, as seconds from 1970 and the nanoseconds beyond them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 00:00:00 UTC; negative before.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// What `stat` shows of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Inode number for the user; the kernel itself goes by [`NodeId`].
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Allocated blocks of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Last change of the attributes.
    pub ctime: Timestamp,
    /// File type and permissions, as `st_mode`.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, as the kernel encodes it.
    pub rdev: u32,
    /// Preferred size of input and output, in bytes.
    pub block_size: u32,
}

/// Attributes, and how long the kernel may believe them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedAttributes {
    /// The attributes.
    pub attributes: Attributes,
    /// For how long they hold without asking again.
    pub timeout: Duration,
}

/// The answer to a lookup: a node, or for how long there is none.
///
/// Every entry that names a node counts as one lookup of it, which the kernel
/// gives back with `forget`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The node; 0 when the name does not exist.
    pub node: NodeId,
    /// With `node`, unique for the life of the file system.
    pub generation: u64,
    /// For how long the name leads to this node without asking again.
    pub entry_timeout: Duration,
    /// The node's attributes.
    pub attributes: TimedAttributes,
}

impl Entry {
    /// The name does not exist and will not for `timeout`, so that the kernel
    /// need not ask again.
    #[must_use]
    pub fn absent(timeout: Duration) -> Entry {
        Entry {
            node: NodeId(0),
            generation: 0,
            entry_timeout: timeout,
            attributes: TimedAttributes::default(),
        }
    }
}

/// An opened file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What the kernel names this open file by from now on.
    pub handle: Handle,
    /// Bits of [`opened`](crate::abi::flags::opened).
    pub flags: u32,
}

/// What `statfs` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Blocks in all, of `fragment_size` bytes.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks for ordinary users.
    pub blocks_available: u64,
    /// Nodes in all.
    pub files: u64,
    /// Free nodes.
    pub files_free: u64,
    /// Preferred size of input and output, in bytes.
    pub block_size: u32,
    /// Unit of the block counts, in bytes.
    pub fragment_size: u32,
    /// Longest name, in bytes.
    pub name_max: u32,
}
