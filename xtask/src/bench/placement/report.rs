//! What the turns of a piece of work come to, in words and for programs.

use serde_json::{Value, json};

use crate::bench::placement::turn::{CPU, Lengths, SLICE, Sample, Side};
use crate::bench::placement::work::Work;
use crate::bench::ratio::{Interval, interval, median};
use crate::bench::report::{commit, machine_line};

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

fn over(ones: &[Sample], others: &[Sample]) -> Interval {
    interval(&ones.iter().zip(others).map(|(one, other)| one.rate / other.rate).collect::<Vec<_>>())
}

impl Measured {
    /// The engine that is best alone.
    fn best(&self) -> &[Sample] {
        if rate(&self.cpu) >= rate(&self.device) { &self.cpu } else { &self.device }
    }

    fn ratio(&self) -> Interval {
        over(&self.adaptive, self.best())
    }

    /// An engine against itself.
    fn chance(&self) -> Interval {
        over(&self.repeated, if self.again == CPU { &self.cpu } else { &self.device })
    }

    pub(super) fn is_met(&self) -> bool {
        self.ratio().lower >= FLOOR
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
        (0..slices).map(|slice| interval(&at(slice).collect::<Vec<_>>()).mean).collect()
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

pub(super) fn print(measured: &[Measured], rounds: usize, lengths: Lengths, is_judged: bool) {
    println!("{}\n", machine_line());
    println!(
        "{rounds} rounds, turns of {} ms after {} ms that are not measured; MB/s of 10^6 bytes, medians\n",
        lengths.measured.as_millis(),
        lengths.settle.as_millis()
    );
    println!(
        "| work | CPU alone | device alone | adaptive | adaptive over the best (95 %) | floor | an engine over itself (95 %) | disturbed turns |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for one in measured {
        let mark = if one.is_met() || !is_judged { "" } else { " **missed**" };
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {} | {FLOOR}{mark} | {} | {} of {} |",
            one.work.title,
            rate(&one.cpu) / 1e6,
            rate(&one.device) / 1e6,
            rate(&one.adaptive) / 1e6,
            interval_text(one.ratio()),
            interval_text(one.chance()),
            one.disturbed(),
            rounds * one.sides().len()
        );
    }
    println!("\n| work | side | batches on the CPU in a turn | on the device | bytes on the device |");
    println!("|---|---|---|---|---|");
    for one in measured {
        for (name, samples) in one.sides() {
            println!("| {} | {name} | {} |", one.work.title, placed_text(samples));
        }
    }
    println!("\n| work | adaptive over the best in each {} ms from `set` on |\n|---|---|", SLICE.as_millis());
    for one in measured {
        let shares: Vec<String> = one.learning().iter().map(|share| format!("{share:.2}")).collect();
        println!("| {} | {} |", one.work.title, shares.join(", "));
    }
}

fn interval_text(interval: Interval) -> String {
    format!("{:.3} ({:.3}-{:.3})", interval.mean, interval.lower, interval.upper)
}

/// Medians over the turns, least and most.
fn placed_text(samples: &[Sample]) -> String {
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
    .join(" | ")
}

pub(super) fn json(measured: &[Measured], lengths: Lengths) -> Value {
    json!({
        "schema": "strongroom.bench.placement/2",
        "machine": machine_line(),
        "commit": commit(),
        "measured_ms": lengths.measured.as_millis() as u64,
        "settle_ms": lengths.settle.as_millis() as u64,
        "work": measured.iter().map(work_json).collect::<Vec<_>>(),
    })
}

fn work_json(one: &Measured) -> Value {
    let turn = |sample: &Sample| {
        json!({
            "bytes_per_second": sample.rate,
            "cpus_of_others": sample.others,
            "batches": sample.placed.batches,
            "bytes": sample.placed.bytes,
            "settling_bytes_per_second": sample.settling,
        })
    };
    let side = |(name, samples): (&str, &[Sample])| json!({"side": name, "turns": samples.iter().map(turn).collect::<Vec<_>>()});
    let interval = |interval: Interval| json!([interval.lower, interval.mean, interval.upper]);
    json!({
        "work": one.work.key,
        "engine": one.work.engine,
        "sides": one.sides().map(side),
        "adaptive_over_best": interval(one.ratio()),
        "engine_over_itself": interval(one.chance()),
        "adaptive_over_best_while_settling": one.learning(),
        "floor": FLOOR,
        "met": one.is_met(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::placement::turn::{DEVICE, Placed};
    use crate::bench::placement::work::WORK;

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
        assert!((alike.ratio().lower - 1.0).abs() < 1e-9 && alike.is_met());
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
}
