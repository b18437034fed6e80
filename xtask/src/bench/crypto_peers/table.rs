//! What a comparison came to.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::peer::Sample;
use crate::bench::ratio::median;
use crate::failure::{Failure, Result};

/// One row.
pub(super) struct Comparison {
    name: String,
    target_percent: Option<u32>,
    /// Bytes per second, medians.
    ours: f64,
    best: (String, f64),
    /// Ours over the best's, round by round: median and quartiles.
    ratio: [f64; 3],
    rates: Vec<(String, f64)>,
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
    let mut ratios: Vec<f64> = pairs.map(|(ours, best)| ours / best).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
    Ok(Comparison {
        name,
        target_percent,
        ours: medians[ours].1,
        best: medians[best].clone(),
        ratio: [median(&ratios), at(0.25), at(0.75)],
        rates: medians,
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
            Some(_) => "MISSED",
        }
    }

    /// For the terminal, while the others are measured.
    pub(super) fn line(&self) -> String {
        let [middle, low, high] = self.ratio;
        let mut line = format!("{:<32} {middle:>6.2} ({low:.2} to {high:.2})", self.name);
        if let Some(target) = self.target() {
            let _ = write!(line, "  target {target:.2} {}", self.verdict());
        }
        for (name, rate) in &self.rates {
            let _ = write!(line, "  {name} {:.2}", rate / 1e9);
        }
        line
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "target": self.target(),
            "ratio": self.ratio[0],
            "ratio_low": self.ratio[1],
            "ratio_high": self.ratio[2],
            "bytes_per_second": self.rates.iter().map(|(name, rate)| (name.clone(), json!(rate)))
                .collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// The table of docs/benchmarks.md.
pub(super) fn markdown(comparisons: &[Comparison]) -> String {
    let mut text = String::from(
        "| | ours, GB/s | best other, GB/s | ratio (quartiles) | target |\n|---|---|---|---|---|\n",
    );
    for comparison in comparisons {
        let [middle, low, high] = comparison.ratio;
        let target = comparison
            .target()
            .map_or_else(String::new, |target| format!("{target:.2}, {}", comparison.verdict()));
        let (name, rate) = &comparison.best;
        let _ = writeln!(
            text,
            "| {} | {:.2} | {name} {:.2} | {middle:.2} ({low:.2} to {high:.2}) | {target} |",
            comparison.name,
            comparison.ours / 1e9,
            rate / 1e9
        );
    }
    text
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
        assert_eq!((found.best.0.as_str(), found.ratio[0], found.verdict()), ("fast", 0.9, "MISSED"));
        let low = summed_up("x".to_owned(), Some(90), &measured).expect("two sides");
        assert_eq!(low.verdict(), "reached");
        assert!(summed_up("x".to_owned(), None, &measured[..1]).is_err());
    }
}
