//! By how much windows of one way differ among themselves, and how long they
//! have to be for that.

/// Least and most of what a pair is expected to deviate by.
const NOISE: [f64; 2] = [0.01, 0.5];
/// Mean square of the differences before any is seen.
const FIRST: f64 = 0.0016;
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
    /// Speed of the last window.
    latest: f64,
    /// Mean square of what two windows differ by, as logarithms.
    square: f64,
    length: f64,
}

impl Default for Noise {
    fn default() -> Noise {
        Noise { latest: 0.0, square: FIRST, length: 1.0 }
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

    /// A window of the way in use.
    pub(super) fn measures(&mut self, speed: f64) {
        let before = std::mem::replace(&mut self.latest, speed);
        if before > 0.0 && speed > 0.0 {
            let differs = (speed / before).ln().clamp(-DIFFERENCE_MAX, DIFFERENCE_MAX);
            self.square += (differs * differs - self.square) * WEIGHT;
        }
        if self.of_pair() > LENGTHENS.0 {
            self.length = (self.length * LENGTHENS.1).min(LENGTH_MAX);
        } else if self.of_pair() < SHORTENS.0 {
            self.length = (self.length / SHORTENS.1).max(1.0);
        }
    }
}
