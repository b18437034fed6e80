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

#[cfg(test)]
mod tests {
    use super::*;

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
