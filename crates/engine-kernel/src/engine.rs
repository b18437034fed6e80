//! [`KernelEngine`]: a driver of the kernel as an engine.
//!
//! Whoever flushes hands batches to threads, each of which has one request out
//! at a time. A request that the kernel never answers keeps its thread; what
//! waits behind it is for the other threads and, when it is late, for whoever
//! asked.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use strongroom_engine::{
    Algorithm, Batch, BlockCipher, Buffer, Capability, Completed, Completer, Cross, Engine, Masking,
    Operation, Outcome, Refusal, Refused, SectorCipher, SectorIv, SectorMode, Session, SessionError, Ticket,
    thread_cpu_ns,
};

use crate::Error;
use crate::known;
use crate::socket::{Cipher, Driver, Line, REQUEST_MAX};

/// Requests that the kernel has at once: a thread waits for each.
const THREADS: usize = 8;
/// Batches that are accepted before the engine is busy: one more for each
/// thread, so that none is late only because others stand before it.
const ACCEPTED_MAX: usize = 2 * THREADS;
/// Bytes of a batch, at most: 2048 sectors of 512 bytes, which take a driver
/// with interrupts some 200 ms, one after the other.
const BATCH_BYTES_MAX: usize = 1 << 20;
const SEGMENTS_MAX: usize = 1 << 16;

/// See the module. Once it is dropped, its threads answer what was accepted, and
/// end.
pub struct KernelEngine {
    name: String,
    shared: Arc<Shared>,
}

struct Shared {
    driver: String,
    /// Modes and lengths of keys.
    passed: Vec<(SectorMode, usize)>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Submitted, and not flushed.
    held: VecDeque<Job>,
    /// For the threads.
    begun: VecDeque<Job>,
    /// Taken, and not answered.
    accepted: usize,
    is_closing: bool,
}

struct Job {
    session: Arc<Key>,
    batch: Batch,
    completer: Completer,
}

/// A key, which the kernel has.
struct Key {
    sector: SectorCipher,
    cipher: Cipher,
    /// Lines that no thread uses now.
    idle: Mutex<Vec<Line>>,
}

/// A session of this engine.
struct OfEngine {
    shared: Arc<Shared>,
    key: Arc<Key>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KernelEngine {
    /// A driver by the name that `/proc/crypto` has for it; `name` is the
    /// engine's.
    ///
    /// # Errors
    /// The kernel has no such driver for programs, or it computes nothing right.
    pub fn open(name: &str, driver: &str) -> Result<KernelEngine, Error> {
        let passed = known::passed(driver)?;
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { driver: driver.to_owned(), passed, queue, changed });
        let engine = KernelEngine { name: name.to_owned(), shared };
        for _ in 0..THREADS {
            let shared = Arc::clone(&engine.shared);
            let thread = std::thread::Builder::new().name("kernel".into());
            thread.spawn(move || shared.work()).map_err(Error::NoThread)?;
        }
        Ok(engine)
    }

    fn sector(&self, algorithm: Algorithm) -> Option<SectorCipher> {
        match algorithm {
            // The IV of ESSIV would have to be encrypted first.
            Algorithm::Sector(sector)
                if sector.cipher == BlockCipher::Aes
                    && sector.iv != SectorIv::EssivSha256
                    && self.shared.passed.iter().any(|(mode, _)| *mode == sector.mode) =>
            {
                Some(sector)
            }
            _ => None,
        }
    }
}

impl Drop for KernelEngine {
    /// Does not wait for the threads, which a device that stalls may keep.
    fn drop(&mut self) {
        self.shared.begin(true);
    }
}

impl Engine for KernelEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        let has = self.sector(algorithm).is_some() && algorithm.has(operation);
        has.then_some(Capability {
            inline: false,
            batch_bytes_max: BATCH_BYTES_MAX,
            segments_max: SEGMENTS_MAX,
            queue_max: ACCEPTED_MAX,
            alignment: 1,
            takes_masks: false,
            latency_ns: 100_000,
            bytes_per_second: 100_000_000,
        })
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        let sector = self.sector(algorithm).ok_or(SessionError::Unsupported)?;
        if !algorithm.key_lens().contains(&key.len()) {
            return Err(SessionError::KeyLength);
        }
        let (first, second) = key.split_at(key.len() / 2);
        // XTS with equal keys is not secure.
        let is_weak = sector.mode == SectorMode::Xts && first == second;
        if is_weak || !self.shared.passed.contains(&(sector.mode, key.len())) {
            return Err(SessionError::Unsupported);
        }
        let driver = Driver::find(&self.shared.driver).map_err(|_| SessionError::DeviceLost)?;
        let cipher = driver.with_key(key).map_err(|_| SessionError::DeviceLost)?;
        let key = Arc::new(Key { sector, cipher, idle: Mutex::default() });
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
        let has_long_sectors =
            batch.segments.iter().any(|segment| segment.sector_len() as usize > REQUEST_MAX);
        if batch.buffer.len() > BATCH_BYTES_MAX || batch.segments.len() > SEGMENTS_MAX || has_long_sectors {
            return refuse(batch, Refusal::Unsupported);
        }
        let mut queue = lock(&self.shared.queue);
        if queue.accepted >= ACCEPTED_MAX {
            return refuse(batch, Refusal::Busy);
        }
        queue.accepted += 1;
        let (ticket, completer) = Ticket::pending();
        queue.held.push_back(Job { session: Arc::clone(key), batch, completer });
        Ok(ticket)
    }

    fn flush(&self) {
        self.shared.begin(false);
    }

    /// The kernel copies from wherever it is.
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

impl Shared {
    /// Hands what was submitted to the threads, for the last time or not.
    fn begin(&self, is_last: bool) {
        let mut queue = lock(&self.queue);
        let mut held = std::mem::take(&mut queue.held);
        queue.begun.append(&mut held);
        queue.is_closing |= is_last;
        drop(queue);
        self.changed.notify_all();
    }

    /// What a thread does until the engine is dropped.
    fn work(&self) {
        while let Some(Job { session, mut batch, completer }) = self.next() {
            let before_ns = thread_cpu_ns();
            let outcome = match session.compute(&mut batch) {
                Ok(()) => Outcome::Done,
                Err(_) => Outcome::DeviceLost,
            };
            lock(&self.queue).accepted -= 1;
            let cpu_ns = thread_cpu_ns().saturating_sub(before_ns);
            completer.complete_at_cost(Completed { batch, outcome }, cpu_ns);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.begun.pop_front() {
                return Some(job);
            }
            if queue.is_closing {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Key {
    /// Sector by sector, since each has an IV of its own.
    fn compute(&self, batch: &mut Batch) -> io::Result<()> {
        let idle = lock(&self.idle).pop();
        let line = match idle {
            Some(line) => line,
            None => self.cipher.line()?,
        };
        let encrypts = batch.operation == Operation::EncryptSectors;
        for segment in &mut batch.segments {
            let numbers = segment.sector_numbers();
            let sectors = batch.buffer[segment.range()].chunks_mut(segment.sector_len() as usize);
            for (at, sector) in sectors.enumerate() {
                line.crypt(encrypts, &self.sector.iv.number_block(numbers.at(at)), sector)?;
            }
            segment.set_done(None);
        }
        // Not after an error: it may hold an answer that nobody has taken.
        lock(&self.idle).push(line);
        Ok(())
    }
}
