//! The simulator's proof, as one table: every host by name under every
//! workload, and hosts drawn from a seed. `cargo xtask simulate` runs it.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use strongroom_sim::proof::{Bounds, Case, Grid, Summary, geometric_mean, papers_claim};
use strongroom_sim::{Host, Workload, aca_sds};

/// Length of the runs in which parameters of `aca` are compared.
const SEARCH_NS: u64 = 120_000_000;

/// The first seed of a case's runs; the others follow.
const FIRST_RUN: u64 = 42;

/// Largest error of the model in the columns of the paper that nothing was
/// fitted on.
const ERROR_MAX: f64 = 0.15;

const USAGE: &str =
    "proof [--seed N] [--hosts N] [--workloads N] [--runs N] [--milliseconds N] [--no-aca] [--cases]";

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
    /// Whether each case is printed.
    cases: bool,
}

fn arguments() -> Option<Arguments> {
    let mut found = Arguments {
        seed: 1,
        hosts: 100,
        workloads: 3,
        runs: 1,
        duration_ns: 1_000_000_000,
        aca: true,
        cases: false,
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
            "--cases" => found.cases = true,
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
    /// The mean of its runs for each workload.
    cases: Vec<Case>,
    /// The times that `adaptive` is as fast as `aca` with its best parameters.
    over_aca: Vec<f64>,
}

fn find(host: &Host, workloads: &[Workload], arguments: &Arguments) -> Found {
    let duration = arguments.duration_ns;
    let seeds = || FIRST_RUN..FIRST_RUN + arguments.runs;
    let run = |workload| seeds().map(|seed| Case::new(host, workload, duration, seed)).collect();
    let by_load: Vec<Vec<Case>> = workloads.iter().map(run).collect();
    let mut over_aca = Vec::new();
    if arguments.aca {
        let (_, speeds) = Grid::full().best_aca(host, workloads, SEARCH_NS, duration, FIRST_RUN);
        over_aca = by_load.iter().zip(&speeds).map(|(runs, aca)| runs[0].adaptive.whole / aca).collect();
    }
    Found { cases: by_load.iter().map(|runs| Case::mean(runs)).collect(), over_aca }
}

/// A line of the table for each of two lengths of time; whether what is asked
/// for is reached.
fn judge(name: &str, found: &[Found], bounds: &Bounds, arguments: &Arguments) -> bool {
    let cases: Vec<Case> = found.iter().flat_map(|found| found.cases.clone()).collect();
    let over_aca: Vec<f64> = found.iter().flat_map(|found| found.over_aca.iter().copied()).collect();
    let steady: fn(&Case) -> f64 = Case::steady;
    let mut good = true;
    for (what, ratio) in [("steady state", steady), ("whole run", Case::whole)] {
        let summary = Summary::of(&cases, ratio);
        let aca = match over_aca.is_empty() || what == "steady state" {
            true => String::new(),
            false => format!("{:.2}", geometric_mean(over_aca.iter().copied())),
        };
        println!(
            "| {name}, {what} | {} | {:.3} | {:.3} | {:.3} | {aca} |",
            summary.cases, summary.mean, summary.percentile_5, summary.least
        );
        good &= summary.reaches(bounds);
    }
    if arguments.cases {
        for case in &cases {
            eprintln!("{} {}: {:.3} {:.3}", case.host, case.workload, case.steady(), case.whole());
        }
    }
    good
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    println!("| cases | number | geometric mean | 5th percentile | least | times the best `aca` |");
    println!("|---|---|---|---|---|---|");
    let claim = Found { cases: papers_claim(arguments.duration_ns, FIRST_RUN), over_aca: Vec::new() };
    let mut good = judge("the paper's claim", &[claim], &Bounds::PAPER, &arguments);
    let workloads = Workload::catalogue();
    let hosts = Host::catalogue();
    let found = each(hosts.len(), |at| find(&hosts[at], &workloads, &arguments));
    good &= judge("hosts by name", &found, &Bounds::NAMED, &arguments);
    let drawn: Vec<Host> = (0..arguments.hosts).map(|at| Host::random(arguments.seed + at)).collect();
    if !drawn.is_empty() {
        let turns = arguments.workloads.min(workloads.len());
        // Neighbouring hosts get other workloads.
        let workload = |at: usize| workloads[(at + at / turns) % workloads.len()].clone();
        let of_host = |host| (host * turns..(host + 1) * turns).map(workload).collect::<Vec<_>>();
        let found = each(drawn.len(), |at| find(&drawn[at], &of_host(at), &arguments));
        good &= judge(&format!("hosts from seed {} on", arguments.seed), &found, &Bounds::DRAWN, &arguments);
    }
    let errors = aca_sds::predictions(32);
    let worst = errors.iter().map(|prediction| prediction.error().abs()).fold(0.0, f64::max);
    println!();
    println!("Largest error of the paper's host where nothing was fitted: {:.1} %.", worst * 100.0);
    if good && worst < ERROR_MAX { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
