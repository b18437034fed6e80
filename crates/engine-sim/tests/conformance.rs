//! A simulated device is an engine like any other, and its faults are what
//! they say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom_engine::client::{Cause, Client, execute};
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
    device.flush();
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
        execute(device, &session, batch()).unwrap()
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
    assert!(execute(&device, &session, batch()).is_ok());
    assert_eq!(execute(&device, &session, batch()).err().unwrap().cause, Cause::Vanished);
}

#[test]
fn a_prepared_result_is_the_computed_one() {
    let prepared = device(fast(), Faults::default());
    let session = prepared.session(XAES, &[1; 32]).unwrap();
    assert!(prepared.prepare(&session, &batch()));
    let answered = execute(&prepared, &session, batch()).unwrap();
    let plain = device(fast(), Faults::default());
    let session = plain.session(XAES, &[1; 32]).unwrap();
    let computed = execute(&plain, &session, batch()).unwrap();
    assert_eq!(answered.batch.buffer[..], computed.batch.buffer[..]);
    assert_eq!(answered.batch.segments[0].tag(), computed.batch.segments[0].tag());
    // Other data are not taken for the prepared ones.
    let mut other = batch();
    other.buffer[0] = 1;
    let answered = execute(&prepared, &prepared.session(XAES, &[1; 32]).unwrap(), other).unwrap();
    assert_ne!(answered.batch.buffer[..], computed.batch.buffer[..]);
}

#[test]
fn nothing_begins_before_the_doorbell() {
    let device = device(fast(), Faults::default());
    let session = device.session(XAES, &[1; 32]).unwrap();
    let ticket = device.submit(&session, batch()).unwrap();
    let ticket = ticket.wait_for(Duration::from_millis(50)).expect_err("nobody has flushed");
    device.flush();
    assert_eq!(ticket.wait().unwrap().outcome, Outcome::Done);
}

#[test]
fn a_batch_that_is_held_lets_others_pass() {
    let device = device(fast(), Faults::default());
    let session = device.session(XAES, &[1; 32]).unwrap();
    device.hold(1);
    let first = device.submit(&session, batch()).unwrap();
    assert!(execute(&device, &session, batch()).is_ok());
    let first = first.wait_for(Duration::from_millis(50)).expect_err("it is held");
    assert_eq!(device.held(), 1);
    device.release();
    assert_eq!(first.wait().unwrap().outcome, Outcome::Done);
}

/// More batches than the device has room for go through a client together, in
/// the device's own memory, which comes back wiped.
#[test]
fn a_flight_longer_than_the_queue_comes_through_in_lent_memory() {
    let device = Arc::new(device(Model { queue_max: 3, ..fast() }, Faults::default()));
    let engine: Arc<dyn Engine> = Arc::clone(&device) as _;
    let client = Client::open(&engine, XAES, &[1; 32]).unwrap();
    let batches = (0..20).map(|_| Batch { buffer: client.buffer(4096), ..batch() });
    let flight = client.submit_many(batches).unwrap();
    let done: Vec<_> = flight.map(Result::unwrap).collect();
    let expected = execute(&*device, client.session(), batch()).unwrap();
    assert!(done.iter().all(|one| one.batch.buffer[..] == expected.batch.buffer[..]));
    let lending = device.lending();
    assert_eq!((done.len(), lending.out, lending.batches, lending.made), (20, 20, 20, 20));
    drop(done);
    let again = client.buffer(4096);
    let lending = device.lending();
    assert_eq!((lending.out, lending.made, lending.is_clean), (1, 20, true));
    assert!(again.iter().all(|&byte| byte == 0));
}
