//! The driver of `engine-virtio` on the device, in two processes: the engine conformance suite, and what
//! becomes of work when the device is late, loses, lies, or goes away.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use strongroom_engine::client::{self, Flight};
use strongroom_engine::completion::{Plan, Rule};
use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_engine::{
    Algorithm, Batch, Buffer, Completed, Engine, Operation, Outcome, SectorCipher, SectorIv, SectorMode,
    Segment, Session, conformance,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_engine_virtio::{Options, VfioUser, VirtioEngine};
use strongroom_sched::settings::Policy;
use strongroom_sched::{Options as Scheduling, Scheduler, Settings};

const CTR: Algorithm = Algorithm::Sector(SectorCipher {
    mode: SectorMode::Ctr,
    iv: SectorIv::Plain64,
    ..SectorCipher::AES_XTS_PLAIN64
});
/// Requests of the driver's own tests of the device, with which nothing is to go wrong.
const SOUND: &str = "100";

/// A device's process and its sockets.
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
        VirtioEngine::open("virtio", Arc::new(bus), options).expect("the device is sound")
    }
}

/// Gives a request up after so many milliseconds.
fn late(ms: u64) -> Options {
    Options { late: Duration::from_millis(ms), ..Options::default() }
}

/// One interrupt for so many answers.
fn coalescing(count: u32) -> Options {
    Options { rule: Rule::Fixed(Plan { count, ..Plan::EACH }), ..Options::default() }
}

/// A batch of so many sectors of 512 bytes, and what it has to become.
fn batch(sectors: usize) -> (Batch, Vec<u8>) {
    let plain: Vec<u8> = (0..512 * sectors).map(|at| (at * 7 + at / 509) as u8).collect();
    let segments = vec![Segment::sectors(0, plain.len(), 3, 512)];
    let batch = Batch::new(Operation::EncryptSectors, Buffer::copy_of(&plain), segments);
    let cpu = CpuEngine::new();
    let session = cpu.session(CTR, &[7; 32]).expect("the CPU has it");
    let done = client::execute(&cpu, &session, batch.duplicate()).expect("the CPU does it");
    (batch, done.batch.buffer.to_vec())
}

/// Hands a batch over and waits for it, lost or not.
fn run(engine: &dyn Engine, session: &Session, batch: Batch) -> Completed {
    let ticket = engine.submit(session, batch).expect("it has room");
    engine.flush();
    ticket.wait().expect("handed back")
}

#[test]
fn the_driver_conforms_by_interrupts() {
    let device = Device::start(1, &[]);
    for options in [coalescing(1), coalescing(8), Options::default()] {
        let engine = device.open(0, options);
        conformance::run(&engine, &ReferenceEngine);
        assert!(engine.counters().interrupts.load(Relaxed) > 0);
        assert_eq!(engine.counters().resets.load(Relaxed), 0);
    }
}

#[test]
fn the_driver_conforms_by_polling_and_on_two_queues() {
    let device = Device::start(1, &["--queues", "2", "--units", "1"]);
    let rule = Rule::Fixed(Plan { polls: true, ..Plan::EACH });
    let engine = device.open(0, Options { queues: 2, rule, ..Options::default() });
    conformance::run(&engine, &ReferenceEngine);
    assert_eq!(engine.counters().resets.load(Relaxed), 0);
}

#[test]
fn the_driver_conforms_beneath_an_unruly_engine_and_a_scheduler() {
    let device = Device::start(1, &[]);
    let engine: Arc<dyn Engine> = Arc::new(device.open(0, Options::default()));
    conformance::run(&UnrulyEngine::new(Arc::clone(&engine), 3, Faults::harmless()), &ReferenceEngine);
    let lossy = UnrulyEngine::new(Arc::clone(&engine), 4, Faults::lossy());
    conformance::run_tolerating_loss(&lossy, &ReferenceEngine);
    let scheduler = Scheduler::new(vec![engine], Arc::new(ReferenceEngine), scheduling());
    conformance::run(&scheduler, &ReferenceEngine);
}

/// A device that loses and resets under the suite: whatever is not lost is right.
#[test]
fn the_driver_conforms_through_losses_and_resets() {
    let device = Device::start(1, &["--lost-ppm", "2000", "--seed", "11", "--sound", SOUND]);
    let engine = device.open(0, late(100));
    conformance::run_tolerating_loss(&engine, &ReferenceEngine);
    let (resets, requests) = (engine.counters().resets.load(Relaxed), engine.requests());
    assert!(resets > 0, "none lost of {requests}");
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
                let mut flight = Flight::new(engine);
                for _ in 0..20 {
                    flight.add(&session, batch.duplicate()).expect("it has room");
                }
                for done in flight {
                    let done = done.expect("it answers");
                    assert_eq!(done.outcome, Outcome::Done);
                    assert!(done.batch.buffer[..] == expected);
                }
            });
        }
    });
}

/// As many answers in one interrupt as was asked for, while there is as much under way; on a busy machine
/// more of them wait for one look.
#[test]
fn interrupts_are_coalesced() {
    let device = Device::start(1, &["--service-us", "200"]);
    let engine = device.open(0, coalescing(8));
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let (batch, expected) = batch(500);
    let before = engine.counters().interrupts.load(Relaxed);
    assert!(run(&engine, &session, batch).batch.buffer[..] == expected);
    let interrupts = engine.counters().interrupts.load(Relaxed) - before;
    assert!((1..=500 / 8 + 10).contains(&interrupts), "{interrupts}");
}

#[test]
fn what_a_device_loses_is_told_and_the_device_goes_on() {
    let device = Device::start(1, &["--lost-ppm", "20000", "--seed", "5", "--sound", SOUND]);
    let engine = device.open(0, late(200));
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let (mut lost, mut done) = (0, 0);
    for _ in 0..60 {
        let (batch, expected) = batch(10);
        let completed = run(&engine, &session, batch);
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
    let device =
        Device::start(1, &["--late-ppm", "30000", "--late-ms", "250", "--seed", "9", "--sound", SOUND]);
    let engine = device.open(0, late(100));
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let mut lost = 0;
    for _ in 0..60 {
        let (batch, expected) = batch(10);
        let completed = run(&engine, &session, batch);
        match completed.outcome {
            Outcome::DeviceLost => lost += 1,
            _ => assert!(completed.batch.buffer[..] == expected),
        }
    }
    assert!(lost > 0);
}

#[test]
fn an_unplugged_device_hands_back_what_it_had() {
    let device = Device::start(1, &["--unplug-after", "155"]);
    let engine = device.open(0, late(200));
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let tickets: Vec<_> =
        (0..20).map(|_| engine.submit(&session, batch(10).0).expect("it has room")).collect();
    engine.flush();
    let outcomes: Vec<_> =
        tickets.into_iter().map(|ticket| ticket.wait().expect("handed back").outcome).collect();
    assert!(outcomes.contains(&Outcome::DeviceLost), "{outcomes:?}");
    assert_eq!(run(&engine, &session, batch(1).0).outcome, Outcome::DeviceLost);
    assert!(engine.capability(CTR, Operation::EncryptSectors).is_none());
    assert!(engine.session(CTR, &[7; 32]).is_err());
}

/// A process that stands still answers nothing, not even registers.
#[test]
fn a_device_that_stands_still_holds_up_no_caller() {
    let device = Device::start(1, &[]);
    let engine = device.open(0, late(3000));
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let (sectors, expected) = batch(10);
    assert!(run(&engine, &session, sectors.duplicate()).batch.buffer[..] == expected);
    let process = rustix::process::Pid::from_child(&device.process);
    rustix::process::kill_process(process, rustix::process::Signal::STOP).expect("it stands still");
    stands_still(&device.process);
    let began = Instant::now();
    let ticket = engine.submit(&session, sectors.duplicate()).expect("it has room");
    engine.flush();
    assert!(engine.session(CTR, &[8; 32]).is_ok());
    assert!(began.elapsed() < Duration::from_millis(2500), "nobody waits for it");
    assert_eq!(ticket.wait().expect("handed back").outcome, Outcome::DeviceLost);
    assert_eq!(run(&engine, &session, sectors).outcome, Outcome::DeviceLost);
    drop(engine);
    rustix::process::kill_process(process, rustix::process::Signal::CONT).expect("it goes on");
}

/// Waits until every thread of a stopped process is.
fn stands_still(process: &Child) {
    let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.expect("listed").path().join("stat")).expect("it is there");
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    let tasks = format!("/proc/{}/task", process.id());
    while !std::fs::read_dir(&tasks).expect("it is there").all(is_stopped) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_device_that_computes_wrong_is_offered_nothing() {
    let device = Device::start(1, &["--wrong-ppm", "1000000"]);
    let engine = device.open(0, Options::default());
    let all = Algorithm::all().flat_map(|algorithm| {
        [Operation::Seal, Operation::EncryptSectors].map(|operation| (algorithm, operation))
    });
    assert!(all.into_iter().all(|(algorithm, operation)| engine.capability(algorithm, operation).is_none()));
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
        &["--lost-ppm", "20000", "--sound", SOUND][..],
        &["--wrong-ppm", "200000", "--sound", SOUND],
        &["--late-ppm", "50000", "--late-ms", "2000", "--sound", SOUND],
        &["--unplug-after", "140"],
    ] {
        let device = Device::start(1, faults);
        let fallback: Arc<dyn Engine> = Arc::new(CpuEngine::new());
        let engines = vec![Arc::new(device.open(0, late(500))) as Arc<dyn Engine>];
        let scheduler = Scheduler::new(engines, fallback, scheduling());
        let session = scheduler.session(CTR, &[7; 32]).expect("both have it");
        for _ in 0..30 {
            let (batch, expected) = batch(10);
            let completed = client::execute(&scheduler, &session, batch).expect("nothing is lost");
            assert_eq!(completed.outcome, Outcome::Done, "{faults:?}");
            assert!(completed.batch.buffer[..] == expected, "{faults:?}");
        }
    }
}
