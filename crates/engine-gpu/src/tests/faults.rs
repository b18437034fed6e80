//! Faults of devices end in errors that a scheduler takes, and never in a wrong or a lost answer.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use strongroom_engine::{
    Aead, Algorithm, Batch, Buffer, Completed, Engine, FreshNonce, Operation, Outcome, Refusal, Segment,
    Session, SessionError,
};
use strongroom_engine_cpu::ReferenceEngine;
use strongroom_sched::Scheduler;

use super::fake::{FakeDevice, Fault, Knobs};
use crate::{Completion, GpuEngine, Options, limits};

const CHACHA: Algorithm = Algorithm::Aead(Aead::ChaCha20Poly1305);

pub(super) fn engine(options: Options) -> (GpuEngine, Arc<Knobs>) {
    let device = FakeDevice::new();
    let knobs = Arc::clone(&device.knobs);
    (GpuEngine::on("gpu-0".to_owned(), Arc::new(device), options), knobs)
}

pub(super) fn batch(number: u8, len: usize) -> Batch {
    let mut nonce = [0; 24];
    nonce[23] = number;
    let segment = Segment::keystream(3, len, FreshNonce::published(nonce));
    let mut buffer = Buffer::new(len + 9);
    buffer.fill(0xa5);
    Batch::new(Operation::Keystream, buffer, vec![segment])
}

fn submitted(engine: &dyn Engine, session: &Session, batch: Batch) -> Completed {
    engine.submit(session, batch).expect("a sound batch").wait().expect("an answer")
}

fn expected(number: u8, len: usize) -> Vec<u8> {
    let session = ReferenceEngine.session(CHACHA, &[7; 32]).unwrap();
    submitted(&ReferenceEngine, &session, batch(number, len)).batch.buffer.to_vec()
}

fn is_right(completed: &Completed, number: u8, len: usize) -> bool {
    completed.outcome == Outcome::Done && completed.batch.buffer[..] == expected(number, len)
}

#[test]
fn without_faults_it_computes_what_the_reference_does() {
    for completion in [Completion::Event, Completion::Poll] {
        let (engine, _) = engine(Options { completion, ..Options::default() });
        let session = engine.session(CHACHA, &[7; 32]).unwrap();
        for (number, len) in (0..).zip([1, 63, 64, 65, 4096, 10_001]) {
            assert!(is_right(&submitted(&engine, &session, batch(number, len)), number, len));
        }
        assert!(engine.capability(CHACHA, Operation::Seal).is_none());
        let aes = Algorithm::Aead(Aead::Aes256Gcm);
        assert_eq!(engine.capability(aes, Operation::Keystream), None, "its kernels do not compile");
        assert_eq!(engine.session(aes, &[7; 32]).err(), Some(SessionError::DeviceLost));
    }
}

#[test]
fn two_launches_are_in_flight() {
    let (engine, knobs) = engine(Options::default());
    let session = engine.session(CHACHA, &[7; 32]).unwrap();
    *knobs.takes.lock().unwrap() = Duration::from_millis(200);
    let tickets = [1, 2, 3].map(|number| engine.submit(&session, batch(number, 100)).unwrap());
    for (number, ticket) in (1..).zip(tickets) {
        assert!(is_right(&ticket.wait().unwrap(), number, 100));
    }
    assert_eq!(knobs.in_flight_most.load(SeqCst), 2);
}

#[test]
fn a_full_queue_is_busy_and_the_batch_comes_back() {
    let (engine, knobs) = engine(Options::default());
    let session = engine.session(CHACHA, &[7; 32]).unwrap();
    *knobs.takes.lock().unwrap() = Duration::from_millis(200);
    let queue_max = engine.capability(CHACHA, Operation::Keystream).unwrap().queue_max;
    let tickets: Vec<_> =
        (0..queue_max).map(|_| engine.submit(&session, batch(1, 100)).expect("a place")).collect();
    let refused = engine.submit(&session, batch(1, 100)).err().expect("no place is left");
    assert_eq!(refused.refusal, Refusal::Busy);
    assert_eq!(refused.batch.buffer[..], batch(1, 100).buffer[..]);
    assert!(tickets.into_iter().all(|ticket| is_right(&ticket.wait().unwrap(), 1, 100)));
    assert!(is_right(&submitted(&engine, &session, batch(1, 100)), 1, 100));
}

#[test]
fn a_failed_launch_loses_its_batch_and_the_next_one_has_a_new_lane() {
    for fault in [Fault::Launch, Fault::Ends, Fault::NoLane] {
        let (engine, knobs) = engine(Options { lanes: 1, ..Options::default() });
        let session = engine.session(CHACHA, &[7; 32]).unwrap();
        if fault == Fault::NoLane {
            knobs.plant(Fault::Launch, 1);
            assert_eq!(submitted(&engine, &session, batch(1, 64)).outcome, Outcome::DeviceLost);
        }
        let lanes = knobs.lanes.load(SeqCst);
        knobs.plant(fault, 1);
        assert_eq!(submitted(&engine, &session, batch(1, 64)).outcome, Outcome::DeviceLost, "{fault:?}");
        assert!(is_right(&submitted(&engine, &session, batch(2, 64)), 2, 64), "{fault:?}");
        assert_eq!(knobs.lanes.load(SeqCst), lanes + 1);
        assert!(!engine.is_lost());
    }
}

#[test]
fn failures_in_a_row_lose_the_device_for_good() {
    let (engine, knobs) = engine(Options::default());
    let session = engine.session(CHACHA, &[7; 32]).unwrap();
    knobs.plant(Fault::Ends, limits::FAILURES_MAX as usize - 1);
    for _ in 1..limits::FAILURES_MAX {
        assert_eq!(submitted(&engine, &session, batch(1, 64)).outcome, Outcome::DeviceLost);
    }
    assert!(is_right(&submitted(&engine, &session, batch(2, 64)), 2, 64), "a right one is a new beginning");
    knobs.plant(Fault::Launch, usize::MAX);
    for _ in 0..limits::FAILURES_MAX {
        assert_eq!(submitted(&engine, &session, batch(1, 64)).outcome, Outcome::DeviceLost);
    }
    assert!(engine.is_lost());
    let launches = knobs.launches.load(SeqCst);
    knobs.plant(Fault::None, 0);
    assert_eq!(submitted(&engine, &session, batch(1, 64)).outcome, Outcome::DeviceLost);
    assert_eq!(knobs.launches.load(SeqCst), launches, "it is left alone");
}

#[test]
fn an_end_that_never_comes_is_missed_at_the_deadline() {
    for completion in [Completion::Event, Completion::Poll] {
        let deadline = Duration::from_millis(300);
        let (engine, knobs) = engine(Options { completion, deadline, lanes: 1 });
        let session = engine.session(CHACHA, &[7; 32]).unwrap();
        knobs.plant(Fault::Never, 1);
        let began = Instant::now();
        let tickets = [1, 2].map(|number| engine.submit(&session, batch(number, 64)).unwrap());
        for ticket in tickets {
            assert_eq!(ticket.wait().unwrap().outcome, Outcome::DeviceLost);
        }
        assert!(began.elapsed() >= deadline && engine.is_lost());
        let began = Instant::now();
        drop(engine);
        assert!(began.elapsed() < Duration::from_secs(5), "nobody waits for it any more");
    }
}

#[test]
fn an_end_that_nobody_tells_of_is_found() {
    let (engine, knobs) = engine(Options::default());
    let session = engine.session(CHACHA, &[7; 32]).unwrap();
    *knobs.takes.lock().unwrap() = Duration::from_millis(5);
    knobs.plant(Fault::Silent, 1);
    let began = Instant::now();
    assert!(is_right(&submitted(&engine, &session, batch(1, 64)), 1, 64));
    assert!(began.elapsed() < limits::DEADLINE);
}

#[test]
fn a_device_that_computes_something_else_is_not_offered() {
    let (engine, knobs) = engine(Options::default());
    knobs.plant(Fault::Wrong, 1);
    assert_eq!(engine.capability(CHACHA, Operation::Keystream), None);
    assert_eq!(engine.session(CHACHA, &[7; 32]).err(), Some(SessionError::DeviceLost));
    assert!(engine.keystream(crate::Cipher::ChaCha20, &[[7; 32]], &[]).is_err());
}

/// Loss, failure and lateness reach nobody behind the scheduler, and neither does a wrong result.
#[test]
fn a_scheduler_redoes_what_is_lost_and_wrong() {
    for fault in [Fault::Launch, Fault::Ends, Fault::Never, Fault::Wrong] {
        let deadline = Duration::from_millis(100);
        let (engine, knobs) = engine(Options { deadline, ..Options::default() });
        assert!(engine.capability(CHACHA, Operation::Keystream).is_some());
        let scheduler = Scheduler::new(
            vec![Arc::new(engine)],
            Arc::new(ReferenceEngine),
            strongroom_sched::Options::default(),
        );
        let session = scheduler.session(CHACHA, &[7; 32]).unwrap();
        let launches = knobs.launches.load(SeqCst);
        knobs.plant(fault, usize::MAX);
        for number in 0..4 {
            let completed = submitted(&scheduler, &session, batch(number, 5000));
            assert!(is_right(&completed, number, 5000), "{fault:?}");
        }
        assert!(knobs.launches.load(SeqCst) > launches, "{fault:?}: the device was asked");
    }
}
