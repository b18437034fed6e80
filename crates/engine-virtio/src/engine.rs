//! [`VirtioEngine`]: a function as an engine.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use strongroom_engine::{
    Algorithm, Batch, Capability, Completed, Cross, Engine, Operation, Outcome, Refusal, Refused,
    SectorCipher, SectorMode, Session, SessionError, Ticket,
};
use zeroize::Zeroizing;

use crate::control::{self, Control};
use crate::ring::{Ring, ring_len};
use crate::service::{CHAIN, Job, Message, Queue, Service, on_the_wire, slot_len};
use crate::spec;
use crate::transport::{Offer, Transport};
use crate::{Bus, Error, Memory};

/// Where a device sees its memory.
const BASE: u64 = 1 << 32;
/// Requests of one queue.
const SLOTS_MAX: u16 = 32;
/// Bytes of a request, at most.
const DATA_MAX: usize = 256 << 10;
/// Batches that are accepted before the engine is busy.
const ACCEPTED_MAX: usize = 256;
const SEGMENTS_MAX: usize = 1 << 16;

/// How a device is driven.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Data queues that are used, at most.
    pub queues: u16,
    /// Answers that one interrupt is asked for, while as many are out.
    pub coalesce: u16,
    /// Looks for answers all the time while some are out, and asks for no
    /// interrupt.
    pub poll: bool,
    /// A request without an answer for so long has the device reset.
    pub late: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { queues: 4, coalesce: 1, poll: false, late: Duration::from_secs(2) }
    }
}

/// What has been counted since the engine was made.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that were sent.
    pub requests: AtomicU64,
    /// Interrupts that were slept for and came.
    pub interrupts: AtomicU64,
    /// Resets after which the device went on.
    pub resets: AtomicU64,
}

/// What the engine's callers and its thread share.
pub(crate) struct Shared {
    pub(crate) transport: Transport,
    pub(crate) options: Options,
    pub(crate) counters: Counters,
    pub(crate) slot_len: usize,
    pub(crate) is_gone: AtomicBool,
    /// The engine is dropped: what was accepted is answered, and no more.
    pub(crate) is_closing: AtomicBool,
    pub(crate) accepted: AtomicUsize,
    pub(crate) wake: OwnedFd,
    control: Mutex<Control>,
    offer: Offer,
    queues: u16,
}

/// A key on the device, in both directions.
pub(crate) struct DeviceSession {
    algorithm: (u32, u32),
    pub(crate) sector: Option<SectorCipher>,
    key: Zeroizing<Vec<u8>>,
    numbers: Mutex<Numbers>,
    messages: Sender<Message>,
}

/// A session's numbers on the device, since it was last reset.
#[derive(Clone, Copy)]
struct Numbers {
    epoch: u64,
    encrypts: u64,
    decrypts: u64,
}

/// Numbers that are not used any more.
pub(crate) struct Closed {
    service: u32,
    numbers: Numbers,
}

impl Drop for DeviceSession {
    fn drop(&mut self) {
        let numbers = *self.numbers.get_mut().unwrap_or_else(PoisonError::into_inner);
        // When the thread has ended there is nothing to close.
        let _ = self.messages.send(Message::Closed(Closed { service: self.algorithm.0, numbers }));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the function up, from a reset on: the control queue, and the data
/// queues with a vector for all of them.
fn set_up(
    transport: &Transport,
    memory: &Arc<Memory>,
    queues: u16,
    data_queues: u16,
    epoch: u64,
) -> Result<(Control, Vec<Queue>), Error> {
    let control = Control::new(transport, memory, 0, data_queues, epoch)?;
    let mut at = control::memory_len().next_multiple_of(64);
    let mut data = Vec::new();
    for number in 0..queues {
        let size = SLOTS_MAX * CHAIN;
        let size = transport.queue_size(number)?.min(size.next_power_of_two());
        let slots = (size / CHAIN).min(SLOTS_MAX);
        if slots == 0 {
            return Err(Error::Device("a queue is too short"));
        }
        let ring = Ring::new(memory, at, size)?;
        at += ring_len(size).next_multiple_of(64);
        transport.enable(number, size, Some(0), &ring.places())?;
        let doorbell = transport.doorbell(number)?;
        data.push(Queue::new(number, ring, doorbell, at, slots));
        at += usize::from(slots) * slot_len(DATA_MAX);
    }
    transport.start()?;
    Ok((control, data))
}

impl Shared {
    /// The session's number on the device, which is opened anew after a reset.
    pub(crate) fn number(&self, session: &DeviceSession, encrypts: bool) -> Result<u64, Error> {
        let mut numbers = lock(&session.numbers);
        let mut control = lock(&self.control);
        if numbers.epoch != control.epoch {
            let opened = self.open(&mut control, session.algorithm, &session.key)?;
            *numbers = opened.ok_or(Error::Device("it takes a key no more"))?;
        }
        Ok(if encrypts { numbers.encrypts } else { numbers.decrypts })
    }

    fn open(
        &self,
        control: &mut Control,
        algorithm: (u32, u32),
        key: &[u8],
    ) -> Result<Option<Numbers>, Error> {
        let Some(encrypts) = control.open(&self.transport, algorithm, spec::ENCRYPTS, key)? else {
            return Ok(None);
        };
        let Some(decrypts) = control.open(&self.transport, algorithm, spec::DECRYPTS, key)? else {
            control.close(&self.transport, algorithm.0, encrypts)?;
            return Ok(None);
        };
        Ok(Some(Numbers { epoch: control.epoch, encrypts, decrypts }))
    }

    /// Closes what is not used any more. A device that fails here will fail
    /// where it matters.
    pub(crate) fn close(&self, closed: &Closed) {
        let mut control = lock(&self.control);
        if closed.numbers.epoch == control.epoch && !control.is_gone {
            for number in [closed.numbers.encrypts, closed.numbers.decrypts] {
                let _ = control.close(&self.transport, closed.service, number);
            }
        }
    }

    /// Resets the device and sets it up again.
    pub(crate) fn restart(&self, memory: &Arc<Memory>) -> Result<Vec<Queue>, Error> {
        let mut control = lock(&self.control);
        let epoch = control.epoch + 1;
        let restarted = self.transport.reset().and_then(|()| {
            self.transport.negotiate()?;
            set_up(&self.transport, memory, self.queues, self.offer.data_queues as u16, epoch)
        });
        match restarted {
            Ok((anew, queues)) => {
                *control = anew;
                self.counters.resets.fetch_add(1, Relaxed);
                Ok(queues)
            }
            Err(error) => {
                control.is_gone = true;
                Err(error)
            }
        }
    }

    fn has(&self, algorithm: Algorithm) -> bool {
        match on_the_wire(algorithm) {
            Some((spec::service::AEAD, number)) => self.offer.aeads >> number & 1 == 1,
            Some((_, number)) => self.offer.ciphers >> number & 1 == 1,
            None => false,
        }
    }

    /// Bytes of a request.
    fn data_max(&self) -> usize {
        usize::try_from(self.offer.request_len_max).unwrap_or(usize::MAX).min(DATA_MAX)
    }
}

/// A crypto function as an engine. Once it is dropped, its thread answers what
/// was accepted and ends.
pub struct VirtioEngine {
    name: String,
    shared: Arc<Shared>,
    messages: Sender<Message>,
}

impl VirtioEngine {
    /// Sets the function up that `bus` reaches.
    ///
    /// # Errors
    /// It cannot be reached, or is no crypto device of virtio 1.2.
    pub fn open(bus: Arc<dyn Bus>, options: Options) -> Result<VirtioEngine, Error> {
        let transport = Transport::find(Arc::clone(&bus))?;
        transport.reset()?;
        let offer = transport.negotiate()?;
        let data_queues =
            u16::try_from(offer.data_queues).map_err(|_| Error::Device("it has too many queues"))?;
        let queues = data_queues.min(options.queues.max(1));
        let per_queue = ring_len((SLOTS_MAX * CHAIN).next_power_of_two()).next_multiple_of(64)
            + usize::from(SLOTS_MAX) * slot_len(DATA_MAX);
        let len = (control::memory_len() + 64 + usize::from(queues) * per_queue).next_multiple_of(4096);
        let (memory, file) = Memory::create(BASE, len)?;
        let memory = Arc::new(memory);
        bus.map(&file, BASE, len as u64)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = || eventfd(0, flags).map_err(|error| Error::Bus(error.into()));
        let (interrupt, wake) = (event()?, event()?);
        let given = interrupt.try_clone()?;
        bus.interrupts(&[given])?;
        let (control, data) = set_up(&transport, &memory, queues, data_queues, 0)?;
        let shared = Arc::new(Shared {
            transport,
            options,
            counters: Counters::default(),
            slot_len: slot_len(DATA_MAX),
            is_gone: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            wake,
            control: Mutex::new(control),
            offer,
            queues,
        });
        let (messages, received) = channel();
        let service = Service::new(Arc::clone(&shared), memory, data, interrupt, received);
        std::thread::Builder::new().name("virtio".into()).spawn(move || service.run())?;
        Ok(VirtioEngine { name: "virtio".into(), shared, messages })
    }

    /// What has been counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    fn wake(&self) {
        // Full, it is signalled.
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for VirtioEngine {
    /// Does not wait for the thread, which a device that stalls may keep.
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Relaxed);
        self.wake();
    }
}

impl Engine for VirtioEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        let has = self.shared.has(algorithm)
            && algorithm.has(operation)
            && operation != Operation::Keystream
            && !self.shared.is_gone.load(Relaxed);
        has.then(|| Capability {
            inline: false,
            batch_bytes_max: self.shared.data_max(),
            segments_max: SEGMENTS_MAX,
            queue_max: ACCEPTED_MAX,
            alignment: 1,
            latency_ns: 50_000,
            bytes_per_second: 1_000_000_000,
        })
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        if !self.shared.has(algorithm) {
            return Err(SessionError::Unsupported);
        }
        if !algorithm.key_lens().contains(&key.len()) {
            return Err(SessionError::KeyLength);
        }
        let sector = match algorithm {
            Algorithm::Sector(sector) => Some(sector),
            Algorithm::Aead(_) => None,
        };
        let is_xts = sector.is_some_and(|sector| sector.mode == SectorMode::Xts);
        let (first, second) = key.split_at(key.len() / 2);
        // XTS with equal keys is not secure.
        if key.len() > self.shared.offer.key_len_max || is_xts && first == second {
            return Err(SessionError::Unsupported);
        }
        let wire = on_the_wire(algorithm).ok_or(SessionError::Unsupported)?;
        let opened = self.shared.open(&mut lock(&self.shared.control), wire, key);
        let numbers = opened.map_err(|_| SessionError::DeviceLost)?.ok_or(SessionError::Unsupported)?;
        let session = DeviceSession {
            algorithm: wire,
            sector,
            key: Zeroizing::new(key.to_vec()),
            numbers: Mutex::new(numbers),
            messages: self.messages.clone(),
        };
        Ok(Session::new(algorithm, Arc::new(OfEngine { shared: Arc::clone(&self.shared), session: Arc::new(session) })))
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
        let is_too_long = batch.buffer.len() > self.shared.data_max() || batch.segments.len() > SEGMENTS_MAX;
        if is_too_long || batch.operation == Operation::Keystream {
            return refuse(batch, Refusal::Unsupported);
        }
        if self.shared.is_gone.load(Relaxed) {
            return Ok(Ticket::ready(Completed { batch, outcome: Outcome::DeviceLost }));
        }
        if self.shared.accepted.fetch_add(1, Relaxed) >= ACCEPTED_MAX {
            self.shared.accepted.fetch_sub(1, Relaxed);
            return refuse(batch, Refusal::Busy);
        }
        let (ticket, completer) = Ticket::pending();
        let job = Job { session: Arc::clone(&of_engine.session), batch, completer };
        // Its thread lives as long as the engine; were it gone, so would the batch.
        let _ = self.messages.send(Message::Job(Box::new(job)));
        self.wake();
        Ok(ticket)
    }

    fn crossing(&self) -> Option<&dyn Cross> {
        None
    }
}

/// A session of this engine.
struct OfEngine {
    shared: Arc<Shared>,
    session: Arc<DeviceSession>,
}
