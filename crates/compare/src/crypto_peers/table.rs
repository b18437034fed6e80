//! What a comparison came to.

use std::fmt::Write as _;

use super::peer::Sample;
use crate::result::{Document, Table};
use crate::statistics::{median, quantile};
use strongroom_harness::failure::{Failure, Result};

/// One row.
pub(super) struct Comparison {
    name: String,
    target_percent: Option<u32>,
    /// Bytes per second, medians.
    ours: f64,
    best: (String, f64),
    /// Ours over the best's, round by round: median and quartiles.
    ratio: [f64; 3],
    medians: Vec<(String, f64)>,
    /// Bytes per second, in every round.
    rates: Vec<(String, Vec<f64>)>,
}

/// Ours against whichever of the others has the highest median.
pub(super) fn summed_up(
    name: String,
    target_percent: Option<u32>,
    measured: &[(String, bool, &[Sample])],
) -> Result<Comparison> {
    let rates =
        |samples: &[Sample]| -> Vec<f64> { samples.iter().map(|sample| sample.bytes_per_second).collect() };
    let medians: Vec<(String, f64)> =
        measured.iter().map(|(name, _, samples)| (name.clone(), median(&rates(samples)))).collect();
    let ours = measured.iter().position(|(_, is_ours, _)| *is_ours);
    let others = measured.iter().enumerate().filter(|(_, (_, is_ours, _))| !is_ours).map(|(at, _)| at);
    let best = others.max_by(|one, other| medians[*one].1.total_cmp(&medians[*other].1));
    let (Some(ours), Some(best)) = (ours, best) else {
        return Err(Failure::new(format!("{name}: there are not two sides")));
    };
    let pairs = rates(measured[ours].2).into_iter().zip(rates(measured[best].2));
    let ratios: Vec<f64> = pairs.map(|(ours, best)| ours / best).collect();
    Ok(Comparison {
        name,
        target_percent,
        ours: medians[ours].1,
        best: medians[best].clone(),
        ratio: [median(&ratios), quantile(&ratios, 0.25), quantile(&ratios, 0.75)],
        medians,
        rates: measured.iter().map(|(name, _, samples)| (name.clone(), rates(samples))).collect(),
    })
}

impl Comparison {
    fn target(&self) -> Option<f64> {
        self.target_percent.map(|percent| f64::from(percent) / 100.0)
    }

    fn verdict(&self) -> &'static str {
        match self.target() {
            None => "",
            Some(target) if self.ratio[0] >= target => "reached",
            Some(_) => "**missed**",
        }
    }

    /// For the terminal, while the others are measured.
    pub(super) fn line(&self) -> String {
        let [middle, low, high] = self.ratio;
        let mut line = format!("{:<32} {middle:>6.2} ({low:.2} to {high:.2})", self.name);
        if let Some(target) = self.target() {
            let _ = write!(line, "  target {target:.2} {}", self.verdict());
        }
        for (name, rate) in &self.medians {
            let _ = write!(line, "  {name} {:.2}", rate / 1e9);
        }
        line
    }

    pub(super) fn missed(&self) -> Option<String> {
        let target = self.target().filter(|target| self.ratio[0] < *target)?;
        Some(format!("{}: {:.2} of {}, target {target:.2}", self.name, self.ratio[0], self.best.0))
    }

    /// Every library's rates.
    pub(super) fn sample(&self, document: &mut Document) {
        for (name, rates) in &self.rates {
            document.sample(&self.name, name, "bytes_per_second", rates.clone());
        }
    }
}

/// All rows.
pub(super) fn table(comparisons: &[Comparison], rounds: usize) -> Table {
    let title = format!(
        "64 KiB in cache, one CPU, {rounds} rounds: medians, and the quartiles of the rounds' ratios"
    );
    let columns = ["cipher", "ours, GB/s", "best other, GB/s", "ratio (quartiles)", "target"];
    let mut table = Table::new("peers", title, &columns);
    for comparison in comparisons {
        let [middle, low, high] = comparison.ratio;
        let (name, rate) = &comparison.best;
        table.push([
            comparison.name.clone(),
            format!("{:.2}", comparison.ours / 1e9),
            format!("{name} {:.2}", rate / 1e9),
            format!("{middle:.2} ({low:.2} to {high:.2})"),
            comparison
                .target()
                .map_or_else(String::new, |target| format!("{target:.2}, {}", comparison.verdict())),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(rates: &[f64]) -> Vec<Sample> {
        rates.iter().map(|rate| Sample { bytes_per_second: *rate, checksum: 0 }).collect()
    }

    #[test]
    fn ours_is_held_against_the_best() {
        let (ours, slow, fast) =
            (samples(&[9.0, 10.0, 11.0]), samples(&[1.0; 3]), samples(&[10.0, 10.0, 20.0]));
        let measured = [
            ("ours".to_owned(), true, ours.as_slice()),
            ("slow".to_owned(), false, slow.as_slice()),
            ("fast".to_owned(), false, fast.as_slice()),
        ];
        let found = summed_up("x".to_owned(), Some(95), &measured).expect("two sides");
        assert_eq!((found.best.0.as_str(), found.ratio[0], found.verdict()), ("fast", 0.9, "**missed**"));
        let low = summed_up("x".to_owned(), Some(90), &measured).expect("two sides");
        assert_eq!(low.verdict(), "reached");
        assert!(found.missed().is_some_and(|text| text.contains("0.90 of fast")) && low.missed().is_none());
        let mut document = Document::new("x", Vec::new());
        found.sample(&mut document);
        let samples = document.samples.unwrap_or_default();
        assert_eq!(samples.iter().map(|series| series.values.len()).collect::<Vec<_>>(), [3, 3, 3]);
        assert!(summed_up("x".to_owned(), None, &measured[..1]).is_err());
    }
}
