//! [`QatEngine`]: an instance as an engine.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use strongroom_engine::{
    Algorithm, Batch, Buffer, Capability, Completed, Completer, Cross, Engine, Masking, Operation, Outcome,
    Refusal, Refused, Session, SessionError, Ticket, complete_all,
};

use crate::Error;
use crate::known::{self, Passed};
use crate::lane::Lane;
use crate::session::{Closed, Key};
use crate::sys::{Instance, Library};
use crate::wire::{self, Kind, Wire};

/// Batches that are accepted before the engine is busy.
const ACCEPTED_MAX: usize = 64;
const SEGMENTS_MAX: usize = 1 << 16;

/// How an instance is driven.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A request without an answer for so long is lost.
    pub late: Duration,
}

impl Default for Options {
    /// 1.5 seconds: less than the scheduler waits for a batch.
    fn default() -> Options {
        Options { late: Duration::from_millis(1500) }
    }
}

/// See the module. Once it is dropped, its thread answers what was accepted,
/// stops the instance, and ends.
pub struct QatEngine {
    name: String,
    shared: Arc<Shared>,
}

/// What callers and the thread share.
pub(crate) struct Shared {
    passed: Passed,
    queue: Mutex<Queue>,
    changed: Condvar,
    pub(crate) closed: Arc<Closed>,
    keys: AtomicU64,
    /// It has kept all the memory that there is for requests.
    is_stuck: AtomicBool,
}

#[derive(Default)]
struct Queue {
    /// Submitted, and not flushed.
    held: Vec<Job>,
    /// For the thread.
    begun: Vec<Job>,
    /// Taken, and not answered.
    accepted: usize,
    is_closing: bool,
    /// The thread has ended.
    is_over: bool,
}

/// A batch on its way.
pub(crate) struct Job {
    pub(crate) key: Arc<Key>,
    pub(crate) batch: Batch,
    pub(crate) completer: Completer,
}

/// A session of this engine.
struct OfEngine {
    shared: Arc<Shared>,
    key: Arc<Key>,
}

impl QatEngine {
    /// Starts the instance with this number, counted from 0, and tests what it
    /// computes; `name` is the engine's.
    ///
    /// # Errors
    /// There is no such instance, or it does not compute what it should.
    pub fn open(
        name: &str,
        library: &'static Library,
        number: u16,
        options: Options,
    ) -> Result<QatEngine, Error> {
        let (sender, opened) = mpsc::channel();
        let thread = std::thread::Builder::new().name("qat".into());
        let run = move || {
            let tested = Instance::start(library, number).and_then(|mut instance| {
                let passed = known::passed(&mut instance)?;
                Ok((instance, passed))
            });
            let lane = tested.map(|(instance, passed)| {
                let shared = Arc::new(Shared::new(passed));
                (Lane::new(Arc::clone(&shared), instance, options.late), shared)
            });
            match lane {
                Ok((lane, shared)) => {
                    // Were nobody there any more, the lane would be told to end.
                    let _ = sender.send(Ok(shared));
                    lane.run();
                }
                Err(error) => drop(sender.send(Err(error))),
            }
        };
        thread.spawn(run).map_err(Error::NoThread)?;
        let shared = opened.recv().expect("the thread sends before it ends")?;
        Ok(QatEngine { name: name.to_owned(), shared })
    }
}

impl Drop for QatEngine {
    /// Does not wait for the thread, which a device that stalls may keep.
    fn drop(&mut self) {
        self.shared.begin(true);
    }
}

impl Engine for QatEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        let (wire, _) = wire::of(algorithm)?;
        let has = algorithm_has(algorithm, operation) && self.shared.has(wire);
        (has && !self.shared.is_stuck.load(Relaxed)).then(|| Capability {
            inline: false,
            batch_bytes_max: self.shared.passed.request_max,
            segments_max: SEGMENTS_MAX,
            queue_max: ACCEPTED_MAX,
            alignment: 1,
            takes_masks: false,
            latency_ns: 50_000,
            bytes_per_second: 1_000_000_000,
        })
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        let (wire, kind) = wire::of(algorithm).ok_or(SessionError::Unsupported)?;
        if !self.shared.has(wire) {
            return Err(SessionError::Unsupported);
        }
        if !algorithm.key_lens().contains(&key.len()) {
            return Err(SessionError::KeyLength);
        }
        let (first, second) = key.split_at(key.len() / 2);
        // XTS with equal keys is not secure.
        let is_weak = wire == Wire::Xts && first == second;
        if is_weak || !self.shared.passed.wires.contains(&(wire, key.len())) {
            return Err(SessionError::Unsupported);
        }
        let key = Arc::new(self.shared.key(wire, kind, key));
        Ok(Session::new(algorithm, Arc::new(OfEngine { shared: Arc::clone(&self.shared), key })))
    }

    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let refuse = |batch, refusal| Err(Box::new(Refused { batch, refusal }));
        let key = match session.state::<OfEngine>() {
            Some(found) if Arc::ptr_eq(&found.shared, &self.shared) => &found.key,
            _ => return refuse(batch, Refusal::Misuse("the session belongs to another engine")),
        };
        if let Err(refusal) = batch.validate(session.algorithm()) {
            return refuse(batch, refusal);
        }
        let is_too_long =
            batch.buffer.len() > self.shared.passed.request_max || batch.segments.len() > SEGMENTS_MAX;
        if is_too_long || !algorithm_has(session.algorithm(), batch.operation) {
            return refuse(batch, Refusal::Unsupported);
        }
        let mut queue = self.shared.queue();
        if queue.accepted >= ACCEPTED_MAX {
            return refuse(batch, Refusal::Busy);
        }
        let (ticket, completer) = Ticket::pending();
        if queue.is_over {
            drop(queue);
            completer.complete(Completed { batch, outcome: Outcome::DeviceLost });
            return Ok(ticket);
        }
        queue.accepted += 1;
        queue.held.push(Job { key: Arc::clone(key), batch, completer });
        Ok(ticket)
    }

    fn flush(&self) {
        self.shared.begin(false);
    }

    /// Ordinary memory: what the device can write is never a batch's.
    fn buffer(&self, _: &Session, len: usize) -> Buffer {
        Buffer::new(len)
    }

    /// It writes after `submit` has returned.
    fn crossing(&self) -> Option<&dyn Cross> {
        None
    }

    /// Keystream of authenticated ciphers alone is of use.
    fn masking(&self) -> Option<&dyn Masking> {
        None
    }
}

/// Keystream of GCM is not asked for.
fn algorithm_has(algorithm: Algorithm, operation: Operation) -> bool {
    algorithm.has(operation) && operation != Operation::Keystream
}

impl Shared {
    fn new(passed: Passed) -> Shared {
        Shared {
            passed,
            queue: Mutex::default(),
            changed: Condvar::new(),
            closed: Arc::default(),
            keys: AtomicU64::new(0),
            is_stuck: AtomicBool::new(false),
        }
    }

    /// Whether it computes right with keys of any length.
    fn has(&self, wire: Wire) -> bool {
        self.passed.wires.iter().any(|(passed, _)| *passed == wire)
    }

    fn key(&self, wire: Wire, kind: Kind, key: &[u8]) -> Key {
        Key::new(self.keys.fetch_add(1, Relaxed), wire, kind, key, Arc::clone(&self.closed))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands what was submitted to the thread, for the last time or not.
    fn begin(&self, is_last: bool) {
        let mut queue = self.queue();
        let mut held = std::mem::take(&mut queue.held);
        queue.begun.append(&mut held);
        queue.is_closing |= is_last;
        drop(queue);
        self.changed.notify_all();
    }

    /// What is for the thread, and whether that is all.
    pub(crate) fn begun(&self) -> (Vec<Job>, bool) {
        let mut queue = self.queue();
        (std::mem::take(&mut queue.begun), queue.is_closing)
    }

    /// Waits for something to be begun, at most so long.
    pub(crate) fn wait(&self, limit: Duration) {
        let queue = self.queue();
        let is_idle = |queue: &mut Queue| queue.begun.is_empty() && !queue.is_closing;
        drop(self.changed.wait_timeout_while(queue, limit, is_idle));
    }

    /// Hands batches back that took so much CPU time together, without any lock.
    pub(crate) fn hand_back(&self, finished: Vec<(Completer, Completed)>, cpu_ns: u64) {
        self.queue().accepted -= finished.len();
        complete_all(finished, cpu_ns);
    }

    /// Whether the instance has kept all the memory that there is for requests.
    pub(crate) fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Relaxed);
    }

    /// The thread ends: what comes later is lost, and so is what was submitted.
    pub(crate) fn end(&self) {
        let mut queue = self.queue();
        queue.is_over = true;
        let mut held = std::mem::take(&mut queue.held);
        queue.begun.append(&mut held);
    }
}
