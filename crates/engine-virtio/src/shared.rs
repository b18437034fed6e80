//! What callers and the driver's thread share of a device, and how it is driven.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use strongroom_engine::completion::{Limits, Rule};
use strongroom_engine::{Completed, Completer, complete_all};

use crate::function::Function;
use crate::lanes::{Job, Lanes};
use crate::session::Closed;
use crate::wire::Wire;

/// Batches that are accepted before the engine is busy.
pub(crate) const ACCEPTED_MAX: usize = 256;

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
    /// CPU time in nanoseconds that callers who flush and the thread have used, and that
    /// no batch was told to have cost. Callers by the clock, since they wait for nothing.
    pub(crate) cpu_ns: AtomicU64,
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
    /// Of a function whose queues are `lanes`, and which computes right with the
    /// keys of `passed`.
    pub(crate) fn new(
        function: Function,
        options: Options,
        lanes: Lanes,
        passed: Vec<(Wire, usize)>,
    ) -> std::io::Result<Shared> {
        Ok(Shared {
            function,
            options,
            counters: Counters::default(),
            is_gone: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            closed: Arc::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            cpu_ns: AtomicU64::new(0),
            lanes: Mutex::new(lanes),
            held: Mutex::default(),
            accepted: AtomicUsize::new(0),
            passed,
        })
    }

    /// Takes what `job` makes, to be begun by [`Shared::begin`]; false when there
    /// is no room.
    pub(crate) fn submit(&self, job: impl FnOnce() -> Job) -> bool {
        let has_room = self.accepted.fetch_add(1, Relaxed) < ACCEPTED_MAX;
        match has_room {
            true => lock(&self.held).push(job()),
            false => drop(self.accepted.fetch_sub(1, Relaxed)),
        }
        has_room
    }

    pub(crate) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        lock(&self.lanes)
    }

    /// What is to be begun.
    pub(crate) fn held(&self) -> Vec<Job> {
        std::mem::take(&mut *lock(&self.held))
    }

    /// Hands batches back, without any lock. What CPU time was used since the last
    /// ones they have cost.
    pub(crate) fn hand_back(&self, finished: Vec<(Completer, Completed)>) {
        if finished.is_empty() {
            return;
        }
        self.accepted.fetch_sub(finished.len(), Relaxed);
        complete_all(finished, self.cpu_ns.swap(0, Relaxed));
    }

    /// Makes requests of what was submitted.
    pub(crate) fn begin(&self) {
        let mut lanes = self.lanes();
        let began = Instant::now();
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
        self.cpu_ns.fetch_add(began.elapsed().as_nanos() as u64, Relaxed);
        self.hand_back(finished);
        if is_for_thread {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        // Full, it is signalled.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Whether it computes right with keys of any length.
    pub(crate) fn has(&self, wire: Wire) -> bool {
        self.passed.iter().any(|(passed, _)| *passed == wire)
    }

    /// Whether it computes right with keys of this length.
    pub(crate) fn has_key(&self, wire: Wire, len: usize) -> bool {
        self.passed.contains(&(wire, len))
    }
}
