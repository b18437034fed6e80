//! Bits of the wire format, by the field they stand in.

/// Bits of `flags` (low half) and `flags2` (high half) in INIT.
pub mod init {
    /// Reads of one file may be in flight together.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// Record locks are the server's.
    pub const POSIX_LOCKS: u64 = 1 << 1;
    /// `open` handles `O_TRUNC` itself.
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    /// `.` and `..` can be looked up, as NFS export needs.
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    /// Writes may be longer than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// The server applies the umask.
    pub const DONT_MASK: u64 = 1 << 6;
    /// The device can be spliced into.
    pub const SPLICE_WRITE: u64 = 1 << 7;
    /// Pages can be moved by splicing.
    pub const SPLICE_MOVE: u64 = 1 << 8;
    /// The device can be spliced from.
    pub const SPLICE_READ: u64 = 1 << 9;
    /// `flock` locks are the server's.
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    /// Controls on directories are sent.
    pub const HAS_IOCTL_DIR: u64 = 1 << 11;
    /// Cached pages are dropped when size or mtime change.
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    /// READDIRPLUS exists.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// READDIRPLUS only where attributes were asked for before.
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// Direct reads and writes may be in flight together.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Writes go to the page cache first.
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    /// `open` may be done without.
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    /// Lookups and listings of one directory may be in flight together.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// The server drops set-id bits, always (superseded by V2).
    pub const HANDLE_KILLPRIV: u64 = 1 << 19;
    /// POSIX access control lists.
    pub const POSIX_ACL: u64 = 1 << 20;
    /// Reading the device after an abort answers ECONNABORTED.
    pub const ABORT_ERROR: u64 = 1 << 21;
    /// `max_pages` is in the reply.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// Targets of symbolic links are cached.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// `opendir` may be done without.
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    /// Cached pages are dropped only when told so.
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    /// `map_alignment` is in the reply.
    pub const MAP_ALIGNMENT: u64 = 1 << 26;
    /// Submounts.
    pub const SUBMOUNTS: u64 = 1 << 27;
    /// The server drops set-id bits when a request says so.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// SETXATTR carries flags of its own.
    pub const SETXATTR_EXT: u64 = 1 << 29;
    /// `flags2` is there.
    pub const INIT_EXT: u64 = 1 << 30;
    /// Security contexts come with new nodes.
    pub const SECURITY_CTX: u64 = 1 << 32;
    /// Direct access per inode.
    pub const HAS_INODE_DAX: u64 = 1 << 33;
    /// A supplementary group comes with new nodes.
    pub const CREATE_SUPP_GROUP: u64 = 1 << 34;
    /// Entries can be expired without being dropped.
    pub const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    /// Shared mappings of files opened for direct access are allowed.
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    /// Reads and writes may go straight to a file below.
    pub const PASSTHROUGH: u64 = 1 << 37;
    /// No file handles for NFS.
    pub const NO_EXPORT_SUPPORT: u64 = 1 << 38;
    /// Requests can be sent again.
    pub const HAS_RESEND: u64 = 1 << 39;
    /// Identifiers can be mapped per mount.
    pub const ALLOW_IDMAP: u64 = 1 << 40;
    /// Requests may come through an io_uring.
    pub const OVER_IO_URING: u64 = 1 << 41;
    /// Requests may time out.
    pub const REQUEST_TIMEOUT: u64 = 1 << 42;
}

/// Bits of `valid` in SETATTR.
pub mod setattr {
    /// `mode` is to be set.
    pub const MODE: u32 = 1 << 0;
    /// `uid` is to be set.
    pub const UID: u32 = 1 << 1;
    /// `gid` is to be set.
    pub const GID: u32 = 1 << 2;
    /// `size` is to be set.
    pub const SIZE: u32 = 1 << 3;
    /// `atime` is to be set.
    pub const ATIME: u32 = 1 << 4;
    /// `mtime` is to be set.
    pub const MTIME: u32 = 1 << 5;
    /// `fh` names an open file.
    pub const HANDLE: u32 = 1 << 6;
    /// `atime` is now.
    pub const ATIME_NOW: u32 = 1 << 7;
    /// `mtime` is now.
    pub const MTIME_NOW: u32 = 1 << 8;
    /// `lock_owner` is there.
    pub const LOCK_OWNER: u32 = 1 << 9;
    /// `ctime` is to be set.
    pub const CTIME: u32 = 1 << 10;
    /// Set-id bits are to be dropped.
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// Bits of `open_flags` in the reply to OPEN, OPENDIR and CREATE.
pub mod opened {
    /// Bypass the page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// Keep what the page cache holds of this file.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// The file cannot seek.
    pub const NONSEEKABLE: u32 = 1 << 2;
    /// Cache the directory's listing.
    pub const CACHE_DIR: u32 = 1 << 3;
    /// The file has no position.
    pub const STREAM: u32 = 1 << 4;
    /// Do not flush on close, unless under write-back.
    pub const NOFLUSH: u32 = 1 << 5;
    /// Direct writes to one file may be in flight together.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    /// Reads and writes go straight to a file below.
    pub const PASSTHROUGH: u32 = 1 << 7;
}

/// Bits of `open_flags` in OPEN and CREATE.
pub mod open {
    /// Set-id bits are to be dropped on truncation.
    pub const KILL_SUIDGID: u32 = 1 << 0;
}

/// Bits of `getattr_flags` in GETATTR and STATX.
pub mod getattr {
    /// `fh` names an open file.
    pub const HANDLE: u32 = 1 << 0;
}

/// Bits of `write_flags` in WRITE.
pub mod write {
    /// From the page cache; the handle is guessed.
    pub const CACHE: u32 = 1 << 0;
    /// `lock_owner` is there.
    pub const LOCK_OWNER: u32 = 1 << 1;
    /// Set-id bits are to be dropped.
    pub const KILL_SUIDGID: u32 = 1 << 2;
}

/// Bits of `fsync_flags` in FSYNC and FSYNCDIR.
pub mod fsync {
    /// Data only.
    pub const DATA_ONLY: u32 = 1 << 0;
}

/// Bits of `setxattr_flags` in SETXATTR.
pub mod setxattr {
    /// Drop the set-group-id bit with the access control list.
    pub const ACL_KILL_SGID: u32 = 1 << 0;
}

/// Bits of `flags` in RENAME2, which are those of `renameat2`.
pub mod rename {
    /// Fail when the new name exists.
    pub const NO_REPLACE: u32 = 1 << 0;
    /// Swap the two names.
    pub const EXCHANGE: u32 = 1 << 1;
    /// Leave a white-out at the old name.
    pub const WHITEOUT: u32 = 1 << 2;
}
