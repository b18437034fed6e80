//! Times of two sides taken in pairs, and what one costs over the other.

use std::time::Duration;

/// Pairs of times, in the order in which they were taken.
#[derive(Default)]
pub(super) struct Pairs(Vec<(f64, f64)>);

/// Percent that the first side takes longer.
pub(super) struct Cost {
    pub(super) median: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
}

impl Pairs {
    pub(super) fn push(&mut self, with: Duration, without: Duration) {
        self.0.push((with.as_secs_f64(), without.as_secs_f64()));
    }

    /// Seconds of the first side.
    pub(super) fn with(&self) -> Vec<f64> {
        self.0.iter().map(|pair| pair.0).collect()
    }

    /// Seconds of the second side.
    pub(super) fn without(&self) -> Vec<f64> {
        self.0.iter().map(|pair| pair.1).collect()
    }

    /// What the pairs say, each for itself: what slows the machine for a while slows both of a pair.
    pub(super) fn cost(&self) -> Cost {
        let mut costs: Vec<f64> =
            self.0.iter().map(|(with, without)| (with / without - 1.0) * 100.0).collect();
        costs.sort_by(f64::total_cmp);
        let (lowest, highest) = (costs.first().copied(), costs.last().copied());
        Cost { median: median(&costs), lowest: lowest.unwrap_or(0.0), highest: highest.unwrap_or(0.0) }
    }
}

/// The middle value, or the mean of the two in the middle; 0 of none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// A geometric mean, and the ends of its 95 % confidence interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) lower: f64,
    pub(super) mean: f64,
    pub(super) upper: f64,
}

/// Of positive ratios, at least two, by Student's t on their logarithms.
pub(super) fn interval(ratios: &[f64]) -> Interval {
    let count = ratios.len() as f64;
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares: f64 = logarithms.iter().map(|logarithm| (logarithm - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    let half = student_t(count - 1.0) * error;
    Interval { lower: (mean - half).exp(), mean: mean.exp(), upper: (mean + half).exp() }
}

/// The quantile 0.975 of Student's t; exact to a thousandth from 5 degrees of freedom. Source: Abramowitz and
/// Stegun, 26.7.5.
pub(super) fn student_t(degrees: f64) -> f64 {
    let z: f64 = 1.959_964;
    let terms = [
        z,
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| sum / degrees + term)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_students_t() {
        // Tables say 2.045 for 29 degrees of freedom and 2.571 for 5.
        assert!((student_t(29.0) - 2.045).abs() < 0.001 && (student_t(5.0) - 2.571).abs() < 0.01);
        let found = interval(&[0.9, 1.0, 1.1, 1.0]);
        assert!((found.mean - 0.997).abs() < 0.001 && (found.lower - 0.876).abs() < 0.005, "{found:?}");
        assert!((found.lower * found.upper - found.mean.powi(2)).abs() < 1e-9);
        assert!((interval(&[2.0; 30]).lower - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_cost_is_that_of_the_pairs() {
        let mut pairs = Pairs::default();
        for (with, without) in [(11, 10), (30, 20), (105, 100)] {
            pairs.push(Duration::from_secs(with), Duration::from_secs(without));
        }
        let cost = pairs.cost();
        assert!((cost.median - 10.0).abs() < 1e-9);
        assert!((cost.lowest - 5.0).abs() < 1e-9 && (cost.highest - 50.0).abs() < 1e-9);
        assert!((median(&[1.0, 4.0]) - 2.5).abs() < 1e-9);
    }
}
