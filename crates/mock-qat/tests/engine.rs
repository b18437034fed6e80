//! `engine-qat` on the library that plays QATlib: the conformance suite, and what becomes of work when the
//! device is busy, late, silent, wrong, or restarts.
#![forbid(unsafe_code)]

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom_engine::client::{self, Flight};
use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_engine::{
    Aead, Algorithm, Batch, Buffer, Completed, Engine, Operation, Outcome, SectorCipher, SectorIv,
    SectorMode, Segment, Session, conformance,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_engine_qat::{Error, Library, Options, QatEngine, cpa};
use strongroom_mock_qat::{DIALS, Dials};
use strongroom_sched::settings::Policy;
use strongroom_sched::{Options as Scheduling, Scheduler, Settings};
use tempfile::TempDir;

const CTR: Algorithm = Algorithm::Sector(SectorCipher {
    mode: SectorMode::Ctr,
    iv: SectorIv::Plain64,
    ..SectorCipher::AES_XTS_PLAIN64
});
const XTS: Algorithm = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
const GCM: Algorithm = Algorithm::Aead(Aead::Aes256Gcm);
/// Requests of the engine's own tests of the device, with which nothing is to go wrong.
const SOUND: u64 = 100;

/// For devices that answer, however busy the machine is.
const PATIENT: Options = Options { late: Duration::from_secs(60) };

/// A copy of the library with dials of its own.
struct Device {
    directory: TempDir,
}

impl Device {
    fn new(dials: &Dials) -> Device {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let test = std::env::current_exe().expect("a test knows its place");
        // What cargo has built beside this test.
        let built = test.with_file_name("libstrongroom_mock_qat.so");
        std::fs::copy(&built, at("libqat.so.4")).unwrap_or_else(|_| panic!("{} is built", built.display()));
        symlink("libqat.so.4", at("libusdm.so.0")).expect("a second name");
        std::fs::write(at(DIALS), dials.text()).expect("written");
        Device { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn library(&self) -> &'static Library {
        Library::at(&self.path("libqat.so.4"), &self.path("libusdm.so.0")).expect("it is a library")
    }

    fn try_open(&self, number: u16, options: Options) -> Result<QatEngine, Error> {
        QatEngine::open("qat", self.library(), number, options)
    }

    fn open(&self, number: u16) -> QatEngine {
        self.try_open(number, PATIENT).expect("the device is sound")
    }

    fn open_late(&self, ms: u64) -> QatEngine {
        self.try_open(0, Options { late: Duration::from_millis(ms) }).expect("the device is sound")
    }
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
fn the_engine_conforms() {
    let device = Device::new(&Dials::default());
    conformance::run(&device.open(0), &ReferenceEngine);
}

#[test]
fn the_engine_conforms_where_the_ring_is_short_and_often_full() {
    let device = Device::new(&Dials { ring: 8, busy_ppm: 50_000, sound: SOUND, ..Dials::default() });
    conformance::run(&device.open(0), &ReferenceEngine);
}

#[test]
fn the_engine_conforms_beneath_an_unruly_engine_and_a_scheduler() {
    let device = Device::new(&Dials::default());
    let engine: Arc<dyn Engine> = Arc::new(device.open(0));
    conformance::run(&UnrulyEngine::new(Arc::clone(&engine), 3, Faults::harmless()), &ReferenceEngine);
    let lossy = UnrulyEngine::new(Arc::clone(&engine), 4, Faults::lossy());
    conformance::run_tolerating_loss(&lossy, &ReferenceEngine);
    let scheduler = Scheduler::new(vec![engine], Arc::new(ReferenceEngine), scheduling());
    conformance::run(&scheduler, &ReferenceEngine);
}

/// Whatever is not lost is right.
#[test]
fn the_engine_conforms_through_failures_late_answers_and_restarts() {
    let dials = Dials {
        failed_ppm: 1000,
        late_ppm: 500,
        late_ms: 150,
        restart_after: 5000,
        restart_ms: 20,
        seed: 11,
        sound: SOUND,
        ..Dials::default()
    };
    let engine = Device::new(&dials).open_late(50);
    conformance::run_tolerating_loss(&engine, &ReferenceEngine);
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let began = Instant::now();
    while run(&engine, &session, batch(10).0).outcome != Outcome::DeviceLost {
        assert!(began.elapsed() < Duration::from_secs(60), "it still loses batches");
    }
}

#[test]
fn two_instances_work_side_by_side() {
    let device = Device::new(&Dials { service_us: 20, ..Dials::default() });
    let engines = [device.open(0), device.open(1)];
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

#[test]
fn an_instance_is_one_engines_until_that_is_dropped() {
    let device = Device::new(&Dials::default());
    let engine = device.open(0);
    assert!(matches!(device.try_open(0, Options::default()), Err(Error::InUse)));
    let none = device.try_open(2, Options::default()).err();
    assert!(matches!(none, Some(Error::NoInstance { number: 2, count: 2 })), "{none:?}");
    drop(engine);
    let began = Instant::now();
    while matches!(device.try_open(0, Options::default()), Err(Error::InUse)) {
        assert!(began.elapsed() < Duration::from_secs(60), "its thread ends");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_missing_is_named() {
    let nowhere = Library::at("/nowhere/libqat.so.4".as_ref(), "/nowhere/libusdm.so.0".as_ref()).err();
    let told = nowhere.expect("nothing is there").to_string();
    assert!(told.starts_with("there is no /nowhere/libusdm.so.0: QATlib has it"), "{told}");
    let device = Device::new(&Dials { instances: 0, ..Dials::default() });
    let other = Library::at("libc.so.6".as_ref(), &device.path("libusdm.so.0")).err();
    let told = other.expect("it has no such functions").to_string();
    assert!(told.starts_with("libc.so.6 has no icp_sal_userStart"), "{told}");
    assert!(matches!(device.library().probe(), Err(Error::NoDevice)));
    let refused = device.try_open(0, Options::default()).err().expect("there is no device");
    assert_eq!(refused.to_string(), "icp_sal_userStart failed: CPA_STATUS_FAIL");
}

#[test]
fn an_instance_that_answers_wrong_is_refused_by_name() {
    let device = Device::new(&Dials { wrong_ppm: 1_000_000, ..Dials::default() });
    let refused = device.try_open(0, Options::default()).err().expect("it is wrong").to_string();
    assert_eq!(refused, "it computes AES in CBC with a key of 16 bytes otherwise than is published");
    let device = Device::new(&Dials { lost_ppm: 1_000_000, ..Dials::default() });
    assert!(matches!(device.try_open(0, Options::default()), Err(Error::Wrong(_))));
}

#[test]
fn what_an_instance_lacks_is_not_offered() {
    let lacks =
        |ciphers: &[u32]| Dials { lacks: ciphers.iter().map(|cipher| 1 << cipher).sum(), ..Dials::default() };
    let (xts, gcm, ctr, cbc) =
        (cpa::cipher::AES_XTS, cpa::cipher::AES_GCM, cpa::cipher::AES_CTR, cpa::cipher::AES_CBC);
    let engine = Device::new(&lacks(&[xts])).open(0);
    assert!(engine.capability(XTS, Operation::EncryptSectors).is_none());
    assert!(engine.session(XTS, &[7; 64]).is_err());
    assert!(engine.capability(GCM, Operation::Seal).is_some());
    let none = Device::new(&lacks(&[xts, gcm, ctr, cbc])).try_open(0, Options::default()).err();
    assert!(matches!(none, Some(Error::ComputesNothing)), "{none:?}");
}

/// Of one that counts bytes by 16 bits no longer requests are asked.
#[test]
fn requests_are_as_long_as_an_instance_computes_right() {
    let device = Device::new(&Dials { length_bits: 16, ..Dials::default() });
    let engine = device.open(0);
    let most = |algorithm, operation| engine.capability(algorithm, operation).expect("offered");
    assert_eq!(most(GCM, Operation::Seal).batch_bytes_max, 65_520);
    assert_eq!(most(XTS, Operation::EncryptSectors).batch_bytes_max, 65_520);
    let longer = Device::new(&Dials::default()).open(0).capability(GCM, Operation::Seal).expect("offered");
    assert_eq!(longer.batch_bytes_max, 1 << 20);
}

#[test]
fn a_request_that_fails_loses_its_batch_alone() {
    let dials = Dials { failed_ppm: 20_000, seed: 5, sound: SOUND, ..Dials::default() };
    let engine = Device::new(&dials).open(0);
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
}

#[test]
fn answers_that_come_too_late_reach_nobody() {
    let dials = Dials { late_ppm: 30_000, late_ms: 250, seed: 9, sound: SOUND, ..Dials::default() };
    let engine = Device::new(&dials).open_late(100);
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

/// Memory of requests without an answer is not used again; when all that is for requests has gone so, nothing
/// more is offered. The mock ends the process when memory is freed that it has.
#[test]
fn an_instance_that_answers_nothing_any_more_is_offered_nothing() {
    let dials = Dials { lost_ppm: 1_000_000, ring: 1000, sound: SOUND, ..Dials::default() };
    let engine = Device::new(&dials).open_late(50);
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let began = Instant::now();
    while engine.capability(CTR, Operation::EncryptSectors).is_some() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is told");
        run(&engine, &session, batch(100).0);
    }
    assert_eq!(run(&engine, &session, batch(1).0).outcome, Outcome::DeviceLost);
}

#[test]
fn a_restart_loses_what_was_out_and_work_goes_on() {
    let dials = Dials { restart_after: 300, restart_ms: 30, sound: SOUND, ..Dials::default() };
    let engine = Device::new(&dials).open(0);
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let (mut lost, mut since) = (0, 0);
    let began = Instant::now();
    while lost < 2 || since < 10 {
        assert!(began.elapsed() < Duration::from_secs(60), "{lost} lost, {since} done since");
        let (batch, expected) = batch(5);
        let completed = run(&engine, &session, batch);
        match completed.outcome {
            Outcome::DeviceLost => (lost, since) = (lost + 1, 0),
            _ => {
                assert!(completed.batch.buffer[..] == expected);
                since += 1;
            }
        }
    }
}

#[test]
fn what_was_accepted_is_answered_after_the_engine_is_dropped() {
    let device = Device::new(&Dials { service_us: 2000, ..Dials::default() });
    let engine = device.open(0);
    let session = engine.session(CTR, &[7; 32]).expect("it has it");
    let (batch, expected) = batch(10);
    let tickets: Vec<_> =
        (0..10).map(|_| engine.submit(&session, batch.duplicate()).expect("it has room")).collect();
    drop((engine, session));
    for ticket in tickets {
        let completed = ticket.wait().expect("handed back");
        assert_eq!(completed.outcome, Outcome::Done);
        assert!(completed.batch.buffer[..] == expected);
    }
}

/// Always the device, as long as it is trusted.
fn scheduling() -> Scheduling {
    let settings = Settings { policy: Policy::Fixed, ..Settings::default() };
    Scheduling { deadline: Duration::from_secs(1), settings, ..Scheduling::default() }
}

/// Through the scheduler nothing is lost and nothing wrong, whatever the device does.
#[test]
fn the_scheduler_loses_nothing_to_a_bad_device() {
    let sound = Dials { sound: SOUND, ..Dials::default() };
    for dials in [
        Dials { lost_ppm: 20_000, ..sound.clone() },
        Dials { wrong_ppm: 200_000, ..sound.clone() },
        Dials { failed_ppm: 50_000, ..sound.clone() },
        Dials { late_ppm: 50_000, late_ms: 2000, ..sound.clone() },
        Dials { restart_after: 150, restart_ms: 100, ..sound.clone() },
    ] {
        let fallback: Arc<dyn Engine> = Arc::new(CpuEngine::new());
        let engines = vec![Arc::new(Device::new(&dials).open_late(500)) as Arc<dyn Engine>];
        let scheduler = Scheduler::new(engines, fallback, scheduling());
        let session = scheduler.session(CTR, &[7; 32]).expect("both have it");
        for _ in 0..30 {
            let (batch, expected) = batch(10);
            let completed = client::execute(&scheduler, &session, batch).expect("nothing is lost");
            assert_eq!(completed.outcome, Outcome::Done, "{dials:?}");
            assert!(completed.batch.buffer[..] == expected, "{dials:?}");
        }
    }
}
