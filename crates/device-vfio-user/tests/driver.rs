//! The driver of `engine-virtio` on the device, in two processes: the engine conformance suite, and what
//! becomes of work when the device is late, loses, lies, or goes away.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use strongroom_engine::{
    Algorithm, Batch, Buffer, Engine, Operation, Outcome, SectorCipher, SectorIv, SectorMode, Segment,
    conformance,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_engine_virtio::{Options, VfioUser, VirtioEngine};
use strongroom_sched::{Options as Scheduling, Policy, Scheduler, Settings};

const CTR: Algorithm = Algorithm::Sector(SectorCipher {
    mode: SectorMode::Ctr,
    iv: SectorIv::Plain64,
    ..SectorCipher::AES_XTS_PLAIN64
});

/// A device's process and its socket.
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
    fn start(functions: usize, arguments: &[&str]) -> Device {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_strongroom-device"));
        for number in 0..functions {
            command.arg("--socket").arg(directory.path().join(number.to_string()));
        }
        let process = command.args(arguments).spawn().expect("the device starts");
        let device = Device { process, directory };
        let began = Instant::now();
        while (0..functions).any(|number| !device.socket(number).exists()) {
            assert!(began.elapsed() < Duration::from_secs(60), "the device makes its sockets");
            std::thread::sleep(Duration::from_millis(5));
        }
        device
    }

    fn socket(&self, function: usize) -> PathBuf {
        self.directory.path().join(function.to_string())
    }

    fn open(&self, function: usize, options: Options) -> VirtioEngine {
        let bus = VfioUser::connect(&self.socket(function)).expect("the device is there");
        VirtioEngine::open(Arc::new(bus), options).expect("the device is sound")
    }
}

/// A batch of so many sectors of 512 bytes, and what it has to become.
fn batch(sectors: usize) -> (Batch, Vec<u8>) {
    let plain: Vec<u8> = (0..512 * sectors).map(|at| (at * 7 + at / 509) as u8).collect();
    let segments = vec![Segment::sectors(0, plain.len(), 3, 512)];
    let batch = Batch::new(Operation::EncryptSectors, Buffer::copy_of(&plain), segments);
    let cpu = CpuEngine::new();
    let session = cpu.session(CTR, &[7; 32]).expect("the CPU has it");
    let done = cpu.submit(&session, batch.duplicate()).ok().expect("inline").wait().expect("inline");
    (batch, done.batch.buffer.to_vec())
}

#[test]
fn the_driver_conforms_by_interrupts() {
    let device = Device::start(1, &[]);
    let engine = device.open(0, Options::default());
    conformance::run(&engine, &ReferenceEngine);
    assert!(engine.counters().interrupts.load(Relaxed) > 0);
    assert_eq!(engine.counters().resets.load(Relaxed), 0);
}

#[test]
fn the_driver_conforms_by_polling_on_one_queue() {
    let device = Device::start(1, &["--queues", "1", "--units", "1"]);
    let engine = device.open(0, Options { queues: 1, poll: true, ..Options::default() });
    conformance::run(&engine, &ReferenceEngine);
    assert_eq!(engine.counters().interrupts.load(Relaxed), 0);
}

#[test]
fn several_functions_work_side_by_side() {
    let device = Device::start(3, &["--service-us", "20"]);
    let engines: Vec<_> = (0..3).map(|function| device.open(function, Options::default())).collect();
    std::thread::scope(|scope| {
        for engine in &engines {
            scope.spawn(move || {
                let session = engine.session(CTR, &[7; 32]).expect("it has it");
                let (batch, expected) = batch(100);
                let tickets: Vec<_> = (0..20)
                    .map(|_| engine.submit(&session, batch.duplicate()).ok().expect("it has room"))
                    .collect();
                for ticket in tickets {
                    let done = ticket.wait().expect("it answers");
                    assert_eq!(done.outcome, Outcome::Done);
                    assert!(done.batch.buffer[..] == expected);
                }
            });
        }
    });
}

/// As many answers in one interrupt as was asked for, while there is as much under way.
#[test]
fn interrupts_are_coalesced() {
    let device = Device::start(1, &["--service-us", "200", "--units", "4", "--queues", "1"]);
    let mut counts = Vec::new();
    for coalesce in [1, 8] {
        let engine = device.open(0, Options { queues: 1, coalesce, ..Options::default() });
        let session = engine.session(CTR, &[7; 32]).expect("it has it");
        let (batch, expected) = batch(500);
        let done = engine.submit(&session, batch).ok().expect("it has room").wait().expect("it answers");
        assert!(done.batch.buffer[..] == expected);
        counts.push(engine.counters().interrupts.load(Relaxed));
    }
    // At most 1 in 8, and on a busy machine several answers wait for one look.
    assert!(counts[1] * 2 < counts[0].max(3), "{counts:?}");
}

#[test]
fn what_a_device_loses_is_told_and_the_device_goes_on() {
    let device = Device::start(1, &["--lost-ppm", "20000", "--seed", "5"]);
    let engine = device.open(0, Options { late: Duration::from_millis(300), ..Options::default() });
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let (mut lost, mut done) = (0, 0);
    for _ in 0..60 {
        let (batch, expected) = batch(10);
        let completed = engine.submit(&session, batch).ok().expect("it has room").wait().expect("handed back");
        match completed.outcome {
            Outcome::DeviceLost => lost += 1,
            outcome => {
                assert_eq!(outcome, Outcome::Done);
                assert!(completed.batch.buffer[..] == expected);
                done += 1;
            }
        }
    }
    assert!(lost > 0 && done > 30, "{lost} lost, {done} done");
    assert_eq!(engine.counters().resets.load(Relaxed), lost);
}

#[test]
fn answers_that_come_after_a_reset_reach_nobody() {
    let device = Device::start(1, &["--late-ppm", "30000", "--late-ms", "250", "--seed", "9"]);
    let engine = device.open(0, Options { late: Duration::from_millis(100), ..Options::default() });
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let mut lost = 0;
    for _ in 0..60 {
        let (batch, expected) = batch(10);
        let completed = engine.submit(&session, batch).ok().expect("it has room").wait().expect("handed back");
        match completed.outcome {
            Outcome::DeviceLost => lost += 1,
            _ => assert!(completed.batch.buffer[..] == expected),
        }
    }
    assert!(lost > 0);
}

#[test]
fn an_unplugged_device_hands_back_what_it_had() {
    let device = Device::start(1, &["--unplug-after", "55"]);
    let engine = device.open(0, Options { late: Duration::from_millis(300), ..Options::default() });
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let tickets: Vec<_> =
        (0..20).map(|_| engine.submit(&session, batch(10).0).ok().expect("it has room")).collect();
    let outcomes: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait().expect("handed back").outcome).collect();
    assert!(outcomes.contains(&Outcome::DeviceLost), "{outcomes:?}");
    let (batch, _) = batch(1);
    let completed = engine.submit(&session, batch).ok().expect("answered at once").wait().expect("handed back");
    assert_eq!(completed.outcome, Outcome::DeviceLost);
    assert!(engine.capability(CTR, Operation::EncryptSectors).is_none());
    assert!(engine.session(CTR, &[7; 32]).is_err());
}

/// Always the device, as long as it is trusted.
fn scheduling() -> Scheduling {
    let settings = Settings { policy: Policy::Fixed, ..Settings::default() };
    Scheduling { deadline: Duration::from_secs(1), settings, ..Scheduling::default() }
}

/// Through the scheduler nothing is lost and nothing wrong, whatever the device does.
#[test]
fn the_scheduler_loses_nothing_to_a_bad_device() {
    for faults in [
        &["--lost-ppm", "20000"][..],
        &["--wrong-ppm", "200000"],
        &["--late-ppm", "50000", "--late-ms", "2000"],
        &["--unplug-after", "40"],
    ] {
        let device = Device::start(1, faults);
        let options = Options { late: Duration::from_millis(500), ..Options::default() };
        let fallback: Arc<dyn Engine> = Arc::new(CpuEngine::new());
        let engines = vec![Arc::new(device.open(0, options)) as Arc<dyn Engine>];
        let scheduler = Scheduler::new(engines, fallback, scheduling());
        let session = scheduler.session(CTR, &[7; 32]).expect("both have it");
        for _ in 0..30 {
            let (batch, expected) = batch(10);
            let mut batch = Some(batch);
            let completed = loop {
                match scheduler.submit(&session, batch.take().expect("given back")) {
                    Ok(ticket) => break ticket.wait().expect("handed back"),
                    Err(refused) => batch = Some(refused.batch),
                }
            };
            assert_eq!(completed.outcome, Outcome::Done, "{faults:?}");
            assert!(completed.batch.buffer[..] == expected, "{faults:?}");
        }
    }
}
