//! [`Masker`]: a device that makes masks and nothing else, to measure what they
//! bring by themselves.
//!
//! All units work on the parts of one order. Where they are as many as the CPUs
//! and of real-time priority, nothing else runs while they do. Who then takes
//! their CPU time, which stands under their name ([`Masker::UNIT`]), off what he
//! measured has measured a device that answers at once and takes nothing of the
//! CPU. The masks are right all the same.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use strongroom_engine::{
    Algorithm, Batch, Buffer, Capability, Cross, Decision, Engine, MaskCompleter, MaskMemory, MaskTicket,
    Masking, Message, Operation, Outcome, Refusal, Refused, Segment, Session, SessionError, StoredNonce,
    Ticket, client,
};

/// Messages that a unit takes at once.
const PART: usize = 64;
/// Masks of a part.
type Masks = Vec<Box<dyn MaskMemory>>;

/// Bytes that may be ordered and not be made yet.
const ORDERED_MAX: usize = 64 << 20;
/// Memory of masks that is kept to be used again, in pieces.
const SPARE_MAX: usize = 16_384;

/// See the module. Dropping it answers what is ordered and ends its threads.
pub struct Masker {
    name: String,
    shared: Arc<Shared>,
    units: Vec<JoinHandle<()>>,
}

struct Shared {
    inner: Arc<dyn Engine>,
    state: Mutex<State>,
    changed: Condvar,
    spare: Arc<Spare>,
}

#[derive(Default)]
struct State {
    parts: VecDeque<Part>,
    ordered: usize,
    closing: bool,
}

/// Messages of one order.
struct Part {
    session: Session,
    messages: Vec<Message>,
    place: usize,
    order: Arc<Pending>,
}

/// An order, until its last part is made.
struct Pending {
    made: Mutex<Vec<Option<Masks>>>,
    left: AtomicUsize,
    completer: Mutex<Option<MaskCompleter>>,
}

impl Pending {
    /// Takes in a part; where one could not be made, nobody is answered.
    fn add(&self, place: usize, made: Option<Masks>) {
        lock(&self.made)[place] = made;
        if self.left.fetch_sub(1, AcqRel) > 1 {
            return;
        }
        let parts: Option<Vec<_>> = lock(&self.made).drain(..).collect();
        let completer = lock(&self.completer).take();
        if let (Some(parts), Some(completer)) = (parts, completer) {
            completer.complete(parts.into_iter().flatten().collect());
        }
    }
}

/// Memory of masks that were used.
#[derive(Default)]
struct Spare(Mutex<Vec<Vec<u8>>>);

/// A mask in memory that goes back when it was wiped.
struct Lent {
    bytes: Vec<u8>,
    spare: Arc<Spare>,
}

impl MaskMemory for Lent {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.fill(0);
        std::hint::black_box(&bytes);
        let mut spare = lock(&self.spare.0);
        if spare.len() < SPARE_MAX {
            spare.push(bytes);
        }
    }
}

/// The inner engine's session. Its type makes it this engine's own.
struct Own(Session);

impl Masker {
    /// What its threads are called.
    pub const UNIT: &'static str = "sim-masks";

    /// A device of so many units that computes with `inner`, which has to be
    /// inline.
    #[must_use]
    pub fn new(inner: Arc<dyn Engine>, units: usize) -> Masker {
        let name = format!("sim-masks({})", inner.name());
        let shared = Arc::new(Shared {
            inner,
            state: Mutex::default(),
            changed: Condvar::new(),
            spare: Arc::default(),
        });
        let unit = || {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(Masker::UNIT.to_owned());
            thread.spawn(move || shared.work()).expect("a thread for a unit")
        };
        let units = std::iter::repeat_with(unit).take(units.max(1)).collect();
        Masker { name, shared, units }
    }
}

impl Drop for Masker {
    fn drop(&mut self) {
        lock(&self.shared.state).closing = true;
        self.shared.changed.notify_all();
        for unit in self.units.drain(..) {
            if unit.join().is_err() && !std::thread::panicking() {
                panic!("a unit of the simulated device panicked");
            }
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(part) = self.next() {
            let made = self.make(&part);
            lock(&self.state).ordered -= part.messages.iter().map(|message| message.len).sum::<usize>();
            part.order.add(part.place, made);
        }
    }

    fn next(&self) -> Option<Part> {
        let mut state = lock(&self.state);
        loop {
            if let Some(part) = state.parts.pop_front() {
                return Some(part);
            }
            if state.closing {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn make(&self, part: &Part) -> Option<Masks> {
        let mut end = 0;
        let segments = part.messages.iter().map(|message| {
            end += message.len;
            Segment::keystream_again(end - message.len, message.len, StoredNonce::new(message.nonce))
        });
        let segments = segments.collect();
        let batch = Batch::new(Operation::Keystream, Buffer::new(end), segments);
        let mut completed = client::execute(&*self.inner, &part.session, batch).ok()?;
        let buffer = &mut completed.batch.buffer;
        let masks = completed.batch.segments.iter().map(|segment| self.lend(&buffer[segment.range()]));
        let masks = masks.collect();
        buffer.fill(0);
        std::hint::black_box(&buffer);
        (completed.outcome == Outcome::Done).then_some(masks)
    }

    fn lend(&self, mask: &[u8]) -> Box<dyn MaskMemory> {
        let mut bytes = lock(&self.spare.0).pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(mask);
        Box::new(Lent { bytes, spare: Arc::clone(&self.spare) })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Masking for Masker {
    fn order(&self, session: &Session, messages: &[Message]) -> Result<MaskTicket, Refusal> {
        let Some(Own(session)) = session.state() else {
            return Err(Refusal::Misuse("the session belongs to another engine"));
        };
        if self.capability(session.algorithm(), Operation::Keystream).is_none() {
            return Err(Refusal::Unsupported);
        }
        let bytes = messages.iter().map(|message| message.len).sum::<usize>();
        let (ticket, completer) = MaskTicket::pending();
        let parts = messages.len().div_ceil(PART);
        let order = Arc::new(Pending {
            made: Mutex::new(std::iter::repeat_with(|| None).take(parts).collect()),
            left: AtomicUsize::new(parts),
            completer: Mutex::new(Some(completer)),
        });
        let mut state = lock(&self.shared.state);
        if state.ordered + bytes > ORDERED_MAX {
            return Err(Refusal::Busy);
        }
        state.ordered += bytes;
        state.parts.extend(messages.chunks(PART).enumerate().map(|(place, messages)| Part {
            session: session.clone(),
            messages: messages.to_vec(),
            place,
            order: Arc::clone(&order),
        }));
        drop(state);
        self.shared.changed.notify_all();
        Ok(ticket)
    }

    fn decide(&self, _: &Session) -> Decision {
        Decision { is_on: true, reason: format!("{} makes them", self.name) }
    }

    fn version(&self) -> u64 {
        0
    }
}

impl Engine for Masker {
    fn name(&self) -> &str {
        &self.name
    }

    /// Keystream alone, and not on the caller's thread.
    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        let inner = self.shared.inner.capability(algorithm, operation)?;
        let own = Capability { inline: false, takes_masks: false, ..inner };
        (operation == Operation::Keystream).then_some(own)
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        Ok(Session::new(algorithm, Arc::new(Own(self.shared.inner.session(algorithm, key)?))))
    }

    /// Batches are none of its business, so that it computes them at once.
    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let refuse = |batch, refusal| Err(Box::new(Refused { batch, refusal }));
        let Some(Own(own)) = session.state() else {
            return refuse(batch, Refusal::Misuse("the session belongs to another engine"));
        };
        if batch.operation != Operation::Keystream {
            return refuse(batch, Refusal::Unsupported);
        }
        self.shared.inner.submit(own, batch)
    }

    fn flush(&self) {}

    fn buffer(&self, _: &Session, len: usize) -> Buffer {
        Buffer::new(len)
    }

    fn crossing(&self) -> Option<&dyn Cross> {
        None
    }

    fn masking(&self) -> Option<&dyn Masking> {
        Some(self)
    }
}
