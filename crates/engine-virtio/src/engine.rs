//! [`VirtioEngine`]: a function as an engine.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use strongroom_engine::{
    Algorithm, Batch, Buffer, Capability, Cross, Engine, Masking, Operation, Refusal, Refused, Session,
    SessionError, Ticket,
};

use crate::driver::Driver;
use crate::function::Function;
use crate::lanes::{Job, Lanes};
use crate::session::DeviceSession;
use crate::shared::{ACCEPTED_MAX, Counters, Options, Shared};
use crate::wire::{self, Wire};
use crate::{Bus, Error};

const SEGMENTS_MAX: usize = 1 << 16;

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
        let lanes = Lanes::new(Arc::clone(&function.data_memory), queues.data_at, queues.data);
        let shared = Arc::new(Shared::new(function, options, lanes, passed)?);
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
        if !self.shared.has_key(wire, key.len()) || wire == Wire::XTS && first == second {
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
        // A batch that is refused has to be handed back.
        let (ticket, completer) = Ticket::pending();
        let session = Arc::clone(&of_engine.session);
        let mut batch = Some(batch);
        let job = || Job { session, batch: batch.take().expect("it is taken once"), completer };
        if !self.shared.submit(job) {
            return refuse(batch.expect("it was not taken"), Refusal::Busy);
        }
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
