//! What the turns of a piece of work come to.

use crate::placement::turn::{CPU, Lengths, SLICE, Sample, Side};
use crate::placement::work::Work;
use crate::result::{Document, Table};
use crate::statistics::{Ratio, geometric_mean, median};

/// What the lower bound has to reach.
pub(super) const FLOOR: f64 = 0.95;

/// The samples of one piece of work, for each side those of all rounds.
pub(super) struct Measured {
    pub(super) work: &'static Work,
    pub(super) adaptive: Vec<Sample>,
    pub(super) cpu: Vec<Sample>,
    pub(super) device: Vec<Sample>,
    /// The engine that had two turns in each round, and the second of them.
    pub(super) again: Side,
    pub(super) repeated: Vec<Sample>,
}

fn rates(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.rate).collect()
}

fn rate(samples: &[Sample]) -> f64 {
    median(&rates(samples))
}

fn over(ones: &[Sample], others: &[Sample]) -> Ratio {
    let ratios: Vec<f64> = ones.iter().zip(others).map(|(one, other)| one.rate / other.rate).collect();
    Ratio::of(&ratios).expect("there are at least two rounds")
}

impl Measured {
    /// The engine that is best alone.
    fn best(&self) -> &[Sample] {
        if rate(&self.cpu) >= rate(&self.device) { &self.cpu } else { &self.device }
    }

    fn ratio(&self) -> Ratio {
        over(&self.adaptive, self.best())
    }

    /// An engine against itself.
    fn chance(&self) -> Ratio {
        over(&self.repeated, if self.again == CPU { &self.cpu } else { &self.device })
    }

    pub(super) fn is_met(&self) -> bool {
        self.ratio().low >= FLOOR
    }

    /// Turns that others disturbed whenever they were taken.
    fn disturbed(&self) -> usize {
        let samples = self.sides().into_iter().flat_map(|(_, samples)| samples);
        samples.filter(|sample| sample.is_disturbed()).count()
    }

    /// How many times the best engine's speed the adaptive side has in each slice after `set`.
    fn learning(&self) -> Vec<f64> {
        let pairs = || self.adaptive.iter().zip(self.best());
        let common = |(ours, best): (&Sample, &Sample)| ours.settling.len().min(best.settling.len());
        let at = |at: usize| pairs().map(move |(ours, best)| ours.settling[at] / best.settling[at]);
        let slices = pairs().map(common).min().unwrap_or(0);
        (0..slices).map(|slice| geometric_mean(&at(slice).collect::<Vec<_>>())).collect()
    }

    fn sides(&self) -> [(&'static str, &[Sample]); 4] {
        [
            ("adaptive", &self.adaptive),
            ("cpu", &self.cpu),
            ("device", &self.device),
            (if self.again == CPU { "cpu again" } else { "device again" }, &self.repeated),
        ]
    }
}

/// Tables, and the samples of all turns.
pub(super) fn document(
    version: String,
    measured: &[Measured],
    rounds: usize,
    lengths: Lengths,
    is_judged: bool,
) -> Document {
    let mut document = Document::new("placement", vec![version]);
    document.tables =
        vec![ratios(measured, rounds, lengths, is_judged), placed(measured), learning(measured)];
    for one in measured {
        for (side, samples) in one.sides() {
            let of = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).collect::<Vec<f64>>();
            let key = one.work.key;
            document.sample(key, side, "bytes_per_second", of(&|sample| sample.rate));
            document.sample(key, side, "cpus of others", of(&|sample| sample.others));
            document.sample(key, side, "batches on the cpu", of(&|sample| sample.placed.batches[0]));
            document.sample(key, side, "batches on the device", of(&|sample| sample.placed.batches[1]));
            document.sample(key, side, "bytes on the cpu", of(&|sample| sample.placed.bytes[0]));
            document.sample(key, side, "bytes on the device", of(&|sample| sample.placed.bytes[1]));
            let slices = samples.iter().map(|sample| sample.settling.len()).min().unwrap_or(0);
            for slice in 0..slices {
                let quantity = format!("bytes_per_second in slice {slice} before");
                document.sample(key, side, &quantity, of(&|sample| sample.settling[slice]));
            }
        }
    }
    document
}

fn ratios(measured: &[Measured], rounds: usize, lengths: Lengths, is_judged: bool) -> Table {
    let title = format!(
        "{rounds} rounds, turns of {} ms after {} ms that are not measured; MB/s of 10^6 bytes, medians",
        lengths.measured.as_millis(),
        lengths.settle.as_millis()
    );
    let columns = [
        "work",
        "CPU alone",
        "device alone",
        "adaptive",
        "adaptive over the best (95 %)",
        "floor",
        "an engine over itself (95 %)",
        "disturbed turns",
    ];
    let mut table = Table::new("ratios", title, &columns);
    for one in measured {
        let mark = if one.is_met() || !is_judged { "" } else { ", **missed**" };
        let megabytes = |samples| format!("{:.0}", rate(samples) / 1e6);
        table.push([
            one.work.title.into(),
            megabytes(&one.cpu),
            megabytes(&one.device),
            megabytes(&one.adaptive),
            interval_text(one.ratio()),
            format!("{FLOOR}{mark}"),
            interval_text(one.chance()),
            format!("{} of {}", one.disturbed(), rounds * one.sides().len()),
        ]);
    }
    table
}

fn placed(measured: &[Measured]) -> Table {
    let columns = ["work", "side", "batches on the CPU in a turn", "on the device", "bytes on the device"];
    let mut table = Table::new("placed", "Where each side computed: medians, least and most", &columns);
    for one in measured {
        for (name, samples) in one.sides() {
            let [cpu, device, bytes] = placed_cells(samples);
            table.push([one.work.title.into(), name.into(), cpu, device, bytes]);
        }
    }
    table
}

fn learning(measured: &[Measured]) -> Table {
    let title =
        format!("The adaptive policy over the best engine in each {} ms from `set` on", SLICE.as_millis());
    let mut table = Table::new("learning", title, &["work", "ratios"]);
    for one in measured {
        let shares: Vec<String> = one.learning().iter().map(|share| format!("{share:.2}")).collect();
        table.push([one.work.title.into(), shares.join(", ")]);
    }
    table
}

fn interval_text(ratio: Ratio) -> String {
    format!("{:.3} ({:.3}-{:.3})", ratio.mean, ratio.low, ratio.high)
}

/// Medians over the turns, least and most.
fn placed_cells(samples: &[Sample]) -> [String; 3] {
    let text = |of: &dyn Fn(&Sample) -> f64, unit: &str| {
        let values: Vec<f64> = samples.iter().map(of).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        format!("{:.0}{unit} ({least:.0}-{most:.0})", median(&values))
    };
    [
        text(&|sample| sample.placed.batches[0], ""),
        text(&|sample| sample.placed.batches[1], ""),
        text(&|sample| sample.placed.on_device() * 100.0, " %"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::turn::{DEVICE, Placed};
    use crate::placement::work::WORK;

    fn samples(rates: [f64; 3], settling: &[f64]) -> Vec<Sample> {
        let sample =
            |rate| Sample { rate, others: 0.0, placed: Placed::default(), settling: settling.to_vec() };
        rates.map(sample).to_vec()
    }

    fn measured(adaptive: [f64; 3]) -> Measured {
        Measured {
            work: &WORK[0],
            adaptive: samples(adaptive, &[50.0, 80.0, 99.0, 101.0]),
            cpu: samples([100.0, 50.0, 200.0], &[]),
            device: samples([90.0, 45.0, 300.0], &[]),
            again: DEVICE,
            repeated: samples([99.0, 49.5, 330.0], &[]),
        }
    }

    #[test]
    fn a_round_is_compared_with_itself_and_the_best_engine_with_all_rounds() {
        let alike = measured([100.0, 50.0, 200.0]);
        assert!((alike.ratio().low - 1.0).abs() < 1e-9 && alike.is_met());
        assert!((alike.chance().mean - 1.1).abs() < 1e-9);
        let behind = measured([94.0, 47.0, 188.0]);
        assert!((behind.ratio().mean - 0.94).abs() < 1e-9 && !behind.is_met());
    }

    #[test]
    fn learning_is_seen_in_the_slices_that_both_sides_have() {
        let mut alike = measured([100.0; 3]);
        alike.cpu = samples([100.0; 3], &[100.0, 100.0, 99.0]);
        assert!(alike.learning().iter().zip([0.5, 0.8, 1.0]).all(|(seen, is)| (seen - is).abs() < 1e-9));
        assert_eq!(alike.learning().len(), 3);
    }

    #[test]
    fn every_turn_is_in_the_document() {
        let lengths = Lengths { settle: SLICE * 4, measured: SLICE };
        let document = document("strongroom 1".into(), &[measured([94.0, 47.0, 188.0])], 3, lengths, true);
        assert_eq!(document.tables[0].rows[0][5], "0.95, **missed**");
        assert_eq!(document.tables.iter().map(|table| table.rows.len()).collect::<Vec<_>>(), [1, 4, 1]);
        let samples = document.samples.unwrap_or_default();
        // Six quantities of each of four sides, and four slices of the one that has them.
        assert_eq!(samples.len(), 4 * 6 + 4);
        assert!(samples.iter().all(|series| series.values.len() == 3));
    }
}
