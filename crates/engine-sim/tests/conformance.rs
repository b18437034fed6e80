//! A simulated device is an engine like any other, and its faults are what
//! they say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, Buffer, Engine, FreshNonce, Operation, Outcome, Refusal, Segment,
    conformance,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_engine_sim::{Completion, Faults, Model, SimEngine};

const XAES: Algorithm = Algorithm::Aead(Aead::XAes256Gcm);

fn device(model: Model, faults: Faults) -> SimEngine {
    SimEngine::new(Arc::new(CpuEngine::new()), model, faults, 7)
}

fn fast() -> Model {
    Model {
        fixed: Duration::ZERO,
        bytes_per_second: 10_000_000_000,
        completion: Completion::Poll,
        ..Model::moderate()
    }
}

fn batch() -> Batch {
    let segment = Segment::seal(0, 4096, FreshNonce::published([2; 24]), AssociatedData::new(&[]));
    Batch::new(Operation::Seal, Buffer::new(4096), vec![segment])
}

#[test]
fn a_sound_device_conforms() {
    conformance::run(&device(fast(), Faults::default()), &ReferenceEngine);
}

#[test]
fn it_takes_the_modelled_time_and_serves_units_at_once() {
    let model = Model { fixed: Duration::from_millis(20), units: 2, ..fast() };
    let device = device(model, Faults::default());
    let session = device.session(XAES, &[1; 32]).unwrap();
    let began = Instant::now();
    let tickets: Vec<_> = (0..4).map(|_| device.submit(&session, batch()).unwrap()).collect();
    for ticket in tickets {
        assert_eq!(ticket.wait().unwrap().outcome, Outcome::Done);
    }
    // Two rounds of two. A busy machine may take longer, never less.
    assert!(began.elapsed() >= Duration::from_millis(40));
}

#[test]
fn a_queue_that_has_as_many_as_it_says_is_busy() {
    let model = Model { fixed: Duration::from_millis(50), units: 1, queue_max: 2, ..fast() };
    let device = device(model, Faults::default());
    let session = device.session(XAES, &[1; 32]).unwrap();
    let room = device.capability(XAES, Operation::Seal).unwrap().queue_max;
    let tickets: Vec<_> = (0..room).map(|_| device.submit(&session, batch()).unwrap()).collect();
    assert_eq!((tickets.len(), device.submit(&session, batch()).err().unwrap().refusal), (2, Refusal::Busy));
    drop(tickets);
}

#[test]
fn a_wrong_result_differs_in_one_bit() {
    let right = device(fast(), Faults::default());
    let wrong = device(fast(), Faults { wrong_ppm: 1_000_000, ..Faults::default() });
    let results = [&right, &wrong].map(|device| {
        let session = device.session(XAES, &[1; 32]).unwrap();
        device.submit(&session, batch()).unwrap().wait().unwrap()
    });
    let bits = |one: &[u8], other: &[u8]| -> u32 {
        one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
    };
    let [right, wrong] = results;
    assert_eq!(wrong.outcome, Outcome::Done);
    let tags = bits(right.batch.segments[0].tag(), wrong.batch.segments[0].tag());
    assert_eq!(bits(&right.batch.buffer, &wrong.batch.buffer) + tags, 1);
}

#[test]
fn a_device_that_is_gone_answers_nothing_more() {
    let device = device(fast(), Faults { gone_after: Some(1), ..Faults::default() });
    let session = device.session(XAES, &[1; 32]).unwrap();
    assert!(device.submit(&session, batch()).unwrap().wait().is_ok());
    assert!(device.submit(&session, batch()).unwrap().wait().is_err());
}

#[test]
fn a_prepared_result_is_the_computed_one() {
    let prepared = device(fast(), Faults::default());
    let session = prepared.session(XAES, &[1; 32]).unwrap();
    assert!(prepared.prepare(&session, &batch()));
    let answered = prepared.submit(&session, batch()).unwrap().wait().unwrap();
    let plain = device(fast(), Faults::default());
    let session = plain.session(XAES, &[1; 32]).unwrap();
    let computed = plain.submit(&session, batch()).unwrap().wait().unwrap();
    assert_eq!(answered.batch.buffer[..], computed.batch.buffer[..]);
    assert_eq!(answered.batch.segments[0].tag(), computed.batch.segments[0].tag());
    // Other data are not taken for the prepared ones.
    let mut other = batch();
    other.buffer[0] = 1;
    let answered =
        prepared.submit(&prepared.session(XAES, &[1; 32]).unwrap(), other).unwrap().wait().unwrap();
    assert_ne!(answered.batch.buffer[..], computed.batch.buffer[..]);
}
