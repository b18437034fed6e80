//! By how much windows of one way differ among themselves, and how long they
//! have to be for that.

use super::scales::Scales;
use super::window::Window;

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
/// What a window deviates by from the mean of two, over what two differ by.
const OF_PAIR: f64 = 0.866;
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
/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// Speed of the last window, and work of its batches in the mean; and of the
    /// last short one.
    latest: (f64, f64),
    latest_short: (f64, f64),
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
    scales: Scales,
}

impl Default for Noise {
    fn default() -> Noise {
        Noise {
            latest: (0.0, 0.0),
            latest_short: (0.0, 0.0),
            covariance: 0.0,
            variance: 0.0,
            spread: 0.0,
            differences: [FIRST * DEVIATIONS; DIFFERENCES],
            next: 0,
            difference: FIRST,
            scales: Scales::default(),
        }
    }
}

impl Noise {
    /// What a pair deviates by, as a rule: one window against the mean of
    /// two, where two windows were measured against each other.
    pub(super) fn of_pair(&self) -> f64 {
        (OF_PAIR * self.difference).clamp(NOISE[0], NOISE[1])
    }

    /// What windows differ by that are as long as this one is now, as far as is
    /// known.
    pub(super) fn of_length(&self, elapsed_ns: f64) -> f64 {
        self.scales.deviation(elapsed_ns)
    }

    /// How long a window should be, if a short one does not do.
    pub(super) fn length_ns(&self) -> Option<f64> {
        self.scales.length_ns()
    }

    /// The same over the shortest.
    pub(super) fn length(&self) -> f64 {
        self.scales.length()
    }

    /// The next window of the way in use will not come right after the last one.
    pub(super) fn breaks(&mut self) {
        self.scales.breaks();
    }

    /// The next window should be short.
    pub(super) fn hurries(&mut self) {
        self.scales.hurries();
    }

    /// Another way is in use.
    pub(super) fn another_way(&mut self) {
        self.scales.another_way();
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

    /// A short window of the way in use: its speed, the work of its batches in
    /// the mean and as a rule, how many they were, and how long it was.
    pub(super) fn measures_short(&mut self, window: &Window, usual: f64) {
        let (speed, work, batches) = (window.speed, window.load.work_ns, window.batches);
        let before = std::mem::replace(&mut self.latest_short, (speed, work));
        if let Some((faster, larger)) = changed(before, (speed, work)) {
            self.covariance += (faster * larger - self.covariance) * WEIGHT;
            self.variance += (larger * larger - self.variance) * WEIGHT;
            let spread = if larger.abs() < LARGER { batches * larger * larger / 2.0 } else { 0.0 };
            self.spread += (spread.min(SPREAD_MAX) - self.spread) * WEIGHT;
        }
        let evened = self.evened(speed, work, usual);
        if self.scales.sees(evened, window.elapsed_ns)
            && let Some(deviation) = self.scales.deviation_of_length()
        {
            self.difference = deviation / OF_PAIR;
            self.differences = [self.difference * DEVIATIONS; DIFFERENCES];
        }
    }

    /// A window of the way in use: its speed, and the work of its batches in the
    /// mean.
    pub(super) fn measures(&mut self, speed: f64, work: f64) {
        let before = std::mem::replace(&mut self.latest, (speed, work));
        if let Some((faster, larger)) = changed(before, (speed, work)) {
            self.differs((faster - self.slope() * larger).abs());
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

/// By how much the speed and the work of a batch changed, as logarithms, if both
/// are known.
fn changed(before: (f64, f64), now: (f64, f64)) -> Option<(f64, f64)> {
    let all = [before.0, before.1, now.0, now.1];
    all.iter().all(|number| *number > 0.0).then(|| ((now.0 / before.0).ln(), (now.1 / before.1).ln()))
}
