//! Keeping the number of inodes that the kernel knows within bounds.
//!
//! Each costs a descriptor, and the kernel keeps what it has once looked up
//! for as long as it has memory. Above a mark it is asked to drop what was not
//! used for longest; its FORGETs, which come as requests of their own, then
//! free the descriptors. What a program has open is never dropped; from minor
//! version 45 on nothing is that is in use in any other way either.
//!
//! The kernel takes locks to do this that requests may be waiting with, so it
//! is asked by a thread of its own and never by a worker.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use strongroom_vault::namespace::Candidate;

use super::Adapter;
use crate::errno::Errno;
use crate::filesystem::NodeId;
use crate::notify::Notifier;

/// Inodes that the kernel is asked to drop in one go.
const BATCH: usize = 256;

/// Descriptors that are no inodes: the device, sockets, the journal, logs.
const RESERVE: u64 = 64;

/// The highest mark: what so many inodes pin in the kernel is some 500 MB.
const MARK_MAX: u64 = 400_000;

/// How long FORGETs are given before the kernel is asked for more; doubled
/// while nothing comes of it.
const PAUSE: Duration = Duration::from_millis(1);
/// How long at most while there are many more than the mark, which lookups may
/// have made although the kernel forgets.
const PAUSE_CROWDED: Duration = Duration::from_millis(16);
/// How long at most, and how often the end is looked for.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// First minor version whose kernels prune nodes.
const MINOR_PRUNE: u32 = 45;

/// How many inodes may be known before some are to be forgotten, in a process
/// that may have `file_limit` files open: two thirds of them, since files that
/// are open cost descriptors too, and since a burst may outrun the kernel.
#[must_use]
pub fn inode_mark(file_limit: u64) -> usize {
    // Bounded by the constant.
    (file_limit.saturating_sub(RESERVE) / 3 * 2).min(MARK_MAX) as usize
}

/// How a kernel can be asked to drop inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By number, many at once, as far as they are not in use.
    Prune,
    /// One by one, by name, whether in use or not. A directory that a program
    /// works in would lose its path, so directories stay known.
    Invalidate,
}

impl Way {
    fn of(minor: u32) -> Way {
        if minor >= MINOR_PRUNE { Way::Prune } else { Way::Invalidate }
    }

    /// Asks for these to be dropped. What the kernel does not have any more is
    /// no error.
    fn ask(self, notifier: &Notifier, candidates: &[Candidate]) -> Result<(), Errno> {
        if self == Way::Prune {
            let nodes: Vec<NodeId> = candidates.iter().map(|candidate| NodeId(candidate.number)).collect();
            return notifier.prune(&nodes);
        }
        for candidate in candidates.iter().filter(|candidate| !candidate.is_directory) {
            let Some((parent, name)) = &candidate.entry else { continue };
            if notifier.invalidate_entry(NodeId(*parent), name) == Err(Errno::NOTCONN) {
                return Err(Errno::NOTCONN);
            }
        }
        Ok(())
    }
}

impl Adapter {
    /// Keeps the kernel from knowing many more than `mark` inodes, in the
    /// calling thread, which must not answer requests. Returns when the
    /// session has ended, or soon after `ended` says so.
    pub fn prune(&self, notifier: &Notifier, mark: usize, ended: impl Fn() -> bool) {
        self.namespace.watch(mark, thread::current());
        // Some way below, so that it is worth the while.
        let low = mark - mark / 5;
        let mut pause = PAUSE;
        while !ended() {
            let known = self.namespace.known();
            if known <= mark {
                thread::park_timeout(PAUSE_MAX);
                continue;
            }
            let way = Way::of(self.minor.load(Ordering::Acquire));
            if self.drop_some(notifier, way, known - low) == Err(Errno::NOTCONN) {
                return;
            }
            thread::sleep(pause);
            let left = self.namespace.known();
            let most = if left > mark + mark / 8 { PAUSE_CROWDED } else { PAUSE_MAX };
            pause = if left < known { PAUSE } else { (pause * 2).min(most) };
        }
    }

    /// Asks the kernel to drop `count` inodes.
    fn drop_some(&self, notifier: &Notifier, way: Way, count: usize) -> Result<(), Errno> {
        let mut left = count;
        while left > 0 {
            let candidates = self.namespace.candidates(left.min(BATCH));
            if candidates.is_empty() {
                return Ok(());
            }
            left -= candidates.len();
            way.ask(notifier, &candidates)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_thirds_of_the_limit_are_for_inodes() {
        assert_eq!([0, 64, 1024, u64::MAX].map(inode_mark), [0, 0, 640, 400_000]);
    }

    #[test]
    fn every_kernel_is_asked_in_a_way_it_knows() {
        assert_eq!([34, 44].map(Way::of), [Way::Invalidate; 2]);
        assert_eq!([45, 99].map(Way::of), [Way::Prune; 2]);
    }
}
