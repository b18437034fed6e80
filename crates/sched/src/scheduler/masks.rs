//! Masks: orders go to a device, what it makes is checked as every other result
//! of a device is, and batches that bring masks go to the CPU.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use strongroom_engine::{
    Algorithm, AssociatedData, Batch, Buffer, Decision, Engine, FreshNonce, Mask, MaskMemory, MaskTicket,
    Masking, Message, NonceSource, NotMade, Operation, Order, Outcome, Refusal, Refused, Segment, Session,
    StoredNonce, Ticket, thread_cpu_ns,
};

use super::device::Trusted;
use super::session::SchedulerSession;
use super::worth::Costs;
use super::{Core, Scheduler};
use crate::policy::Reason;
use crate::settings::Masks;
use crate::statistics::Count;

/// How often each side is measured; the least counts.
const ROUNDS: usize = 5;
/// Blocks of 4 KiB that are measured at once.
const BLOCKS: usize = 128;
const BLOCK_LEN: usize = 4096;

impl Core {
    /// Hands a batch that brings masks to an engine that uses them; any other
    /// would compute from the nonces.
    pub(super) fn submit_masked(
        self: &Arc<Core>,
        session: &SchedulerSession,
        batch: Batch,
    ) -> Result<Ticket, Box<Refused>> {
        match session.takes_masks(batch.operation) {
            Some(at) => self.submit_to(at, session, batch, Reason::Mask),
            None => self.place(session, batch),
        }
    }

    fn order(
        self: &Arc<Core>,
        session: &SchedulerSession,
        messages: &[Message],
    ) -> Result<MaskTicket, Refusal> {
        let mut refusal = Refusal::Unsupported;
        for &at in session.maskers.iter().filter(|at| !self.engines[**at].quarantine.is_on()) {
            let served = &self.engines[at];
            let (Some(masking), Some(own)) = (served.engine.masking(), &session.engines[at].session) else {
                continue;
            };
            match masking.order(own, messages) {
                Ok(ticket) => {
                    let bytes = messages.iter().map(|message| message.len as u64).sum();
                    served.counters.accepted(bytes, Reason::Mask);
                    return Ok(self.checked(at, session, messages.to_vec(), ticket));
                }
                Err(Refusal::Busy) => {
                    served.counters.add(Count::Busy, 1);
                    refusal = Refusal::Busy;
                }
                Err(_) => served.counters.add(Count::Unsupported, 1),
            }
        }
        Err(refusal)
    }

    fn checked(
        self: &Arc<Core>,
        at: usize,
        session: &SchedulerSession,
        messages: Vec<Message>,
        ticket: MaskTicket,
    ) -> MaskTicket {
        let trusted = Trusted::of(session, Operation::Keystream);
        let core = Arc::clone(self);
        ticket.checked(Instant::now() + self.deadline, move |made| {
            let served = &core.engines[at];
            let Ok(made) = made else {
                served.counters.add(Count::Lost, 1);
                served.quarantine.lost();
                return Err(NotMade);
            };
            match core.are_right(at, &trusted, &messages, &made) {
                true => Ok(made),
                false => Err(NotMade),
            }
        })
    }

    /// Recomputes those that are due. One that is wrong ends the device's
    /// service, and nothing that it has made before is believed any more.
    fn are_right(
        &self,
        at: usize,
        trusted: &Trusted,
        messages: &[Message],
        made: &[Box<dyn MaskMemory>],
    ) -> bool {
        let served = &self.engines[at];
        let interval = 1 << self.settings.load().check_exponent;
        let due = messages.iter().zip(made).filter(|_| served.is_due(interval));
        let due: Vec<(&Message, &Box<dyn MaskMemory>)> = due.collect();
        if due.is_empty() {
            return true;
        }
        let mut end = 0;
        let segments = due.iter().map(|(message, _)| {
            end += message.len;
            Segment::keystream_again(end - message.len, message.len, StoredNonce::new(message.nonce))
        });
        let segments: Vec<Segment> = segments.collect();
        let batch = Batch::new(Operation::Keystream, Buffer::new(end), segments);
        let mut expected = self.redo_uncounted(trusted, batch);
        if expected.outcome == Outcome::DeviceLost {
            // Nothing here can tell; nothing has to be believed either.
            return false;
        }
        served.counters.add(Count::Checked, due.len() as u64);
        served.counters.add(Count::CheckedBytes, end as u64);
        let right = due.iter().zip(&expected.batch.segments).all(|((message, memory), segment)| {
            memory.bytes().get(..message.len) == Some(&expected.batch.buffer[segment.range()])
        });
        expected.batch.buffer.fill(0);
        std::hint::black_box(&expected.batch.buffer);
        if right {
            served.quarantine.right();
        } else {
            served.counters.add(Count::Mismatches, 1);
            served.quarantine.wrong();
            self.wrong_masks.fetch_add(1, Release);
        }
        right
    }
}

impl Masking for Scheduler {
    fn order(&self, session: &Session, messages: &[Message]) -> Result<MaskTicket, Refusal> {
        match session.state::<SchedulerSession>() {
            Some(state) if state.owner == self.id => self.core.order(state, messages),
            _ => Err(Refusal::Misuse("the session belongs to another engine")),
        }
    }

    fn decide(&self, session: &Session) -> Decision {
        let decision = |is_on, reason: String| Decision { is_on, reason };
        let settings = self.core.settings.load();
        let off = |reason: &str| decision(false, reason.to_owned());
        let Some(state) = session.state::<SchedulerSession>().filter(|state| state.owner == self.id) else {
            return off("the session belongs to another engine");
        };
        if settings.masks == Masks::Off {
            return off("masks=off");
        }
        let works = |at: &&usize| !self.core.engines[**at].quarantine.is_final();
        let Some(masker) = state.maskers.iter().find(works) else {
            return decision(false, self.why_none(state));
        };
        let device = self.core.engines[*masker].engine.name();
        if settings.masks == Masks::On {
            return decision(true, format!("masks=on, made by {device}"));
        }
        if state.takes_masks(Operation::Seal).is_none() {
            return decision(
                false,
                format!("with {} the CPU encrypts about as fast as it XORs", state.algorithm),
            );
        }
        if settings.check_exponent == 0 {
            return off("check=1: the CPU computes every mask too, to check the device");
        }
        let mut measured = state.worth.0.lock().unwrap_or_else(PoisonError::into_inner);
        match measured.get_or_insert_with(|| self.measure(state.algorithm)) {
            Some(costs) => decision(costs.pay(), format!("{device}: {}", costs.describe())),
            None => decision(false, format!("{device} made none when it was tried")),
        }
    }

    fn version(&self) -> u64 {
        let wrong = self.core.wrong_masks.load(Acquire);
        u64::from(self.core.settings.version()) | u64::from(wrong) << 32
    }
}

/// The key of what is measured and thrown away.
const KEY: [u8; 32] = [0; 32];

impl Scheduler {
    /// What masks cost and spare here, on data that nobody wants. Sealing is
    /// measured on the engine that takes masks, wherever else batches may go.
    fn measure(&self, algorithm: Algorithm) -> Option<Costs> {
        let session = self.session(algorithm, &KEY).ok()?;
        let state: &SchedulerSession = session.state()?;
        let at = state.takes_masks(Operation::Seal)?;
        let (engine, own) = (&*self.core.engines[at].engine, state.engines[at].session.as_ref()?);
        let nonces = NonceSource::new().ok()?;
        let ad = || AssociatedData::new(&[]);
        let mut costs = Costs { direct: f64::MAX, masked: f64::MAX, ordering: f64::MAX };
        for _ in 0..ROUNDS {
            let mut fresh = nonces.batch(2 * BLOCKS * BLOCK_LEN).ok()?;
            let began_ns = process_cpu_ns();
            let messages = (0..BLOCKS).map(|_| (fresh.draw(), BLOCK_LEN)).collect();
            let masks = await_masks(Order::place(self, &session, messages).ok()?)?;
            costs.ordering = costs.ordering.min(for_a_byte(process_cpu_ns() - began_ns));
            let masked = masks.into_iter().enumerate();
            let masked = masked
                .map(|(at, mask)| Segment::seal_masked(at * BLOCK_LEN, BLOCK_LEN, mask, ad()))
                .collect();
            costs.masked = costs.masked.min(time_sealing(engine, own, masked)?);
            let direct = (0..BLOCKS).map(|at| Segment::seal(at * BLOCK_LEN, BLOCK_LEN, fresh.draw(), ad()));
            costs.direct = costs.direct.min(time_sealing(engine, own, direct.collect())?);
        }
        Some(costs)
    }
}

/// Why no device makes masks for a session.
impl Scheduler {
    fn why_none(&self, state: &SchedulerSession) -> String {
        let engines = self.core.engines.iter().enumerate();
        let devices = engines.filter(|(_, served)| served.engine.masking().is_some());
        let reasons: Vec<String> = devices
            .map(|(at, served)| match state.maskers.contains(&at) {
                true => format!("{} has failed and is no longer used", served.engine.name()),
                false => format!("{} makes none for {}", served.engine.name(), state.algorithm),
            })
            .collect();
        match reasons.is_empty() {
            true => "there is no device that makes them".to_owned(),
            false => reasons.join("; "),
        }
    }
}

/// CPU time for a byte.
fn time_sealing(engine: &dyn Engine, session: &Session, segments: Vec<Segment>) -> Option<f64> {
    let batch = Batch::new(Operation::Seal, Buffer::new(BLOCKS * BLOCK_LEN), segments);
    let began_ns = thread_cpu_ns();
    let completed = strongroom_engine::client::execute(engine, session, batch).ok()?;
    let spent = thread_cpu_ns() - began_ns;
    (completed.outcome == Outcome::Done).then_some(for_a_byte(spent))
}

fn for_a_byte(ns: u64) -> f64 {
    ns as f64 / (BLOCKS * BLOCK_LEN) as f64
}

/// Waits asleep, so that only what the device makes the CPU do is counted.
fn await_masks(order: Order<FreshNonce>) -> Option<Vec<Mask<FreshNonce>>> {
    let mut order = order;
    loop {
        match order.poll() {
            Ok(masks) => return (masks.len() == BLOCKS).then_some(masks),
            Err(waiting) => order = waiting,
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// CPU time of all threads, in nanoseconds: a device that is one of them is
/// none.
fn process_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
