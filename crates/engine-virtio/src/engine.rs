//! [`VirtioEngine`]: a function as an engine.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use strongroom_engine::completion::{Limits, Rule};
use strongroom_engine::{
    Algorithm, Batch, Buffer, Capability, Completed, Completer, Cross, Engine, Masking, Operation, Refusal,
    Refused, Session, SessionError, Ticket,
};

use crate::driver::Driver;
use crate::function::Function;
use crate::lanes::{Job, Lanes};
use crate::session::{Closed, DeviceSession};
use crate::wire::{self, Wire};
use crate::{Bus, Error};

/// Batches that are accepted before the engine is busy.
const ACCEPTED_MAX: usize = 256;
const SEGMENTS_MAX: usize = 1 << 16;

/// How a device is driven.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Data queues that are used, at most.
    pub queues: u16,
    /// What decides when answers are looked for.
    pub rule: Rule,
    /// What that is told beforehand.
    pub limits: Limits,
    /// A request without an answer for so long has the device reset.
    pub late: Duration,
}

impl Default for Options {
    /// One queue, the adaptive rule, 1.5 seconds: less than the scheduler waits
    /// for a batch.
    fn default() -> Options {
        let late = Duration::from_millis(1500);
        Options { queues: 1, rule: Rule::Adaptive, limits: Limits::default(), late }
    }
}

/// What has been counted since the engine was made.
#[derive(Debug, Default)]
pub struct Counters {
    /// Interrupts that were slept for and came.
    pub interrupts: AtomicU64,
    /// Sleeps that have ended, by an interrupt, a caller, or in time.
    pub wakes: AtomicU64,
    /// Resets after which the device went on.
    pub resets: AtomicU64,
}

/// What the engine's callers and its thread share.
pub(crate) struct Shared {
    pub(crate) function: Function,
    pub(crate) options: Options,
    pub(crate) counters: Counters,
    pub(crate) is_gone: AtomicBool,
    /// The engine is dropped: what was accepted is answered, and no more.
    pub(crate) is_closing: AtomicBool,
    /// A caller has found the device at fault.
    pub(crate) has_failed: AtomicBool,
    pub(crate) closed: Arc<Closed>,
    pub(crate) wake: OwnedFd,
    lanes: Mutex<Lanes>,
    /// Submitted, and not flushed.
    held: Mutex<Vec<Job>>,
    accepted: AtomicUsize,
    /// Keys with which it computes right, by their lengths.
    passed: Vec<(Wire, usize)>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        lock(&self.lanes)
    }

    /// What is to be begun.
    pub(crate) fn held(&self) -> Vec<Job> {
        std::mem::take(&mut *lock(&self.held))
    }

    /// Hands batches back, without any lock.
    pub(crate) fn hand_back(&self, finished: Vec<(Completer, Completed)>) {
        self.accepted.fetch_sub(finished.len(), Relaxed);
        for (completer, completed) in finished {
            completer.complete(completed);
        }
    }

    /// Makes requests of what was submitted.
    fn begin(&self) {
        let mut lanes = self.lanes();
        lanes.accept(self.held());
        let is_for_thread = match lanes.fill(&self.function.transport) {
            Ok(wanted) => wanted.is_some(),
            Err(_) => {
                self.has_failed.store(true, Relaxed);
                true
            }
        };
        let finished = lanes.finished();
        drop(lanes);
        self.hand_back(finished);
        if is_for_thread {
            self.wake();
        }
    }

    fn wake(&self) {
        // Full, it is signalled.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn has(&self, wire: Wire) -> bool {
        self.passed.iter().any(|(passed, _)| *passed == wire)
    }
}

/// A crypto function as an engine. Once it is dropped, its thread answers what
/// was accepted, resets the device, and ends.
pub struct VirtioEngine {
    name: String,
    shared: Arc<Shared>,
}

impl VirtioEngine {
    /// Sets the function up that `bus` reaches, and tests what it computes.
    ///
    /// # Errors
    /// It cannot be reached, or is no crypto device of virtio 1.2.
    pub fn open(name: &str, bus: Arc<dyn Bus>, options: Options) -> Result<VirtioEngine, Error> {
        let (function, interrupt) = Function::find(bus, options.queues)?;
        let mut queues = function.set_up()?;
        let passed = function.test(&mut queues)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::Bus(error.into()))?;
        let lanes = Lanes::new(Arc::clone(&function.data_memory), queues.data_at, queues.data);
        let shared = Arc::new(Shared {
            function,
            options,
            counters: Counters::default(),
            is_gone: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            closed: Arc::default(),
            wake,
            lanes: Mutex::new(lanes),
            held: Mutex::default(),
            accepted: AtomicUsize::new(0),
            passed,
        });
        let driver = Driver::new(Arc::clone(&shared), queues.control, interrupt);
        std::thread::Builder::new().name("virtio".into()).spawn(move || driver.run())?;
        Ok(VirtioEngine { name: name.to_owned(), shared })
    }

    /// What has been counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Requests that the device has been sent.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.lanes().requests
    }
}

impl Drop for VirtioEngine {
    /// Does not wait for the thread, which a device that stalls may keep.
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Release);
        self.shared.wake();
    }
}

impl Engine for VirtioEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        let (wire, _) = wire::of(algorithm)?;
        let has = algorithm_has(algorithm, operation) && self.shared.has(wire);
        (has && !self.shared.is_gone.load(Relaxed)).then(|| Capability {
            inline: false,
            batch_bytes_max: self.shared.function.request_max(),
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
        if !self.shared.passed.contains(&(wire, key.len())) || wire == Wire::XTS && first == second {
            return Err(SessionError::Unsupported);
        }
        if self.shared.is_gone.load(Relaxed) {
            return Err(SessionError::DeviceLost);
        }
        let session = Arc::new(DeviceSession::new(wire, kind, key, Arc::clone(&self.shared.closed)));
        Ok(Session::new(algorithm, Arc::new(OfEngine { shared: Arc::clone(&self.shared), session })))
    }

    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let refuse = |batch, refusal| Err(Box::new(Refused { batch, refusal }));
        let of_engine = match session.state::<OfEngine>() {
            Some(found) if Arc::ptr_eq(&found.shared, &self.shared) => found,
            _ => return refuse(batch, Refusal::Misuse("the session belongs to another engine")),
        };
        if let Err(refusal) = batch.validate(session.algorithm()) {
            return refuse(batch, refusal);
        }
        let is_too_long =
            batch.buffer.len() > self.shared.function.request_max() || batch.segments.len() > SEGMENTS_MAX;
        if is_too_long || !algorithm_has(session.algorithm(), batch.operation) {
            return refuse(batch, Refusal::Unsupported);
        }
        if self.shared.accepted.fetch_add(1, Relaxed) >= ACCEPTED_MAX {
            self.shared.accepted.fetch_sub(1, Relaxed);
            return refuse(batch, Refusal::Busy);
        }
        let (ticket, completer) = Ticket::pending();
        lock(&self.shared.held).push(Job { session: Arc::clone(&of_engine.session), batch, completer });
        Ok(ticket)
    }

    fn flush(&self) {
        self.shared.begin();
    }

    /// Ordinary memory: what the device can write is never a batch's.
    fn buffer(&self, _: &Session, len: usize) -> Buffer {
        Buffer::new(len)
    }

    /// Virtio asks for no keystream.
    fn masking(&self) -> Option<&dyn Masking> {
        None
    }

    /// It writes after `submit` has returned.
    fn crossing(&self) -> Option<&dyn Cross> {
        None
    }
}

/// Keystream cannot be asked for by virtio.
fn algorithm_has(algorithm: Algorithm, operation: Operation) -> bool {
    algorithm.has(operation) && operation != Operation::Keystream
}

/// A session of this engine.
struct OfEngine {
    shared: Arc<Shared>,
    session: Arc<DeviceSession>,
}
