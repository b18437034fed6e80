//! Leaving off for a while, longer each time.

use super::limits::{BACKOFF_MAX, BACKOFF_MIN};
use std::time::{Duration, Instant};

/// Of something that is begun and ended again and again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    until: Option<Instant>,
    next: Duration,
    began: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { until: None, next: BACKOFF_MIN, began: None }
    }
}

impl Backoff {
    /// Whether it may be begun.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// It begins.
    pub(super) fn begins(&mut self, now: Instant) {
        self.began = Some(now);
    }

    /// It did not do well: it is left off, twice as long as the last time,
    /// unless it went on for longer than that.
    pub(super) fn failed(&mut self, now: Instant) {
        let lasted = self.began.take().map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        if lasted >= self.next {
            self.next = BACKOFF_MIN;
        }
        self.until = Some(now + self.next);
        self.next = (2 * self.next).min(BACKOFF_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_micros(5);

    #[test]
    fn each_time_is_twice_as_long_until_it_went_well() {
        let (mut now, mut backoff) = (Instant::now(), Backoff::default());
        assert!(backoff.is_over(now));
        let mut expected = BACKOFF_MIN;
        for _ in 0..10 {
            backoff.begins(now);
            backoff.failed(now);
            assert!(!backoff.is_over(now + expected - MOMENT), "{expected:?}");
            now += expected;
            assert!(backoff.is_over(now), "{expected:?}");
            expected = (2 * expected).min(BACKOFF_MAX);
        }
        assert_eq!(expected, BACKOFF_MAX);
        backoff.begins(now);
        now += BACKOFF_MAX;
        backoff.failed(now);
        assert!(backoff.is_over(now + BACKOFF_MIN));
    }
}
