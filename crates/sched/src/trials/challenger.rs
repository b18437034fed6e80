//! A way that is not in use: when it is tried, and what its trial has shown.

use super::evidence::Evidence;
use super::window::Window;

/// First and longest time from a trial that was lost to the next one.
pub(super) const INTERVAL_NS: [u64; 2] = [60_000_000, 10_000_000_000];
/// Pairs of one trial, after which others have their turn.
pub(super) const PAIRS_OF_TRIAL: u32 = 3;
/// A way that was slower in none of them than the faster of its neighbours, by
/// more than the first, and in the mean faster by the second, is better however
/// the way in use differs from window to window: logarithms.
const AHEAD: [f64; 2] = [-0.05, 0.1];

/// What is known of a way that is not in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Challenger {
    /// Speed of the way in use when the last evidence came.
    pub(super) against: f64,
    pub(super) next_ns: u64,
    pub(super) interval_ns: u64,
    /// When it may be tried again because the way in use has another speed, and
    /// how long after that again.
    pub(super) overtakes_ns: u64,
    pub(super) overtakes_again_ns: u64,
    /// The least speed of the way in use at which it was so tried.
    pub(super) least: f64,
    pub(super) evidence: Evidence,
}

impl Challenger {
    /// Nothing is known of it, and it is tried from a time on.
    pub(super) fn due(next_ns: u64) -> Challenger {
        Challenger {
            against: 0.0,
            next_ns,
            interval_ns: INTERVAL_NS[0],
            overtakes_ns: 0,
            overtakes_again_ns: 0,
            least: f64::INFINITY,
            evidence: Evidence::default(),
        }
    }

    pub(super) fn has_lost(&self) -> bool {
        self.evidence.mean() < 0.0
    }
}

/// A way that is tried now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) way: usize,
    /// Speed of the way in use in the window before.
    pub(super) before: f64,
    /// The challenger's, once its window is over.
    pub(super) speed: Option<f64>,
    pub(super) pairs: u32,
    /// Pairs in which the challenger was ahead of both neighbours, and by how
    /// much of their mean in all: logarithms.
    ahead: u32,
    gained: f64,
    pub(super) lost_ns: f64,
}

impl Trial {
    /// Of a way, where the way in use had this speed just before.
    pub(super) fn of(way: usize, before: f64) -> Trial {
        Trial { way, before, speed: None, pairs: 0, ahead: 0, gained: 0.0, lost_ns: 0.0 }
    }

    /// What this window has lost or gained against the way in use, in no more
    /// time than that: the load may have paused.
    pub(super) fn loses(&mut self, window: &Window, most_ns: f64) {
        self.lost_ns += window.elapsed_ns.min(most_ns) * (1.0 - window.speed / self.before);
    }

    /// A pair is whole: the challenger's window, and the one after it.
    pub(super) fn pairs_up(&mut self, challenger: f64, after: f64) {
        self.pairs += 1;
        self.ahead += u32::from((challenger / after.max(self.before)).ln() > AHEAD[0]);
        self.gained += (2.0 * challenger / (after + self.before)).ln();
    }

    /// Whether every pair says that the challenger is better.
    pub(super) fn is_ahead(&self) -> bool {
        self.pairs >= PAIRS_OF_TRIAL
            && self.ahead == self.pairs
            && self.gained > AHEAD[1] * f64::from(self.pairs)
    }
}
