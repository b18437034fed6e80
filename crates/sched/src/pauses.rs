//! Pauses in what is placed, counted by whoever samples the CPUs: batches come
//! too fast to ask for the time with each.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Samples in a row, 20 ms together, at which nothing was placed and nothing in
/// flight: a pause.
const SAMPLES: u32 = 4;

/// See the module.
#[derive(Default)]
pub(crate) struct Pauses {
    quiet_samples: AtomicU32,
    count: AtomicU32,
}

impl Pauses {
    /// Takes a sample. There is but one thread that does.
    pub(crate) fn sample(&self, is_at_work: bool) {
        let quiet = if is_at_work { 0 } else { self.quiet_samples.load(Relaxed).saturating_add(1) };
        self.quiet_samples.store(quiet, Relaxed);
        if quiet == SAMPLES {
            self.count.store(self.count().wrapping_add(1), Relaxed);
        }
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_once_and_a_short_one_never() {
        let pauses = Pauses::default();
        let quiet = |samples: u32| {
            (0..samples).for_each(|_| pauses.sample(false));
            pauses.sample(true);
            pauses.count()
        };
        assert_eq!((quiet(SAMPLES - 1), quiet(SAMPLES - 1)), (0, 0));
        assert_eq!((quiet(SAMPLES), quiet(100 * SAMPLES), quiet(1)), (1, 2, 2));
    }
}
