//! Barriers of the whole store, counted.

use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock, RwLockReadGuard};
use std::sync::PoisonError;

/// Counts barriers of the whole store, so that one can tell whether what it
/// has done is durable.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    begun: AtomicU64,
    /// How many have ended, as they began.
    ended: AtomicU64,
    /// Held to write for the moment in which one begins.
    beginning: RwLock<()>,
    /// The latest that has succeeded.
    done: AtomicU64,
    /// Those that have failed, by turns.
    failed: RwLock<Vec<Failures>>,
    /// Held by each from its beginning to its end.
    alone: Mutex<()>,
}

/// Barriers that failed with none between them that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failures {
    last: u64,
    /// The latest before them that had succeeded, 0 for none.
    done_before: u64,
}

/// A moment among barriers, before something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// How many had ended: one that is under way may lose what is written now.
    pub(crate) ended: u64,
    /// How many had begun.
    pub(crate) begun: u64,
}

/// When something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    before: Moment,
    /// How many barriers had begun at its end: one of those need not have covered it.
    begun_after: u64,
}

impl Written {
    /// Whether no more than `begun` barriers had begun when it was, and none since.
    pub(crate) fn is_after(self, begun: u64) -> bool {
        self.before.begun == begun
    }
}

/// No barrier of the store begins.
pub(crate) struct Standing<'a> {
    /// How many have begun.
    pub(crate) begun: u64,
    _guard: RwLockReadGuard<'a, ()>,
}

impl Barriers {
    /// How many have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Whether one has succeeded that began when `begun` had begun already.
    ///
    /// It does not bring back what one that failed before has lost. Who asks here has
    /// changed names, which no store is known to lose in part.
    pub(crate) fn covers(&self, begun: u64) -> bool {
        self.done.load(Ordering::Acquire) > begun
    }

    /// To be asked before something is written.
    pub(crate) fn moment(&self) -> Moment {
        let ended = self.ended.load(Ordering::Acquire);
        Moment { ended, begun: self.begun() }
    }

    /// Something has been written since `before`.
    pub(crate) fn written(&self, before: Moment) -> Written {
        Written { before, begun_after: self.begun() }
    }

    /// Whether a barrier has made durable what was written then, and none before it has
    /// failed. What it has made durable a later one that fails does not take.
    pub(crate) fn covers_surely(&self, written: Written) -> bool {
        let failed = self.failed.read().unwrap_or_else(PoisonError::into_inner);
        match failed.get(failed.partition_point(|failures| failures.last <= written.before.ended)) {
            Some(failures) => failures.done_before > written.begun_after,
            None => self.covers(written.begun_after),
        }
    }

    /// Whether one has failed when only `ended` had ended before something was written: that
    /// may be lost to it.
    pub(crate) fn failed_since(&self, ended: u64) -> bool {
        let failed = self.failed.read().unwrap_or_else(PoisonError::into_inner);
        failed.last().is_some_and(|failures| failures.last > ended)
    }

    /// Keeps barriers from beginning for as long as the guard lives. Who holds
    /// it waits for none.
    pub(crate) fn stand(&self) -> Standing<'_> {
        let guard = self.beginning.read().unwrap_or_else(PoisonError::into_inner);
        Standing { begun: self.begun(), _guard: guard }
    }

    /// Makes one, which `barrier` does, given its number. One after the other: whether one
    /// has failed is known, and what `lost` notes of that is noted, before the next
    /// begins, since the store tells of a loss once.
    pub(crate) fn make(&self, barrier: impl FnOnce() -> Result<()>, lost: impl FnOnce(&Error)) -> Result<()> {
        let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let number = {
            let _beginning = self.beginning.write().unwrap_or_else(PoisonError::into_inner);
            self.begun.fetch_add(1, Ordering::AcqRel) + 1
        };
        let outcome = barrier();
        match &outcome {
            Ok(()) => self.done.store(number, Ordering::Release),
            Err(error) => {
                self.note_failed(number);
                lost(error);
            }
        }
        self.ended.store(number, Ordering::Release);
        outcome
    }

    fn note_failed(&self, number: u64) {
        let done_before = self.done.load(Ordering::Acquire);
        let mut failed = self.failed.write().unwrap_or_else(PoisonError::into_inner);
        match failed.last_mut().filter(|failures| failures.done_before == done_before) {
            Some(failures) => failures.last = number,
            None => failed.push(Failures { last: number, done_before }),
        }
    }

    /// Whether one has failed so far, once none is under way any more: others may not have
    /// heard of what it lost.
    pub(crate) fn has_failed(&self) -> bool {
        let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        self.failed_since(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::errno;

    fn succeeds(barriers: &Barriers) {
        barriers.make(|| Ok(()), |_| ()).expect("it does");
    }

    fn fails(barriers: &Barriers) {
        barriers.make(|| Err(Error::Refused(errno::EIO)), |_| ()).expect_err("it does not");
    }

    /// Something that is written now, and whether it is surely covered after each of what
    /// follows.
    fn is_covered(history: &[fn(&Barriers)], then: &[fn(&Barriers)]) -> Vec<bool> {
        let barriers = Barriers::default();
        history.iter().for_each(|barrier| barrier(&barriers));
        let written = barriers.written(barriers.moment());
        let covered = then.iter().map(|barrier| {
            barrier(&barriers);
            barriers.covers_surely(written)
        });
        covered.collect()
    }

    #[test]
    fn what_a_barrier_has_covered_a_later_one_does_not_lose() {
        let histories: [&[fn(&Barriers)]; 4] = [&[], &[succeeds], &[fails, fails], &[fails, succeeds, fails]];
        for history in histories {
            assert_eq!(is_covered(history, &[succeeds, fails, fails, succeeds]), [true; 4]);
            assert_eq!(is_covered(history, &[fails, succeeds, fails, succeeds]), [false; 4]);
            assert_eq!(is_covered(history, &[fails, fails, succeeds]), [false; 3]);
        }
    }

    #[test]
    fn a_barrier_under_way_may_lose_what_is_written_and_does_not_cover_it() {
        let barriers = Barriers::default();
        let mut during = None;
        let mut write = |outcome: Result<()>| {
            let barrier = || {
                during = Some(barriers.written(barriers.moment()));
                outcome
            };
            let _ = barriers.make(barrier, |_| ());
            during.expect("written")
        };
        let beside_success = write(Ok(()));
        assert!(
            !barriers.covers_surely(beside_success) && !barriers.failed_since(beside_success.before.ended)
        );
        let beside_failure = write(Err(Error::Refused(errno::EIO)));
        assert!(barriers.failed_since(beside_failure.before.ended));
        let after = barriers.written(barriers.moment());
        assert!(!barriers.failed_since(after.before.ended));
        succeeds(&barriers);
        assert!(!barriers.covers_surely(beside_failure) && !barriers.covers_surely(beside_success));
        assert!(barriers.covers_surely(after));
    }

    #[test]
    fn what_began_before_a_barrier_and_ended_behind_its_beginning_is_not_covered() {
        let barriers = Barriers::default();
        let before = barriers.moment();
        succeeds(&barriers);
        let written = barriers.written(before);
        assert!(!barriers.covers_surely(written) && written.is_after(0) && !written.is_after(1));
        succeeds(&barriers);
        assert!(barriers.covers_surely(written));
    }
}
