//! A test engine that does everything an asynchronous engine may do: it
//! begins nothing before it is flushed, answers from other threads, out of
//! order and late, is busy, and, where asked to, loses batches or lets them
//! vanish.
//!
//! The computing is another engine's. What goes wrong is drawn from a seed,
//! though threads make the order of events differ from run to run.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{
    Algorithm, Batch, Buffer, Capability, Completed, Completer, Engine, Operation, Outcome, Refusal, Refused,
    Session, SessionError, Ticket, client,
};

/// Threads that answer.
const WORKERS: usize = 2;

/// Batches queued, begun with or not, before `submit` answers busy.
const QUEUE_DEPTH_MAX: usize = 16;

/// What goes wrong, each in per mille of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Refused as busy, besides those for whom the queue is full.
    pub busy: u32,
    /// Answered with [`Outcome::DeviceLost`], the buffer full of noise.
    pub lost: u32,
    /// Never answered: the completer is dropped, and the buffer with it.
    pub vanished: u32,
    /// Answered only after [`Faults::late_by`].
    pub late: u32,
    /// How late a late answer is.
    pub late_by: Duration,
}

impl Faults {
    /// Slow, busy and out of order, but nothing is lost.
    #[must_use]
    pub fn harmless() -> Faults {
        Faults { busy: 100, lost: 0, vanished: 0, late: 20, late_by: Duration::from_millis(2) }
    }

    /// Batches are also lost and vanish.
    #[must_use]
    pub fn lossy() -> Faults {
        Faults { lost: 80, vanished: 40, ..Faults::harmless() }
    }
}

/// See the module. Dropping it answers what is queued and ends its threads.
pub struct UnrulyEngine {
    name: String,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    inner: Arc<dyn Engine>,
    faults: Faults,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Submitted and not flushed.
    held: Vec<Job>,
    queue: Vec<Job>,
    random: u64,
    closing: bool,
}

struct Job {
    session: Session,
    batch: Batch,
    completer: Completer,
}

/// A session of the inner engine. Its type makes it this engine's own.
struct UnrulySession(Session);

impl UnrulyEngine {
    /// An engine that computes with `inner` and errs by `seed` and `faults`.
    #[must_use]
    pub fn new(inner: Arc<dyn Engine>, seed: u64, faults: Faults) -> UnrulyEngine {
        let name = format!("unruly({})", inner.name());
        let state = Mutex::new(State { held: Vec::new(), queue: Vec::new(), random: seed, closing: false });
        let shared = Arc::new(Shared { inner, faults, state, changed: Condvar::new() });
        let workers = std::iter::repeat_with(|| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || while shared.answer_one() {})
        });
        UnrulyEngine { name, workers: workers.take(WORKERS).collect(), shared }
    }
}

impl Drop for UnrulyEngine {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.flush();
        for worker in self.workers.drain(..) {
            if worker.join().is_err() && !std::thread::panicking() {
                panic!("a worker of the unruly engine panicked");
            }
        }
    }
}

impl State {
    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn happens(&mut self, per_mille: u32) -> bool {
        self.draw() % 1000 < u64::from(per_mille)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes any job of the queue and answers it, or does not; false when the
    /// engine is closing and nothing is queued.
    fn answer_one(&self) -> bool {
        let mut state = self.lock();
        while state.queue.is_empty() {
            if state.closing {
                return false;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let chosen = state.draw() as usize % state.queue.len();
        let Job { session, batch, completer } = state.queue.swap_remove(chosen);
        let pause = Duration::from_micros(state.draw() % 100);
        let late = state.happens(self.faults.late);
        let (lost, vanished) = (state.happens(self.faults.lost), state.happens(self.faults.vanished));
        let noise = state.draw();
        drop(state);

        thread::sleep(if late { self.faults.late_by } else { pause });
        if vanished {
            return true;
        }
        if let Some(completed) = if lost { Some(ruined(batch, noise)) } else { self.compute(&session, batch) }
        {
            completer.complete(completed);
        }
        true
    }

    /// The inner engine's answer; `None` when it refuses or loses the batch,
    /// which then vanishes.
    fn compute(&self, session: &Session, batch: Batch) -> Option<Completed> {
        client::execute(&*self.inner, session, batch).ok()
    }
}

/// What a device that failed half-way leaves behind.
fn ruined(mut batch: Batch, noise: u64) -> Completed {
    for (byte, noise) in batch.buffer.iter_mut().zip(noise.to_le_bytes().into_iter().cycle()) {
        *byte ^= noise | 1;
    }
    for segment in batch.segments.iter_mut().step_by(2) {
        segment.set_done(Some([noise as u8; 16]));
    }
    Completed { batch, outcome: Outcome::DeviceLost }
}

impl Engine for UnrulyEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        let inner = self.shared.inner.capability(algorithm, operation)?;
        Some(Capability { inline: false, latency_ns: inner.latency_ns + 100_000, ..inner })
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        let inner = self.shared.inner.session(algorithm, key)?;
        Ok(Session::new(algorithm, Arc::new(UnrulySession(inner))))
    }

    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let refuse = |batch, refusal| Err(Box::new(Refused { batch, refusal }));
        let Some(UnrulySession(inner)) = session.state::<UnrulySession>() else {
            return refuse(batch, Refusal::Misuse("the session belongs to another engine"));
        };
        let mut state = self.shared.lock();
        if state.queue.len() + state.held.len() >= QUEUE_DEPTH_MAX || state.happens(self.shared.faults.busy) {
            return refuse(batch, Refusal::Busy);
        }
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
        let (ticket, completer) = Ticket::pending();
        state.held.push(Job { session: inner.clone(), batch, completer });
        Ok(ticket)
    }

    fn flush(&self) {
        let mut state = self.shared.lock();
        let mut held = std::mem::take(&mut state.held);
        state.queue.append(&mut held);
        drop(state);
        self.shared.changed.notify_all();
    }

    fn buffer(&self, session: &Session, len: usize) -> Buffer {
        match session.state::<UnrulySession>() {
            Some(UnrulySession(inner)) => self.shared.inner.buffer(inner, len),
            None => Buffer::new(len),
        }
    }

    /// A device writes when it likes.
    fn crossing(&self) -> Option<&dyn crate::Cross> {
        None
    }

    fn masking(&self) -> Option<&dyn crate::Masking> {
        None
    }
}
