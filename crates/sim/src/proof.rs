//! A policy beside every engine alone, and beside `aca` at its best.

use std::collections::HashMap;

use strongroom_sched::settings::Policy;

use crate::host::Host;
use crate::report::Report;
use crate::workload::Workload;
use crate::world::{Options, run};
use crate::{Settings, aca_sds};

/// One result in 2^10 is checked: with all of them checked no device is worth
/// its while.
const CHECK_EXPONENT: u8 = 10;

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Over the last quarter of the run.
    pub steady: f64,
    /// Over the whole run, learning included.
    pub whole: f64,
}

impl Speed {
    fn of(report: &Report) -> Speed {
        Speed { steady: report.steady_bytes_per_second, whole: report.bytes_per_second }
    }
}

/// One host under one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The host's name.
    pub host: String,
    /// The workload's name.
    pub workload: String,
    /// Each engine alone, in the host's order.
    pub pure: Vec<Speed>,
    /// `adaptive`, with nothing known at the start.
    pub adaptive: Speed,
}

impl Case {
    /// Runs every engine alone, and `adaptive`.
    #[must_use]
    pub fn new(host: &Host, workload: &Workload, duration_ns: u64, seed: u64) -> Case {
        let speed = |settings| Speed::of(&run(host, workload, &Options { settings, duration_ns, seed }));
        let alone = |engine| speed(Settings { policy: Policy::Fixed, engine: engine as u8, ..settings() });
        Case {
            host: host.name.clone(),
            workload: workload.name.clone(),
            pure: (0..host.engines().count()).map(alone).collect(),
            adaptive: speed(settings()),
        }
    }

    /// `adaptive` over the best engine alone, in the last quarter.
    #[must_use]
    pub fn steady(&self) -> f64 {
        self.adaptive.steady / self.best(|speed| speed.steady)
    }

    /// The same over the whole run.
    #[must_use]
    pub fn whole(&self) -> f64 {
        self.adaptive.whole / self.best(|speed| speed.whole)
    }

    fn best(&self, which: fn(&Speed) -> f64) -> f64 {
        self.pure.iter().map(which).fold(f64::MIN_POSITIVE, f64::max)
    }
}

fn settings() -> Settings {
    Settings { check_exponent: CHECK_EXPONENT, ..Settings::default() }
}

/// Values of alpha, of beta in bytes, and of M in per mille, among which the
/// best for a host is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Requests in flight.
    pub alpha: Vec<u16>,
    /// Bytes.
    pub beta_bytes: Vec<u32>,
    /// Idle CPU in per mille.
    pub idle_cpu_permille: Vec<u16>,
}

impl Grid {
    /// Each parameter from never to always.
    #[must_use]
    pub fn full() -> Grid {
        Grid {
            alpha: vec![0, 1, 2, 4, 8, 16, 32, u16::MAX],
            beta_bytes: vec![0, 1024, 4032, 8192, 32768, 131_072, 524_288],
            idle_cpu_permille: vec![0, 50, 100, 300, 600, 1000],
        }
    }

    /// Fewer of each.
    #[must_use]
    pub fn coarse() -> Grid {
        Grid {
            alpha: vec![0, 4, 16, u16::MAX],
            beta_bytes: vec![0, 8192, 131_072],
            idle_cpu_permille: vec![100, 1000],
        }
    }

    fn settings(&self) -> impl Iterator<Item = Settings> {
        self.alpha.iter().flat_map(move |&alpha| {
            self.beta_bytes.iter().flat_map(move |&beta_bytes| {
                self.idle_cpu_permille.iter().map(move |&idle_cpu_permille| Settings {
                    policy: Policy::Aca,
                    alpha,
                    beta_bytes,
                    idle_cpu_permille,
                    ..settings()
                })
            })
        })
    }

    /// The settings with which `aca` is fastest on a host in the geometric
    /// mean over loads, and its speed under each. It learns nothing, so that
    /// short runs do for the search; settings that place alike run once.
    #[must_use]
    pub fn best_aca(
        &self,
        host: &Host,
        workloads: &[Workload],
        search_ns: u64,
        duration_ns: u64,
        seed: u64,
    ) -> (Settings, Vec<Speed>) {
        let speeds = |settings, duration_ns| {
            let options = Options { settings, duration_ns, seed };
            workloads.iter().map(|load| Speed::of(&run(host, load, &options))).collect::<Vec<_>>()
        };
        let mut known = HashMap::new();
        let mut value = |settings: &Settings| {
            let speeds = workloads.iter().enumerate().map(|(at, load)| {
                let options = Options { settings: *settings, duration_ns: search_ns, seed };
                let ran = known.entry((at, Rule::of(settings, host, load)));
                *ran.or_insert_with(|| Speed::of(&run(host, load, &options)).whole)
            });
            geometric_mean(speeds)
        };
        let valued = self.settings().map(|settings| (value(&settings), settings));
        let (_, best) = valued.max_by(|one, other| one.0.total_cmp(&other.0)).expect("a grid has points");
        (best, speeds(best, duration_ns))
    }
}

/// What settings of `aca` come to on a host under a load: settings with the
/// same rule place every batch alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    /// Everything is computed on the CPU.
    Cpu,
    /// See [`Settings`]; for beta the largest batch that is not above it.
    Thresholds { alpha: u16, not_above_beta: u64, idle_cpu_permille: u16 },
}

impl Rule {
    fn of(settings: &Settings, host: &Host, load: &Workload) -> Rule {
        let beta = u64::from(settings.beta_bytes);
        let (mut may_leave, mut not_above_beta) = (false, 0);
        for phase in load.phases.iter().filter(|phase| phase.read_permille < 1000) {
            for (bytes, _) in &phase.sizes {
                let most = host.batch_bytes.unwrap_or(u64::MAX);
                for batch in [*bytes.min(&most), bytes % most].into_iter().filter(|batch| *batch > 0) {
                    if batch <= beta {
                        not_above_beta = batch.max(not_above_beta);
                    } else {
                        may_leave |= phase.clients > u32::from(settings.alpha);
                    }
                }
            }
        }
        let Settings { alpha, idle_cpu_permille, .. } = *settings;
        if may_leave { Rule::Thresholds { alpha, not_above_beta, idle_cpu_permille } } else { Rule::Cpu }
    }
}

/// The geometric mean of positive numbers; 0 counts as the smallest.
#[must_use]
pub fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.fold((0.0, 0.0), |(sum, count), value| (sum + value.max(f64::MIN_POSITIVE).ln(), count + 1.0));
    f64::exp(sum / f64::max(count, 1.0))
}

/// The writes for which the ACA-SDS paper claims 15 to 25 %: 16 KiB and more,
/// 32 in flight, on its host.
#[must_use]
pub fn papers_claim(duration_ns: u64, seed: u64) -> Vec<Case> {
    let case = |kib| Case::new(&aca_sds::host(), &Workload::writes(kib, 32), duration_ns, seed);
    [16, 32, 64, 128, 256, 1024].map(case).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_grids_are_what_they_say() {
        assert!((geometric_mean([2.0, 8.0].into_iter()) - 4.0).abs() < 1e-9);
        let grid = Grid::coarse();
        assert_eq!(grid.settings().count(), 24);
        // Settings with the same rule give the same run.
        let (host, load) = (crate::aca_sds::host(), Workload::writes(10, 6));
        let mut runs: HashMap<Rule, Speed> = HashMap::new();
        for settings in grid.settings() {
            let options = Options { settings, duration_ns: 3_000_000, seed: 1 };
            let speed = Speed::of(&run(&host, &load, &options));
            let rule = Rule::of(&settings, &host, &load);
            assert_eq!(*runs.entry(rule).or_insert(speed), speed, "{rule:?}");
        }
        // Two alphas below 6, no beta below a page but 0, two M; and the CPU.
        assert_eq!(runs.len(), 5);
        let host = Host::named("fast-device").expect("a host");
        let (best, speeds) = grid.best_aca(&host, &[Workload::writes(64, 8)], 5_000_000, 5_000_000, 1);
        // The device is faster for everything.
        assert!(best.alpha < 8 && best.beta_bytes < 65536, "{best:?}");
        assert_eq!(speeds.len(), 1);
    }
}
