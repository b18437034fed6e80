//! Keeping work from an engine that failed.
//!
//! A wrong result ends an engine's service for good. A loss, a vanished batch
//! or a missed deadline ends it for a while, twice as long each time. After
//! that its results are all checked until enough were right.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Longest time, short of for good.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Right results after which a failure is forgotten.
const GOOD_AGAIN: u32 = 256;

/// The state of one engine.
pub(crate) struct Quarantine {
    began: Instant,
    pause: Duration,
    /// Nanoseconds after `began`; 0 when there is none.
    until_ns: AtomicU64,
    strikes: AtomicU32,
    good: AtomicU32,
}

impl Quarantine {
    /// None, and `pause` after the first failure.
    pub(crate) fn new(pause: Duration) -> Quarantine {
        Quarantine {
            began: Instant::now(),
            pause,
            until_ns: AtomicU64::new(0),
            strikes: AtomicU32::new(0),
            good: AtomicU32::new(0),
        }
    }

    /// Whether it gets no work now.
    pub(crate) fn is_on(&self) -> bool {
        let until = self.until_ns.load(Relaxed);
        until != 0 && (until == u64::MAX || (self.began.elapsed().as_nanos() as u64) < until)
    }

    /// Whether it is on for good.
    pub(crate) fn is_final(&self) -> bool {
        self.until_ns.load(Relaxed) == u64::MAX
    }

    /// Whether it has failed lately, so that every result is checked.
    pub(crate) fn is_suspect(&self) -> bool {
        self.strikes.load(Relaxed) > 0
    }

    /// A batch was lost. Those that are out when that is noticed are lost by
    /// the same failure and count once.
    pub(crate) fn lost(&self) {
        if self.is_on() {
            return;
        }
        let strikes = self.strikes.fetch_add(1, Relaxed).min(16);
        self.good.store(0, Relaxed);
        let pause = (self.pause * (1 << strikes)).min(PAUSE_MAX);
        let until = (self.began.elapsed() + pause).as_nanos() as u64;
        // Never shortens one that is final.
        self.until_ns.fetch_max(until, Relaxed);
    }

    /// A result was wrong.
    pub(crate) fn wrong(&self) {
        self.strikes.fetch_add(1, Relaxed);
        self.until_ns.store(u64::MAX, Relaxed);
    }

    /// A result was checked and right.
    pub(crate) fn right(&self) {
        if self.is_suspect() && !self.is_final() && self.good.fetch_add(1, Relaxed) + 1 >= GOOD_AGAIN {
            self.good.store(0, Relaxed);
            self.strikes.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_pauses_and_a_wrong_result_ends() {
        let quarantine = Quarantine::new(Duration::from_millis(10));
        assert!(!quarantine.is_on() && !quarantine.is_suspect());
        quarantine.lost();
        assert!(quarantine.is_on() && quarantine.is_suspect());
        std::thread::sleep(Duration::from_millis(15));
        assert!(!quarantine.is_on() && quarantine.is_suspect());
        for _ in 0..GOOD_AGAIN {
            quarantine.right();
        }
        assert!(!quarantine.is_suspect());
        quarantine.wrong();
        quarantine.lost();
        (0..GOOD_AGAIN).for_each(|_| quarantine.right());
        assert!(quarantine.is_on() && quarantine.is_suspect(), "however many results are right");
    }
}
