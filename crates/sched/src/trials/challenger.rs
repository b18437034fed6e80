//! A way that is not in use: when it is tried, and what its trial has shown.

use super::evidence::Evidence;
use super::window::Window;

/// First and longest time from a trial that was lost to the next one.
pub(super) const INTERVAL_NS: [u64; 2] = [60_000_000, 10_000_000_000];
/// Pairs of one trial, after which others have their turn.
pub(super) const PAIRS_OF_TRIAL: u32 = 3;
/// A way that was slower in none of them than the faster of its neighbours, by
/// more than the first, and in all but one faster than their mean by the second, is
/// better however the way in use differs from window to window: logarithms. (In one
/// other work may have come just after the challenger's window.)
const AHEAD: [f64; 2] = [-0.05, 0.1];

/// A way that is slower by less may be faster when the machine has other work:
/// a logarithm.
pub(super) const NEAR: f64 = 0.5;
/// So many times the noise is more than chance.
pub(super) const STRANGE_NOISE: f64 = 3.0;
/// A way is tried again when the one in use comes so near to its speed.
const OVERTAKEN: f64 = 0.05;
/// But no more often than once in this time, where it lost all the same.
const OVERTAKES_MAX_NS: u64 = 2_000_000_000;
/// Windows that are longer by this factor tell other things.
const LONGER: f64 = 3.0;
/// Most that trials of all ways that have lost before may cost, as a share of the
/// time.
pub(super) const COSTS_SHARE: f64 = 0.005;
/// One that is made since windows are longer waits until the rest of its cost is
/// paid for, in nanoseconds.
const UNPAID_NS: f64 = 10e6;

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
    /// The longest window of its trials, in nanoseconds.
    pub(super) longest_ns: f64,
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
            longest_ns: 0.0,
            evidence: Evidence::default(),
        }
    }

    pub(super) fn has_lost(&self) -> bool {
        self.evidence.mean() < 0.0
    }

    /// The way in use has this speed now, and `noise` is what pairs deviate by:
    /// it may have become slower than this one was.
    pub(super) fn drifts(&mut self, speed: f64, noise: f64, is_free: bool, now: u64) {
        if self.against == 0.0 {
            return;
        }
        let slower = (self.against / speed).ln();
        let gain = self.evidence.mean() + slower;
        let overtakes = slower > 2.0 * OVERTAKEN && gain > -OVERTAKEN || slower > noise && gain > noise;
        // What has made that one faster may have done so to this one by more.
        let faster = -slower > OVERTAKEN.max(STRANGE_NOISE * noise);
        let overtakes = overtakes || faster && self.evidence.mean() > -NEAR;
        // Other work that comes back makes it as slow as before, and no slower.
        let is_slower_than_ever = gain > 0.0 && speed * (1.0 + OVERTAKEN) < self.least;
        let is_paid = is_free || !self.has_lost() || is_slower_than_ever;
        if overtakes && is_paid && now >= self.overtakes_ns {
            self.least = self.least.min(speed);
            // What makes that one slower may make all slower, and come back.
            let again_ns = (3 * self.overtakes_again_ns).clamp(INTERVAL_NS[0], OVERTAKES_MAX_NS);
            self.overtakes_again_ns = again_ns;
            self.overtakes_ns = now + again_ns;
            self.against = 0.0;
            // Not now: this window was slow or fast by chance, too.
            self.tries_again(now + 1);
        }
    }

    /// Windows should be so long, as is known now. A way that may be near, and was
    /// tried with far shorter ones, is tried again: later where a window of it would
    /// cost much, if it were as slow as it seemed.
    pub(super) fn outgrows(&mut self, length_ns: f64, now: u64) {
        let was_short = self.evidence.pairs() > 0.0 && length_ns > LONGER * self.longest_ns;
        if was_short && self.evidence.mean() > -NEAR {
            let unpaid_ns = length_ns * (1.0 - self.evidence.mean().exp()) - UNPAID_NS;
            let pause = (unpaid_ns.max(0.0) / COSTS_SHARE) as u64;
            self.tries_again(now + pause.min(INTERVAL_NS[1]));
        }
    }

    /// It is tried again, and what its trials have shown is forgotten.
    fn tries_again(&mut self, next_ns: u64) {
        self.evidence.forgets();
        (self.next_ns, self.interval_ns) = (next_ns, INTERVAL_NS[0]);
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
    /// Pairs in which the challenger was ahead of both neighbours, and those in which
    /// it was clearly faster than their mean.
    ahead: u32,
    gained: u32,
    /// What the pairs that are whole have lost or gained, in nanoseconds; and the
    /// time and the work of the challenger's windows since.
    lost_ns: f64,
    elapsed_ns: f64,
    work_ns: f64,
}

impl Trial {
    /// Of a way, where the way in use had this speed just before.
    pub(super) fn of(way: usize, before: f64) -> Trial {
        Trial {
            way,
            before,
            speed: None,
            pairs: 0,
            ahead: 0,
            gained: 0,
            lost_ns: 0.0,
            elapsed_ns: 0.0,
            work_ns: 0.0,
        }
    }

    /// The challenger's windows of this pair, or the time in which it began: no
    /// more of each than that, since the load may have paused.
    pub(super) fn takes(&mut self, window: &Window, most_ns: f64) {
        let elapsed_ns = window.elapsed_ns.min(most_ns);
        self.elapsed_ns += elapsed_ns;
        self.work_ns += elapsed_ns * window.speed;
    }

    /// Nanoseconds lost against the way in use, or gained: against its speed
    /// before and after, where both are known. Other work that comes meanwhile
    /// makes the one before alone too fast, or hides what is lost.
    pub(super) fn lost_ns(&self) -> f64 {
        self.lost_ns + self.lost_against(self.before)
    }

    fn lost_against(&self, speed: f64) -> f64 {
        self.elapsed_ns - self.work_ns / speed
    }

    /// A pair is whole: the challenger's window, and the one after it.
    pub(super) fn pairs_up(&mut self, challenger: f64, after: f64) {
        self.pairs += 1;
        self.ahead += u32::from((challenger / after.max(self.before)).ln() > AHEAD[0]);
        let around = (after + self.before) / 2.0;
        self.gained += u32::from((challenger / around).ln() > AHEAD[1]);
        self.lost_ns += self.lost_against(around);
        (self.elapsed_ns, self.work_ns) = (0.0, 0.0);
    }

    /// Whether every pair says that the challenger is better.
    pub(super) fn is_ahead(&self) -> bool {
        self.pairs >= PAIRS_OF_TRIAL && self.ahead == self.pairs && self.gained + 1 >= self.pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_was_tried_with_far_shorter_windows_is_tried_again() {
        let lost = |ratio| {
            let mut way = Challenger { longest_ns: 4e6, next_ns: 1000, ..Challenger::due(0) };
            way.evidence.add(ratio);
            way
        };
        let mut way = lost(0.7);
        way.outgrows(12e6, 5);
        assert!(way.next_ns == 1000 && way.has_lost());
        way.outgrows(13e6, 5);
        assert!(way.next_ns == 5 && !way.has_lost());
        let mut dear = lost(0.7);
        dear.outgrows(50e6, 5);
        assert!((0.9e9..1.1e9).contains(&(dear.next_ns as f64)) && !dear.has_lost(), "{}", dear.next_ns);
        let mut far = lost(0.1);
        far.outgrows(13e6, 5);
        assert_eq!(far.next_ns, 1000);
    }

    #[test]
    fn a_way_is_ahead_when_more_than_one_pair_says_so() {
        // Speeds of the challenger, and of the way in use before and after it.
        let is_ahead = |pairs: [(f64, f64, f64); 3]| {
            let mut trial = Trial::of(1, 1.0);
            for (challenger, before, after) in pairs {
                trial.before = before;
                trial.pairs_up(challenger, after);
            }
            trial.is_ahead()
        };
        assert!(is_ahead([(1.0, 0.6, 1.0), (1.0, 1.0, 0.5), (1.0, 0.5, 1.0)]), "the way in use swings");
        assert!(!is_ahead([(1.0, 1.0, 0.3), (0.3, 0.3, 0.3), (0.3, 0.3, 0.3)]), "other work has come");
    }

    #[test]
    fn a_trial_costs_what_it_loses_against_the_way_in_use_before_and_after() {
        let window = |speed| Window { speed, elapsed_ns: 10e6, ..Window::default() };
        let mut trial = Trial::of(1, 1.0);
        trial.takes(&window(0.6), f64::INFINITY);
        assert!((trial.lost_ns() - 4e6).abs() < 1.0, "more is not known yet");
        // Other work has come: the way in use is no faster either.
        trial.pairs_up(0.6, 0.5);
        assert!((trial.lost_ns() - 2e6).abs() < 1.0);
        // And goes while the challenger is slower than it looks.
        trial.before = 0.5;
        trial.takes(&window(0.75), f64::INFINITY);
        trial.pairs_up(0.75, 1.0);
        assert!((trial.lost_ns() - 2e6).abs() < 1.0);
        trial.takes(&window(0.0), 1e6);
        assert!((trial.lost_ns() - 3e6).abs() < 1.0, "the load paused");
    }
}
