//! Barriers of the whole store, counted.

use crate::error::Result;
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
    /// The latest that has failed, 0 for none.
    failed: AtomicU64,
    /// Held by each from its beginning to its end; whether one has failed.
    alone: Mutex<bool>,
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
    /// changed names, which no store is known to lose in part, or has released files that
    /// nobody synced, whose loss the barrier that failed has told of.
    pub(crate) fn covers(&self, begun: u64) -> bool {
        self.done.load(Ordering::Acquire) > begun
    }

    /// The same, and none has failed since then.
    pub(crate) fn covers_surely(&self, begun: u64) -> bool {
        self.covers(begun) && self.failed.load(Ordering::Acquire) <= begun
    }

    /// Keeps barriers from beginning for as long as the guard lives. Who holds
    /// it waits for none.
    pub(crate) fn stand(&self) -> Standing<'_> {
        let guard = self.beginning.read().unwrap_or_else(PoisonError::into_inner);
        Standing { begun: self.begun(), _guard: guard }
    }

    /// One begins; its number.
    pub(crate) fn begin(&self) -> u64 {
        let _guard = self.beginning.write().unwrap_or_else(PoisonError::into_inner);
        self.begun.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// One after the other: whether one has failed is known before the next begins,
    /// since the store tells of a loss once.
    pub(crate) fn alone<T>(&self, barrier: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut has_failed = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        barrier().inspect_err(|_| *has_failed = true)
    }

    /// Whether one has failed so far: others may not have heard of what it lost.
    pub(crate) fn has_failed(&self) -> bool {
        *self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That one has failed.
    pub(crate) fn failed(&self, number: u64) {
        self.failed.fetch_max(number, Ordering::AcqRel);
    }

    /// That one has succeeded.
    pub(crate) fn succeeded(&self, number: u64) {
        self.done.fetch_max(number, Ordering::AcqRel);
    }
}
