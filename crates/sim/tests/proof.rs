//! The short form of the proof, on fixed seeds: every host with some of the
//! workloads, and some hosts from seeds. `cargo xtask simulate` runs all of
//! it. `docs/simulator.md` has what is promised and where it falls short.

use strongroom_sim::proof::{Bounds, Case, Grid, Summary, geometric_mean, papers_claim};
use strongroom_sim::{Host, Workload};

/// Long enough that devices which slow down have done so in the steady state.
const DURATION_NS: u64 = 1_000_000_000;
const SEED: u64 = 42;

/// Runs the hosts, each under `turns` workloads that take turns.
fn run(hosts: &[Host], turns: usize) -> Vec<Case> {
    let workloads = Workload::catalogue();
    let case = |at: usize| {
        let workload = &workloads[(at * 5 + at / turns) % workloads.len()];
        let case = Case::new(&hosts[at / turns], workload, DURATION_NS, SEED);
        println!("{} {}: {:.3} {:.3}", case.host, case.workload, case.steady(), case.whole());
        case
    };
    (0..hosts.len() * turns).map(case).collect()
}

/// Panics with all cases when together they fall short.
fn hold(cases: &[Case], bounds: &Bounds) {
    let (steady, whole) = (Summary::of(cases, Case::steady), Summary::of(cases, Case::whole));
    assert!(steady.reaches(bounds) && whole.reaches(bounds), "{steady:?} {whole:?} {cases:#?}");
}

#[test]
fn adaptive_keeps_up_with_the_best_engine_on_hosts_by_name() {
    hold(&run(&Host::catalogue(), 4), &Bounds::NAMED);
}

#[test]
fn adaptive_keeps_up_with_the_best_engine_on_hosts_from_seeds() {
    let hosts: Vec<Host> = (100..108).map(Host::random).collect();
    let cases = run(&hosts, 2);
    // Sixteen cases have no percentile.
    for summary in [Summary::of(&cases, Case::steady), Summary::of(&cases, Case::whole)] {
        assert!(summary.mean >= 1.0 && summary.least >= Bounds::DRAWN.least, "{summary:?} {cases:#?}");
    }
}

/// Batches that are divided find each other on a device of one unit, and wait there.
/// Taken for service, the waiting would make every later one wait as well.
#[test]
fn parts_of_divided_batches_that_wait_for_each_other_are_kept_short() {
    let host = Host::random(1_795_658_875);
    let load = Workload::named("write-1024k-2").expect("a workload");
    let case = Case::new(&host, &load, DURATION_NS / 4, SEED);
    assert!(case.steady() >= 0.95 && case.whole() >= 0.95, "{case:#?}");
}

#[test]
fn adaptive_gains_on_the_papers_host_what_the_paper_claims() {
    for case in papers_claim(300_000_000, SEED) {
        assert!(case.steady() >= 1.15, "{case:#?}");
    }
}

#[test]
fn adaptive_beats_aca_with_its_best_parameters() {
    let names = ["write-4k-1", "write-64k-32", "read-64k-12", "mixed-4k-16", "small-then-large"];
    let workloads = names.map(|name| Workload::named(name).expect("a workload"));
    let mut ratios = Vec::new();
    for host in ["aca-sds", "high-fixed-cost", "two-devices"] {
        let host = Host::named(host).expect("a host");
        let (best, speeds) = Grid::coarse().best_aca(&host, &workloads, 20_000_000, DURATION_NS / 2, SEED);
        println!("{}: {best:?}", host.name);
        for (workload, aca) in workloads.iter().zip(speeds) {
            let case = Case::new(&host, workload, DURATION_NS / 2, SEED);
            ratios.push(case.adaptive.whole / aca);
        }
    }
    let ratio = geometric_mean(ratios.iter().copied());
    assert!(ratio > 1.0, "{ratio}: {ratios:?}");
}
