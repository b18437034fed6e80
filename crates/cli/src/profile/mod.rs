//! What was measured of the engines on this machine, and what follows from it
//! for a mount. `docs/profile.md` is the description; [`mod@file`] keeps it,
//! [`crate::commands::tune`] makes it.

pub(crate) mod file;

use serde::{Deserialize, Serialize};
use strongroom_engine::{Algorithm, Operation, SectorCipher, SectorIv};
use strongroom_sched::{Seed, SeedPoint, Settings};

/// `schema` of the document.
pub(crate) const SCHEMA: &str = "strongroom.profile/1";

/// An engine is faster when it takes less than this share of the other's time.
const FASTER: f64 = 0.95;

/// See `docs/profile.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Profile {
    pub(crate) schema: String,
    pub(crate) version: String,
    pub(crate) measured: String,
    pub(crate) hardware: Hardware,
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) costs: Vec<EngineCosts>,
    pub(crate) break_even: Vec<DeviceBreakEven>,
    pub(crate) worthwhile: Vec<String>,
}

/// What a profile holds for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hardware {
    pub(crate) cpu: String,
    pub(crate) cpus: u64,
    pub(crate) engines: Vec<String>,
}

/// One case on one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) engine: String,
    pub(crate) algorithm: String,
    pub(crate) operation: String,
    /// While a busy thread ran on each CPU.
    pub(crate) loaded: bool,
    pub(crate) threads: u64,
    pub(crate) in_flight: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_per_second: f64,
    pub(crate) bytes_per_second_low: f64,
    pub(crate) bytes_per_second_high: f64,
    /// Time of a batch on a thread that does one after the other.
    pub(crate) batch_ns: f64,
    /// CPU time of a batch.
    pub(crate) cpu_ns: f64,
}

/// What a batch costs on an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EngineCosts {
    pub(crate) engine: String,
    pub(crate) algorithm: String,
    pub(crate) operation: String,
    pub(crate) fixed_ns: f64,
    pub(crate) per_byte_ns: f64,
    pub(crate) error: f64,
}

/// Where a device and the CPU break even.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeviceBreakEven {
    pub(crate) engine: String,
    pub(crate) algorithm: String,
    pub(crate) operation: String,
    /// Of the paper: batches in flight; none when the device is never faster.
    pub(crate) alpha: Option<u64>,
    /// Of the paper; none when the device is never faster.
    pub(crate) beta_bytes: Option<u64>,
    /// M of the paper.
    pub(crate) idle_cpu_percent: f64,
    pub(crate) feeding_cpus: f64,
}

/// What was looked for.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The profile, if it holds here.
    pub(crate) profile: Option<Profile>,
    /// Why one that is there is not taken.
    pub(crate) remark: Option<String>,
}

/// The stable name of an operation.
pub(crate) const fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Seal => "seal",
        Operation::Open => "open",
        Operation::Keystream => "keystream",
        Operation::EncryptSectors => "encrypt",
        Operation::DecryptSectors => "decrypt",
    }
}

fn operation(name: &str) -> Option<Operation> {
    [
        Operation::Seal,
        Operation::Open,
        Operation::Keystream,
        Operation::EncryptSectors,
        Operation::DecryptSectors,
    ]
    .into_iter()
    .find(|operation| operation_name(*operation) == name)
}

/// What is measured in place of an algorithm: the rule for IVs hardly counts.
pub(crate) fn measured_as(algorithm: Algorithm) -> Algorithm {
    match algorithm {
        Algorithm::Sector(sector) => Algorithm::Sector(SectorCipher { iv: SectorIv::Plain64, ..sector }),
        aead @ Algorithm::Aead(_) => aead,
    }
}

/// The first engine, and those that are faster than it somewhere when they
/// compute alone.
pub(crate) fn worthwhile(engines: &[(String, bool)], measurements: &[Measurement]) -> Vec<String> {
    let alone =
        || measurements.iter().filter(|found| !found.loaded && found.threads == 1 && found.in_flight == 1);
    let first = |of: &Measurement| {
        let same = |found: &&Measurement| {
            Some(&found.engine) == engines.first().map(|(name, _)| name)
                && (&found.algorithm, &found.operation, found.bytes)
                    == (&of.algorithm, &of.operation, of.bytes)
        };
        alone().find(same).map(|found| found.batch_ns)
    };
    let is_faster = |found: &Measurement| first(found).is_none_or(|first| found.batch_ns < FASTER * first);
    let is_kept = |(at, (name, inline)): &(usize, &(String, bool))| {
        *at == 0 || !inline || alone().any(|found| found.engine == *name && is_faster(found))
    };
    engines.iter().enumerate().filter(is_kept).map(|(_, (name, _))| name.clone()).collect()
}

/// Where the last line through two neighbours of these points leaves zero upwards. An
/// engine's times grow by a line as a rule, and so do the differences of two.
fn zero(points: &[(f64, f64)]) -> Option<u64> {
    let mut pairs = points.windows(2).rev();
    pairs.find_map(|pair| match pair {
        [(low, before), (high, after)] if *before <= 0.0 && *after > 0.0 => {
            Some((low + (high - low) * before / (before - after)).round() as u64)
        }
        _ => None,
    })
}

/// Figures of a machine that does nothing else vary less.
const UNSTEADY: f64 = 0.1;

impl Profile {
    /// The median of how far figures of one thread vary: half the distance of the
    /// quartiles over the figure.
    pub(crate) fn spread(&self) -> Option<f64> {
        let alone = self.measurements.iter().filter(|found| !found.loaded && found.threads == 1);
        let of = |found: &Measurement| {
            (found.bytes_per_second_high - found.bytes_per_second_low) / 2.0 / found.bytes_per_second
        };
        let mut spreads: Vec<f64> = alone.map(of).collect();
        spreads.sort_by(f64::total_cmp);
        spreads.get(spreads.len() / 2).copied()
    }

    /// [`Profile::spread`], where it is so wide that something else must have run.
    pub(crate) fn unsteady(&self) -> Option<f64> {
        self.spread().filter(|spread| *spread > UNSTEADY)
    }

    /// What was measured of an algorithm with one batch at a time on a machine
    /// that did nothing else.
    pub(crate) fn alone<'p>(&'p self, algorithm: &'p str) -> impl Iterator<Item = &'p Measurement> {
        self.measurements.iter().filter(move |found| {
            !found.loaded && found.threads == 1 && found.in_flight == 1 && found.algorithm == algorithm
        })
    }

    /// Whether an engine is none of the CPU: those have a break-even point, or
    /// none that was found, for each algorithm.
    pub(crate) fn is_device(&self, engine: &str) -> bool {
        self.break_even.iter().any(|even| even.engine == engine)
    }

    /// The fastest engine at a size, one batch at a time.
    pub(crate) fn fastest(&self, algorithm: &str, operation: &str, bytes: u64) -> Option<&Measurement> {
        let of = self.measurements.iter().filter(|found| {
            !found.loaded
                && found.threads == 1
                && found.in_flight == 1
                && found.algorithm == algorithm
                && found.operation == operation
                && found.bytes == bytes
        });
        of.min_by(|one, other| one.batch_ns.total_cmp(&other.batch_ns))
    }

    /// From which size on which engine is the fastest, one batch at a time: the
    /// crossovers, the smallest size first. One that is hardly faster than the
    /// last is none. The sizes that are measured are far apart, so a crossover
    /// stands between two of them.
    pub(crate) fn crossovers(&self, algorithm: &str, operation: &str) -> Vec<(u64, &Measurement)> {
        let of = self.alone(algorithm).filter(|found| found.operation == operation);
        let mut sizes: Vec<u64> = of.map(|found| found.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let time_ns = |engine: &str, size: u64| {
            let mut of = self.alone(algorithm).filter(|found| found.operation == operation);
            of.find(|found| found.engine == engine && found.bytes == size).map(|found| found.batch_ns)
        };
        let mut changes: Vec<(u64, &Measurement)> = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            let Some(best) = self.fastest(algorithm, operation, *size) else { continue };
            let Some((_, last)) = changes.last() else {
                changes.push((*size, best));
                continue;
            };
            let stays = time_ns(&last.engine, *size);
            if last.engine != best.engine && stays.is_none_or(|stays| best.batch_ns < FASTER * stays) {
                let gain = |size: &u64| {
                    let gain_ns = time_ns(&last.engine, *size)? - time_ns(&best.engine, *size)?;
                    Some((*size as f64, gain_ns))
                };
                let gains: Vec<_> = sizes[..=at].iter().filter_map(gain).collect();
                changes.push((zero(&gains).unwrap_or(*size), best));
            }
        }
        changes
    }

    /// The algorithms that were measured, in their order.
    pub(crate) fn algorithms(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for found in &self.measurements {
            if !names.contains(&found.algorithm.as_str()) {
                names.push(&found.algorithm);
            }
        }
        names
    }

    /// Whether an engine is worth a choice.
    pub(crate) fn is_worthwhile(&self, engine: &str) -> bool {
        self.worthwhile.iter().any(|name| name == engine)
    }

    /// What the scheduler's records begin with.
    pub(crate) fn seeds(&self) -> Vec<Seed> {
        let mut seeds: Vec<Seed> = Vec::new();
        for found in self
            .measurements
            .iter()
            .filter(|found| !found.loaded && found.threads == 1 && found.in_flight == 1)
        {
            let (Ok(measured), Some(operation)) = (found.algorithm.parse(), operation(&found.operation))
            else {
                continue;
            };
            let point = SeedPoint { bytes: found.bytes, service_ns: found.batch_ns, cpu_ns: found.cpu_ns };
            for algorithm in Algorithm::all().filter(|algorithm| measured_as(*algorithm) == measured) {
                let known = seeds.iter_mut().find(|seed| {
                    seed.engine == found.engine && seed.algorithm == algorithm && seed.operation == operation
                });
                match known {
                    Some(seed) => seed.points.push(point),
                    None => seeds.push(Seed {
                        engine: found.engine.clone(),
                        algorithm,
                        operation,
                        points: vec![point],
                    }),
                }
            }
        }
        seeds
    }

    /// Where devices and the CPU break even for `algorithm`.
    pub(crate) fn break_even(&self, algorithm: Algorithm) -> impl Iterator<Item = &DeviceBreakEven> {
        let name = measured_as(algorithm).to_string();
        self.break_even.iter().filter(move |found| found.algorithm == name)
    }

    /// Has alpha, beta and M be those of the first device for writing with
    /// `algorithm`. One that is never faster is never asked by the policies
    /// that go by them.
    pub(crate) fn settings(&self, algorithm: Algorithm, settings: &mut Settings) {
        let writes = |found: &&DeviceBreakEven| matches!(found.operation.as_str(), "seal" | "encrypt");
        let Some(found) = self.break_even(algorithm).find(writes) else { return };
        settings.alpha = found.alpha.map_or(u16::MAX, |alpha| u16::try_from(alpha).unwrap_or(u16::MAX));
        let beta = found.beta_bytes.and_then(|bytes| u32::try_from(bytes).ok());
        settings.beta_bytes = beta.unwrap_or(Settings::BETA_BYTES_MAX).min(Settings::BETA_BYTES_MAX);
        settings.idle_cpu_permille = (found.idle_cpu_percent * 10.0).round().clamp(0.0, 1000.0) as u16;
    }

    /// Whether every figure is one that can be worked with.
    fn is_sound(&self) -> bool {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let measured = self.measurements.iter().all(|found| {
            positive(found.bytes_per_second)
                && positive(found.batch_ns)
                && found.cpu_ns.is_finite()
                && found.cpu_ns >= 0.0
        });
        measured
            && self.break_even.iter().all(|found| (0.0..=100.0).contains(&found.idle_cpu_percent))
            && self.hardware.engines.iter().any(|name| self.is_worthwhile(name))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn measurement(
        engine: &str,
        algorithm: &str,
        operation: &str,
        bytes: u64,
        batch_ns: f64,
    ) -> Measurement {
        let rate = bytes as f64 / batch_ns * 1e9;
        Measurement {
            engine: engine.to_owned(),
            algorithm: algorithm.to_owned(),
            operation: operation.to_owned(),
            loaded: false,
            threads: 1,
            in_flight: 1,
            bytes,
            bytes_per_second: rate,
            bytes_per_second_low: rate,
            bytes_per_second_high: rate,
            batch_ns,
            cpu_ns: batch_ns,
        }
    }

    pub(crate) fn profile(engines: &[&str], measurements: Vec<Measurement>) -> Profile {
        Profile {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            measured: "2026-01-01T00:00:00Z".to_owned(),
            hardware: file::hardware(&engines.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()),
            measurements,
            costs: Vec::new(),
            break_even: Vec::new(),
            worthwhile: vec![engines[0].to_owned()],
        }
    }

    pub(crate) fn document() -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/profile.md");
        std::fs::read_to_string(path).expect("the document")
    }

    #[test]
    fn the_document_names_every_field() {
        let mut known = profile(&["a"], vec![measurement("a", "x", "seal", 512, 1.0)]);
        known.costs = vec![EngineCosts {
            engine: "a".to_owned(),
            algorithm: "x".to_owned(),
            operation: "seal".to_owned(),
            fixed_ns: 1.0,
            per_byte_ns: 1.0,
            error: 0.0,
        }];
        known.break_even = vec![DeviceBreakEven {
            engine: "a".to_owned(),
            algorithm: "x".to_owned(),
            operation: "seal".to_owned(),
            alpha: None,
            beta_bytes: None,
            idle_cpu_percent: 1.0,
            feeding_cpus: 1.0,
        }];
        let value = serde_json::to_value(&known).expect("text keys");
        let document = document();
        let keys = |value: &serde_json::Value| {
            value.as_object().expect("an object").keys().cloned().collect::<Vec<String>>()
        };
        for key in keys(&value).iter().filter(|key| *key != "hardware") {
            assert!(document.contains(&format!("| `{key}` |")), "{key}");
        }
        for key in keys(&value["hardware"]) {
            assert!(document.contains(&format!("| `hardware.{key}` |")), "{key}");
        }
        for list in ["measurements", "costs", "break_even"] {
            let row =
                document.lines().find(|line| line.starts_with(&format!("| `{list}` |"))).expect("a row");
            for key in keys(&value[list][0]) {
                let shared = matches!(key.as_str(), "engine" | "algorithm" | "operation");
                let short = key.strip_prefix("bytes_per_second").filter(|rest| !rest.is_empty());
                let named = row.contains(&format!("`{key}`"))
                    || short.is_some_and(|rest| row.contains(&format!("`{rest}`")))
                    || shared && list == "break_even";
                assert!(named, "{list}: {key}");
            }
        }
    }

    #[test]
    fn an_engine_that_is_faster_somewhere_is_worthwhile() {
        let engines = [("a", true), ("b", true), ("c", true), ("d", false)]
            .map(|(name, inline)| (name.to_owned(), inline));
        let found = [
            measurement("a", "x", "seal", 512, 100.0),
            measurement("b", "x", "seal", 512, 99.0),
            measurement("c", "x", "seal", 512, 200.0),
            measurement("a", "x", "open", 512, 100.0),
            measurement("c", "x", "open", 512, 50.0),
            Measurement { loaded: true, ..measurement("b", "x", "seal", 512, 1.0) },
        ];
        assert_eq!(worthwhile(&engines, &found), ["a", "c", "d"]);
    }

    #[test]
    fn a_crossover_stands_where_the_lines_of_both_cross() {
        // Sizes are a factor of four apart, and the lines of both cross at 8000 bytes.
        let cpu = |bytes: u64| measurement("cpu", "x", "seal", bytes, 5.0 * bytes as f64);
        let device = |bytes: u64| measurement("dev", "x", "seal", bytes, 32_000.0 + bytes as f64);
        let found: Vec<_> =
            [512, 2048, 4096, 16384, 65536].iter().flat_map(|&at| [cpu(at), device(at)]).collect();
        let known = profile(&["cpu", "dev"], found);
        let of = |known: &Profile| {
            let changes = known.crossovers("x", "seal").into_iter();
            changes.map(|(from, best)| (from, best.engine.clone())).collect::<Vec<_>>()
        };
        assert_eq!(of(&known), [(512, "cpu".to_owned()), (8000, "dev".to_owned())]);
        // Hardly faster at first, but it was where it became so.
        let gains = [(4096, 100.0, 101.0), (16384, 400.0, 396.0), (65536, 1600.0, 800.0)];
        let sides = |(bytes, cpu, device)| {
            [measurement("cpu", "x", "seal", bytes, cpu), measurement("dev", "x", "seal", bytes, device)]
        };
        let known = profile(&["cpu", "dev"], gains.into_iter().flat_map(sides).collect());
        assert_eq!(of(&known)[1], (4096 + (16384 - 4096) / 5 + 1, "dev".to_owned()));
        // Of a device that does not take the smallest there is no line to cross.
        let known = profile(&["cpu", "dev"], vec![cpu(4096), cpu(65536), device(65536)]);
        assert_eq!(of(&known)[1], (65536, "dev".to_owned()));
    }

    #[test]
    fn seeds_are_what_was_measured_alone_and_for_every_iv() {
        let found = vec![
            measurement("cpu", "aes-xts-plain64", "encrypt", 512, 50.0),
            measurement("cpu", "aes-xts-plain64", "encrypt", 4096, 300.0),
            Measurement { threads: 2, ..measurement("cpu", "aes-xts-plain64", "encrypt", 4096, 300.0) },
            measurement("cpu", "no-such-cipher", "encrypt", 4096, 300.0),
        ];
        let seeds = profile(&["cpu"], found).seeds();
        assert_eq!(seeds.len(), SectorIv::ALL.len());
        assert!(
            seeds.iter().all(|seed| seed.points.len() == 2 && seed.operation == Operation::EncryptSectors)
        );
    }

    #[test]
    fn settings_are_those_of_writing() {
        let algorithm: Algorithm = "aes-256-gcm".parse().expect("known");
        let mut known = profile(&["cpu", "device"], Vec::new());
        let found = |operation: &str, alpha| DeviceBreakEven {
            engine: "device".to_owned(),
            algorithm: algorithm.to_string(),
            operation: operation.to_owned(),
            alpha,
            beta_bytes: alpha.map(|_| 16384),
            idle_cpu_percent: 12.5,
            feeding_cpus: 1.0,
        };
        known.break_even = vec![found("open", Some(1)), found("seal", Some(7))];
        let mut settings = Settings::default();
        known.settings(algorithm, &mut settings);
        assert_eq!((settings.alpha, settings.beta_bytes, settings.idle_cpu_permille), (7, 16384, 125));
        known.break_even = vec![found("seal", None)];
        known.settings(algorithm, &mut settings);
        assert_eq!((settings.alpha, settings.beta_bytes), (u16::MAX, Settings::BETA_BYTES_MAX));
    }
}
