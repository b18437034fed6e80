//! What the kernel holds of files and has not written back yet.
//!
//! Under write-back the kernel asks where data and holes are without having
//! written back what it holds: a file that was just written would seem to be
//! all hole, and be copied as zeros. It writes back when it is told to drop
//! its pages, which the daemon may do while it answers, as long as another
//! worker is free to take the writes.
//!
//! Unwritten pages are there only while the file is open for writing: the
//! kernel writes back when a descriptor is closed and when a mapping goes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::errno::Errno;
use crate::filesystem::{NodeId, Seek};
use crate::notify::Notifier;
use crate::session::SessionHandle;
use crate::writers::Writers;

/// `SEEK_DATA` of Linux.
pub(super) const SEEK_DATA: u32 = 3;
/// `SEEK_HOLE` of Linux.
pub(super) const SEEK_HOLE: u32 = 4;

/// How far data reaches by a guess.
const GUESS: u64 = 1 << 30;

/// Which files are open for writing, and how to have the kernel write them back.
#[derive(Default)]
pub(super) struct Unwritten {
    writers: Mutex<Writers>,
    kernel: OnceLock<(Notifier, usize)>,
    /// Workers that wait for the kernel.
    waiting: AtomicUsize,
}

impl Unwritten {
    /// From now on the kernel can be told.
    pub(super) fn attach(&self, session: &SessionHandle, workers: usize) {
        // A second session on one adapter would be the caller's mistake.
        let _ = self.kernel.set((session.notifier(), workers));
    }

    /// A file was opened for writing.
    pub(super) fn opened(&self, node: NodeId) {
        self.lock().opened(node);
    }

    /// As many times, it was closed.
    pub(super) fn closed(&self, node: NodeId) {
        self.lock().closed(node);
    }

    /// Has the kernel write back what it holds of a file. False when it may
    /// still hold something, since no worker can be spared to wait.
    pub(super) fn write_back(&self, node: NodeId) -> bool {
        if !self.lock().has(node) {
            return true;
        }
        let Some((notifier, workers)) = self.kernel.get() else { return false };
        let spare = self.waiting.fetch_add(1, Ordering::AcqRel) + 1 < *workers;
        let written = spare && matches!(notifier.invalidate_inode(node, 0, 0), Ok(()) | Err(Errno::NOENT));
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        written
    }

    /// The files that are open for writing.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        self.lock().nodes()
    }

    fn lock(&self) -> MutexGuard<'_, Writers> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer for a file of which nothing certain is known, not even its
/// length: all of it is data. Whoever believes that reads to its end.
///
/// # Errors
/// `INVAL` for another search.
pub(super) fn guess(seek: &Seek) -> Result<u64, Errno> {
    match seek.whence {
        SEEK_DATA => Ok(seek.offset),
        SEEK_HOLE => seek.offset.checked_add(GUESS).ok_or(Errno::NXIO),
        _ => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::Handle;

    #[test]
    fn only_files_open_for_writing_are_uncertain() {
        let unwritten = Unwritten::default();
        unwritten.opened(NodeId(7));
        unwritten.opened(NodeId(7));
        assert!(unwritten.write_back(NodeId(8)));
        assert!(!unwritten.write_back(NodeId(7)), "nobody can tell the kernel");
        unwritten.closed(NodeId(7));
        assert!(!unwritten.write_back(NodeId(7)));
        unwritten.closed(NodeId(7));
        assert!(unwritten.write_back(NodeId(7)));
    }

    #[test]
    fn a_guess_takes_everything_for_data() {
        let seek = |whence| guess(&Seek { handle: Handle(0), offset: 5, whence });
        assert_eq!((seek(SEEK_DATA), seek(9)), (Ok(5), Err(Errno::INVAL)));
        assert!(seek(SEEK_HOLE).is_ok_and(|hole| hole > 5));
    }
}
