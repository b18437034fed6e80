//! Moments at which a load rests: nothing is in flight, and nothing comes for
//! a while.
//!
//! That nothing is in flight when a batch is done tells little: an inline engine
//! leaves nothing in flight however many threads wait for its CPU. What tells is
//! the time until the next batch is done, so that a moment of rest is known one
//! batch later.

use super::WINDOW_NS;

/// A rest is so many times as long as a batch takes in the mean of a window.
const PAUSE: f64 = 3.0;
/// And no shorter than this: what is makes no difference to a window.
const PAUSE_LEAST_NS: f64 = WINDOW_NS / 40.0;
/// Where for moments nothing is in flight, a rest is waited for after so many
/// windows, at first and at most: twice as many each time that it was in vain.
const AGAIN: [u32; 2] = [64, 1024];
/// So many windows without a rest at most where rests are usual.
const USUAL: u32 = 2;

/// When a batch was done, and what there had been of the window then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    pub(super) ns: u64,
    /// Batches, reads and work, as the trials count them.
    pub(super) counts: u64,
    /// Batches in flight and looks at them likewise.
    pub(super) depths: u64,
}

impl Moment {
    pub(super) fn batches(&self) -> f64 {
        ((self.counts & 0xfff) as f64).max(1.0)
    }

    pub(super) fn reads(&self) -> f64 {
        (self.counts >> 12 & 0xfff) as f64
    }

    /// Batches in flight in the mean.
    pub(super) fn in_flight(&self) -> f64 {
        (self.depths >> 32) as f64 / (self.depths as u32 as f64).max(1.0)
    }

    /// Nanoseconds of work.
    pub(super) fn work_ns(&self) -> f64 {
        (self.counts >> 24) as f64
    }

    /// Of a window that began then.
    pub(super) fn elapsed_ns(&self, began_ns: u64) -> f64 {
        self.ns.saturating_sub(began_ns).max(1) as f64
    }
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rests {
    /// When nothing was in flight last, if that was at the last look.
    quiet: Option<Moment>,
    /// Windows since the last that ended with a rest.
    ago: u32,
    /// Windows until it is waited for one.
    until: u32,
    /// And after the next time that it was in vain.
    again: u32,
}

impl Default for Rests {
    fn default() -> Rests {
        Rests { quiet: None, ago: USUAL, until: 0, again: AGAIN[0] }
    }
}

/// How a window ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// When the load went to rest.
    Rest,
    /// Without, after it was waited for.
    InVain,
    /// For another reason.
    Other,
}

impl Rests {
    /// A batch is done, and either nothing else is in flight or something is. The
    /// moment at which the load went to rest before it, if it did.
    pub(super) fn before(&mut self, now: &Moment, is_quiet: bool, began_ns: u64) -> Option<Moment> {
        let quiet = std::mem::replace(&mut self.quiet, is_quiet.then_some(*now))?;
        let pace = now.elapsed_ns(began_ns) / now.batches();
        (now.elapsed_ns(quiet.ns) > PAUSE_LEAST_NS.max(PAUSE * pace)).then_some(quiet)
    }

    /// A window is over.
    pub(super) fn window(&mut self, end: End) {
        self.forgets();
        self.ago = if end == End::Rest { 0 } else { (self.ago + 1).min(USUAL) };
        if end == End::InVain {
            // Bursts have a rhythm. What has none is other work that takes the
            // CPUs, with which windows had better not begin.
            (self.until, self.again) = (self.again, (2 * self.again).min(AGAIN[1]));
            self.ago = USUAL;
        } else {
            self.until = self.until.saturating_sub(1);
        }
    }

    /// What was counted until now is not what will be counted.
    pub(super) fn forgets(&mut self) {
        self.quiet = None;
    }

    /// Whether a window in which nothing was in flight for a moment should wait
    /// for one.
    pub(super) fn are_worth_waiting(&self) -> bool {
        self.until == 0
    }

    /// Whether windows have ended with one lately.
    pub(super) fn are_usual(&self) -> bool {
        self.ago < USUAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(ns: u64, batches: u64) -> Moment {
        Moment { ns, counts: batches, depths: 0 }
    }

    #[test]
    fn a_rest_is_known_by_what_follows() {
        let mut rests = Rests::default();
        // A batch each 100 us.
        assert_eq!(rests.before(&moment(1_000_000, 10), true, 0), None);
        assert_eq!(rests.before(&moment(1_250_000, 11), true, 0), None, "not long enough");
        assert_eq!(rests.before(&moment(2_000_000, 12), false, 0), Some(moment(1_250_000, 11)));
        assert_eq!(rests.before(&moment(3_000_000, 13), true, 0), None, "something was in flight");
        rests.forgets();
        assert_eq!(rests.before(&moment(4_000_000, 14), false, 0), None);
    }

    #[test]
    fn what_was_waited_for_in_vain_is_waited_for_ever_more_seldom() {
        let mut rests = Rests::default();
        rests.window(End::Rest);
        assert!(rests.are_worth_waiting() && rests.are_usual());
        for windows in [AGAIN[0], 2 * AGAIN[0]] {
            rests.window(End::InVain);
            for _ in 0..windows {
                assert!(!rests.are_worth_waiting() && !rests.are_usual());
                rests.window(End::Other);
            }
            assert!(rests.are_worth_waiting());
        }
        (0..9).for_each(|_| rests.window(End::InVain));
        assert_eq!(rests.until, AGAIN[1]);
    }
}
