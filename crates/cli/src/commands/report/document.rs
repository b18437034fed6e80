//! `strongroom.report/1`: all that a report is made from.

use std::collections::BTreeMap;

use serde::Serialize;
use strongroom_engine_cpu::CpuEngine;

use super::durability::{self, Barriers};
use super::prediction::{self, OtherSuite, Prediction};
use super::words::{self, Conclusion};
use crate::args::ReportArgs;
use crate::commands::disk::control::{DiskReport, open_disks};
use crate::commands::doctor::{self, SuiteReport};
use crate::commands::engines::{self, EngineReport, Survey};
use crate::compose;
use crate::daemon::status::{EngineStatus, MaskStatus, MountStatus, TimeStatus};
use crate::failure::Result;
use crate::profile::{DeviceBreakEven, Measurement, Profile, file};
use crate::report::{self, Output};
use crate::status;
use crate::status::bottleneck;

/// See the module.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    pub(super) version: &'static str,
    /// When it was made.
    pub(super) made: String,
    /// What to do, and what is slow.
    pub(super) conclusions: Vec<Conclusion>,
    pub(super) machine: Machine,
    pub(super) engines: Vec<EngineReport>,
    /// The suites of vaults, which of them the program takes by itself.
    pub(super) suites: Vec<SuiteReport>,
    /// When the profile was measured from which the rates are.
    pub(super) profile_measured: Option<String>,
    /// Why one that is there is not used.
    pub(super) profile_ignored: Option<String>,
    /// The median of how far its figures vary: half the distance of the quartiles
    /// over the figure.
    pub(super) profile_spread: Option<f64>,
    #[serde(skip)]
    pub(super) is_unsteady: bool,
    /// Each algorithm, operation and engine that was measured alone.
    pub(super) rates: Vec<Series>,
    pub(super) crossovers: Vec<Crossover>,
    /// Where devices and the CPU break even.
    pub(super) break_even: Vec<DeviceBreakEven>,
    /// Engines that mounts choose among.
    pub(super) worthwhile: Vec<String>,
    pub(super) mounts: Vec<MountReport>,
    pub(super) disks: Vec<DiskReport>,
    /// The store that was named; none where none was.
    pub(super) durability: Option<Barriers>,
    pub(super) predictions: Vec<Prediction>,
}

#[derive(Serialize)]
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) machine: String,
    pub(super) cpu: String,
    pub(super) cpus: u64,
    pub(super) cpu_features: Vec<&'static str>,
}

/// A line of a picture.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Series {
    pub(super) algorithm: String,
    pub(super) operation: String,
    pub(super) engine: String,
    /// The smallest size first.
    pub(super) points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Point {
    pub(super) bytes: u64,
    pub(super) bytes_per_second: f64,
}

impl Series {
    /// The rate at a size that was measured.
    pub(super) fn at(&self, bytes: u64) -> Option<f64> {
        let point = self.points.iter().find(|point| point.bytes == bytes);
        point.map(|point| point.bytes_per_second)
    }
}

/// From which size on which engine is the fastest.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Crossover {
    pub(super) algorithm: String,
    pub(super) operation: String,
    /// The smallest size first, and there the engine that begins.
    pub(super) fastest: Vec<FastestFrom>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct FastestFrom {
    pub(super) from_bytes: u64,
    pub(super) engine: String,
}

/// A mount, as its daemon tells of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MountReport {
    pub(super) mount_point: String,
    pub(super) vault: String,
    pub(super) suite: String,
    pub(super) block_size_bytes: u64,
    pub(super) since: String,
    pub(super) read_only: bool,
    /// `full` or `relaxed`; none of a mount that is only read.
    pub(super) durability: Option<String>,
    pub(super) policy: String,
    pub(super) objective: String,
    pub(super) transport: String,
    pub(super) transport_reason: String,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    /// Of its requests, summed up.
    pub(super) requests_ns: u64,
    /// Where the time of its requests went; none where there was none.
    pub(super) time: Option<Time>,
    /// Barriers' share of that time, of which `store` has the whole store's.
    pub(super) barriers: Option<f64>,
    pub(super) fsyncs: u64,
    pub(super) fsync_ns_mean: u64,
    pub(super) engines: Vec<EngineUse>,
    /// Keystream made ahead; none of a suite that has none.
    pub(super) masks: Option<MaskStatus>,
    /// What other suites would make of its requests, the fastest first; empty
    /// without a profile.
    pub(super) other_suites: Vec<OtherSuite>,
    pub(super) errors: u64,
}

/// Less time of requests than this since a mount began tells nothing of what is
/// slow: mounting it alone takes some.
const IDLE_NS: u64 = 100_000_000;

impl MountReport {
    /// Whether it was hardly asked for anything.
    pub(super) fn is_idle(&self) -> bool {
        self.time.is_none() || self.requests_ns < IDLE_NS
    }
}

/// Shares, from 0 to 1.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Time {
    pub(super) cryptography: f64,
    pub(super) store: f64,
    pub(super) fuse: f64,
}

/// What an engine did for a mount or a disk, and why.
#[derive(Clone, Debug, Serialize)]
pub(super) struct EngineUse {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) operations: u64,
    pub(super) latency_ns_mean: u64,
    pub(super) mismatches: u64,
    pub(super) lost: u64,
    pub(super) quarantined: bool,
    pub(super) placements: BTreeMap<String, u64>,
}

impl Document {
    /// Looks at the machine, its profile and mounts, and measures what is
    /// named.
    ///
    /// # Errors
    /// As `report`.
    pub(super) fn gather(args: &ReportArgs, output: Output) -> Result<Document> {
        let names = compose::engine_names(&compose::engines(args.engine.as_deref())?);
        let durability = args.store.as_deref().map(durability::measure).transpose()?;
        let Survey { engines, hardware, .. } = engines::survey_here();
        let found = file::find(&names);
        let profile = found.profile.as_ref();
        let system = rustix::system::uname();
        let statuses = status::own(output)?.mounts;
        let mut predictions = profile.map(prediction::of_machine).unwrap_or_default();
        predictions.extend(profile.iter().flat_map(|profile| prediction::of_mounts(profile, &statuses)));
        let mut document = Document {
            schema: "strongroom.report/1",
            version: env!("CARGO_PKG_VERSION"),
            made: report::rfc3339(report::now()),
            conclusions: Vec::new(),
            machine: Machine {
                kernel: system.release().to_string_lossy().into_owned(),
                machine: system.machine().to_string_lossy().into_owned(),
                cpu: hardware.cpu,
                cpus: hardware.cpus,
                cpu_features: doctor::cpu_features(),
            },
            engines,
            suites: doctor::suites(&CpuEngine::new()),
            profile_measured: profile.map(|profile| profile.measured.clone()),
            profile_spread: profile.and_then(Profile::spread),
            is_unsteady: profile.is_some_and(|profile| profile.unsteady().is_some()),
            rates: profile.map(series).unwrap_or_default(),
            crossovers: profile.map(crossovers).unwrap_or_default(),
            break_even: profile.map(|profile| profile.break_even.clone()).unwrap_or_default(),
            worthwhile: profile.map(|profile| profile.worthwhile.clone()).unwrap_or_default(),
            profile_ignored: found.remark,
            mounts: mounts(profile, &statuses),
            disks: open_disks().into_iter().map(|(_, disk)| disk).collect(),
            durability,
            predictions,
        };
        document.conclusions = words::conclusions(&document);
        Ok(document)
    }

    /// The rates of an algorithm and operation, by engine.
    pub(super) fn rates_of<'d>(
        &'d self,
        algorithm: &'d str,
        operation: &'d str,
    ) -> impl Iterator<Item = &'d Series> {
        self.rates.iter().filter(move |series| series.algorithm == algorithm && series.operation == operation)
    }

    /// The fastest engine for an algorithm at a size.
    pub(super) fn best<'d>(
        &'d self,
        algorithm: &'d str,
        operation: &'d str,
        bytes: u64,
    ) -> Option<(&'d str, f64)> {
        let rates = self.rates_of(algorithm, operation);
        let rated = rates.filter_map(|series| Some((series.engine.as_str(), series.at(bytes)?)));
        rated.max_by(|(_, one), (_, other)| one.total_cmp(other))
    }
}

/// Those first that were asked for most.
fn mounts(profile: Option<&Profile>, statuses: &[MountStatus]) -> Vec<MountReport> {
    let report = |status: &MountStatus| {
        let mut report = MountReport::from(status);
        if let Some((profile, time)) = profile.zip(report.time) {
            report.other_suites = prediction::other_suites(profile, status, time.cryptography);
        }
        report
    };
    let mut reports: Vec<MountReport> = statuses.iter().map(report).collect();
    reports.sort_by_key(|mount| std::cmp::Reverse(mount.requests_ns));
    reports
}

fn series(profile: &Profile) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for algorithm in profile.algorithms() {
        for found in profile.alone(algorithm) {
            let point = Point { bytes: found.bytes, bytes_per_second: found.bytes_per_second };
            let same = all.iter_mut().find(|series| {
                (&series.algorithm, &series.operation, &series.engine)
                    == (&found.algorithm, &found.operation, &found.engine)
            });
            match same {
                Some(series) => series.points.push(point),
                None => all.push(Series {
                    algorithm: found.algorithm.clone(),
                    operation: found.operation.clone(),
                    engine: found.engine.clone(),
                    points: vec![point],
                }),
            }
        }
    }
    all.iter_mut().for_each(|series| series.points.sort_by_key(|point| point.bytes));
    all
}

fn crossovers(profile: &Profile) -> Vec<Crossover> {
    let mut all = Vec::new();
    for algorithm in profile.algorithms() {
        let mut operations: Vec<&str> =
            profile.alone(algorithm).map(|found| found.operation.as_str()).collect();
        operations.sort_unstable();
        operations.dedup();
        for operation in operations {
            let fastest = profile.crossovers(algorithm, operation).into_iter();
            let from = |(from_bytes, found): (u64, &Measurement)| FastestFrom {
                from_bytes,
                engine: found.engine.clone(),
            };
            all.push(Crossover {
                algorithm: algorithm.to_owned(),
                operation: operation.to_owned(),
                fastest: fastest.map(from).collect(),
            });
        }
    }
    all
}

impl From<&EngineStatus> for EngineUse {
    fn from(engine: &EngineStatus) -> EngineUse {
        EngineUse {
            name: engine.name.clone(),
            bytes: engine.bytes,
            operations: engine.operations,
            latency_ns_mean: engine.latency_ns_mean,
            mismatches: engine.mismatches,
            lost: engine.lost,
            quarantined: engine.quarantined,
            placements: engine.placements.clone(),
        }
    }
}

impl From<&MountStatus> for MountReport {
    fn from(status: &MountStatus) -> MountReport {
        // Of all that was done, however long ago: how busy it is says `status --watch`.
        let shares = bottleneck::shares(&TimeStatus::default(), &status.time, 1.0, 1);
        let fsync = status.requests.iter().find(|request| request.name == "fsync");
        let fsyncs = fsync.map_or(0, |fsync| fsync.count);
        let store_ns = status.time.store_ns();
        MountReport {
            mount_point: report::shown(status.mount_point.as_bytes()),
            vault: report::shown(status.vault.as_bytes()),
            suite: status.suite.clone(),
            block_size_bytes: status.block_size_bytes,
            since: status.since.clone(),
            read_only: status.read_only,
            durability: status.journal.as_ref().map(|journal| journal.durability.clone()),
            policy: status.scheduler.policy.clone(),
            objective: status.scheduler.objective.clone(),
            transport: status.transport.name.clone(),
            transport_reason: status.transport.reason.clone(),
            read_bytes: status.read_bytes,
            written_bytes: status.written_bytes,
            requests_ns: status.time.requests_ns,
            other_suites: Vec::new(),
            time: shares.map(|shares| Time {
                cryptography: shares.cryptography,
                store: shares.store,
                fuse: shares.fuse,
            }),
            barriers: shares
                .filter(|_| store_ns > 0)
                .map(|shares| shares.store * status.time.store_barrier_ns as f64 / store_ns as f64),
            fsyncs,
            fsync_ns_mean: fsync.map_or(0, |fsync| fsync.latency_ns) / fsyncs.max(1),
            engines: status
                .engines
                .iter()
                .filter(|engine| engine.operations > 0)
                .map(EngineUse::from)
                .collect(),
            masks: status.masks.clone(),
            errors: status.errors.background + status.errors.damaged_requests + status.errors.panics,
        }
    }
}
