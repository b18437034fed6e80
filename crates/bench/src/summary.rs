//! Median and spread.

/// Of several samples the middle, and between which two the middle half lies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Half of the samples are below.
    pub median: f64,
    /// A quarter is below.
    pub low: f64,
    /// A quarter is above.
    pub high: f64,
}

impl Summary {
    /// Of at least one sample.
    ///
    /// # Panics
    /// Without samples.
    #[must_use]
    pub fn of(samples: &[f64]) -> Summary {
        assert!(!samples.is_empty(), "there is nothing to sum up");
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (sorted.len() - 1) as f64;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Summary { median: at(0.5), low: at(0.25), high: at(0.75) }
    }

    /// Half of the distance of the quartiles over the median, as a share.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.median }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_the_textbook() {
        let summary = Summary::of(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(summary, Summary { median: 3.0, low: 2.0, high: 4.0 });
        assert_eq!(Summary::of(&[1.0, 2.0]).median, 1.5);
        assert_eq!(Summary::of(&[7.0]), Summary { median: 7.0, low: 7.0, high: 7.0 });
        assert!((summary.spread() - 1.0 / 3.0).abs() < 1e-9);
    }
}
