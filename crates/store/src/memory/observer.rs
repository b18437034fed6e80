//! What a store in memory tells whoever records it.

use rustix::io::Errno;

use super::body::FileBody;
use super::tree::{Delta, Tree};

/// A change of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataChange {
    Write { offset: u64, len: u64 },
    SetLen { len: u64 },
    Punch { offset: u64, len: u64 },
    Reserve { offset: u64, len: u64, extend: bool },
}

impl DataChange {
    /// The first byte behind the change, if it can be said.
    pub(crate) fn end(&self) -> Option<u64> {
        match *self {
            DataChange::SetLen { len } => Some(len),
            DataChange::Write { offset, len }
            | DataChange::Punch { offset, len }
            | DataChange::Reserve { offset, len, .. } => offset.checked_add(len),
        }
    }

    /// What the system answers when the change would end behind all files.
    pub(crate) fn refusal(&self) -> Errno {
        match self {
            DataChange::Write { .. } | DataChange::SetLen { .. } => Errno::INVAL,
            DataChange::Punch { .. } | DataChange::Reserve { .. } => Errno::FBIG,
        }
    }

    /// The system call's name.
    pub(crate) fn operation(&self) -> &'static str {
        match self {
            DataChange::Write { .. } => "pwrite",
            DataChange::SetLen { .. } => "ftruncate",
            DataChange::Punch { .. } | DataChange::Reserve { .. } => "fallocate",
        }
    }
}

/// A barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barrier {
    /// `fdatasync` of a file.
    Data(u64),
    /// `fsync` of a file.
    File(u64),
    /// `fsync` of a directory.
    Directory(u64),
    /// `syncfs`.
    Store,
}

/// Who records a store. Every call comes under the store's lock, after the
/// change was made.
pub(crate) trait Observer: Send {
    /// A directory or metadata operation: all its steps, or none, survive.
    fn namespace(&mut self, operation: &'static str, deltas: Vec<Delta>);
    /// A file had `old_len` bytes and was changed into `body`.
    fn data(&mut self, inode: u64, change: DataChange, old_len: u64, body: &FileBody);
    /// A barrier succeeded on `tree`.
    fn barrier(&mut self, barrier: Barrier, tree: &Tree);
    /// The file's changes since its last barrier are lost for good; returns
    /// the content that is durable, if any is.
    fn lose_unsynced(&mut self, inode: u64) -> Option<FileBody>;
}
