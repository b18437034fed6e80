//! Where the scheduler places, beside the CPU alone and the device alone.

use std::sync::Arc;
use std::time::Duration;

use strongroom_engine::{Algorithm, Engine, NonceSource};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine, Tier};
use strongroom_sched::settings::Policy;
use strongroom_sched::{Options as Scheduling, Scheduler, Settings};

use crate::load::{Shape, median, threads, turns};
use crate::{Arguments, Device, Opened};

/// What is measured where the scheduler places: its name, and bytes of its key.
pub(crate) type Placed = (&'static str, Algorithm, u8);

/// Placed and measured rows have these.
const HEADER: &str = "| CPU | algorithm | KiB | in flight | CPU | device | adaptive | of the better | on the device | the device's CPUs |\n|---|---|---|---|---|---|---|---|---|---|";

/// `adaptive` beside the CPU and the device alone, with a device as `open` gives it.
pub(crate) fn measure(arguments: &Arguments, tiers: &[Tier], placed: &[Placed], open: impl Fn() -> Opened) {
    println!("{HEADER}");
    for tier in tiers {
        for placed in placed {
            for (kib, in_flight) in [(4, 1), (4, 8), (16, 1), (16, 8), (64, 1), (64, 8)] {
                let row = format!("{} | {} | {kib} | {in_flight}", tier.engine_name(), placed.0);
                if row.contains(&arguments.only) {
                    println!("| {row} | {} |", measured(arguments, *tier, *placed, (kib, in_flight), open()));
                }
            }
        }
    }
}

/// What adaptive turns have used besides time.
#[derive(Default)]
struct Used {
    /// Bytes that were placed on the CPU and on the device.
    placed: [u64; 2],
    /// CPU time of the device's process.
    cpu: Duration,
}

impl Used {
    fn now(scheduler: &Scheduler, device: Option<&Device>) -> Used {
        let engines = scheduler.statistics().engines;
        Used { placed: [engines[0].bytes, engines[1].bytes], cpu: device.map_or(Duration::ZERO, Device::cpu) }
    }

    fn add(&mut self, before: &Used, after: &Used) {
        self.placed = [0, 1].map(|at| self.placed[at] + after.placed[at] - before.placed[at]);
        self.cpu += after.cpu - before.cpu;
    }
}

/// The figures of a row: batches of so many KiB, from as many threads as are in flight.
fn measured(
    arguments: &Arguments,
    tier: Tier,
    (_, algorithm, key_len): Placed,
    (kib, in_flight): (usize, usize),
    (device, engine): Opened,
) -> String {
    let nonces = NonceSource::new().expect("entropy");
    let cpu = Arc::new(CpuEngine::of_tier(tier).expect("it is here")) as Arc<dyn Engine>;
    let settings = Settings { check_exponent: 10, ..Settings::default() };
    let options = Scheduling { settings, ..Scheduling::default() };
    let scheduler = Scheduler::new(vec![cpu, engine], Arc::new(ReferenceEngine), options);
    let key: Vec<u8> = (0..key_len).collect();
    let session = scheduler.session(algorithm, &key).expect("both have it");
    let fixed = |engine| Settings { policy: Policy::Fixed, engine, ..settings };
    let bytes = kib * 1024;
    // A sector of a disk, and a block of a vault that is as large as the batch.
    let segment = if matches!(algorithm, Algorithm::Sector(_)) { 4096 } else { bytes };
    let shape = Shape { bytes, segment, in_flight: 1, seconds: arguments.seconds / 4.0 };
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    let mut ratios = Vec::new();
    let mut used = Used::default();
    for round in 0..=arguments.pairs {
        let mut now = [0.0; 3];
        for side in turns(3, round) {
            scheduler.set([fixed(0), fixed(1), settings][side]);
            let before = Used::now(&scheduler, device.as_ref());
            let rate = threads(&scheduler, &session, &nonces, &shape, in_flight);
            now[side] = rate * bytes as f64 / 1e6;
            if side == 2 && round > 0 {
                used.add(&before, &Used::now(&scheduler, device.as_ref()));
            }
        }
        // It learns in the first one.
        if round > 0 {
            ratios.push(now[2] / now[0].max(now[1]));
            rates.iter_mut().zip(now).for_each(|(rates, now)| rates.push(now));
        }
    }
    let [cpu, device, adaptive] = rates.map(median);
    let share = 100.0 * used.placed[1] as f64 / (used.placed[0] + used.placed[1]).max(1) as f64;
    let cpus = used.cpu.as_secs_f64() / (shape.seconds * arguments.pairs as f64);
    format!("{cpu:.0} | {device:.0} | {adaptive:.0} | {:.2} | {share:.0} % | {cpus:.2}", median(ratios))
}
