//! What to forget when the kernel knows many inodes.
//!
//! Every known inode costs a descriptor of the store, and the kernel forgets
//! none of its own accord while it has memory. Whoever can ask it to
//! ([`Namespace::watch`]) is woken above a mark, and is told which inodes have
//! not been asked for lately ([`Namespace::candidates`]). Asking is not done
//! here. Nothing is taken out of the table but by [`Namespace::forget`].
//!
//! The choice is a clock: a hand goes round by number, passes over what was
//! used since it last came by, and takes the rest.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Thread;
use std::time::Duration;

use strongroom_store::Kind;

use super::Namespace;
use super::inode::{Inode, ROOT, lock};

/// Inodes that the hand looks at while it holds the table.
const STEP: usize = 256;

/// How long, and how often, a request that may make another inode known waits
/// for others to be forgotten. Not for ever: who asks the kernel to forget
/// may be waiting for a directory that this very request holds there.
const MOMENT: Duration = Duration::from_millis(1);
const MOMENTS_MAX: usize = 20;

/// An inode that the kernel may be asked to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub number: u64,
    /// True for a directory. It stays known for as long as anything in it is.
    pub is_directory: bool,
    /// Number of the directory and name by which it was last found, if it has
    /// any.
    pub entry: Option<(u64, Box<[u8]>)>,
}

impl Namespace {
    /// From now on `thread` is unparked whenever an inode becomes known and
    /// there are more than `mark`, and listings look nothing up any more as
    /// long as that is so. The first watcher stays.
    pub fn watch(&self, mark: usize, thread: Thread) {
        let _ = self.table.crowd.watcher.set((mark, thread));
    }

    /// Waits a little when there are a quarter more inodes than the watcher's
    /// mark: a burst of lookups must not outrun the kernel's forgetting. The
    /// caller holds no lock.
    pub(super) fn make_way(&self) {
        let Some((mark, _)) = self.table.crowd.watcher.get() else { return };
        let is_full = || self.table.len() > mark + mark / 4;
        let mut moments = 0;
        while moments < MOMENTS_MAX && is_full() {
            crate::sync::thread::sleep(MOMENT);
            moments += 1;
        }
    }

    /// True while more inodes are known than the watcher's mark.
    pub(super) fn is_crowded(&self) -> bool {
        self.table.crowd.watcher.get().is_some_and(|(mark, _)| self.table.len() > *mark)
    }

    /// Up to `count` inodes that are not open and were asked for longest ago.
    /// Fewer when the hand has come round twice. For one thread at a time;
    /// others are held up for moments only.
    #[must_use]
    pub fn candidates(&self, count: usize) -> Vec<Candidate> {
        let mut found = Vec::new();
        let mut left = 2 * self.table.len();
        while found.len() < count && left > 0 {
            let hand = self.table.crowd.hand.load(Ordering::Relaxed).max(ROOT);
            let step = self.table.above(hand, STEP.min(left));
            left = left.saturating_sub(step.len().max(1));
            let Some(last) = step.last() else {
                self.table.crowd.hand.store(ROOT, Ordering::Relaxed);
                continue;
            };
            let mut stands = last.number;
            for inode in &step {
                if found.len() == count {
                    break;
                }
                stands = inode.number;
                if !inode.take_used() && !inode.is_open() {
                    found.push(candidate(inode));
                }
            }
            self.table.crowd.hand.store(stands, Ordering::Relaxed);
        }
        found
    }
}

fn candidate(inode: &Arc<Inode>) -> Candidate {
    let entry = lock(&inode.place).as_ref().map(|place| (place.parent, Box::from(&*place.name)));
    Candidate { number: inode.number, is_directory: inode.kind == Kind::Directory, entry }
}
