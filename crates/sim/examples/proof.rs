//! The long form of the simulator's proof: every host and workload, and hosts
//! from a seed. `cargo xtask simulate` runs it.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use strongroom_sim::proof::{Case, Grid, geometric_mean, papers_claim};
use strongroom_sim::{Host, Workload, aca_sds};

/// Length of the runs in which parameters of `aca` are compared.
const SEARCH_NS: u64 = 120_000_000;

/// What `adaptive` shall reach of the best engine alone, in the steady state and
/// over all of a run.
const STEADY: f64 = 0.98;
const WHOLE: f64 = 0.95;

/// The first seed of a case's runs; the others follow.
const FIRST_RUN: u64 = 42;

const USAGE: &str = "proof [--seed N] [--hosts N] [--workloads N] [--runs N] [--milliseconds N] [--no-aca]";

struct Arguments {
    /// Random hosts are drawn from this seed on.
    seed: u64,
    hosts: u64,
    /// Each of them under so many workloads, which take turns.
    workloads: usize,
    /// Runs of each case, with other seeds: their mean is judged.
    runs: u64,
    duration_ns: u64,
    aca: bool,
}

fn arguments() -> Option<Arguments> {
    let mut found = Arguments {
        seed: 1,
        hosts: 100,
        workloads: usize::MAX,
        runs: 3,
        duration_ns: 2_000_000_000,
        aca: true,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse::<u64>().ok();
        match word.as_str() {
            "--seed" => found.seed = number()?,
            "--hosts" => found.hosts = number()?,
            "--workloads" => found.workloads = number()?.max(1) as usize,
            "--runs" => found.runs = number()?.max(1),
            "--milliseconds" => found.duration_ns = number()?.max(1) * 1_000_000,
            "--no-aca" => found.aca = false,
            _ => return None,
        }
    }
    Some(found)
}

/// Calls `work` with each number below `count`, on every CPU.
fn each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    let result = work(at);
                    done.lock().expect("no thread panicked").push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panicked");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// What was found out of one host.
struct Found {
    /// The mean of its runs for each workload, and the runs.
    cases: Vec<Case>,
    runs: Vec<Case>,
    /// The times that `adaptive` is as fast as `aca` with its best parameters.
    over_aca: Vec<f64>,
}

/// Runs a host under workloads, and says at once what came of it: a run that is
/// ended early has told of what it did.
fn find(host: &Host, workloads: &[Workload], arguments: &Arguments) -> Found {
    let duration = arguments.duration_ns;
    let seeds = || FIRST_RUN..FIRST_RUN + arguments.runs;
    let run = |workload| seeds().map(|seed| Case::new(host, workload, duration, seed)).collect();
    let by_load: Vec<Vec<Case>> = workloads.iter().map(run).collect();
    let cases: Vec<Case> = by_load.iter().map(|runs| Case::mean(runs)).collect();
    let short = cases.iter().zip(&by_load).filter(|(case, _)| is_short(case));
    let mut told: String = short.map(|(case, runs)| line(case, runs)).collect();
    let steady = extent(&cases, Case::steady, STEADY);
    let whole = extent(&cases, Case::whole, WHOLE);
    told += &format!("{}: {} cases; steady: {steady}; whole: {whole}", host.name, cases.len());
    let mut over_aca = Vec::new();
    if arguments.aca {
        let (settings, speeds) = Grid::full().best_aca(host, workloads, SEARCH_NS, duration, FIRST_RUN);
        over_aca = by_load.iter().zip(&speeds).map(|(runs, aca)| runs[0].adaptive.whole / aca).collect();
        told += &format!(
            "; {:.3} times aca with alpha {}, beta {}, M {} per mille",
            geometric_mean(over_aca.iter().copied()),
            settings.alpha,
            settings.beta_bytes,
            settings.idle_cpu_permille
        );
    }
    println!("{told}");
    Found { cases, runs: by_load.into_iter().flatten().collect(), over_aca }
}

fn is_short(case: &Case) -> bool {
    case.steady() < STEADY || case.whole() < WHOLE
}

fn line(case: &Case, runs: &[Case]) -> String {
    let (steady, whole) = (case.steady(), case.whole());
    let each = |ratio: fn(&Case) -> f64| {
        runs.iter().map(|run| format!("{:.3}", ratio(run))).collect::<Vec<_>>().join(" ")
    };
    format!(
        "  short: {} {}: steady {steady:.3} ({}), whole {whole:.3} ({})\n",
        case.host,
        case.workload,
        each(Case::steady),
        each(Case::whole)
    )
}

/// Mean and least of what cases reach, and how many fall short of a bound.
fn extent(cases: &[Case], ratio: fn(&Case) -> f64, bound: f64) -> String {
    let least = cases.iter().map(ratio).fold(f64::INFINITY, f64::min);
    let below = cases.iter().filter(|case| ratio(case) < bound).count();
    let mean = geometric_mean(cases.iter().map(ratio));
    format!("geometric mean {mean:.3}, least {least:.3}, below {bound} in {below}")
}

/// Runs hosts, and prints what falls short and a summary; whether nothing did.
fn judge(
    name: &str,
    hosts: &[Host],
    workloads: impl Fn(usize) -> Vec<Workload> + Sync,
    arguments: &Arguments,
) -> bool {
    let found = each(hosts.len(), |at| find(&hosts[at], &workloads(at), arguments));
    let cases: Vec<Case> = found.iter().flat_map(|found| found.cases.clone()).collect();
    let runs: Vec<Case> = found.iter().flat_map(|found| found.runs.clone()).collect();
    for (what, cases) in [("single runs", &runs), ("cases", &cases)] {
        println!(
            "{name}: {} {what}; steady: {}; whole: {}",
            cases.len(),
            extent(cases, Case::steady, STEADY),
            extent(cases, Case::whole, WHOLE)
        );
    }
    let mut good = !cases.iter().any(is_short);
    if arguments.aca {
        let ratio = geometric_mean(found.iter().flat_map(|found| found.over_aca.iter().copied()));
        println!("{name}: adaptive over the best aca, geometric mean: {ratio:.3}");
        good &= ratio > 1.0;
    }
    good
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let worst =
        aca_sds::predictions(32).iter().map(|prediction| prediction.error().abs()).fold(0.0, f64::max);
    println!("aca-sds: largest error in the columns that nothing was fitted on: {:.1} %", worst * 100.0);
    let mut good = worst < 0.15;
    for case in papers_claim(arguments.duration_ns, 42) {
        println!("aca-sds {}: {:+.1} % over the best engine", case.workload, (case.steady() - 1.0) * 100.0);
        good &= case.steady() >= 1.15;
    }
    let workloads = Workload::catalogue();
    good &= judge("hosts by name", &Host::catalogue(), |_| workloads.clone(), &arguments);
    let drawn: Vec<Host> = (0..arguments.hosts).map(|at| Host::random(arguments.seed + at)).collect();
    if !drawn.is_empty() {
        let turns = arguments.workloads.min(workloads.len());
        // Neighbouring hosts get other workloads.
        let workload = |at: usize| workloads[(at + at / turns) % workloads.len()].clone();
        let of_host = |host| (host * turns..(host + 1) * turns).map(workload).collect();
        good &= judge(&format!("hosts from the seeds {} on", arguments.seed), &drawn, of_host, &arguments);
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
