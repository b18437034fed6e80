//! When the kernel is to write back early.
//!
//! A program that copies one file waits at its `fsync` or `close` for all that
//! the kernel has not written back by then, while a CPU idles that could have
//! sealed it. With little allowed to be dirty the kernel begins sooner. That
//! costs whoever writes at random places, whose neighbouring pages then come
//! one by one, and several writers, who keep the CPUs busy anyway and are made
//! to sleep. So it is for one new file alone, written from its start on
//! (`docs/pacing.md#what-the-kernel-may-hold-back`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::dirty::{DirtyLimit, Limit};
use crate::filesystem::NodeId;

/// Several workers take what the kernel sends in order, and may overtake each
/// other by all that may be dirty.
const OVERTAKEN_MAX: u64 = 64 << 20;

/// Files open for writing while one is written after the other: the kernel
/// may tell of a file that it is closed after it has opened the next.
const OPEN_MAX: usize = 2;

/// How long it stays ended at least: programs that open many files, new ones
/// and others, are not to pay for a change each time.
const PAUSE: Duration = Duration::from_secs(1);

/// Whether a mount writes back early, and what ends that.
#[derive(Debug)]
pub(super) struct Early<L = DirtyLimit> {
    limit: OnceLock<L>,
    begun: AtomicBool,
    written: Mutex<Written>,
    /// When it ended last, or could not begin.
    ended: Mutex<Option<Instant>>,
}

/// What has been written since it began.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    /// The latest file.
    node: Option<NodeId>,
    /// Where the furthest write to it ended.
    end: u64,
}

impl Written {
    /// Notes a write, and says whether it is near the one before or begins
    /// another file.
    fn is_near(&mut self, node: NodeId, offset: u64, len: usize) -> bool {
        if self.node != Some(node) {
            *self = Written { node: Some(node), end: 0 };
        }
        let is_near = offset.abs_diff(self.end) <= OVERTAKEN_MAX;
        self.end = self.end.max(offset.saturating_add(len as u64));
        is_near
    }
}

impl<L> Default for Early<L> {
    fn default() -> Early<L> {
        Early {
            limit: OnceLock::new(),
            begun: AtomicBool::new(false),
            written: Mutex::default(),
            ended: Mutex::new(None),
        }
    }
}

impl<L: Limit> Early<L> {
    /// From now on the kernel can be told.
    pub(super) fn attach(&self, limit: L) {
        // A second session on one adapter would be the caller's mistake.
        let _ = self.limit.set(limit);
    }

    /// A file was opened for writing, as one of so many; `new` when it is
    /// empty. One caller at a time.
    pub(super) fn opened(&self, files: usize, new: bool) {
        if !new || files > OPEN_MAX {
            self.end();
        } else if files == 1 && !self.begun.load(Ordering::Relaxed) {
            self.begin();
        }
    }

    /// So many bytes are written at `offset` of a file. `is_open` says whether
    /// a file is still open for writing.
    pub(super) fn wrote(&self, node: NodeId, offset: u64, len: usize, is_open: impl FnOnce(NodeId) -> bool) {
        if !self.begun.load(Ordering::Relaxed) {
            return;
        }
        // Whoever opens holds what `is_open` asks, and wants what is locked below.
        let before = lock(&self.written).node;
        let is_beside = before.is_some_and(|before| before != node && is_open(before));
        if is_beside || !lock(&self.written).is_near(node, offset, len) {
            self.end();
        }
    }

    fn begin(&self) {
        let Some(limit) = self.limit.get() else { return };
        let mut ended = lock(&self.ended);
        if ended.is_some_and(|ended| ended.elapsed() < PAUSE) {
            return;
        }
        if limit.lower() {
            *lock(&self.written) = Written::default();
            self.begun.store(true, Ordering::Relaxed);
        } else {
            *ended = Some(Instant::now());
        }
    }

    fn end(&self) {
        if !self.begun.load(Ordering::Relaxed) {
            return;
        }
        let mut ended = lock(&self.ended);
        if self.begun.swap(false, Ordering::Relaxed)
            && let Some(limit) = self.limit.get()
        {
            limit.restore();
            *ended = Some(Instant::now());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    /// A limit that tells whether it is low, and how often it was lowered.
    #[derive(Clone, Debug, Default)]
    struct Told {
        low: Arc<AtomicBool>,
        lowered: Arc<AtomicU64>,
    }

    impl Limit for Told {
        fn lower(&self) -> bool {
            self.lowered.fetch_add(1, Ordering::Relaxed);
            !self.low.swap(true, Ordering::Relaxed)
        }

        fn restore(&self) {
            assert!(self.low.swap(false, Ordering::Relaxed), "restored without need");
        }
    }

    impl Told {
        fn is_low(&self) -> bool {
            self.low.load(Ordering::Relaxed)
        }
    }

    const FILE: NodeId = NodeId(7);

    /// With one new file open.
    fn begun() -> (Early<Told>, Told) {
        let (early, told) = (Early::default(), Told::default());
        early.attach(told.clone());
        early.opened(1, true);
        assert!(told.is_low());
        (early, told)
    }

    /// A write to a file beside which nothing else is open.
    fn wrote(early: &Early<Told>, offset: u64, len: usize) {
        early.wrote(FILE, offset, len, |_| false);
    }

    #[test]
    fn one_new_file_after_the_other_is_written_back_early() {
        let (early, told) = begun();
        for file in 1..4 {
            for offset in (0..64 << 20).step_by(1 << 20) {
                early.wrote(NodeId(file), offset, 1 << 20, |_| false);
            }
            // That the one before is closed may be told after this.
            early.opened(1 + usize::from(file == 2), true);
        }
        assert!(told.is_low());
        assert_eq!(told.lowered.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn requests_may_overtake_each_other() {
        let (early, told) = begun();
        for offset in [3 << 20, 0, 2 << 20, 1 << 20, 67 << 20, 4 << 20] {
            wrote(&early, offset, 1 << 20);
        }
        assert!(told.is_low());
    }

    #[test]
    fn two_that_are_written_end_it_and_so_do_three_and_an_old_one() {
        let (early, told) = begun();
        early.opened(2, true);
        wrote(&early, 0, 4096);
        early.wrote(NodeId(8), 0, 4096, |node| node == FILE);
        assert!(!told.is_low(), "two");
        for (files, new) in [(3, true), (1, false)] {
            let (early, told) = begun();
            early.opened(files, new);
            assert!(!told.is_low(), "files: {files}, new: {new}");
            early.opened(files, new);
        }
    }

    #[test]
    fn a_write_far_off_ends_it() {
        let (early, told) = begun();
        wrote(&early, 0, OVERTAKEN_MAX as usize + 1);
        wrote(&early, 0, 4096);
        assert!(!told.is_low(), "back");
        let (early, told) = begun();
        wrote(&early, OVERTAKEN_MAX + 1, 4096);
        assert!(!told.is_low(), "forth");
        wrote(&early, u64::MAX, usize::MAX);
    }

    #[test]
    fn what_ended_does_not_begin_again_at_once() {
        let (early, told) = begun();
        early.opened(3, true);
        early.opened(1, true);
        wrote(&early, 0, 4096);
        assert!(!told.is_low());
        *early.ended.lock().unwrap() = Instant::now().checked_sub(PAUSE);
        early.opened(1, true);
        assert!(told.is_low());
    }

    #[test]
    fn without_a_session_nothing_is_told() {
        let early = Early::<Told>::default();
        early.opened(1, true);
        early.wrote(FILE, 1 << 40, 1, |_| true);
        early.opened(3, false);
        assert!(!early.begun.load(Ordering::Relaxed));
    }
}
