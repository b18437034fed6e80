//! Medians, spreads, and ratios of what was measured in turn.

/// The median; of an even count the mean of the two in the middle; `NaN` of none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

/// Half of what lies between the least and the most, in parts of the median.
pub(super) fn half_spread(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (most - least) / 2.0 / median(values)
}

/// The geometric mean; `NaN` of none.
pub(super) fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// How many times something is faster than something else: the geometric mean of the ratios of samples that
/// were taken one after the other, between its 95 % bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) low: f64,
    pub(super) mean: f64,
    pub(super) high: f64,
    pub(super) count: usize,
}

/// Two-sided 95 % quantiles of Student's t distribution, by degrees of freedom from 1.
const T_95: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086,
];

impl Ratio {
    /// From the ratios; their logarithms are taken for normally distributed. One alone has no bounds.
    pub(super) fn of(ratios: &[f64]) -> Option<Self> {
        let count = ratios.len();
        if count == 0 {
            return None;
        }
        let mean = geometric_mean(ratios);
        if count == 1 {
            return Some(Self { low: mean, mean, high: mean, count });
        }
        let variance =
            ratios.iter().map(|ratio| (ratio / mean).ln().powi(2)).sum::<f64>() / (count as f64 - 1.0);
        let quantile = T_95.get(count - 2).copied().unwrap_or(1.96);
        let half = quantile * (variance / count as f64).sqrt();
        Some(Self { low: mean * (-half).exp(), mean, high: mean * half.exp(), count })
    }

    /// True when the target lies at or below the upper bound.
    pub(super) fn reaches(&self, target: f64) -> bool {
        self.high >= target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_spreads_and_means() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
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
        assert_eq!(Ratio::of(&[2.0]).unwrap().high, 2.0);
        assert_eq!(Ratio::of(&[]), None);
    }
}
