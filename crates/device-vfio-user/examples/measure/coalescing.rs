//! How many answers an interrupt stands for, and what that costs and saves.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use strongroom_engine::completion::{Plan, Rule};
use strongroom_engine::{Engine, NonceSource};

use crate::load::{Shape, load, median, turns};
use crate::{Arguments, Device, XTS};

const HEADER: &str = "| answers for an interrupt | requests/s | interrupts/s | wake-ups/s | CPU of a request, us | mean latency, us |\n|---|---|---|---|---|---|";

/// The tables of the paper's subject: how many answers an interrupt stands for.
pub(crate) fn measure(arguments: &Arguments, program: &Path) {
    let nonces = NonceSource::new().expect("entropy");
    let count = |count| Rule::Fixed(Plan { count, ..Plan::EACH });
    let mut rules: Vec<(String, Rule)> =
        (0..6).map(|rung| ((1 << rung).to_string(), count(1 << rung))).collect();
    rules.push(("polled".into(), Rule::Fixed(Plan { polls: true, ..Plan::EACH })));
    rules.push(("the paper's rule".into(), Rule::Paper));
    rules.push(("**adaptive**".into(), Rule::Adaptive));
    let key: [u8; 64] = std::array::from_fn(|at| at as u8);
    for (service_us, in_flight) in [("40", 32), ("40", 4), ("100", 32), ("5", 32), ("40", 1)] {
        let title = format!("4 KiB in XTS, {service_us} us of service, 4 units, {in_flight} in flight");
        if !title.contains(&arguments.only) {
            continue;
        }
        println!("\n{title}:\n\n{HEADER}");
        let device = Device::start(program, rules.len(), &["--service-us", service_us]);
        let open = |(at, (_, rule)): (usize, &(String, Rule))| {
            let engine = device.open(at, *rule);
            let session = engine.session(XTS, &key).expect("it has it");
            (engine, session)
        };
        let engines: Vec<_> = rules.iter().enumerate().map(open).collect();
        let mut columns = vec![[const { Vec::new() }; 5]; rules.len()];
        for round in 0..=arguments.pairs {
            for at in turns(engines.len(), round) {
                let (engine, session) = &engines[at];
                let counted = || {
                    let counters = engine.counters();
                    [&counters.interrupts, &counters.wakes].map(|counter| counter.load(Relaxed) as f64)
                };
                let (before, began) = (counted(), Instant::now());
                let shape = Shape { bytes: 4096, segment: 4096, in_flight, seconds: arguments.seconds / 4.0 };
                let measured = load(engine, session, &nonces, &shape);
                let (after, seconds) = (counted(), began.elapsed().as_secs_f64());
                let [interrupts, wakes] = [0, 1].map(|at| (after[at] - before[at]) / seconds);
                // It learns in the first one.
                if round > 0 {
                    let now = [measured.per_second, interrupts, wakes, measured.cpu_us, measured.latency_us];
                    columns[at].iter_mut().zip(now).for_each(|(values, now)| values.push(now));
                }
            }
        }
        for ((name, _), columns) in rules.iter().zip(columns) {
            let [per_second, interrupts, wakes, cpu_us, latency_us] = columns.map(median);
            println!(
                "| {name} | {per_second:.0} | {interrupts:.0} | {wakes:.0} | {cpu_us:.1} | {latency_us:.0} |"
            );
        }
    }
}
