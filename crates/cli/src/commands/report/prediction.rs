//! What the models say beside what was measured, where the measurement was not
//! used to say it.
//!
//! Of the machine: the simulator is given what `tune` measured with one batch
//! at a time on an idle machine, and says what several threads reach, and what is
//! left beside busy ones; `tune` has measured both. Of a mount: the profile says
//! what its batches should have taken; the scheduler has timed them.

use serde::Serialize;
use strongroom_format::vault::Suite;
use strongroom_sched::Settings;
use strongroom_sched::settings::Policy;
use strongroom_sim::{Background, Cost, Host, Inline, Options, Workload, run};

use crate::commands::whatif::batch_ns;
use crate::daemon::status::MountStatus;
use crate::profile::{Measurement, Profile};

/// Virtual time of a run: several thousand batches of any cipher.
const DURATION_NS: u64 = 50_000_000;
/// No engine takes less for 4 KiB, whatever a profile says.
const CPU_NS_MIN: f64 = 100.0;
/// The sizes at which `tune` measures several threads.
const SIZES_KIB: [u64; 2] = [4, 64];

/// One figure, twice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Prediction {
    /// What it is of.
    pub(super) what: String,
    /// `bytes-per-second` or `ns`.
    pub(super) unit: &'static str,
    pub(super) predicted: f64,
    pub(super) measured: f64,
}

impl Prediction {
    /// Predicted over measured, less one.
    pub(super) fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// Of the authenticated ciphers, sealing, on the engine that is the fastest.
pub(super) fn of_machine(profile: &Profile) -> Vec<Prediction> {
    let cpus = profile.hardware.cpus;
    let mut found = Vec::new();
    for algorithm in profile.algorithms() {
        for kib in SIZES_KIB {
            let best = profile.fastest(algorithm, "seal", kib * 1024);
            let Some(best) = best.filter(|best| !profile.is_device(&best.engine)) else { continue };
            for measured in profile.measurements.iter().filter(|measured| {
                (&measured.engine, &measured.algorithm, &measured.operation, measured.bytes)
                    == (&best.engine, &best.algorithm, &best.operation, best.bytes)
                    && measured.in_flight == 1
                    && (measured.loaded || measured.threads > 1)
            }) {
                found.push(of_measurement(best, measured, cpus));
            }
        }
    }
    found
}

/// What is made of one thread's batches, beside what several did.
fn of_measurement(alone: &Measurement, measured: &Measurement, cpus: u64) -> Prediction {
    let (kib, threads) = (measured.bytes / 1024, measured.threads);
    let cost = Cost::fixed(alone.cpu_ns.max(CPU_NS_MIN));
    let host = Host {
        name: "here".to_owned(),
        about: String::new(),
        cpus: cpus as u32,
        request_cpu_ns: 0.0,
        batch_bytes: None,
        inline: vec![Inline { name: alone.engine.clone(), write: cost.clone(), read: cost }],
        devices: Vec::new(),
        background: Background {
            threads: if measured.loaded { cpus as u32 } else { 0 },
            ..Background::default()
        },
        jitter: 0.0,
    };
    let settings = Settings { policy: Policy::Fixed, ..Settings::default() };
    let options = Options { settings, duration_ns: DURATION_NS.max(alone.batch_ns as u64 * 100), seed: 1 };
    let report = run(&host, &Workload::writes(kib, threads as u32), &options);
    let load = if measured.loaded { ", beside a busy thread on each CPU" } else { "" };
    let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    Prediction {
        what: format!("{}, {kib} KiB, {threads}{load}", measured.algorithm),
        unit: "bytes-per-second",
        predicted: report.bytes_per_second,
        measured: measured.bytes_per_second,
    }
}

/// Mean time of a batch, of each engine of each mount.
pub(super) fn of_mounts(profile: &Profile, mounts: &[MountStatus]) -> Vec<Prediction> {
    let of_mount = |status: &MountStatus| {
        let engines = status.engines.iter().filter(|engine| engine.latencies > 0 && engine.operations > 0);
        let of_engine = |engine: &crate::daemon::status::EngineStatus| {
            let mean_bytes = engine.bytes as f64 / engine.operations as f64;
            let algorithm = algorithm_of(&status.suite)?;
            let costs = |operation: &str| {
                let same = profile.costs.iter().find(|costs| {
                    (costs.engine.as_str(), costs.algorithm.as_str(), costs.operation.as_str())
                        == (engine.name.as_str(), algorithm.as_str(), operation)
                });
                same.map(|costs| costs.fixed_ns + costs.per_byte_ns * mean_bytes)
            };
            // Which of both directions a batch had is not counted.
            let share =
                status.written_bytes as f64 / (status.written_bytes + status.read_bytes).max(1) as f64;
            Some(Prediction {
                what: format!(
                    "{}: a batch on {}, {:.0} bytes in the mean",
                    crate::report::shown(status.mount_point.as_bytes()),
                    engine.name,
                    mean_bytes
                ),
                unit: "ns",
                predicted: share * costs("seal")? + (1.0 - share) * costs("open")?,
                measured: engine.latency_ns_mean as f64,
            })
        };
        engines.filter_map(of_engine).collect::<Vec<_>>()
    };
    mounts.iter().flat_map(of_mount).collect()
}

/// How fast a mount's requests would be with another suite.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct OtherSuite {
    pub(super) suite: String,
    /// Requests in the same time, as a multiple of what it was.
    pub(super) speed: f64,
}

/// What other suites would make of the requests that a mount had, the fastest
/// first: cryptography's share of their time becomes what batches of the same
/// size take with another suite, and the rest stays.
pub(super) fn other_suites(profile: &Profile, status: &MountStatus, cryptography: f64) -> Vec<OtherSuite> {
    let sum =
        |of: fn(&crate::daemon::status::EngineStatus) -> u64| status.engines.iter().map(of).sum::<u64>();
    let (bytes, batches) = (sum(|engine| engine.bytes), sum(|engine| engine.operations));
    if batches == 0 {
        return Vec::new();
    }
    let written = status.written_bytes as f64 / (status.written_bytes + status.read_bytes).max(1) as f64;
    let batch = |suite: &str| {
        let of = |is_write| batch_ns(profile, suite, bytes / batches, is_write);
        Some(written * of(true)? + (1.0 - written) * of(false)?)
    };
    let Some(own) = batch(&status.suite).filter(|own| *own > 0.0) else { return Vec::new() };
    let others = Suite::ALL.iter().map(|suite| suite.name()).filter(|suite| *suite != status.suite);
    let speed = |suite: &str| Some(1.0 / (1.0 - cryptography + cryptography * batch(suite)? / own));
    let mut found: Vec<OtherSuite> = others
        .filter_map(|suite| Some(OtherSuite { suite: suite.to_owned(), speed: speed(suite)? }))
        .collect();
    found.sort_by(|one, other| other.speed.total_cmp(&one.speed));
    found
}

/// The algorithm of a suite, by the name that profiles have for it.
pub(super) fn algorithm_of(suite: &str) -> Option<String> {
    let suite: Suite = suite.parse().ok()?;
    Some(strongroom_vault::algorithm(suite).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::{measurement, profile};

    #[test]
    fn several_threads_and_a_loaded_machine_are_predicted_from_one_thread_alone() {
        let name = "xaes-256-gcm";
        let alone = measurement("a", name, "seal", 65536, 20_000.0);
        let mut known = profile(
            &["a"],
            vec![
                alone.clone(),
                Measurement { threads: 2, bytes_per_second: 1.8 * alone.bytes_per_second, ..alone.clone() },
                Measurement { loaded: true, bytes_per_second: 0.5 * alone.bytes_per_second, ..alone.clone() },
            ],
        );
        known.hardware.cpus = 2;
        let found = of_machine(&known);
        assert_eq!(found.len(), 2, "{found:?}");
        // Two CPUs do twice as much in the model, whatever was measured.
        assert!((found[0].predicted / alone.bytes_per_second - 2.0).abs() < 0.02, "{found:?}");
        assert!((found[0].error() - 2.0 / 1.8 + 1.0).abs() < 0.02);
        // Three threads on two CPUs.
        let left = found[1].predicted / alone.bytes_per_second;
        assert!((0.6..0.75).contains(&left), "{found:?}");
    }
}
