//! By how much windows of one way differ among themselves, and how long they
//! have to be for that.

/// Least and most of what a pair is expected to deviate by.
const NOISE: [f64; 2] = [0.01, 0.5];
/// Mean square of the differences before any is seen.
const FIRST: f64 = 0.0016;
/// Below such a variance sizes are all alike.
const VARIANCE_LEAST: f64 = 1e-4;
/// Windows' mean sizes that differ by more than this factor do so for a reason.
const CHANCE_MAX: f64 = 1.4;
/// How much a new pair of windows counts.
const WEIGHT: f64 = 0.125;
/// Two windows differ by no more than this: a logarithm.
const DIFFERENCE_MAX: f64 = 0.3;
/// Noise from which on windows become longer, and below which shorter, by
/// which factors.
const LENGTHENS: (f64, f64) = (0.06, 1.25);
const SHORTENS: (f64, f64) = (0.02, 1.5);
/// Longest window over the shortest.
const LENGTH_MAX: f64 = 8.0;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// Speed of the last window, and work of its batches in the mean.
    latest: (f64, f64),
    /// Of what two windows differ by in both, as logarithms: mean product, and
    /// mean square of the latter.
    covariance: f64,
    variance: f64,
    /// Mean square of what two windows differ by, as logarithms.
    square: f64,
    length: f64,
}

impl Default for Noise {
    fn default() -> Noise {
        Noise { latest: (0.0, 0.0), covariance: 0.0, variance: 0.0, square: FIRST, length: 1.0 }
    }
}

impl Noise {
    /// What a pair deviates by, as a rule: one window against the mean of
    /// two, where two windows were measured against each other.
    pub(super) fn of_pair(&self) -> f64 {
        (0.75 * self.square).sqrt().clamp(NOISE[0], NOISE[1])
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

    /// A window of the way in use: its speed, and the work of its batches in
    /// the mean.
    pub(super) fn measures(&mut self, speed: f64, work: f64) {
        let before = std::mem::replace(&mut self.latest, (speed, work));
        if before.0 > 0.0 && speed > 0.0 && before.1 > 0.0 && work > 0.0 {
            let (faster, larger) = ((speed / before.0).ln(), (work / before.1).ln());
            self.covariance += (faster * larger - self.covariance) * WEIGHT;
            self.variance += (larger * larger - self.variance) * WEIGHT;
            let differs = (faster - self.slope() * larger).clamp(-DIFFERENCE_MAX, DIFFERENCE_MAX);
            self.square += (differs * differs - self.square) * WEIGHT;
        }
        if self.of_pair() > LENGTHENS.0 {
            self.length = (self.length * LENGTHENS.1).min(LENGTH_MAX);
        } else if self.of_pair() < SHORTENS.0 {
            self.length = (self.length / SHORTENS.1).max(1.0);
        }
    }
}
