//! Measures the driver on the device, in two processes: what coalescing costs and saves, and where the
//! scheduler places. `cargo xtask bench device` runs it.

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
    Aead, Algorithm, AssociatedData, Batch, Buffer, Engine, NonceSource, Operation, SectorCipher, Segment,
    Session, Ticket,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine, Tier};
use strongroom_engine_virtio::{Options, VfioUser, VirtioEngine};
use strongroom_sched::settings::Policy;
use strongroom_sched::{Options as Scheduling, Scheduler, Settings};

const XTS: Algorithm = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
const GCM: Algorithm = Algorithm::Aead(Aead::XAes256Gcm);
const HEADER: &str = "| answers for an interrupt | requests/s | interrupts/s | wake-ups/s | CPU of a request, us | mean latency, us |\n|---|---|---|---|---|---|";

#[derive(Parser)]
struct Arguments {
    /// The device's program
    #[arg(long)]
    device: PathBuf,
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
        Algorithm::Sector(_) => (Operation::EncryptSectors, Segment::sectors(0, len, number, 4096)),
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
fn coalescing(arguments: &Arguments) {
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
        let device = Device::start(&arguments.device, rules.len(), &["--service-us", service_us]);
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

/// `adaptive` beside the CPU and the device alone.
fn placement(arguments: &Arguments) {
    let nonces = NonceSource::new().expect("entropy");
    println!(
        "\nMB/s, median of {} rounds; 20 us and 4 units of 1 GB/s; one result in 1024 is checked:\n\n\
         | CPU | algorithm | KiB | in flight | CPU | device | adaptive | of the better |\n|---|---|---|---|---|---|---|---|",
        arguments.pairs
    );
    for tier in [Tier::Portable, Tier::best()] {
        for (name, algorithm, key_len) in [("xaes-256-gcm", GCM, 32), ("aes-xts", XTS, 64)] {
            for (kib, in_flight) in [(4, 1), (4, 8), (16, 1), (16, 8), (64, 1), (64, 8)] {
                let device = Device::start(
                    &arguments.device,
                    1,
                    &["--service-us", "20", "--bytes-per-second", "1000000000"],
                );
                let cpu = Arc::new(CpuEngine::of_tier(tier).expect("it is here")) as Arc<dyn Engine>;
                let virtio = Arc::new(device.open(0, Rule::Adaptive)) as Arc<dyn Engine>;
                let settings = Settings { check_exponent: 10, ..Settings::default() };
                let options = Scheduling { settings, ..Scheduling::default() };
                let scheduler = Scheduler::new(vec![cpu, virtio], Arc::new(ReferenceEngine), options);
                let key: Vec<u8> = (0..key_len).collect();
                let session = scheduler.session(algorithm, &key).expect("both have it");
                let fixed = |engine| Settings { policy: Policy::Fixed, engine, ..settings };
                let mut rates = [Vec::new(), Vec::new(), Vec::new()];
                let mut ratios = Vec::new();
                for round in 0..=arguments.pairs {
                    let mut order = [0, 1, 2];
                    order.rotate_left(round % 3);
                    let mut now = [0.0; 3];
                    for side in order {
                        scheduler.set([fixed(0), fixed(1), settings][side]);
                        let bytes = kib * 1024;
                        let seconds = arguments.seconds / 4.0;
                        let rate = threads(&scheduler, &session, &nonces, bytes, in_flight, seconds);
                        now[side] = rate * bytes as f64 / 1e6;
                    }
                    // It learns in the first one.
                    if round > 0 {
                        ratios.push(now[2] / now[0].max(now[1]));
                        rates.iter_mut().zip(now).for_each(|(rates, now)| rates.push(now));
                    }
                }
                let [cpu, device, adaptive] = rates.map(median);
                let tier = tier.engine_name();
                println!(
                    "| {tier} | {name} | {kib} | {in_flight} | {cpu:.0} | {device:.0} | {adaptive:.0} | {:.2} |",
                    median(ratios)
                );
            }
        }
    }
}

fn main() {
    let arguments = Arguments::parse();
    coalescing(&arguments);
    placement(&arguments);
}
