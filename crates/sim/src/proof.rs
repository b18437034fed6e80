//! A policy beside every engine alone, and beside `aca` at its best.

use strongroom_sched::settings::Policy;

use crate::host::Host;
use crate::scope::Scope;
use crate::workload::Workload;
use crate::world::{Options, run, run_within};
use crate::{Settings, aca_sds};

/// One result in 2^10 is checked: with all of them checked no device is worth
/// its while.
const CHECK_EXPONENT: u8 = 10;

/// What comes of the steady state is seen in runs so many times as long. Half a
/// second of large requests is too short for it: of some loads the best engine
/// alone does 4 % more or less in it, by the seed.
const STEADY_TIMES: u64 = 4;

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Over the last quarter of a run four times as long.
    pub steady: f64,
    /// Over the whole run, learning included.
    pub whole: f64,
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
    /// Runs every engine alone, and `adaptive`, for so long and for four times
    /// as long.
    #[must_use]
    pub fn new(host: &Host, workload: &Workload, duration_ns: u64, seed: u64) -> Case {
        let speed = |settings| {
            let report = |duration_ns| run(host, workload, &Options { settings, duration_ns, seed });
            Speed {
                steady: report(STEADY_TIMES * duration_ns).steady_bytes_per_second,
                whole: report(duration_ns).bytes_per_second,
            }
        };
        let alone = |engine| speed(Settings { policy: Policy::Fixed, engine: engine as u8, ..settings() });
        Case {
            host: host.name.clone(),
            workload: workload.name.clone(),
            pure: (0..host.engines().count()).map(alone).collect(),
            adaptive: speed(settings()),
        }
    }

    /// The same host and load in the mean of runs with several seeds. Some loads
    /// have states that stay by chance for tenths of a second, so that the best
    /// engine alone does 4 % more or less in a steady state, by the seed.
    ///
    /// # Panics
    /// Without any.
    #[must_use]
    pub fn mean(runs: &[Case]) -> Case {
        let mean = |speed: &dyn Fn(&Case) -> Speed| {
            let sum = |which: fn(&Speed) -> f64| runs.iter().map(|run| which(&speed(run))).sum::<f64>();
            let count = runs.len() as f64;
            Speed { steady: sum(|speed| speed.steady) / count, whole: sum(|speed| speed.whole) / count }
        };
        Case {
            pure: (0..runs[0].pure.len()).map(|engine| mean(&|run| run.pure[engine])).collect(),
            adaptive: mean(&|run| run.adaptive),
            ..runs[0].clone()
        }
    }

    /// `adaptive` over the best engine alone, in the steady state.
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

/// What a set of cases comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Cases.
    pub cases: usize,
    /// Geometric mean of what they reach.
    pub mean: f64,
    /// One case in twenty reaches less.
    pub percentile_5: f64,
    /// What the worst reaches.
    pub least: f64,
}

impl Summary {
    /// Of what cases reach of the best engine alone.
    ///
    /// # Panics
    /// Of none.
    #[must_use]
    pub fn of(cases: &[Case], ratio: fn(&Case) -> f64) -> Summary {
        let mut ratios: Vec<f64> = cases.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        Summary {
            cases: ratios.len(),
            mean: geometric_mean(ratios.iter().copied()),
            percentile_5: ratios[ratios.len() / 20],
            least: ratios[0],
        }
    }

    /// Whether it is at least another in every figure.
    #[must_use]
    pub fn reaches(&self, bounds: &Bounds) -> bool {
        self.mean >= bounds.mean && self.percentile_5 >= bounds.percentile_5 && self.least >= bounds.least
    }
}

/// What a [`Summary`] shall reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// See [`Summary::mean`].
    pub mean: f64,
    /// See [`Summary::percentile_5`].
    pub percentile_5: f64,
    /// See [`Summary::least`].
    pub least: f64,
}

impl Bounds {
    /// Of the hosts with a name, under all loads.
    pub const NAMED: Bounds = Bounds { mean: 1.10, percentile_5: 0.95, least: 0.80 };
    /// Of hosts drawn from seeds.
    pub const DRAWN: Bounds = Bounds { mean: 1.03, ..Bounds::NAMED };
    /// Of the loads for which the paper claims a gain, on its host.
    pub const PAPER: Bounds = Bounds { mean: 1.15, percentile_5: 1.15, least: 1.15 };
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
    /// mean over loads, and its bytes a second under each. It learns nothing, so
    /// that short runs do for the search; settings that place alike run once.
    #[must_use]
    pub fn best_aca(
        &self,
        host: &Host,
        workloads: &[Workload],
        search_ns: u64,
        duration_ns: u64,
        seed: u64,
    ) -> (Settings, Vec<f64>) {
        let speeds = |settings, duration_ns| {
            let options = Options { settings, duration_ns, seed };
            workloads.iter().map(|load| run(host, load, &options).bytes_per_second).collect::<Vec<_>>()
        };
        let mut searches: Vec<Search> = workloads.iter().map(|load| Search::new(host, load)).collect();
        let mut value = |settings: &Settings| {
            let options = Options { settings: *settings, duration_ns: search_ns, seed };
            geometric_mean(searches.iter_mut().map(|search| search.speed(&options)))
        };
        let valued = self.settings().map(|settings| (value(&settings), settings));
        let (_, best) = valued.max_by(|one, other| one.0.total_cmp(&other.0)).expect("a grid has points");
        (best, speeds(best, duration_ns))
    }
}

/// Speeds of a host under a load and `aca`. Settings that place every batch
/// alike run once.
struct Search<'a> {
    host: &'a Host,
    load: &'a Workload,
    ran: Vec<(Scope, f64)>,
}

impl Search<'_> {
    fn new<'a>(host: &'a Host, load: &'a Workload) -> Search<'a> {
        Search { host, load, ran: Vec::new() }
    }

    /// Over the whole of a run, of the same length and seed each time.
    fn speed(&mut self, options: &Options) -> f64 {
        if let Some((_, speed)) = self.ran.iter().find(|(scope, _)| scope.has(&options.settings)) {
            return *speed;
        }
        let (report, scope) = run_within(self.host, self.load, options);
        self.ran.push((scope, report.bytes_per_second));
        report.bytes_per_second
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
    fn runs_are_held_against_the_engine_that_is_best_in_their_mean() {
        let run = |pure: [f64; 2], adaptive| {
            let speed = |bytes| Speed { steady: bytes, whole: 2.0 * bytes };
            let pure = pure.map(speed).to_vec();
            Case { host: "a".into(), workload: "b".into(), pure, adaptive: speed(adaptive) }
        };
        let case = Case::mean(&[run([100.0, 108.0], 99.0), run([100.0, 84.0], 102.0)]);
        assert_eq!(case.pure[1], Speed { steady: 96.0, whole: 192.0 });
        assert_eq!((case.steady(), case.whole()), (1.005, 1.005));
    }

    #[test]
    fn means_and_grids_are_what_they_say() {
        assert!((geometric_mean([2.0, 8.0].into_iter()) - 4.0).abs() < 1e-9);
        let grid = Grid::coarse();
        assert_eq!(grid.settings().count(), 24);
        let host = Host::named("fast-device").expect("a host");
        let (best, speeds) = grid.best_aca(&host, &[Workload::writes(64, 8)], 5_000_000, 5_000_000, 1);
        // The device is faster for everything.
        assert!(best.alpha < 8 && best.beta_bytes < 65536, "{best:?}");
        assert_eq!(speeds.len(), 1);
    }

    #[test]
    fn settings_that_place_alike_run_once_and_others_each() {
        let host = crate::aca_sds::host();
        for load in [Workload::writes(10, 6), Workload::named("mixed-sizes-8").expect("a load")] {
            let mut search = Search::new(&host, &load);
            for settings in Grid::full().settings() {
                let options = Options { settings, duration_ns: 3_000_000, seed: 1 };
                let speed = run(&host, &load, &options).bytes_per_second;
                assert_eq!(search.speed(&options), speed, "{} {settings:?}", load.name);
            }
            assert!(search.ran.len() > 2 && search.ran.len() < 60, "{} runs", search.ran.len());
        }
        let load = Workload::reads(4, 32);
        let mut reads = Search::new(&host, &load);
        for settings in Grid::full().settings() {
            reads.speed(&Options { settings, duration_ns: 3_000_000, seed: 1 });
        }
        assert_eq!(reads.ran.len(), 1, "reads are the CPU's, whatever the thresholds");
    }
}
