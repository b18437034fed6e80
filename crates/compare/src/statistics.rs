//! Medians, spreads, means and ratios of what was measured in turn, for all benchmarks.

use std::time::Duration;

/// The middle value, or the mean of the two in the middle; 0 of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// The value below which this share of the values is; there has to be one.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// Half of what lies between the least and the most, in parts of the median.
pub(crate) fn half_spread(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (most - least) / 2.0 / median(values)
}

/// The geometric mean; `NaN` of none.
pub(crate) fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// How many times something is faster than something else: a geometric mean between its 95 % bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) low: f64,
    pub(crate) mean: f64,
    pub(crate) high: f64,
    pub(crate) count: usize,
    /// Standard error of the mean's logarithm; none of one sample.
    error: Option<f64>,
}

/// Two-sided 95 % quantiles of Student's t distribution, by degrees of freedom from 1.
const T_95: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086,
];

/// The quantile for at least one degree of freedom; a part of one counts as none, unless rounding took it.
fn student_t(degrees: f64) -> f64 {
    let degrees = degrees + 1e-6;
    T_95.get(degrees as usize - 1).copied().unwrap_or_else(|| student_t_of_many(degrees.floor()))
}

/// The quantile 0.975 of Student's t; exact to a thousandth from 5 degrees of freedom. Source: Abramowitz and
/// Stegun, 26.7.5.
fn student_t_of_many(degrees: f64) -> f64 {
    let z: f64 = 1.959_964;
    let terms = [
        z,
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| sum / degrees + term)
}

impl Ratio {
    /// Of the ratios of samples that were taken one after the other; their logarithms are taken for normally
    /// distributed. One alone has no bounds.
    pub(crate) fn of(ratios: &[f64]) -> Option<Self> {
        let count = ratios.len();
        let mean = geometric_mean(ratios);
        let error = (count > 1).then(|| {
            let squares: f64 = ratios.iter().map(|ratio| (ratio / mean).ln().powi(2)).sum();
            (squares / (count - 1) as f64 / count as f64).sqrt()
        });
        (count > 0).then(|| Self::between(mean, count, error, (count - 1) as f64))
    }

    /// The geometric mean of several, each measured for itself, so that their errors add up as squares. The
    /// degrees of freedom are those of Welch and Satterthwaite. No bounds where one of them has none.
    pub(crate) fn mean_of(parts: &[Self]) -> Option<Self> {
        let count = parts.len();
        let errors: Option<Vec<f64>> = parts.iter().map(|part| part.error).collect();
        let (error, degrees) = errors.map_or((None, 1.0), |errors| {
            let squares: f64 = errors.iter().map(|error| error.powi(2)).sum();
            let shares = errors.iter().zip(parts);
            let fourths: f64 = shares.map(|(error, part)| error.powi(4) / (part.count - 1) as f64).sum();
            let degrees = if fourths > 0.0 { squares.powi(2) / fourths } else { 1.0 };
            (Some(squares.sqrt() / count as f64), degrees)
        });
        let means: Vec<f64> = parts.iter().map(|part| part.mean).collect();
        (count > 0).then(|| Self::between(geometric_mean(&means), count, error, degrees))
    }

    fn between(mean: f64, count: usize, error: Option<f64>, degrees: f64) -> Self {
        let half = error.map_or(0.0, |error| student_t(degrees) * error);
        Self { low: mean * (-half).exp(), mean, high: mean * half.exp(), count, error }
    }

    pub(crate) fn has_bounds(&self) -> bool {
        self.error.is_some()
    }

    /// True when the target lies at or below the upper bound.
    pub(crate) fn reaches(&self, target: f64) -> bool {
        self.high >= target
    }

    /// True when what is allowed at most lies at or above the lower bound.
    pub(crate) fn stays_within(&self, most: f64) -> bool {
        self.low <= most
    }
}

/// Pairs of times, in the order in which they were taken.
#[derive(Default)]
pub(crate) struct Pairs(Vec<(f64, f64)>);

/// Percent that the first side takes longer.
pub(crate) struct Cost {
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

impl Pairs {
    pub(crate) fn push(&mut self, with: Duration, without: Duration) {
        self.0.push((with.as_secs_f64(), without.as_secs_f64()));
    }

    /// Seconds of the first side.
    pub(crate) fn with(&self) -> Vec<f64> {
        self.0.iter().map(|pair| pair.0).collect()
    }

    /// Seconds of the second side.
    pub(crate) fn without(&self) -> Vec<f64> {
        self.0.iter().map(|pair| pair.1).collect()
    }

    /// What the pairs say, each for itself: what slows the machine for a while slows both of a pair.
    pub(crate) fn cost(&self) -> Cost {
        let mut costs: Vec<f64> =
            self.0.iter().map(|(with, without)| (with / without - 1.0) * 100.0).collect();
        costs.sort_by(f64::total_cmp);
        let (lowest, highest) = (costs.first().copied(), costs.last().copied());
        Cost { median: median(&costs), lowest: lowest.unwrap_or(0.0), highest: highest.unwrap_or(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_spreads_and_means() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!((median(&[4.0, 1.0]), median(&[])), (2.5, 0.0));
        assert_eq!(
            [0.0, 0.25, 1.0].map(|share| quantile(&[5.0, 1.0, 2.0, 3.0, 4.0], share)),
            [1.0, 2.0, 5.0]
        );
        assert_eq!(half_spread(&[1.0, 2.0, 3.0]), 0.5);
        assert!((geometric_mean(&[2.0, 8.0]) - 4.0).abs() < 1e-12);
    }

    #[test]
    fn bounds_are_those_of_students_distribution() {
        // Logarithms 0.1, 0.2, 0.3: mean 0.2, deviation 0.1, so 4.303 x 0.1 / sqrt(3) to each side.
        let ratio = Ratio::of(&[0.1f64.exp(), 0.2f64.exp(), 0.3f64.exp()]).unwrap();
        assert!((ratio.mean.ln() - 0.2).abs() < 1e-9);
        assert!((ratio.high.ln() - 0.2 - 0.248_434).abs() < 1e-4);
        assert!((ratio.low.ln() - 0.2 + 0.248_434).abs() < 1e-4);
        assert!(ratio.reaches(1.5) && !ratio.reaches(1.6));
        assert!(ratio.stays_within(1.0) && !ratio.stays_within(0.9));
        let alone = Ratio::of(&[2.0]).unwrap();
        assert!(alone.high == 2.0 && !alone.has_bounds());
        assert_eq!(Ratio::of(&[]), None);
    }

    #[test]
    fn a_mean_of_means_has_the_errors_of_all() {
        // Errors of 0.1 / sqrt(3) each, with two degrees of freedom each: four together, half the squares.
        let parts = [0.2f64, 0.4]
            .map(|by| Ratio::of(&[(by - 0.1).exp(), by.exp(), (by + 0.1).exp()]).expect("there are samples"));
        let mean = Ratio::mean_of(&parts).unwrap();
        assert!((mean.mean.ln() - 0.3).abs() < 1e-9);
        assert!((mean.high.ln() - 0.3 - 2.776 * 0.1 / 6.0f64.sqrt()).abs() < 1e-4, "{mean:?}");
        assert_eq!(mean.count, 2);
        let alone = Ratio::of(&[2.0]).unwrap();
        assert!(!Ratio::mean_of(&[parts[0], alone]).unwrap().has_bounds());
        assert_eq!(Ratio::mean_of(&[]), None);
    }

    #[test]
    fn a_quantile_is_never_that_of_more_degrees_than_there_are() {
        assert_eq!((student_t(1.0), student_t(2.9), student_t(20.5)), (12.706, 4.303, 2.086));
        assert!((student_t(60.0) - 2.000).abs() < 1e-3);
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
    }
}
