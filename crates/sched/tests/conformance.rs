//! The scheduler passes the conformance suite of every engine, whatever the
//! engines below it do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, Buffer, Capability, Completed, Engine, FreshNonce, Operation,
    Outcome, Refusal, Refused, Segment, Session, SessionError, Ticket, Verdict, conformance,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_sched::Fixed;

fn cpu() -> Arc<dyn Engine> {
    Arc::new(CpuEngine::new())
}

const XAES: Algorithm = Algorithm::Aead(Aead::XAes256Gcm);

/// 4 KiB of zeros to be sealed.
fn batch_of_one() -> Batch {
    let segment = Segment::seal(0, 4096, FreshNonce::published([2; 24]), AssociatedData::new(&[]));
    Batch::new(Operation::Seal, Buffer::new(4096), vec![segment])
}

#[test]
fn fixed_over_cpu() {
    let fixed = Fixed::new(cpu(), cpu());
    conformance::run(&fixed, &ReferenceEngine);
    let statistics = fixed.statistics();
    assert!(statistics.primary.operations > 1000 && statistics.primary.bytes > 1 << 20);
    assert_eq!(statistics.fallback.operations, 0);
}

#[test]
fn losses_below_are_not_seen_above() {
    let unruly = UnrulyEngine::new(cpu(), 11, Faults::lossy());
    let fixed = Fixed::new(Arc::new(unruly), Arc::new(ReferenceEngine));
    conformance::run(&fixed, &ReferenceEngine);
    let statistics = fixed.statistics();
    assert!(statistics.primary.lost > 50, "{statistics:?}");
    assert!(statistics.primary.busy > 50, "{statistics:?}");
    assert_eq!(statistics.fallback.redone, statistics.primary.lost);
    assert!(statistics.fallback.operations >= statistics.primary.lost + statistics.primary.busy / 2);
}

#[test]
fn an_engine_that_misses_its_deadline_is_overtaken() {
    let late = Faults { late: 1000, late_by: Duration::from_secs(1), ..Faults::harmless() };
    let unruly = UnrulyEngine::new(cpu(), 12, Faults { busy: 0, ..late });
    let fixed = Fixed::with_deadline(Arc::new(unruly), cpu(), Duration::from_millis(5));
    let session = fixed.session(XAES, &[1; 32]).unwrap();
    let started = Instant::now();
    let completed = fixed.submit(&session, batch_of_one()).unwrap().wait().unwrap();
    assert!(started.elapsed() < Duration::from_millis(900));
    assert_eq!(completed.outcome, Outcome::Done);
    assert_eq!(fixed.statistics().primary.lost, 1);
    assert_eq!(fixed.statistics().fallback.redone, 1);
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
}

#[test]
fn what_the_primary_lacks_goes_to_the_fallback() {
    let fixed = Fixed::new(Arc::new(Useless { accepts: false }), cpu());
    conformance::run(&fixed, &ReferenceEngine);
    assert_eq!(fixed.statistics().primary.operations, 0);
}

#[test]
fn what_both_lose_comes_back_as_it_was() {
    let useless = || Arc::new(Useless { accepts: true });
    let fixed = Fixed::new(useless(), useless());
    let session = fixed.session(XAES, &[1; 32]).unwrap();
    let completed = fixed.submit(&session, batch_of_one()).unwrap().wait().unwrap();
    assert_eq!(completed.outcome, Outcome::DeviceLost);
    assert_eq!(completed.batch.buffer[..], [0; 4096]);
    assert_eq!(completed.batch.segments[0].verdict(), Verdict::Pending);
}

#[test]
fn sessions_of_two_schedulers_do_not_mix() {
    let (one, other) = (Fixed::new(cpu(), cpu()), Fixed::new(cpu(), cpu()));
    let session = one.session(XAES, &[1; 32]).unwrap();
    let refused = other.submit(&session, batch_of_one()).err().expect("a foreign session");
    assert!(matches!(refused.refusal, Refusal::Misuse(_)));
}
