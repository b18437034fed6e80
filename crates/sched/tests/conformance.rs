//! The scheduler passes the conformance suite of every engine, whatever the
//! engines below it do.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::{Duration, Instant};

use strongroom_engine::client::{Cause, Flight, execute};
use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, Buffer, Capability, Completed, Cross, Crossing, Engine,
    FreshNonce, Operation, Outcome, Refusal, Refused, Segment, Session, SessionError, SharedBytes, Ticket,
    Verdict, conformance,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_engine_sim::{Completion, Faults as SimFaults, Model, SimEngine};
use strongroom_sched::{EngineStatistics, Options, Policy, Scheduler, Seed, SeedPoint, Settings};

fn cpu() -> Arc<dyn Engine> {
    Arc::new(CpuEngine::new())
}

const XAES: Algorithm = Algorithm::Aead(Aead::XAes256Gcm);

/// 4 KiB of zeros to be sealed.
fn batch_of_one() -> Batch {
    let segment = Segment::seal(0, 4096, FreshNonce::published([2; 24]), AssociatedData::new(&[]));
    Batch::new(Operation::Seal, Buffer::new(4096), vec![segment])
}

/// Makes a scheduler over the CPU and a device, by a policy that uses both,
/// which comes back from quarantine soon.
fn beside_cpu(device: Arc<dyn Engine>, settings: Settings) -> Scheduler {
    let options = Options { deadline: Duration::from_millis(50), pause: Duration::from_millis(1), settings };
    Scheduler::new(vec![cpu(), device], Arc::new(ReferenceEngine), options)
}

fn sim(faults: SimFaults) -> Arc<dyn Engine> {
    let model = Model {
        fixed: Duration::from_micros(5),
        bytes_per_second: 10_000_000_000,
        completion: Completion::Poll,
        ..Model::moderate()
    };
    Arc::new(SimEngine::new(cpu(), model, faults, 99))
}

/// Everything from 256 bytes on to the device.
const SIZE: Settings = Settings {
    policy: Policy::Size,
    objective: strongroom_sched::Objective::Throughput,
    engine: 0,
    alpha: 0,
    beta_bytes: 256,
    idle_cpu_permille: 1000,
    check_exponent: 0,
    masks: strongroom_sched::Masks::Auto,
};

fn device_of(scheduler: &Scheduler) -> EngineStatistics {
    scheduler.statistics().engines[1].clone()
}

#[test]
fn a_single_engine_serves_all() {
    let scheduler = Scheduler::fixed(cpu(), cpu());
    conformance::run(&scheduler, &ReferenceEngine);
    let statistics = scheduler.statistics();
    assert!(statistics.engines[0].operations > 1000 && statistics.engines[0].bytes > 1 << 20);
    assert_eq!(statistics.fallback.operations, 0);
}

#[test]
fn every_policy_over_cpu_and_device_conforms() {
    for policy in [Policy::Fixed, Policy::Size, Policy::Aca, Policy::Adaptive] {
        let settings = Settings { policy, engine: 1, ..SIZE };
        // A busy machine must not look like a device that stalls.
        let options = Options { deadline: Duration::from_secs(60), settings, ..Options::default() };
        let engines = vec![cpu(), sim(SimFaults::default())];
        let scheduler = Scheduler::new(engines, Arc::new(ReferenceEngine), options);
        conformance::run(&scheduler, &ReferenceEngine);
        let device = device_of(&scheduler);
        assert_eq!((device.lost, device.mismatches), (0, 0), "{device:?}");
        if policy != Policy::Adaptive {
            assert!(device.operations > 0, "{policy:?}: {device:?}");
        }
        assert_eq!(device.in_flight, 0);
    }
}

#[test]
fn losses_below_are_not_seen_above() {
    let unruly = UnrulyEngine::new(cpu(), 11, Faults::lossy());
    // It gets more work however often it loses some.
    let options = Options { pause: Duration::ZERO, settings: SIZE, ..Options::default() };
    let scheduler = Scheduler::new(vec![cpu(), Arc::new(unruly)], Arc::new(ReferenceEngine), options);
    conformance::run(&scheduler, &ReferenceEngine);
    let device = device_of(&scheduler);
    assert!(device.lost > 0 && device.busy > 0, "{device:?}");
    assert!(scheduler.statistics().engines[0].redone >= device.lost);
}

#[test]
fn no_wrong_result_passes_and_the_device_is_out_for_good() {
    for faults in [
        SimFaults { wrong_ppm: 5_000, ..SimFaults::default() },
        SimFaults { wrong_ppm: 1_000_000, ..SimFaults::default() },
    ] {
        let scheduler = beside_cpu(sim(faults), SIZE);
        conformance::run(&scheduler, &ReferenceEngine);
        let device = device_of(&scheduler);
        assert!(device.mismatches >= 1 && device.quarantined, "{device:?}");
        let before = device.operations;
        conformance::run(&scheduler, &ReferenceEngine);
        assert_eq!(device_of(&scheduler).operations, before);
    }
}

#[test]
fn a_device_that_stalls_or_goes_is_done_without() {
    for faults in [
        SimFaults { stall_ppm: 100_000, stall: Duration::from_millis(200), ..SimFaults::default() },
        SimFaults { lost_ppm: 50_000, ..SimFaults::default() },
        SimFaults { gone_after: Some(20), ..SimFaults::default() },
    ] {
        let scheduler = beside_cpu(sim(faults), SIZE);
        conformance::run(&scheduler, &ReferenceEngine);
        let device = device_of(&scheduler);
        assert!(device.lost >= 1 && device.mismatches == 0, "{device:?}");
    }
}

/// Batches until one is divided.
const BATCHES_MAX: usize = 1000;

/// A batch of 64 blocks to be sealed.
fn batch_of_many() -> Batch {
    let segments = (0..64).map(|i: usize| {
        let mut nonce = [4; 24];
        nonce[23] = i as u8;
        Segment::seal(i * 4096, 4096, FreshNonce::published(nonce), AssociatedData::new(&[i as u8]))
    });
    let mut buffer = Buffer::new(64 * 4096);
    for (byte, value) in buffer.iter_mut().zip((0..251).cycle()) {
        *byte = value;
    }
    Batch::new(Operation::Seal, buffer, segments.collect())
}

/// A batch of many segments is divided, and the parts come together again. The
/// device takes as long as the CPU engine does on this machine now, so that to
/// divide is the best by far, however busy the machine.
#[test]
fn a_batch_is_split_between_both() {
    let reference = ReferenceEngine.session(XAES, &[1; 32]).unwrap();
    let sealed = || ReferenceEngine.submit(&reference, batch_of_many()).unwrap().wait().unwrap();
    let expected = sealed();
    let bytes = expected.batch.buffer.len() as u64;
    let times = [(); 5].map(|()| {
        let began = Instant::now();
        sealed();
        began.elapsed()
    });
    let time = times.into_iter().min().expect("it was measured");
    let bytes_per_second = (bytes as f64 / time.as_secs_f64()) as u64;
    let model = Model { bytes_per_second, ..Model::moderate() };
    let device = SimEngine::new(cpu(), model, SimFaults::default(), 3);
    let seed = |engine: &str| Seed {
        engine: engine.to_owned(),
        algorithm: XAES,
        operation: Operation::Seal,
        points: [4096, 131_072, 262_144]
            .map(|bytes| {
                let service_ns = bytes as f64 * 1e9 / bytes_per_second as f64;
                SeedPoint { bytes, service_ns, cpu_ns: 1000.0 }
            })
            .to_vec(),
    };
    let seeds = vec![seed(ReferenceEngine.name()), seed(device.name())];
    let settings = Settings { policy: Policy::Adaptive, check_exponent: 14, ..Settings::default() };
    let options = Options { settings, ..Options::default() };
    let scheduler = Scheduler::new(vec![Arc::new(ReferenceEngine), Arc::new(device)], cpu(), options);
    scheduler.seed(seeds);
    let session = scheduler.session(XAES, &[1; 32]).unwrap();
    let splits = |engine: usize| {
        let placements = &scheduler.statistics().engines[engine].placements;
        placements
            .iter()
            .find(|placement| placement.reason.name() == "split")
            .map_or(0, |placement| placement.count)
    };
    for _ in 0..BATCHES_MAX {
        if splits(0) > 0 && splits(1) > 0 {
            break;
        }
        let found = execute(&scheduler, &session, batch_of_many()).unwrap();
        assert_eq!(found.outcome, Outcome::Done);
        assert!(found.batch.buffer[..] == expected.batch.buffer[..]);
        for (found, expected) in found.batch.segments.iter().zip(&expected.batch.segments) {
            assert_eq!(
                (found.range(), found.tag(), found.verdict()),
                (expected.range(), expected.tag(), expected.verdict())
            );
        }
    }
    assert!(splits(0) > 0 && splits(0) == splits(1), "{:?}", scheduler.statistics());
}

#[test]
fn settings_change_while_it_works() {
    let scheduler = beside_cpu(sim(SimFaults::default()), Settings { policy: Policy::Fixed, ..SIZE });
    let session = scheduler.session(XAES, &[1; 32]).unwrap();
    let submit = || execute(&scheduler, &session, batch_of_one()).unwrap();
    submit();
    assert_eq!(device_of(&scheduler).operations, 0);
    scheduler.set(Settings { engine: 1, ..scheduler.settings() });
    submit();
    assert_eq!(device_of(&scheduler).operations, 1);
}

#[test]
fn a_dropped_ticket_leaves_nothing_behind() {
    let scheduler = beside_cpu(sim(SimFaults::default()), SIZE);
    let session = scheduler.session(XAES, &[1; 32]).unwrap();
    for _ in 0..10 {
        drop(scheduler.submit(&session, batch_of_one()).unwrap());
    }
    assert_eq!(device_of(&scheduler).in_flight, 0);
}

/// Batches that go to a device and to the CPU in turn come back in their order,
/// and the device's, each of which was begun with when the CPU computed.
#[test]
fn a_flight_over_cpu_and_device_comes_back_in_order() {
    let device = Arc::new(SimEngine::new(cpu(), Model::moderate(), SimFaults::default(), 7));
    let scheduler = beside_cpu(Arc::clone(&device) as _, SIZE);
    let session = scheduler.session(XAES, &[1; 32]).unwrap();
    let lens = [4096usize, 16, 4096, 64, 8192, 128, 4096];
    let mut flight = Flight::new(&scheduler);
    for len in lens {
        let segment = Segment::seal(0, len, FreshNonce::published([2; 24]), AssociatedData::new(&[]));
        let buffer = scheduler.buffer(&session, len);
        flight.add(&session, Batch::new(Operation::Seal, buffer, vec![segment])).unwrap();
    }
    let found: Vec<usize> = flight.map(|completed| completed.unwrap().batch.segments[0].len()).collect();
    assert_eq!(found, lens);
    assert_eq!(device_of(&scheduler).operations, 4);
    assert_eq!((device.lending().batches, device.lending().is_clean), (4, true));
}

#[test]
fn a_device_that_misses_its_deadline_is_overtaken() {
    // Longer than a busy machine keeps anyone waiting.
    let late_by = Duration::from_secs(5);
    let late = Faults { late: 1000, late_by, ..Faults::harmless() };
    let unruly = UnrulyEngine::new(cpu(), 12, Faults { busy: 0, ..late });
    let scheduler = beside_cpu(Arc::new(unruly), SIZE);
    let session = scheduler.session(XAES, &[1; 32]).unwrap();
    let started = Instant::now();
    let completed = execute(&scheduler, &session, batch_of_one()).unwrap();
    assert!(started.elapsed() < late_by);
    assert_eq!(completed.outcome, Outcome::Done);
    assert_eq!(device_of(&scheduler).lost, 1);
    assert_eq!(scheduler.statistics().engines[0].redone, 1);
}

/// A device that has nothing, or that takes everything and loses it.
struct Useless {
    accepts: bool,
}

impl Engine for Useless {
    fn name(&self) -> &str {
        "useless"
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        let capability = CpuEngine::new().capability(algorithm, operation)?;
        self.accepts.then_some(Capability { inline: false, ..capability })
    }

    fn session(&self, algorithm: Algorithm, _key: &[u8]) -> Result<Session, SessionError> {
        match self.accepts {
            true => Ok(Session::new(algorithm, Arc::new(()))),
            false => Err(SessionError::Unsupported),
        }
    }

    fn submit(&self, _session: &Session, mut batch: Batch) -> Result<Ticket, Box<Refused>> {
        let (ticket, completer) = Ticket::pending();
        batch.buffer.fill(0xee);
        completer.complete(Completed { batch, outcome: Outcome::DeviceLost });
        Ok(ticket)
    }

    fn flush(&self) {}

    fn buffer(&self, _: &Session, len: usize) -> Buffer {
        Buffer::new(len)
    }

    fn crossing(&self) -> Option<&dyn strongroom_engine::Cross> {
        None
    }

    fn masking(&self) -> Option<&dyn strongroom_engine::Masking> {
        None
    }
}

#[test]
fn what_the_primary_lacks_goes_to_the_fallback() {
    let fixed = Scheduler::fixed(Arc::new(Useless { accepts: false }), cpu());
    conformance::run(&fixed, &ReferenceEngine);
    assert_eq!(fixed.statistics().engines[0].operations, 0);
}

#[test]
fn what_both_lose_comes_back_as_it_was() {
    let useless = || Arc::new(Useless { accepts: true });
    let fixed = Scheduler::fixed(useless(), useless());
    let session = fixed.session(XAES, &[1; 32]).unwrap();
    let failure = execute(&fixed, &session, batch_of_one()).unwrap_err();
    assert_eq!(failure.cause, Cause::DeviceLost);
    let batch = failure.batch.expect("it comes back");
    assert_eq!(batch.buffer[..], [0; 4096]);
    assert_eq!(batch.segments[0].verdict(), Verdict::Pending);
}

#[test]
fn sessions_of_two_schedulers_do_not_mix() {
    let (one, other) = (Scheduler::fixed(cpu(), cpu()), Scheduler::fixed(cpu(), cpu()));
    let session = one.session(XAES, &[1; 32]).unwrap();
    let refused = other.submit(&session, batch_of_one()).err().expect("a foreign session");
    assert!(matches!(refused.refusal, Refusal::Misuse(_)));
}

/// Sectors that cross go to the engine that a batch would go to, and are
/// counted there; beside a device they are refused when it is its turn.
#[test]
fn crossings_are_placed_as_batches_are() {
    let algorithm = Algorithm::Sector(strongroom_engine::SectorCipher::AES_XTS_PLAIN64);
    let key: Vec<u8> = (0..64).collect();
    let from: Vec<AtomicU8> = (0..65_536u32).map(|at| AtomicU8::new(at as u8)).collect();
    let cross = |scheduler: &Scheduler, session: &Session| {
        let mut to = vec![0; from.len()];
        let from = SharedBytes::new(&from);
        let crossing = Crossing { numbers: 9.into(), sector_len: 512, from, to: &mut to };
        scheduler.cross(session, crossing).map(|()| to)
    };
    let alone = Scheduler::fixed(cpu(), Arc::new(ReferenceEngine));
    let session = alone.session(algorithm, &key).unwrap();
    let Ok(expected) = cross(&alone, &session) else {
        println!("this CPU has no instructions for AES: not tested");
        return;
    };
    assert_eq!(alone.statistics().engines[0].bytes, 65_536);
    let other = Scheduler::fixed(cpu(), Arc::new(ReferenceEngine));
    assert!(matches!(cross(&other, &session), Err(Refusal::Misuse(_))));

    let tiers = CpuEngine::side_by_side().into_iter().map(|engine| Arc::new(engine) as Arc<dyn Engine>);
    let tiers = Scheduler::new(tiers.collect(), Arc::new(ReferenceEngine), Options::default());
    let session = tiers.session(algorithm, &key).unwrap();
    let mut crossed = 0;
    for _ in 0..200 {
        match cross(&tiers, &session) {
            Ok(found) => {
                assert!(found == expected);
                crossed += 1;
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Unsupported);
                let bytes: Vec<u8> = (0..65_536u32).map(|at| at as u8).collect();
                let segment = Segment::sectors(0, bytes.len(), 9, 512);
                let batch = Batch::new(Operation::DecryptSectors, Buffer::copy_of(&bytes), vec![segment]);
                let done = execute(&tiers, &session, batch).unwrap();
                assert!(done.batch.buffer[..] == expected);
            }
        }
    }
    // How many do not is a matter of time: while a tier is still to be found
    // out.
    assert!(crossed > 0, "nothing crossed");
    let served: u64 = tiers.statistics().engines.iter().map(|engine| engine.bytes).sum();
    assert_eq!(served, 200 * 65_536);

    let device = beside_cpu(sim(SimFaults::default()), SIZE);
    let session = device.session(algorithm, &key).unwrap();
    assert_eq!(cross(&device, &session).err(), Some(Refusal::Unsupported), "it is the device's");
}
