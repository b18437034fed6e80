//! The plain data of the store's contract.

/// Device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InodeId {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Unix socket.
    Socket,
    /// Block device node.
    BlockDevice,
    /// Character device node.
    CharacterDevice,
}

/// Seconds since 1970 and nanoseconds below 1e9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// How a time is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// Leave it.
    Omit,
    /// The store's clock.
    Now,
    /// This time.
    To(Timestamp),
}

/// What `stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Identity.
    pub id: InodeId,
    /// Kind of inode.
    pub kind: Kind,
    /// Permission bits (07777).
    pub mode: u32,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node.
    pub device: u64,
    /// Stored length in bytes.
    pub len: u64,
    /// Allocated units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub accessed: Timestamp,
    /// Last modification of the data.
    pub modified: Timestamp,
    /// Last change of the inode.
    pub changed: Timestamp,
}

/// Whether what a store says of an inode is that it has no name any more. Some do not
/// know such an inode at all, though it is held.
#[must_use]
pub fn has_no_name(found: &crate::Result<Attributes>) -> bool {
    match found {
        Ok(attributes) => attributes.links == 0,
        Err(error) => error.is_gone(),
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading.
    Read,
    /// For reading and writing.
    ReadWrite,
}

/// What [`crate::Node::rename`] does with an existing target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces it.
    Replace,
    /// Fails with `EEXIST`.
    NoReplace,
    /// Exchanges the two.
    Exchange,
    /// Replaces it and leaves a whiteout (overlay file systems).
    Whiteout,
}

/// What [`crate::File::allocate`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocateMode {
    /// Reserves space without changing the length.
    KeepLength,
    /// Reserves space and extends the length to cover the range.
    Extend,
    /// Makes the range a hole without changing the length.
    Punch,
}

/// What [`crate::Node::set_xattr`] expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Create or replace.
    Any,
    /// Must not exist.
    Create,
    /// Must exist.
    Replace,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Name bytes.
    pub name: Vec<u8>,
    /// Inode number.
    pub inode: u64,
    /// Kind, where the store tells it with the name.
    pub kind: Option<Kind>,
}

/// Space of a store, in bytes and inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Unit of allocation in bytes.
    pub fragment: u64,
    /// Size in fragments.
    pub total: u64,
    /// Free fragments.
    pub free: u64,
    /// Free fragments for ordinary users.
    pub available: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
}

/// Bounds of a store, known without trying. What a directory's file system
/// can do beside (case folding, extended attributes, unnamed files) is found
/// by [`crate::local::LocalStore::probe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest name in bytes.
    pub name_max: usize,
    /// Longest symlink target in bytes.
    pub symlink_max: usize,
}
