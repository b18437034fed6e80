//! [`SimEngine`]: a device that is not there. It computes with another engine
//! on threads of its own and answers when a modelled device would.
//!
//! What it models: a time for each batch and for each byte, units that work at
//! the same time, a queue with a limit and a doorbell, memory that it lends, and
//! what a completion costs the CPU.
//! What goes wrong is drawn from a seed ([`Faults`]). Results that were
//! [prepared](SimEngine::prepare) are copied and not computed, so that the
//! device leaves the CPU free, as a real one does.
//!
//! Invariants: without faults it is a sound engine and passes the conformance
//! suite; a batch is refused untouched or answered, unless it is to vanish.
#![forbid(unsafe_code)]

mod faults;
mod masker;
mod masks;
mod memory;
pub mod named;
mod prepared;
mod unit;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use strongroom_engine::{
    Algorithm, Batch, Buffer, Capability, Completer, Decision, Engine, MaskCompleter, MaskTicket, Masking,
    Message, Operation, Refusal, Refused, Segment, Session, SessionError, StoredNonce, Ticket,
};

use faults::Fate;
pub use faults::Faults;
pub use masker::Masker;
use memory::Lender;
pub use memory::Lending;
use prepared::Prepared;

/// How a completion reaches the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// An interrupt, which takes this much CPU time.
    Interrupt(Duration),
    /// Polling, which finds it without cost.
    Poll,
}

/// The device that is modelled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Time of every batch.
    pub fixed: Duration,
    /// Further time for its bytes: the rate of one unit.
    pub bytes_per_second: u64,
    /// Batches served at the same time; a thread for each.
    pub units: usize,
    /// Batches waiting or served, above which it is busy.
    pub queue_max: usize,
    /// How completions are told.
    pub completion: Completion,
    /// Most bytes of one batch.
    pub batch_bytes_max: usize,
}

impl Model {
    /// A device with four units of 500 MB/s and 30 µs for each batch.
    #[must_use]
    pub fn moderate() -> Model {
        Model {
            fixed: Duration::from_micros(30),
            bytes_per_second: 500_000_000,
            units: 4,
            queue_max: 64,
            completion: Completion::Interrupt(Duration::from_micros(2)),
            batch_bytes_max: 1 << 24,
        }
    }

    /// How long one unit is busy with so many bytes.
    #[must_use]
    pub fn service(&self, bytes: usize) -> Duration {
        let nanos = bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        self.fixed + Duration::from_nanos(nanos as u64)
    }
}

/// See the module. Dropping it answers what is queued and ends its threads.
pub struct SimEngine {
    name: String,
    shared: Arc<Shared>,
    units: Vec<JoinHandle<()>>,
}

struct Shared {
    inner: Arc<dyn Engine>,
    model: Model,
    faults: Faults,
    lender: Arc<Lender>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Submitted, and the doorbell has not rung.
    submitted: VecDeque<Job>,
    /// How many of those that come next are held, and those that are.
    to_hold: usize,
    held: VecDeque<Job>,
    queue: VecDeque<Job>,
    outstanding: usize,
    random: u64,
    accepted: u64,
    closing: bool,
}

struct Job {
    session: Session,
    prepared: Arc<Prepared>,
    batch: Batch,
    reply: Reply,
    arrived: Instant,
    fate: Fate,
}

/// Who is told of the result.
enum Reply {
    Batch(Completer),
    Masks(MaskCompleter),
}

/// A session of the inner engine. Its type makes it this engine's own.
struct SimSession {
    inner: Session,
    prepared: Arc<Prepared>,
}

impl SimEngine {
    /// A device as `model` says that computes with `inner`, which has to be
    /// inline, and errs by `faults` and `seed`.
    #[must_use]
    pub fn new(inner: Arc<dyn Engine>, model: Model, faults: Faults, seed: u64) -> SimEngine {
        let name = format!("sim({})", inner.name());
        let state = State {
            submitted: VecDeque::new(),
            to_hold: 0,
            held: VecDeque::new(),
            queue: VecDeque::new(),
            outstanding: 0,
            random: seed,
            accepted: 0,
            closing: false,
        };
        let shared = Arc::new(Shared {
            inner,
            model,
            faults,
            lender: Arc::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let unit = || {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || unit::work(&shared))
        };
        let units = std::iter::repeat_with(unit).take(model.units.max(1)).collect();
        SimEngine { name, shared, units }
    }

    /// Computes a batch beforehand, by the inner engine. One like it will be
    /// answered with a copy of the result. False when the inner engine cannot
    /// compute it, or the session is not of this engine.
    #[must_use]
    pub fn prepare(&self, session: &Session, batch: &Batch) -> bool {
        let Some(own) = session.state::<SimSession>() else { return false };
        own.prepared.prepare(&*self.shared.inner, &own.inner, batch)
    }

    /// Has the next so many batches that are flushed wait until
    /// [`SimEngine::release`]; what comes after them is served.
    pub fn hold(&self, batches: usize) {
        self.shared.lock().to_hold = batches;
    }

    /// How many batches are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.lock().held.len()
    }

    /// Serves what is held, and holds nothing more.
    pub fn release(&self) {
        let mut state = self.shared.lock();
        state.to_hold = 0;
        let mut held = std::mem::take(&mut state.held);
        state.queue.append(&mut held);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// What became of the memory that it lends.
    #[must_use]
    pub fn lending(&self) -> Lending {
        self.shared.lender.lending()
    }
}

impl Drop for SimEngine {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.flush();
        self.release();
        for unit in self.units.drain(..) {
            if unit.join().is_err() && !std::thread::panicking() {
                panic!("a unit of the simulated device panicked");
            }
        }
    }
}

impl SimEngine {
    /// Takes a batch into the queue, for whoever is to be told.
    fn take(&self, session: &Session, batch: Batch, reply: Reply) -> Result<(), Box<Refused>> {
        let refuse = |batch, refusal| Err(Box::new(Refused { batch, refusal }));
        let Some(own) = session.state::<SimSession>() else {
            return refuse(batch, Refusal::Misuse("the session belongs to another engine"));
        };
        if let Err(refusal) = batch.validate(session.algorithm()) {
            return refuse(batch, refusal);
        }
        let fits = self.capability(session.algorithm(), batch.operation).is_some_and(|capability| {
            batch.buffer.len() <= capability.batch_bytes_max
                && batch.segments.len() <= capability.segments_max
        });
        if !fits {
            return refuse(batch, Refusal::Unsupported);
        }
        let mut state = self.shared.lock();
        if state.outstanding >= self.shared.model.queue_max || state.is_busy(&self.shared.faults) {
            return refuse(batch, Refusal::Busy);
        }
        self.shared.lender.note(&batch.buffer);
        let fate = state.fate(&self.shared.faults);
        state.outstanding += 1;
        state.submitted.push_back(Job {
            session: own.inner.clone(),
            prepared: Arc::clone(&own.prepared),
            batch,
            reply,
            arrived: Instant::now(),
            fate,
        });
        Ok(())
    }
}

/// Keystream of all messages, as a batch of which masks are made.
impl Masking for SimEngine {
    fn order(&self, session: &Session, messages: &[Message]) -> Result<MaskTicket, Refusal> {
        let mut end = 0;
        let segments = messages.iter().map(|message| {
            end += message.len;
            Segment::keystream_again(end - message.len, message.len, StoredNonce::new(message.nonce))
        });
        let segments = segments.collect();
        let batch = Batch::new(Operation::Keystream, Buffer::new(end), segments);
        let (ticket, completer) = MaskTicket::pending();
        self.take(session, batch, Reply::Masks(completer)).map_err(|refused| refused.refusal)?;
        self.flush();
        Ok(ticket)
    }

    fn decide(&self, _: &Session) -> Decision {
        Decision { is_on: true, reason: format!("{} makes them", self.name) }
    }

    fn version(&self) -> u64 {
        0
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for SimEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        let inner = self.shared.inner.capability(algorithm, operation)?;
        let model = &self.shared.model;
        Some(Capability {
            inline: false,
            batch_bytes_max: inner.batch_bytes_max.min(model.batch_bytes_max),
            queue_max: model.queue_max,
            latency_ns: model.fixed.as_nanos() as u64,
            bytes_per_second: model.bytes_per_second,
            takes_masks: false,
            ..inner
        })
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        let inner = self.shared.inner.session(algorithm, key)?;
        Ok(Session::new(algorithm, Arc::new(SimSession { inner, prepared: Arc::default() })))
    }

    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let (ticket, completer) = Ticket::pending();
        match self.take(session, batch, Reply::Batch(completer)) {
            Ok(()) => Ok(ticket),
            Err(refused) => Err(refused),
        }
    }

    fn flush(&self) {
        let mut state = self.shared.lock();
        let now = Instant::now();
        while let Some(mut job) = state.submitted.pop_front() {
            job.arrived = now;
            if state.to_hold > 0 {
                state.to_hold -= 1;
                state.held.push_back(job);
            } else {
                state.queue.push_back(job);
            }
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    fn buffer(&self, _: &Session, len: usize) -> Buffer {
        Lender::lend(&self.shared.lender, len)
    }

    /// A device writes when it likes.
    fn crossing(&self) -> Option<&dyn strongroom_engine::Cross> {
        None
    }

    fn masking(&self) -> Option<&dyn Masking> {
        Some(self)
    }
}
