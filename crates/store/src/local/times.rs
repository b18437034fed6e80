//! How long the system took for what a store asked of it.
//!
//! One call in [`SAMPLED`] is timed, barriers always: reading the clock twice
//! for each call of a busy store would cost more than it tells.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// One call in so many is timed.
const SAMPLED: u64 = 8;

/// Calls of one kind.
#[derive(Debug, Default)]
pub(super) struct Clock {
    calls: AtomicU64,
    timed: AtomicU64,
    timed_ns: AtomicU64,
}

/// Counts until it goes.
pub(super) struct Timing<'c>(Option<(&'c Clock, Instant)>);

impl Clock {
    /// A call begins, of which there are many.
    pub(super) fn begin(&self) -> Timing<'_> {
        let earlier = self.calls.fetch_add(1, Relaxed);
        Timing(earlier.is_multiple_of(SAMPLED).then(|| (self, Instant::now())))
    }

    /// A call begins that is worth a look each time.
    pub(super) fn begin_rare(&self) -> Timing<'_> {
        self.calls.fetch_add(1, Relaxed);
        Timing(Some((self, Instant::now())))
    }

    /// The time of all calls, as the timed ones have it.
    fn total(&self) -> Duration {
        let (timed, timed_ns) = (self.timed.load(Relaxed), self.timed_ns.load(Relaxed));
        let mean = timed_ns as f64 / timed.max(1) as f64;
        Duration::from_nanos((mean * self.calls.load(Relaxed) as f64) as u64)
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        if let Some((clock, began)) = self.0 {
            clock.timed_ns.fetch_add(began.elapsed().as_nanos() as u64, Relaxed);
            clock.timed.fetch_add(1, Relaxed);
        }
    }
}

/// All of a store.
#[derive(Debug, Default)]
pub(super) struct Times {
    pub(super) reads: Clock,
    pub(super) writes: Clock,
    pub(super) barriers: Clock,
    pub(super) names: Clock,
}

/// How long the system took, in all threads together, as far as samples tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreTimes {
    /// For reading from files.
    pub reads: Duration,
    /// For writing to files.
    pub writes: Duration,
    /// For barriers: `fsync`, `fdatasync`, `syncfs`.
    pub barriers: Duration,
    /// For names, attributes, and opening files.
    pub names: Duration,
}

impl Times {
    pub(super) fn totals(&self) -> StoreTimes {
        StoreTimes {
            reads: self.reads.total(),
            writes: self.writes.total(),
            barriers: self.barriers.total(),
            names: self.names.total(),
        }
    }
}

impl StoreTimes {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.reads + self.writes + self.barriers + self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_for_all() {
        let clock = Clock::default();
        for _ in 0..64 {
            let _timing = clock.begin();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(clock.timed.load(Relaxed), 8);
        assert!(clock.total() >= Duration::from_millis(64), "{:?}", clock.total());
        let rare = Clock::default();
        drop(rare.begin_rare());
        assert_eq!(rare.timed.load(Relaxed), 1);
        assert_eq!(Clock::default().total(), Duration::ZERO);
    }
}
