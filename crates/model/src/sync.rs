//! The locks: shuttle's, but for waits with a limit, which do run out here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LockResult, PoisonError};
use std::time::Duration;

pub use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
use shuttle::thread;

/// A wait at least this long may be without an end, too: what counts on its
/// end is too slow to be called right. A shorter one ends, sooner or later.
const ENDLESS: Duration = Duration::from_secs(1);

/// Whether a wait ended by its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True when the limit was over.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// What a waiter with a limit has: both say it at any moment of the order that
/// is tried, however long the limit is.
type Limited<'a, T> = LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>;

/// A condition variable, as in the standard library.
#[derive(Debug, Default)]
pub struct Condvar(Arc<shuttle::sync::Condvar>);

impl Condvar {
    /// Nobody waits.
    #[must_use]
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// Where the mutex is poisoned.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// Where the mutex is poisoned.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait_while(guard, condition)
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// Where the mutex is poisoned.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> Limited<'a, T> {
        let clock = self.clock(limit);
        limited(self.0.wait(guard), clock.is_over())
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// Where the mutex is poisoned.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Limited<'a, T> {
        let clock = self.clock(limit);
        let mut is_awaited = true;
        let guard = self.0.wait_while(guard, |value| {
            is_awaited = condition(value);
            is_awaited && !clock.is_over()
        });
        limited(guard, is_awaited)
    }

    /// As in the standard library.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// As in the standard library.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    fn clock(&self, limit: Duration) -> Clock {
        let clock = Clock::default();
        if limit < ENDLESS || crate::draw().is_multiple_of(2) {
            let (condvar, shared) = (Arc::clone(&self.0), Arc::clone(&clock.0));
            // The waiter may not wait yet, or may look again: it is told until it has heard.
            thread::spawn(move || {
                shared.over.store(true, Ordering::Relaxed);
                while !shared.heard.load(Ordering::Relaxed) {
                    condvar.notify_all();
                    thread::yield_now();
                }
            });
        }
        clock
    }
}

fn limited<T>(guard: LockResult<MutexGuard<'_, T>>, is_over: bool) -> Limited<'_, T> {
    let result = WaitTimeoutResult(is_over);
    match guard {
        Ok(guard) => Ok((guard, result)),
        Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), result))),
    }
}

/// Time for one wait. What it holds is no part of the model.
#[derive(Default)]
struct Clock(Arc<Time>);

#[derive(Default)]
struct Time {
    over: AtomicBool,
    heard: AtomicBool,
}

impl Clock {
    fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Relaxed)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.0.heard.store(true, Ordering::Relaxed);
    }
}
