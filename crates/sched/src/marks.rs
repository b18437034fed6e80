//! What whoever samples the CPUs tells those who place: that there was a pause,
//! and that time passes. Batches come too fast to ask for the time with each.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Samples in a row, 20 ms together, at which nothing was placed and nothing in
/// flight: a pause.
const PAUSE: u32 = 4;
/// Samples, 40 ms together, after which the time is told.
const TICK: u32 = 8;

/// How many pauses and ticks there were, in 16 bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u32);

impl Marks {
    pub(crate) fn from_bits(bits: u32) -> Marks {
        Marks(bits)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// Whether there was a pause between these and others.
    pub(crate) fn is_other_side_of_pause(self, others: Marks) -> bool {
        self.0 >> 16 != others.0 >> 16
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Clock {
    samples: AtomicU32,
    quiet_samples: AtomicU32,
    marks: AtomicU32,
}

impl Clock {
    /// Takes a sample. There is but one thread that does.
    pub(crate) fn sample(&self, is_at_work: bool) {
        let samples = self.samples.load(Relaxed).wrapping_add(1);
        let quiet = if is_at_work { 0 } else { self.quiet_samples.load(Relaxed).saturating_add(1) };
        self.samples.store(samples, Relaxed);
        self.quiet_samples.store(quiet, Relaxed);
        let marks = self.marks.load(Relaxed);
        let pauses = (marks >> 16).wrapping_add(u32::from(quiet == PAUSE));
        let ticks = (marks as u16).wrapping_add(u16::from(samples.is_multiple_of(TICK)));
        self.marks.store(pauses << 16 | u32::from(ticks), Relaxed);
    }

    /// What there was until now.
    pub(crate) fn marks(&self) -> Marks {
        Marks(self.marks.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_once_and_a_short_one_never() {
        let clock = Clock::default();
        let quiet = |samples: u32| {
            (0..samples).for_each(|_| clock.sample(false));
            clock.sample(true);
            clock.marks().0 >> 16
        };
        assert_eq!((quiet(PAUSE - 1), quiet(PAUSE - 1)), (0, 0));
        assert_eq!((quiet(PAUSE), quiet(100 * PAUSE), quiet(1)), (1, 2, 2));
    }

    #[test]
    fn time_is_told_at_work_and_says_nothing_of_pauses() {
        let clock = Clock::default();
        let before = clock.marks();
        (0..TICK - 1).for_each(|_| clock.sample(true));
        assert_eq!(clock.marks(), before);
        clock.sample(true);
        assert!(clock.marks() != before && !clock.marks().is_other_side_of_pause(before));
        (0..u32::from(u16::MAX) * TICK).for_each(|_| clock.sample(true));
        assert!(!clock.marks().is_other_side_of_pause(before), "ticks have come round");
    }
}
