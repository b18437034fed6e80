//! The long form of the simulator's proof: every host and workload, and hosts
//! from a seed. `cargo xtask simulate` runs it.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use strongroom_sim::proof::{Case, Grid, geometric_mean, papers_claim};
use strongroom_sim::{Host, Workload, aca_sds};

/// Length of the runs in which parameters of `aca` are compared.
const SEARCH_NS: u64 = 120_000_000;

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

/// Searches the best parameters of `aca` for each host under its workloads,
/// of which `cases` has as many for each, and prints what `adaptive` makes of
/// that; whether it is faster in the geometric mean.
fn beats_aca(
    name: &str,
    hosts: &[Host],
    workloads: impl Fn(usize) -> Vec<Workload> + Sync,
    cases: &[Case],
    duration_ns: u64,
) -> bool {
    let grid = Grid::full();
    let best = each(hosts.len(), |at| grid.best_aca(&hosts[at], &workloads(at), SEARCH_NS, duration_ns, 42));
    let mut all = Vec::new();
    let of_hosts = cases.chunks(cases.len() / hosts.len().max(1));
    for ((host, ours), (settings, speeds)) in hosts.iter().zip(of_hosts).zip(&best) {
        let ratio = || ours.iter().zip(speeds).map(|(case, aca)| case.adaptive.whole / aca.whole);
        println!(
            "{}: {:.3} times aca with alpha {}, beta {}, M {} per mille",
            host.name,
            geometric_mean(ratio()),
            settings.alpha,
            settings.beta_bytes,
            settings.idle_cpu_permille
        );
        all.extend(ratio());
    }
    let ratio = geometric_mean(all.into_iter());
    println!("{name}: adaptive over the best aca, geometric mean: {ratio:.3}");
    ratio > 1.0
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
        good &= beats_aca("hosts by name", &named, |_| workloads.clone(), &cases, duration);
    }
    let drawn: Vec<Host> = (0..arguments.hosts).map(|at| Host::random(arguments.seed + at)).collect();
    let turns = arguments.workloads.min(workloads.len());
    // Neighbouring hosts get other workloads.
    let workload = |at: usize| &workloads[(at + at / turns) % workloads.len()];
    let cases = each(drawn.len() * turns, |at| Case::new(&drawn[at / turns], workload(at), duration, 42));
    if !cases.is_empty() {
        let name = format!("hosts from the seeds {} on", arguments.seed);
        good &= judge(&name, &cases);
        if arguments.aca {
            let of_host = |host| (host * turns..(host + 1) * turns).map(|at| workload(at).clone()).collect();
            good &= beats_aca(&name, &drawn, of_host, &cases, duration);
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
