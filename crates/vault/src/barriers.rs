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

    /// The same, and none has failed before it since then. What it has made durable a
    /// later one that fails does not take.
    pub(crate) fn covers_surely(&self, begun: u64) -> bool {
        let failed = self.failed.read().unwrap_or_else(PoisonError::into_inner);
        match failed.get(failed.partition_point(|failures| failures.last <= begun)) {
            Some(failures) => failures.done_before > begun,
            None => self.covers(begun),
        }
    }

    /// Whether one has failed that began when `begun` had begun already: what was written
    /// then and later may be lost to it.
    pub(crate) fn failed_since(&self, begun: u64) -> bool {
        let failed = self.failed.read().unwrap_or_else(PoisonError::into_inner);
        failed.last().is_some_and(|failures| failures.last > begun)
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
        match barrier() {
            Ok(()) => self.done.store(number, Ordering::Release),
            Err(error) => {
                self.note_failed(number);
                lost(&error);
                return Err(error);
            }
        }
        Ok(())
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

    #[test]
    fn what_a_barrier_has_covered_a_later_one_does_not_lose() {
        let barriers = Barriers::default();
        let succeeds = || barriers.make(|| Ok(()), |_| ()).is_ok();
        let fails = || barriers.make(|| Err(Error::Refused(errno::EIO)), |_| ()).is_err();
        let sure = |since: u64| barriers.covers_surely(since);
        assert!(!sure(0) && succeeds() && sure(0) && !sure(1));
        assert!(fails() && sure(0) && !sure(1) && !sure(2));
        assert!(barriers.failed_since(1) && !barriers.failed_since(2));
        assert!(fails() && !sure(1) && !sure(2) && !sure(3));
        assert!(succeeds() && sure(0) && !sure(1) && !sure(2) && sure(3) && !sure(4));
        assert!(fails() && fails() && sure(0) && !sure(2) && sure(3) && !sure(4));
        assert!(succeeds() && sure(0) && !sure(2) && sure(3) && !sure(4) && !sure(5) && sure(6));
        assert!(barriers.covers(2), "of names");
    }
}
