//! Measures the driver on the device, in two processes: what coalescing costs and saves, and where the
//! scheduler places. `cargo xtask bench device` runs it. With `--on` it tests a device that is there already,
//! measures from which size on that is faster than the CPU, and where the scheduler places with it;
//! `cargo xtask vm --part device` does so.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use clap::Parser;
use rustix::time::{ClockId, clock_gettime};
use strongroom_engine::completion::{Plan, Rule};
use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, Buffer, Engine, NonceSource, Operation, SectorCipher, SectorMode,
    Segment, Session, Ticket, conformance,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine, Tier};
use strongroom_engine_kernel::KernelEngine;
use strongroom_engine_virtio::{Options, Vfio, VfioUser, VirtioEngine};
use strongroom_sched::settings::Policy;
use strongroom_sched::{Options as Scheduling, Scheduler, Settings};

const XTS: Algorithm = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
const CBC: Algorithm =
    Algorithm::Sector(SectorCipher { mode: SectorMode::Cbc, ..SectorCipher::AES_XTS_PLAIN64 });
const GCM: Algorithm = Algorithm::Aead(Aead::XAes256Gcm);
const HEADER: &str = "| answers for an interrupt | requests/s | interrupts/s | wake-ups/s | CPU of a request, us | mean latency, us |\n|---|---|---|---|---|---|";

#[derive(Parser)]
struct Arguments {
    /// The device's program
    #[arg(long, required_unless_present = "on")]
    device: Option<PathBuf>,
    /// A device that is there: vfio:ADDRESS or kernel:DRIVER
    #[arg(long)]
    on: Option<String>,
    /// Runs the conformance suite there, and measures nothing
    #[arg(long, requires = "on")]
    conform: bool,
    /// Measures from which size on it is the faster one, one batch at a time, and nothing else
    #[arg(long, requires = "on", conflicts_with = "conform")]
    crossover: bool,
    /// Only where the scheduler places, and only rows that have this in them, as "xaes-256-gcm | 64 | 8"
    #[arg(long, conflicts_with_all = ["conform", "crossover"])]
    only: Option<String>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Pairs of which the median counts, where the scheduler places
    #[arg(long, default_value_t = 7)]
    pairs: usize,
}

struct Device {
    process: Child,
    directory: tempfile::TempDir,
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Device {
    /// With so many functions.
    fn start(program: &Path, functions: usize, arguments: &[&str]) -> Device {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(program);
        let sockets: Vec<PathBuf> = (0..functions).map(|at| directory.path().join(at.to_string())).collect();
        for socket in &sockets {
            command.arg("--socket").arg(socket);
        }
        let process = command.args(arguments).spawn();
        let device = Device { process: process.expect("the device starts"), directory };
        while !sockets.iter().all(|socket| socket.exists()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        device
    }

    fn open(&self, function: usize, rule: Rule) -> VirtioEngine {
        let socket = self.directory.path().join(function.to_string());
        let bus = VfioUser::connect(&socket).expect("the device is there");
        VirtioEngine::open("virtio", Arc::new(bus), Options { rule, ..Options::default() }).expect("sound")
    }
}

struct Measured {
    per_second: f64,
    cpu_us: f64,
    latency_us: f64,
}

/// CPU time of this process, which the device is not part of.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn batch(algorithm: Algorithm, buffer: Buffer, number: u64, nonces: &NonceSource) -> Batch {
    let len = buffer.len();
    let (operation, segment) = match algorithm {
        Algorithm::Sector(_) => {
            (Operation::EncryptSectors, Segment::sectors(0, len, number, len.min(4096) as u32))
        }
        Algorithm::Aead(_) => {
            let nonce = nonces.batch(len).expect("nonces").draw();
            (Operation::Seal, Segment::seal(0, len, nonce, AssociatedData::new(b"measure")))
        }
    };
    Batch::new(operation, buffer, vec![segment])
}

/// One thread that has so many batches under way.
fn load(
    engine: &dyn Engine,
    session: &Session,
    nonces: &NonceSource,
    bytes: usize,
    in_flight: usize,
    seconds: f64,
) -> Measured {
    let mut buffers: Vec<Buffer> = (0..in_flight).map(|_| Buffer::new(bytes)).collect();
    let mut out: VecDeque<(Instant, Ticket)> = VecDeque::new();
    let (began, cpu_before) = (Instant::now(), cpu());
    let (mut done, mut latency) = (0u64, Duration::ZERO);
    while began.elapsed().as_secs_f64() < seconds || !out.is_empty() {
        while let Some(buffer) = buffers.pop().filter(|_| began.elapsed().as_secs_f64() < seconds) {
            let mut batch = batch(session.algorithm(), buffer, done, nonces);
            let submitted = Instant::now();
            let ticket = loop {
                match engine.submit(session, batch) {
                    Ok(ticket) => break ticket,
                    Err(refused) => batch = refused.batch,
                }
            };
            out.push_back((submitted, ticket));
        }
        engine.flush();
        if let Some((submitted, ticket)) = out.pop_front() {
            buffers.push(ticket.wait().expect("handed back").batch.buffer);
            latency += submitted.elapsed();
            done += 1;
        }
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / done.max(1) as f64;
    Measured {
        per_second: done as f64 / began.elapsed().as_secs_f64(),
        cpu_us: each(cpu() - cpu_before),
        latency_us: each(latency),
    }
}

/// The tables of the paper's subject: how many answers an interrupt stands for.
fn coalescing(arguments: &Arguments, program: &Path) {
    let nonces = NonceSource::new().expect("entropy");
    let count = |count| Rule::Fixed(Plan { count, ..Plan::EACH });
    let mut rules: Vec<(String, Rule)> =
        (0..6).map(|rung| ((1 << rung).to_string(), count(1 << rung))).collect();
    rules.push(("polled".into(), Rule::Fixed(Plan { polls: true, ..Plan::EACH })));
    rules.push(("the paper's rule".into(), Rule::Paper));
    rules.push(("**adaptive**".into(), Rule::Adaptive));
    let key: [u8; 64] = std::array::from_fn(|at| at as u8);
    for (service_us, in_flight) in [("40", 32), ("40", 4), ("100", 32), ("5", 32), ("40", 1)] {
        println!("\n4 KiB in XTS, {service_us} us of service, 4 units, {in_flight} in flight:\n\n{HEADER}");
        let device = Device::start(program, rules.len(), &["--service-us", service_us]);
        let open = |(at, (_, rule)): (usize, &(String, Rule))| {
            let engine = device.open(at, *rule);
            let session = engine.session(XTS, &key).expect("it has it");
            (engine, session)
        };
        let engines: Vec<_> = rules.iter().enumerate().map(open).collect();
        let mut columns = vec![[const { Vec::new() }; 5]; rules.len()];
        for round in 0..=arguments.pairs {
            for step in 0..engines.len() {
                let at = (step + round) % engines.len();
                let (engine, session) = &engines[at];
                let counted = || {
                    let counters = engine.counters();
                    [&counters.interrupts, &counters.wakes].map(|counter| counter.load(Relaxed) as f64)
                };
                let (before, began) = (counted(), Instant::now());
                let measured = load(engine, session, &nonces, 4096, in_flight, arguments.seconds / 4.0);
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

/// So many threads that have a batch under way each, as a mount's; requests a second.
fn threads(
    engine: &dyn Engine,
    session: &Session,
    nonces: &NonceSource,
    bytes: usize,
    count: usize,
    seconds: f64,
) -> f64 {
    let one = || load(engine, session, nonces, bytes, 1, seconds).per_second;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What is measured where the scheduler places: its name, and bytes of its key.
type Placed = (&'static str, Algorithm, u8);

/// Bytes that were placed on the CPU and on the device.
fn placed_bytes(scheduler: &Scheduler) -> [u64; 2] {
    let engines = scheduler.statistics().engines;
    [engines[0].bytes, engines[1].bytes]
}

/// `adaptive` beside the CPU and the device alone, with a device as `open` gives it.
fn placement(arguments: &Arguments, tiers: &[Tier], placed: &[Placed], open: impl Fn() -> Opened) {
    let nonces = NonceSource::new().expect("entropy");
    println!(
        "| CPU | algorithm | KiB | in flight | CPU | device | adaptive | of the better | on the device |\n|---|---|---|---|---|---|---|---|---|"
    );
    for tier in tiers {
        for (name, algorithm, key_len) in placed {
            for (kib, in_flight) in [(4, 1), (4, 8), (16, 1), (16, 8), (64, 1), (64, 8)] {
                let row = format!("{} | {name} | {kib} | {in_flight}", tier.engine_name());
                if arguments.only.as_ref().is_some_and(|only| !row.contains(only)) {
                    continue;
                }
                let (_device, engine) = open();
                let cpu = Arc::new(CpuEngine::of_tier(*tier).expect("it is here")) as Arc<dyn Engine>;
                let settings = Settings { check_exponent: 10, ..Settings::default() };
                let options = Scheduling { settings, ..Scheduling::default() };
                let scheduler = Scheduler::new(vec![cpu, engine], Arc::new(ReferenceEngine), options);
                let key: Vec<u8> = (0..*key_len).collect();
                let session = scheduler.session(*algorithm, &key).expect("both have it");
                let fixed = |engine| Settings { policy: Policy::Fixed, engine, ..settings };
                let mut rates = [Vec::new(), Vec::new(), Vec::new()];
                let mut ratios = Vec::new();
                let mut placed = [0; 2];
                for round in 0..=arguments.pairs {
                    let mut order = [0, 1, 2];
                    order.rotate_left(round % 3);
                    let mut now = [0.0; 3];
                    for side in order {
                        scheduler.set([fixed(0), fixed(1), settings][side]);
                        let bytes = kib * 1024;
                        let seconds = arguments.seconds / 4.0;
                        let before = placed_bytes(&scheduler);
                        let rate = threads(&scheduler, &session, &nonces, bytes, in_flight, seconds);
                        now[side] = rate * bytes as f64 / 1e6;
                        if side == 2 && round > 0 {
                            let after = placed_bytes(&scheduler);
                            placed = [0, 1].map(|at| placed[at] + after[at] - before[at]);
                        }
                    }
                    // It learns in the first one.
                    if round > 0 {
                        ratios.push(now[2] / now[0].max(now[1]));
                        rates.iter_mut().zip(now).for_each(|(rates, now)| rates.push(now));
                    }
                }
                let [cpu, device, adaptive] = rates.map(median);
                let share = 100.0 * placed[1] as f64 / (placed[0] + placed[1]).max(1) as f64;
                println!(
                    "| {row} | {cpu:.0} | {device:.0} | {adaptive:.0} | {:.2} | {share:.0} % |",
                    median(ratios)
                );
            }
        }
    }
}

/// The device beside each tier of the CPU by itself, without a scheduler, in batches of 512 bytes to 1 MiB that are
/// encrypted one after the other.
fn crossover(
    arguments: &Arguments,
    name: &str,
    (algorithm, key_len): (Algorithm, u8),
    device: &Arc<dyn Engine>,
) {
    let nonces = NonceSource::new().expect("entropy");
    let key: Vec<u8> = (0..key_len).collect();
    let tiers = CpuEngine::side_by_side().into_iter().map(|tier| Arc::new(tier) as Arc<dyn Engine>);
    let has = |engine: &Arc<dyn Engine>| engine.capability(algorithm, Operation::EncryptSectors).is_some();
    let engines: Vec<_> = tiers.filter(has).chain([Arc::clone(device)]).collect();
    let sessions: Vec<_> =
        engines.iter().map(|engine| engine.session(algorithm, &key).expect("it has it")).collect();
    let most = device.capability(algorithm, Operation::EncryptSectors).expect("it has it").batch_bytes_max;
    println!("| bytes | CPU, MB/s | device, MB/s |\n|---|---|---|");
    let mut points = Vec::new();
    for bytes in (9..=20).map(|shift| 1 << shift).filter(|bytes| *bytes <= most) {
        let mut rates = vec![Vec::new(); engines.len()];
        for round in 0..=arguments.pairs {
            for step in 0..engines.len() {
                let at = (step + round) % engines.len();
                let seconds = arguments.seconds / 4.0;
                let rate = threads(&*engines[at], &sessions[at], &nonces, bytes, 1, seconds);
                // The device learns in the first one.
                if round > 0 {
                    rates[at].push(rate * bytes as f64 / 1e6);
                }
            }
        }
        let mut rates: Vec<f64> = rates.into_iter().map(median).collect();
        let device = rates.pop().expect("it is the last");
        let cpu = rates.into_iter().fold(0.0, f64::max);
        println!("| {bytes} | {cpu:.1} | {device:.1} |");
        points.push((bytes as f64, cpu, device));
    }
    match crossing(&points) {
        Some(bytes) => println!("{name} is faster from {bytes:.0} bytes on"),
        None => println!("{name} is faster at no size"),
    }
}

/// From which size on the device stays faster: between two that were measured, where lines through the times of both
/// cross. Of the smallest one itself where it is faster there.
fn crossing(points: &[(f64, f64, f64)]) -> Option<f64> {
    let slower = points.iter().rposition(|(_, cpu, device)| device <= cpu);
    let Some(slower) = slower else { return points.first().map(|(bytes, ..)| *bytes) };
    let lead = |(bytes, cpu, device): (f64, f64, f64)| bytes / cpu - bytes / device;
    let (before, after) = (points[slower], *points.get(slower + 1)?);
    let share = -lead(before) / (lead(after) - lead(before));
    Some(before.0 + share * (after.0 - before.0))
}

/// A device, and the process that it is, where it is one.
type Opened = (Option<Device>, Arc<dyn Engine>);

/// A device of this machine by its name.
fn open(name: &str) -> Arc<dyn Engine> {
    if let Some(driver) = name.strip_prefix("kernel:") {
        return Arc::new(KernelEngine::open(name, driver).expect("the driver is there"));
    }
    let address = name.strip_prefix("vfio:").expect("`vfio:ADDRESS` or `kernel:DRIVER`");
    let bus = Arc::new(Vfio::open(address).expect("the function is there"));
    Arc::new(VirtioEngine::open(name, bus, Options::default()).expect("it is sound"))
}

fn main() {
    let arguments = Arguments::parse();
    let per_round = format!("MB/s, median of {} rounds; one result in 1024 is checked", arguments.pairs);
    match (&arguments.on, &arguments.device) {
        (Some(name), _) if arguments.conform => {
            conformance::run(&*open(name), &ReferenceEngine);
            println!("{name} conforms");
        }
        (Some(name), _) if arguments.crossover => crossover(&arguments, name, (CBC, 32), &open(name)),
        (Some(name), _) => {
            println!("\n{per_round}; {name}:\n");
            let engine = open(name);
            placement(&arguments, &[Tier::best()], &[("aes-cbc", CBC, 32)], || (None, Arc::clone(&engine)));
        }
        (None, Some(program)) => {
            if arguments.only.is_none() {
                coalescing(&arguments, program);
            }
            println!("\n{per_round}; 20 us and 4 units of 1 GB/s:\n");
            let placed = [("xaes-256-gcm", GCM, 32), ("aes-xts", XTS, 64)];
            placement(&arguments, &[Tier::Portable, Tier::best()], &placed, || {
                let modelled = ["--service-us", "20", "--bytes-per-second", "1000000000"];
                let device = Device::start(program, 1, &modelled);
                let engine = Arc::new(device.open(0, Rule::Adaptive));
                (Some(device), engine)
            });
        }
        (None, None) => unreachable!("one of them is required"),
    }
}
