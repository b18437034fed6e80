//! From which size on a device is faster than the CPU, one batch at a time: as it is measured here, without a
//! scheduler, and as `strongroom tune` names it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use strongroom_engine::{Algorithm, Engine, NonceSource};

use crate::load::{Shape, median, operation, threads, turns};

/// What is measured beside each other: the CPU's engines and, last, a device.
pub(crate) struct Sides {
    pub(crate) cpu: Vec<Arc<dyn Engine>>,
    pub(crate) device: Arc<dyn Engine>,
}

/// How it is measured.
pub(crate) struct Subject<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_len: u8,
    /// Of the device, to `--engine`.
    pub(crate) name: &'a str,
    pub(crate) pairs: usize,
    pub(crate) seconds: f64,
}

/// A size with what the CPU's fastest engine and the device do there, in MB/s.
type Point = (f64, f64, f64);

impl Subject<'_> {
    /// Measures batches of 512 bytes to 1 MiB that are encrypted one after the other; from which size on the device is
    /// faster, if it is at any.
    pub(crate) fn measure(&self, Sides { mut cpu, device }: Sides) -> Option<f64> {
        let nonces = NonceSource::new().expect("entropy");
        let key: Vec<u8> = (0..self.key_len).collect();
        let operation = operation(self.algorithm);
        cpu.retain(|engine| engine.capability(self.algorithm, operation).is_some());
        let most = device.capability(self.algorithm, operation).expect("it has it").batch_bytes_max;
        let engines: Vec<_> = cpu.into_iter().chain([device]).collect();
        let open = |engine: &Arc<dyn Engine>| engine.session(self.algorithm, &key).expect("it has it");
        let sessions: Vec<_> = engines.iter().map(open).collect();
        println!("| bytes | CPU, MB/s | device, MB/s |\n|---|---|---|");
        let mut points = Vec::new();
        for bytes in (9..=20).map(|shift| 1 << shift).filter(|bytes| *bytes <= most) {
            let mut rates = vec![Vec::new(); engines.len()];
            for round in 0..=self.pairs {
                for at in turns(engines.len(), round) {
                    let shape =
                        Shape { bytes, segment: bytes.min(4096), in_flight: 1, seconds: self.seconds };
                    let rate = threads(&*engines[at], &sessions[at], &nonces, &shape, 1);
                    // The device learns in the first one.
                    if round > 0 {
                        rates[at].push(rate * bytes as f64 / 1e6);
                    }
                }
            }
            let mut rates: Vec<f64> = rates.into_iter().map(median).collect();
            let device = rates.pop().expect("it is the last");
            let cpu = rates.into_iter().fold(0.0, f64::max);
            println!("| {bytes} | {cpu:.1} | {device:.1} |");
            points.push((bytes as f64, cpu, device));
        }
        crossing(&points)
    }

    /// What `tune` of this program says, with this word for the engines.
    pub(crate) fn named(&self, program: &Path, engines: &str) -> Option<f64> {
        let algorithm = self.algorithm.to_string();
        let mut tune = Command::new(program);
        tune.args(["tune", &algorithm, "--engine", engines, "--dry-run", "--json"]);
        let told = tune.output().expect("the program runs");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let sentence = told.lines().find(|line| line.trim_start().starts_with(&format!("\"{algorithm}. ")));
        let sentence = sentence.expect("`tune` tells of each algorithm");
        println!("{}", sentence.trim().trim_matches([',', '"']));
        self.words(sentence)
    }

    /// The size that a sentence of `tune` has.
    fn words(&self, sentence: &str) -> Option<f64> {
        let verb = if matches!(self.algorithm, Algorithm::Sector(_)) { "encrypt: " } else { "seal: " };
        let rest = sentence.split_once(verb)?.1;
        if rest.starts_with(self.name) {
            // It measures from this size on.
            return Some(512.0);
        }
        let (size, _) = rest.split_once(&format!("{} from ", self.name))?.1.split_once(" on")?;
        let (count, unit) = size.split_once(' ')?;
        let unit = ["B", "KiB", "MiB"].iter().position(|known| *known == unit)?;
        Some(count.parse::<f64>().ok()? * f64::from(1 << (10 * unit)))
    }

    /// What was measured, in words, beside what `tune` says, if it was asked.
    pub(crate) fn compared(&self, named: Option<Option<f64>>, measured: Option<f64>) -> String {
        let name = self.name;
        let Some(named) = named else {
            return match measured {
                Some(bytes) => format!("{name} is faster from {bytes:.0} bytes on"),
                None => format!("{name} is faster at no size"),
            };
        };
        match (named, measured) {
            (Some(named), Some(measured)) => format!(
                "{name}: the crossover is {named:.0} bytes to `tune` and {measured:.0} measured, {:.2} times apart",
                f64::max(named / measured, measured / named)
            ),
            (None, None) => format!("{name}: it is faster at no size, to `tune` and measured"),
            (Some(named), None) => {
                format!("{name}: the crossover is {named:.0} bytes to `tune`, and it was faster at no size")
            }
            (None, Some(measured)) => {
                format!("{name}: `tune` names no crossover, and {measured:.0} bytes were measured")
            }
        }
    }
}

/// From which size on the device stays faster: between two that were measured, where lines through the times of both
/// cross. Of the smallest one itself where it is faster there.
fn crossing(points: &[Point]) -> Option<f64> {
    let slower = points.iter().rposition(|(_, cpu, device)| device <= cpu);
    let Some(slower) = slower else { return points.first().map(|(bytes, ..)| *bytes) };
    let lead = |(bytes, cpu, device): Point| bytes / cpu - bytes / device;
    let (before, after) = (points[slower], *points.get(slower + 1)?);
    let share = -lead(before) / (lead(after) - lead(before));
    Some(before.0 + share * (after.0 - before.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossovers_are_read_from_what_tune_says() {
        let of = |algorithm: &str| Subject {
            algorithm: algorithm.parse().expect("known"),
            key_len: 32,
            name: "d:1",
            pairs: 1,
            seconds: 1.0,
        };
        let cbc = of("aes-cbc-plain64");
        let said = |encrypt: &str| {
            cbc.words(&format!("\"aes-cbc-plain64. decrypt: a, d:1 from 1 MiB on; encrypt: {encrypt}.\""))
        };
        assert_eq!(said("a, d:1 from 16 KiB on, 0.1 GB/s at 64 KiB"), Some(16384.0));
        assert_eq!(said("a, d:1 from 1.5 KiB on, b from 16 KiB on"), Some(1536.0));
        assert_eq!((said("a, 0.1 GB/s at 64 KiB"), said("d:1, 0.1 GB/s")), (None, Some(512.0)));
        assert_eq!(of("xaes-256-gcm").words("open: d:1; seal: a, d:1 from 700 B on"), Some(700.0));
        let told = cbc.compared(Some(Some(16384.0)), Some(10000.0));
        assert_eq!(told, "d:1: the crossover is 16384 bytes to `tune` and 10000 measured, 1.64 times apart");
    }

    #[test]
    fn lines_cross_between_two_sizes() {
        // 5 ns a byte beside 32 us and 1 ns a byte.
        let point = |bytes: f64| (bytes, 1e3 / 5.0, bytes * 1e3 / (32_000.0 + bytes));
        assert_eq!(crossing(&[4096.0, 16384.0].map(point)).map(f64::round), Some(8000.0));
        assert_eq!(crossing(&[512.0, 4096.0].map(point)), None);
        assert_eq!(crossing(&[16384.0, 65536.0].map(point)), Some(16384.0));
    }
}
