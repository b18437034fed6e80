//! The long form of the simulator's proof: every host and workload, and hosts
//! from a seed. `cargo xtask simulate` runs it.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use strongroom_sim::proof::{Case, Grid, geometric_mean, papers_claim};
use strongroom_sim::{Host, Workload, aca_sds};

const USAGE: &str = "proof [--seed N] [--hosts N] [--workloads N] [--milliseconds N] [--no-aca]";

struct Arguments {
    /// Random hosts are drawn from this seed on.
    seed: u64,
    hosts: u64,
    /// Each of them under so many workloads, which take turns.
    workloads: usize,
    duration_ns: u64,
    aca: bool,
}

fn arguments() -> Option<Arguments> {
    let mut found =
        Arguments { seed: 1, hosts: 100, workloads: usize::MAX, duration_ns: 2_000_000_000, aca: true };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse::<u64>().ok();
        match word.as_str() {
            "--seed" => found.seed = number()?,
            "--hosts" => found.hosts = number()?,
            "--workloads" => found.workloads = number()?.max(1) as usize,
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

/// Prints what falls short, and a summary; whether nothing did.
fn judge(name: &str, cases: &[Case]) -> bool {
    let short: Vec<&Case> = cases.iter().filter(|case| case.steady() < 0.98 || case.whole() < 0.95).collect();
    for case in &short {
        println!(
            "  short: {} {}: steady {:.3}, whole {:.3}",
            case.host,
            case.workload,
            case.steady(),
            case.whole()
        );
    }
    let least = |ratio: fn(&Case) -> f64| cases.iter().map(ratio).fold(f64::INFINITY, f64::min);
    let below = |ratio: fn(&Case) -> f64, bound| cases.iter().filter(|case| ratio(case) < bound).count();
    println!(
        "{name}: {} cases; steady: geometric mean {:.3}, least {:.3}, below 0.98 in {}; \
         whole: geometric mean {:.3}, least {:.3}, below 0.95 in {}",
        cases.len(),
        geometric_mean(cases.iter().map(Case::steady)),
        least(Case::steady),
        below(Case::steady, 0.98),
        geometric_mean(cases.iter().map(Case::whole)),
        least(Case::whole),
        below(Case::whole, 0.95)
    );
    short.is_empty()
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let duration = arguments.duration_ns;
    let worst =
        aca_sds::predictions(32).iter().map(|prediction| prediction.error().abs()).fold(0.0, f64::max);
    println!("aca-sds: largest error in the columns that nothing was fitted on: {:.1} %", worst * 100.0);
    let mut good = worst < 0.15;
    let workloads = Workload::catalogue();
    let named = Host::catalogue();
    let cases = each(named.len() * workloads.len(), |at| {
        Case::new(&named[at / workloads.len()], &workloads[at % workloads.len()], duration, 42)
    });
    good &= judge("hosts by name", &cases);
    let claim = papers_claim(duration, 42);
    for case in &claim {
        println!("aca-sds {}: {:+.1} % over the best engine", case.workload, (case.steady() - 1.0) * 100.0);
        good &= case.steady() >= 1.15;
    }
    if arguments.aca {
        let grid = Grid::full();
        let best = each(named.len(), |at| grid.best_aca(&named[at], &workloads, 120_000_000, duration, 42));
        let mut all = Vec::new();
        for (at, (settings, speeds)) in best.iter().enumerate() {
            let ours = &cases[at * workloads.len()..][..workloads.len()];
            let ratio = || ours.iter().zip(speeds).map(|(case, aca)| case.adaptive.whole / aca.whole);
            println!(
                "{}: {:.3} times aca with alpha {}, beta {}, M {} per mille",
                named[at].name,
                geometric_mean(ratio()),
                settings.alpha,
                settings.beta_bytes,
                settings.idle_cpu_permille
            );
            all.extend(ratio());
        }
        let ratio = geometric_mean(all.into_iter());
        println!("adaptive over the best aca, geometric mean: {ratio:.3}");
        good &= ratio > 1.0;
    }
    let drawn: Vec<Host> = (0..arguments.hosts).map(|at| Host::random(arguments.seed + at)).collect();
    let turns = arguments.workloads.min(workloads.len());
    let cases = each(drawn.len() * turns, |at| {
        // Neighbouring hosts get other workloads.
        let workload = &workloads[(at + at / turns) % workloads.len()];
        Case::new(&drawn[at / turns], workload, duration, 42)
    });
    if !cases.is_empty() {
        let name = format!("hosts from the seeds {} on", arguments.seed);
        good &= judge(&name, &cases);
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
