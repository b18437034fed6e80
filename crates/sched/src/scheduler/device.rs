//! Batches for devices: a copy of the source, a deadline, and a step between
//! the answer and whoever waits, which checks the result and redoes what was
//! lost or wrong.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Instant;

use strongroom_engine::client::{self, Cause, Failure};
use strongroom_engine::{
    Answer, Answered, Batch, Completed, Outcome, Refusal, Refused, Session, Ticket, Verdict,
};

use super::session::SchedulerSession;
use super::{Core, Served};
use crate::callers::CallerPlace;
use crate::placing::Placer;
use crate::policy::Reason;
use crate::record::{Flight, Measurement};
use crate::statistics::Count;

/// How often lost work is tried again before the loss is reported.
const REDO_ATTEMPTS_MAX: u32 = 16;

/// A batch that a device has, or has had while its waiter was not there to take
/// the answer. Dropped, it is off all books, also when the ticket was dropped and
/// nobody will see the answer.
struct InFlight {
    core: Arc<Core>,
    at: usize,
    placer: Arc<Placer>,
    flight: Flight,
    of_consumer: Arc<AtomicU32>,
    caller: Option<CallerPlace>,
    /// The device has it no longer, and neither has anyone.
    has_answered: AtomicBool,
    has_left: AtomicBool,
}

impl InFlight {
    /// The device is rid of it, and takes others. Were that not known before the
    /// waiter has a CPU, a device that idles would seem to have a long queue
    /// whenever the CPUs do, and these would be given even more.
    fn answered(&self) {
        if !self.has_answered.swap(true, Relaxed) {
            self.placer.records()[self.at].left(&self.flight);
        }
    }

    fn leaves(&self) {
        self.answered();
        if !self.has_left.swap(true, Relaxed) {
            self.of_consumer.fetch_sub(1, Relaxed);
            self.core.engines[self.at].in_flight.fetch_sub(1, Relaxed);
            self.core.in_flight.fetch_sub(1, Relaxed);
            self.caller.inspect(|place| self.core.callers.leaves(*place));
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.leaves();
    }
}

/// Engines that are believed, with their sessions: what is redone is redone
/// there.
pub(super) struct Trusted {
    /// Places of inline engines.
    inline: Vec<(usize, Session)>,
    fallback: Option<Session>,
}

impl Trusted {
    pub(super) fn of(session: &SchedulerSession, operation: strongroom_engine::Operation) -> Trusted {
        let engines = session.engines.iter().enumerate();
        let inline = engines.filter(|(at, _)| session.is_inline(*at, operation));
        Trusted {
            inline: inline.filter_map(|(at, engine)| Some((at, engine.session.clone()?))).collect(),
            fallback: session.fallback.clone(),
        }
    }
}

/// Hands a batch to the device `at`.
pub(super) fn submit(
    core: &Arc<Core>,
    at: usize,
    session: &SchedulerSession,
    batch: Batch,
    reason: Reason,
) -> Result<Ticket, Box<Refused>> {
    let began = Instant::now();
    let source = batch.duplicate();
    guarded(core, at, session, batch, reason, began, move || source)
}

/// As [`submit`], with the moment when it began, and what makes the source again.
pub(super) fn guarded(
    core: &Arc<Core>,
    at: usize,
    session: &SchedulerSession,
    batch: Batch,
    reason: Reason,
    began: Instant,
    source: impl FnOnce() -> Batch + Send + 'static,
) -> Result<Ticket, Box<Refused>> {
    let engine = &session.engines[at];
    let Some(own) = &engine.session else {
        return Err(Box::new(Refused { batch, refusal: Refusal::Unsupported }));
    };
    let (operation, bytes, caller) = (batch.operation, batch.bytes() as u64, batch.origin.caller);
    engine.in_flight.fetch_add(1, Relaxed);
    core.in_flight.fetch_add(1, Relaxed);
    core.engines[at].in_flight.fetch_add(1, Relaxed);
    let in_flight = Arc::new(InFlight {
        core: Arc::clone(core),
        at,
        placer: Arc::clone(&session.placer),
        flight: session.record(at).began(operation, bytes),
        of_consumer: Arc::clone(&engine.in_flight),
        caller: core.counts_callers().then(|| core.callers.enters(caller)),
        has_answered: AtomicBool::new(false),
        has_left: AtomicBool::new(false),
    });
    let ticket = core.engines[at].submit(own, batch, reason)?;
    core.unflushed.fetch_or(1 << at, Release);
    let submitted = Instant::now();
    let spent = submitted - began;
    // A ticket that is dropped takes the batch off the books.
    let on_device = Arc::downgrade(&in_flight);
    ticket.on_arrival(move || {
        if let Some(in_flight) = on_device.upgrade() {
            in_flight.answered();
        }
    });
    let trusted = Trusted::of(session, operation);
    Ok(ticket.guarded(submitted + core.deadline, move |answer| {
        let taken = Instant::now();
        let (core, flight) = (Arc::clone(&in_flight.core), in_flight.flight);
        let placer = Arc::clone(&in_flight.placer);
        in_flight.leaves();
        let (completed, answered) = core.conclude(at, &trusted, answer, source);
        if let Some(answered) = answered {
            if answered.was_awaited {
                let waited = taken.saturating_duration_since(answered.at);
                placer.records()[at].woke(waited.as_nanos() as f64);
            }
            let service = answered.at.saturating_duration_since(submitted);
            core.engines[at].counters.answered(service.as_nanos() as u64);
            // What checks cost is known of the engine that checks. What its threads
            // used was a part of the time until the answer, and has the price of CPU time.
            let measured = Measurement {
                service_ns: (service.as_nanos() as f64 - answered.cpu_ns as f64).max(1.0),
                cpu_ns: spent.as_nanos() as f64 + answered.cpu_ns as f64,
            };
            placer.records()[at].learn_beside(&flight, measured, core.load.view().contended());
        }
        Ok(completed)
    }))
}

impl Served {
    /// Whether this result is one of those to be checked.
    pub(super) fn is_due(&self, interval: u32) -> bool {
        let result = self.results.fetch_add(1, Relaxed);
        self.quarantine.is_suspect() || result.is_multiple_of(u64::from(interval))
    }
}

impl Core {
    /// What the consumer is told; and when the device gave a good answer, when
    /// that came.
    fn conclude(
        &self,
        at: usize,
        trusted: &Trusted,
        answer: Answer,
        source: impl FnOnce() -> Batch,
    ) -> (Completed, Option<Answered>) {
        let served = &self.engines[at];
        let (completed, answered) = match answer {
            Answer::Completed(completed, answered) if completed.outcome != Outcome::DeviceLost => {
                (completed, answered)
            }
            _ => {
                served.counters.add(Count::Lost, 1);
                served.quarantine.lost();
                return (self.redo(trusted, source()), None);
            }
        };
        // A device's word alone condemns no data.
        let is_refused = completed.outcome == Outcome::AuthenticationFailed;
        let interval = 1 << self.settings.load().check_exponent;
        if !is_refused && !served.is_due(interval) {
            return (completed, Some(answered));
        }
        let expected = self.redo_uncounted(trusted, source());
        if expected.outcome == Outcome::DeviceLost {
            // Nothing here can tell; the device's answer is the only one.
            return (completed, Some(answered));
        }
        served.counters.add(Count::Checked, 1);
        served.counters.add(Count::CheckedBytes, expected.batch.bytes() as u64);
        if is_equal(&completed, &expected) {
            served.quarantine.right();
            return (completed, Some(answered));
        }
        served.counters.add(Count::Mismatches, 1);
        served.quarantine.wrong();
        self.count_redone(trusted, &expected.batch);
        (expected, None)
    }

    /// Completes `source` on an engine that is believed. If that fails too,
    /// the batch comes back as it was submitted, as [`Outcome::DeviceLost`].
    fn redo(&self, trusted: &Trusted, source: Batch) -> Completed {
        let completed = self.redo_uncounted(trusted, source);
        if completed.outcome != Outcome::DeviceLost {
            self.count_redone(trusted, &completed.batch);
        }
        completed
    }

    fn count_redone(&self, trusted: &Trusted, batch: &Batch) {
        let served = trusted.inline.first().map_or(&self.fallback, |(at, _)| &self.engines[*at]);
        served.counters.accepted(batch.bytes() as u64, Reason::Spilled);
        served.counters.add(Count::Redone, 1);
    }

    pub(super) fn redo_uncounted(&self, trusted: &Trusted, source: Batch) -> Completed {
        let engines = trusted.inline.iter().map(|(at, session)| (&self.engines[*at], session));
        for (served, session) in
            engines.chain(trusted.fallback.iter().map(|session| (&self.fallback, session)))
        {
            for _ in 0..REDO_ATTEMPTS_MAX {
                match client::execute(&*served.engine, session, source.duplicate()) {
                    Ok(completed) => return completed,
                    Err(Failure { cause: Cause::DeviceLost | Cause::Vanished, .. }) => {
                        served.counters.add(Count::Lost, 1);
                    }
                    Err(_) => break,
                }
            }
        }
        Completed { batch: source, outcome: Outcome::DeviceLost }
    }
}

/// Whether two results are the same in every byte, also outside of segments,
/// and in every tag.
fn is_equal(found: &Completed, expected: &Completed) -> bool {
    found.outcome == expected.outcome
        && found.batch.operation == expected.batch.operation
        && found.batch.buffer[..] == expected.batch.buffer[..]
        && found.batch.segments.len() == expected.batch.segments.len()
        && found.batch.segments.iter().zip(&expected.batch.segments).all(|(found, expected)| {
            found.range() == expected.range()
                && found.nonce() == expected.nonce()
                && found.verdict() == expected.verdict()
                && found.verdict() != Verdict::Pending
                && found.tag() == expected.tag()
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use strongroom_engine::{
        Aead, Algorithm, AssociatedData, Buffer, Capability, Completer, Engine, FreshNonce, Operation,
        Segment, SessionError,
    };
    use strongroom_engine_cpu::CpuEngine;

    use super::*;
    use crate::policy::Request;
    use crate::scheduler::Scheduler;

    const ALGORITHM: Algorithm = Algorithm::Aead(Aead::XAes256Gcm);

    /// A device that answers when it is told to.
    #[derive(Default)]
    struct Postpones(Mutex<Vec<(Completer, Batch)>>);

    impl Postpones {
        fn answers(&self) {
            self.answers_at_cost(0);
        }

        fn answers_at_cost(&self, cpu_ns: u64) {
            let (completer, batch) = self.0.lock().unwrap().pop().expect("a batch is here");
            let cpu = CpuEngine::new();
            let session = cpu.session(ALGORITHM, &[1; 32]).unwrap();
            let completed = client::execute(&cpu, &session, batch).expect("computed");
            completer.complete_at_cost(completed, cpu_ns);
        }
    }

    impl Engine for Postpones {
        fn name(&self) -> &str {
            "postpones"
        }

        fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
            let capability = CpuEngine::new().capability(algorithm, operation)?;
            Some(Capability { inline: false, ..capability })
        }

        fn session(&self, algorithm: Algorithm, _key: &[u8]) -> Result<Session, SessionError> {
            Ok(Session::new(algorithm, Arc::new(())))
        }

        fn submit(&self, _session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
            let (ticket, completer) = Ticket::pending();
            self.0.lock().unwrap().push((completer, batch));
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
    fn what_a_device_has_answered_waits_there_no_longer_though_nobody_has_come_for_it() {
        let device = Arc::new(Postpones::default());
        let engine: Arc<dyn Engine> = Arc::clone(&device) as _;
        let scheduler = Scheduler::fixed(engine, Arc::new(CpuEngine::new()));
        let session = scheduler.session(ALGORITHM, &[1; 32]).unwrap();
        let state = session.state::<SchedulerSession>().unwrap();
        let request = Request::whole(Operation::Seal, 4096);
        let there = || {
            let view = (
                state.record(0).view(&request, true).in_flight,
                scheduler.core.engines[0].in_flight.load(Relaxed),
            );
            (view, scheduler.core.in_flight.load(Relaxed))
        };
        let mut tickets: Vec<Ticket> = (0..3).map(|_| scheduler.submit(&session, batch()).unwrap()).collect();
        assert_eq!(there(), ((3, 3), 3));
        device.answers();
        device.answers();
        assert_eq!(there(), ((1, 3), 3), "two wait for whoever asked");
        tickets.pop().unwrap().wait().unwrap();
        assert_eq!(there(), ((1, 2), 2));
        drop(tickets);
        assert_eq!(there(), ((0, 0), 0), "nobody waits any more");
        device.answers();
        assert_eq!(there(), ((0, 0), 0));
    }

    fn batch() -> Batch {
        let segment = Segment::seal(0, 4096, FreshNonce::published([2; 24]), AssociatedData::new(&[]));
        Batch::new(Operation::Seal, Buffer::new(4096), vec![segment])
    }

    #[test]
    fn cpu_time_of_a_devices_threads_is_cpu_time_and_none_of_the_device() {
        let device = Arc::new(Postpones::default());
        let engine: Arc<dyn Engine> = Arc::clone(&device) as _;
        let scheduler = Scheduler::fixed(engine, Arc::new(CpuEngine::new()));
        let session = scheduler.session(ALGORITHM, &[1; 32]).unwrap();
        let began = Instant::now();
        let ticket = scheduler.submit(&session, batch()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        device.answers_at_cost(4_000_000);
        let most_ns = began.elapsed().as_nanos() as f64;
        ticket.wait().unwrap();
        let state = session.state::<SchedulerSession>().unwrap();
        let view = state.record(0).view(&Request::whole(Operation::Seal, 4096), true);
        assert!(view.cpu_ns >= 4e6, "{view:?}");
        assert!(view.service_ns <= most_ns - 4e6, "{view:?} of {most_ns}");
    }
}
