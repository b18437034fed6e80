//! What pairs of windows say of one way against another.

/// For how many pairs the deviation counts that is expected of one.
const PRIOR_PAIRS: f64 = 3.0;
/// So many times the error away from nothing is something.
const CONFIDENCE: f64 = 2.0;
/// For a way to be taken: pairs at least, and the same with one and with ever
/// more.
const PAIRS_LEAST: f64 = 2.0;
const CONFIDENT: [f64; 2] = [4.0, 1.5];
/// A pair that differs from the others by so much, and by four times their
/// deviation, is of another time: a logarithm.
const ANOTHER: f64 = 0.15;
/// So few others are not believed against it.
const FEW: f64 = 2.0;
/// And the others count for so many pairs then.
const OTHERS: f64 = 0.25;
/// After so many pairs windows begin to become longer. By how much they do when
/// pairs contradict each other, when a trial did not tell, and in all.
const PAIRS_LONGER: f64 = 3.0;
const CONTRADICTED: f64 = 2.0;
const UNDECIDED: f64 = 1.0;
const LONGER_MAX: f64 = 16.0;
/// A pair around which the way in use was not steady says no more than this.
const UNSTEADY: f64 = 1.1;
/// A pair says no more than this: a logarithm.
const RATIO_MAX: f64 = 0.5;

/// Logarithms of ratios of speeds: their mean and deviation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    pairs: f64,
    mean: f64,
    squares: f64,
    /// The last pair was far from all others.
    is_doubted: bool,
    /// How many more of the shortest windows one should be as long as, for what
    /// pairs did not tell.
    longer: f64,
}

impl Evidence {
    /// One more pair: the challenger's speed over that of the way in use.
    pub(super) fn add(&mut self, ratio: f64) {
        let seen = ratio.max(1e-9).ln().clamp(-RATIO_MAX, RATIO_MAX);
        if self.pairs > 0.0 && (seen - self.mean).abs() > ANOTHER.max(4.0 * self.deviation()) {
            // Once may be chance, of which the others are not to suffer.
            self.is_doubted = !self.is_doubted;
            if self.is_doubted && self.pairs > FEW {
                return;
            }
            self.fades(OTHERS);
            self.longer = (self.longer + CONTRADICTED).min(LONGER_MAX);
        } else {
            self.is_doubted = false;
        }
        self.pairs += 1.0;
        let away = seen - self.mean;
        self.mean += away / self.pairs;
        self.squares += away * (seen - self.mean);
    }

    /// All but how long windows should be.
    pub(super) fn forgets(&mut self) {
        *self = Evidence { longer: self.longer, ..Evidence::default() };
    }

    /// Of the way that this one is taken from: how long windows should be, and longer
    /// where that one was taken from this before, so that the pairs contradict.
    pub(super) fn of_other(&self, comes_back: bool) -> Evidence {
        let contradicted = if comes_back { CONTRADICTED } else { 0.0 };
        Evidence { longer: (self.longer + contradicted).min(LONGER_MAX), ..Evidence::default() }
    }

    /// A trial has not told which way is better.
    pub(super) fn undecided(&mut self) {
        self.longer = (self.longer + UNDECIDED).min(LONGER_MAX);
    }

    /// How many times as long as the shortest windows should be: what was not
    /// enough to tell, or said one thing and then another, tells more when one
    /// way leaves less to the other, in queues and in shares of the CPU.
    pub(super) fn length(&self) -> f64 {
        self.pairs / PAIRS_LONGER + self.longer
    }

    fn deviation(&self) -> f64 {
        (self.squares / self.pairs.max(1.0)).sqrt()
    }

    pub(super) fn pairs(&self) -> f64 {
        self.pairs
    }

    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// Of the mean, where a pair deviates by `noise` as a rule.
    fn error(&self, noise: f64) -> f64 {
        let squares = self.squares + PRIOR_PAIRS * noise * noise;
        let count = (self.pairs - 1.0).max(0.0) + PRIOR_PAIRS;
        (squares / count / self.pairs.max(1.0)).sqrt()
    }

    pub(super) fn is_worse(&self, noise: f64) -> bool {
        self.pairs > 0.0 && self.mean + CONFIDENCE * self.error(noise) < 0.0
    }

    /// By more than `least`.
    pub(super) fn is_better(&self, least: f64, noise: f64) -> bool {
        let confidence = CONFIDENT[1] + (CONFIDENT[0] - CONFIDENT[1]) / self.pairs.max(1.0);
        self.pairs >= PAIRS_LEAST && self.mean - confidence * self.error(noise) > least
    }

    /// By more than `least`, more likely than not.
    pub(super) fn is_likely(&self, least: f64, noise: f64) -> bool {
        self.mean - self.error(noise) > least
    }

    /// Counts for so many pairs at most.
    pub(super) fn fades(&mut self, pairs: f64) {
        if self.pairs > pairs {
            self.squares *= pairs / self.pairs;
            self.pairs = pairs;
        }
    }

    /// The same against a way that is this much faster: a logarithm. Where there is
    /// nothing there is nothing still.
    pub(super) fn against(&mut self, faster: f64) {
        if self.pairs > 0.0 {
            self.mean -= faster;
        }
    }
}

/// By how much a challenger's window was faster than those of the way in use
/// around it. Where that was not as fast after it as before, by this factor,
/// something else has come or gone meanwhile, or one way leaves to the other
/// what makes it faster: which of both, many such pairs tell. If it was slower
/// than both it is slower.
pub(super) fn compared(challenger: f64, (before, after): (f64, f64), factor: f64) -> f64 {
    let (slower, faster) = (before.min(after), before.max(after));
    let ratio = 2.0 * challenger / (before + after);
    if faster <= slower * factor {
        ratio
    } else if challenger < slower {
        challenger / slower
    } else {
        ratio.clamp(1.0 / UNSTEADY, UNSTEADY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_believed_when_there_is_enough() {
        let mut evidence = Evidence::default();
        assert!(!evidence.is_worse(0.02) && !evidence.is_better(0.0, 0.02));
        evidence.add(1.02);
        assert!(!evidence.is_better(0.0, 0.001), "one may be chance");
        evidence.add(1.02);
        assert!(!evidence.is_better(0.0, 0.02) && evidence.is_better(0.0, 0.005));
        for ratio in [1.01, 1.03, 1.01, 1.03] {
            evidence.add(ratio);
        }
        assert!(evidence.is_better(0.002, 0.02) && (evidence.mean() - 0.02).abs() < 0.001);
        evidence.against(0.1);
        assert!(evidence.is_worse(0.02));
        // Once may be chance.
        let before = evidence.mean();
        evidence.add(1.4);
        assert!(evidence.is_worse(0.02) && evidence.mean() == before, "{evidence:?}");
        // Twice is another time: the old pairs count for little.
        evidence.add(1.4);
        assert!(evidence.pairs() < 2.5 && evidence.mean() > 0.1, "{evidence:?}");
        // Of what was never tried nothing is known, whatever the others do.
        let mut untried = Evidence::default();
        untried.against(0.3);
        assert_eq!(untried.mean(), 0.0);
    }

    #[test]
    fn what_does_not_tell_makes_windows_longer_until_the_ways_are_new() {
        let mut evidence = Evidence::default();
        assert!(evidence.length() < 1.0);
        for _ in 0..3 {
            evidence.add(1.0);
        }
        assert_eq!(evidence.length(), 1.0);
        evidence.undecided();
        assert_eq!(evidence.length(), 1.0 + UNDECIDED);
        evidence.add(1.5);
        evidence.add(1.5);
        assert!(evidence.length() > UNDECIDED + CONTRADICTED, "{evidence:?}");
        evidence.forgets();
        assert_eq!((evidence.pairs(), evidence.length()), (0.0, UNDECIDED + CONTRADICTED));
        let other = evidence.of_other(false);
        assert_eq!((other.pairs(), other.length()), (0.0, UNDECIDED + CONTRADICTED));
        assert_eq!(evidence.of_other(true).length(), UNDECIDED + 2.0 * CONTRADICTED);
        (0..99).for_each(|_| evidence.undecided());
        assert_eq!(evidence.length(), LONGER_MAX);
    }

    #[test]
    fn a_pair_around_which_nothing_was_steady_says_little_unless_it_is_slower_than_both() {
        assert_eq!(compared(0.55, (1.0, 1.2), 1.3), 0.5);
        assert_eq!(compared(1.5, (1.0, 2.0), 1.3), 1.0);
        assert_eq!(compared(0.1, (2.0, 1.0), 1.3), 0.1);
        assert_eq!(compared(2.5, (1.0, 2.0), 1.3), UNSTEADY);
    }
}
