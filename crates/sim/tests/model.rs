//! The model itself: it is what it says, and it is worth its error.

use strongroom_sched::settings::Policy;
use strongroom_sim::{Background, Host, Options, Report, Settings, Workload, aca_sds, run};

fn fixed(host: &Host, workload: &Workload, engine: u8, duration_ms: u64) -> Report {
    let settings = Settings { policy: Policy::Fixed, engine, check_exponent: 14, ..Settings::default() };
    run(host, workload, &Options { settings, duration_ns: duration_ms * 1_000_000, seed: 1 })
}

/// Before any policy is judged by it: the columns of Table I that nothing was
/// fitted on.
#[test]
fn the_papers_other_column_is_predicted() {
    for prediction in aca_sds::predictions(32) {
        println!("{prediction:?}: {:+.1} %", prediction.error() * 100.0);
        assert!(prediction.error().abs() < 0.15, "{prediction:?}");
    }
}

#[test]
fn what_was_fitted_comes_out_again() {
    for prediction in aca_sds::predictions(12) {
        assert!(prediction.error().abs() < 0.08, "{prediction:?}");
    }
    for (cpus, rate) in aca_sds::FIGURE_5_P {
        let host = Host { cpus, ..aca_sds::host() };
        let report = fixed(&host, &Workload::writes(32, 32), 1, 100);
        let model = report.bytes_per_second / 1e6 / f64::from(cpus);
        assert!((model / rate - 1.0).abs() < 0.05, "{cpus} CPUs: {model} for {rate}");
    }
}

/// Beyond five CPUs the device no longer gains (the paper, section III.D).
#[test]
fn more_cpus_than_the_device_needs_gain_nothing() {
    let rate = |cpus| {
        let host = Host { cpus, ..aca_sds::host() };
        fixed(&host, &Workload::writes(32, 32), 1, 50).bytes_per_second
    };
    assert!(rate(8) < 1.02 * rate(5) && rate(3) < 0.8 * rate(5));
}

#[test]
fn the_same_arguments_give_the_same_report() {
    let go = |case: &(&str, &str), seed| {
        let host = Host::named(case.0).expect("a host");
        let workload = Workload::named(case.1).expect("a workload");
        run(&host, &workload, &Options { settings: Settings::default(), duration_ns: 50_000_000, seed })
    };
    let cases =
        [("random-3", "mixed-sizes-8"), ("random-4", "mixed-4k-16"), ("bursty-load", "back-and-forth")];
    let alone = cases.each_ref().map(|case| go(case, 1));
    assert_ne!(alone[0], go(&cases[0], 2));
    // Whatever else the machine does, and whatever ran before: more threads at
    // once than it has CPUs, as a rule, and other orders.
    std::thread::scope(|scope| {
        for first in 0..8 {
            let (cases, alone) = (&cases, &alone);
            scope.spawn(move || {
                for at in (first..first + cases.len()).map(|at| at % cases.len()) {
                    assert_eq!(go(&cases[at], 1), alone[at], "{:?}", cases[at]);
                }
            });
        }
    });
}

/// What comes in goes out: bytes by engine, by interval and by rate agree.
#[test]
fn the_books_balance() {
    for host in Host::catalogue() {
        for name in ["write-4k-12", "mixed-sizes-48", "bursts-64k-16", "pauses-16k-8", "back-and-forth"] {
            let workload = Workload::named(name).expect("a workload");
            let options = Options { settings: Settings::default(), duration_ns: 40_000_000, seed: 5 };
            let report = run(&host, &workload, &options);
            let finished: u64 = report.intervals.iter().flat_map(|interval| &interval.bytes).sum();
            let placed: u64 = report.engines.iter().map(|engine| engine.bytes).sum();
            let by_rate = report.bytes_per_second * options.duration_ns as f64 / 1e9;
            assert!((finished as f64 - by_rate).abs() < 1.0, "{} {name}", host.name);
            assert!(placed >= finished && placed - finished <= 64 << 20, "{} {name}", host.name);
            for engine in &report.engines {
                assert_eq!(engine.reasons.iter().sum::<u64>(), engine.operations, "{} {name}", host.name);
            }
            assert!((0.0..=1.0).contains(&report.cpu_idle));
            assert!(report.latency_ns_p50 <= report.latency_ns_p99);
        }
    }
}

/// One client on an idle machine waits for exactly what its engine takes.
#[test]
fn a_single_request_takes_its_parts() {
    let host = Host { jitter: 0.0, ..Host::named("fast-device").expect("a host") };
    let workload = Workload::writes(64, 1);
    let cpu = host.request_cpu_ns + host.inline[0].write.ns(65536);
    let device = &host.devices[0];
    let costs = [&device.submit, &device.write, &device.complete];
    let on_device = host.request_cpu_ns + costs.iter().map(|cost| cost.ns(65536)).sum::<f64>();
    for (engine, expected) in [(0, cpu), (1, on_device)] {
        let found = fixed(&host, &workload, engine, 20).latency_ns_mean as f64;
        // The first result is checked on the CPU.
        assert!((found / expected - 1.0).abs() < 0.03, "{engine}: {found} for {expected}");
    }
}

/// A thread of other work that still waits for a CPU when it is to begin again
/// has one place among those that wait, and not two.
#[test]
fn other_work_has_its_share_and_no_more() {
    let host = |background| Host { cpus: 1, background, ..Host::named("slow-device").expect("a host") };
    let rate = |host: Host| fixed(&host, &Workload::writes(16, 7), 0, 300).bytes_per_second;
    let alone = rate(host(Background::default()));
    let beside = rate(host(Background { threads: 1, period_ns: 1_000_000, on_ns: 990_000 }));
    let share = beside / alone;
    assert!((share - 7.0 / 8.0).abs() < 0.03, "{share}");
}
