//! By how much windows of one way differ among themselves, and how long they
//! have to be for that.

use super::long::Long;

/// Least and most of what a pair is expected to deviate by.
const NOISE: [f64; 2] = [0.01, 0.5];
/// What two windows are taken to differ by before any is seen.
const FIRST: f64 = 0.04;
/// So many differences are looked at, of which so many are smaller than the one
/// that counts; and how many deviations that is, as chance goes. Other work
/// that comes or goes makes some windows differ by much, which says nothing of
/// those that lie beside each other while it stays.
const DIFFERENCES: usize = 16;
const SMALLER: usize = 9;
const DEVIATIONS: f64 = 0.84;
/// Below such a variance sizes are all alike.
const VARIANCE_LEAST: f64 = 1e-4;
/// Windows' mean sizes that differ by more than this factor do so for a reason.
const CHANCE_MAX: f64 = 1.4;
/// One pair of windows tells of no more spread than this.
const SPREAD_MAX: f64 = 16.0;
/// Where the mean size of batches is another by so much, a logarithm, it is
/// another load, and says nothing of how sizes spread.
const LARGER: f64 = 1.4;
/// How much a new pair of windows counts.
const WEIGHT: f64 = 0.125;
/// Noise from which on windows become longer, and below which shorter, by
/// which factors.
const LENGTHENS: (f64, f64) = (0.06, 1.25);
const SHORTENS: (f64, f64) = (0.02, 1.5);
/// Longest window over the shortest.
const LENGTH_MAX: f64 = 4.0;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// Speed of the last window, and work of its batches in the mean.
    latest: (f64, f64),
    /// Of what two windows differ by in both, as logarithms: mean product, and
    /// mean square of the latter.
    covariance: f64,
    variance: f64,
    /// Variance of the batches' work, over the square of its mean.
    spread: f64,
    /// What each window differed by from the one before: logarithms.
    differences: [f64; DIFFERENCES],
    /// Where the next is put.
    next: usize,
    /// What two windows differ by, as a rule.
    difference: f64,
    length: f64,
    long: Long,
}

impl Default for Noise {
    fn default() -> Noise {
        Noise {
            latest: (0.0, 0.0),
            covariance: 0.0,
            variance: 0.0,
            spread: 0.0,
            differences: [FIRST * DEVIATIONS; DIFFERENCES],
            next: 0,
            difference: FIRST,
            length: 1.0,
            long: Long::default(),
        }
    }
}

impl Noise {
    /// What a pair deviates by, as a rule: one window against the mean of
    /// two, where two windows were measured against each other.
    pub(super) fn of_pair(&self) -> f64 {
        (0.75f64.sqrt() * self.difference).clamp(NOISE[0], NOISE[1])
    }

    /// A window's length over the shortest.
    pub(super) fn length(&self) -> f64 {
        self.length
    }

    /// The next window should be short.
    pub(super) fn hurries(&mut self) {
        self.length = 1.0;
    }

    /// The power of the batches' mean work to which the speed of windows goes,
    /// where loads have large and small ones: 0 where each costs the same, 1
    /// where the number of batches does not matter.
    fn slope(&self) -> f64 {
        (self.covariance / (self.variance + VARIANCE_LEAST)).clamp(0.0, 1.0)
    }

    /// A window's speed, as it would be if its batches were `usual` in the mean
    /// and not `work`.
    pub(super) fn evened(&self, speed: f64, work: f64, usual: f64) -> f64 {
        let chance = (usual / work.max(1.0)).clamp(1.0 / CHANCE_MAX, CHANCE_MAX);
        speed * chance.powf(self.slope())
    }

    /// How many batches say as much as one does where all are alike. What the
    /// mean sizes of two windows differ by tells of how those of batches do.
    pub(super) fn batches_for_one(&self) -> f64 {
        1.0 + self.spread
    }

    /// A window of the way in use: its speed, the work of its batches in the
    /// mean, and how many they were.
    pub(super) fn measures(&mut self, speed: f64, work: f64, batches: f64) {
        let before = std::mem::replace(&mut self.latest, (speed, work));
        if before.0 > 0.0 && speed > 0.0 && before.1 > 0.0 && work > 0.0 {
            let (faster, larger) = ((speed / before.0).ln(), (work / before.1).ln());
            self.covariance += (faster * larger - self.covariance) * WEIGHT;
            self.variance += (larger * larger - self.variance) * WEIGHT;
            let spread = if larger.abs() < LARGER { batches * larger * larger / 2.0 } else { 0.0 };
            self.spread += (spread.min(SPREAD_MAX) - self.spread) * WEIGHT;
            self.differs((faster - self.slope() * larger).abs());
        }
        self.lengthens(speed);
    }

    /// Finds how long windows have to be, after one with this speed.
    fn lengthens(&mut self, speed: f64) {
        if self.length == 1.0 {
            self.long.sees_short(speed);
        }
        let may_be_longer = self.length > 1.0 || self.long.would_differ_by_less(self.difference);
        if self.of_pair() > LENGTHENS.0 && may_be_longer {
            self.length = (self.length * LENGTHENS.1).min(LENGTH_MAX);
        } else if self.of_pair() < SHORTENS.0 {
            self.length = (self.length / SHORTENS.1).max(1.0);
        }
        if self.length > 1.0 && self.long.sees_long(self.length == LENGTH_MAX, self.of_pair()) {
            // What was learned of sizes holds.
            let Noise { latest, covariance, variance, spread, .. } = *self;
            *self = Noise { latest, covariance, variance, spread, ..Noise::default() };
        }
    }

    /// Takes in what a window differed by from the one before.
    fn differs(&mut self, difference: f64) {
        self.differences[self.next] = difference;
        self.next = (self.next + 1) % DIFFERENCES;
        let mut sorted = self.differences;
        let (_, rule, _) = sorted.select_nth_unstable_by(SMALLER, f64::total_cmp);
        self.difference = *rule / DEVIATIONS;
    }
}
