//! Batches to be timed: made beforehand, so that making them is not.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom_engine::{
    Algorithm, AssociatedData, Batch, BatchNonces, Buffer, Completed, Engine, FreshNonce, NonceSource,
    Operation, Outcome, Refusal, Segment, Session, StoredNonce, StreamNonces, Ticket,
};

use crate::case::Case;
use crate::measure::MeasureError;

/// Bytes that are worked on before they are made again: in cache on every CPU
/// of interest, as the data of a request are.
const BURST_BYTES: usize = 256 << 10;
/// Most batches of a burst, but for more in flight.
const BURST_BATCHES_MAX: usize = 128;
/// How long a busy engine that has nothing of ours is left alone.
const BUSY_PAUSE: Duration = Duration::from_micros(50);
/// Times it may say so before it counts as broken.
const BUSY_MAX: u32 = 20_000;

/// What one thread needs for a case.
pub(crate) struct Work<'e> {
    engine: &'e Arc<dyn Engine>,
    session: Session,
    case: Case,
    nonces: NonceSource,
    /// Short nonces count on: the key has them from here alone.
    short: Option<StreamNonces>,
    batches: usize,
    buffers: Vec<Buffer>,
    done: Vec<Completed>,
}

/// Nonces of one batch.
enum Nonces<'n> {
    Drawn(BatchNonces),
    Short(&'n mut StreamNonces),
}

impl Nonces<'_> {
    fn draw(&mut self) -> FreshNonce {
        match self {
            Nonces::Drawn(nonces) => nonces.draw(),
            Nonces::Short(nonces) => nonces.draw(false),
        }
    }
}

impl<'e> Work<'e> {
    pub(crate) fn new(engine: &'e Arc<dyn Engine>, case: Case) -> Result<Work<'e>, MeasureError> {
        // Any key will do; the halves of one for XTS have to differ.
        let key: Vec<u8> = (1..=case.key_len).map(|byte| byte as u8).collect();
        let session = engine.session(case.algorithm, &key).map_err(MeasureError::Session)?;
        let short = match case.algorithm {
            Algorithm::Aead(aead) if aead.nonce_len() == 12 => Some(StreamNonces::for_fresh_key()),
            _ => None,
        };
        Ok(Work {
            engine,
            session,
            case,
            nonces: NonceSource::new().map_err(|_| MeasureError::Entropy)?,
            short,
            batches: case.in_flight.max(1),
            buffers: Vec::new(),
            done: Vec::new(),
        })
    }

    /// Runs as few batches as the case has in flight, which fills caches and
    /// has the CPU at its speed; then has a burst be what fits the caches, and
    /// takes no longer than `length`, as far as can be told.
    pub(crate) fn warm_up(&mut self, length: Duration) -> Result<(), MeasureError> {
        let prepared = self.prepare()?;
        let began = Instant::now();
        self.burst(prepared)?;
        let each = began.elapsed().as_secs_f64().max(1e-9) / self.batches as f64;
        let in_time = (length.as_secs_f64() / each) as usize;
        let in_cache = (BURST_BYTES / self.case.bytes.max(1)).clamp(1, BURST_BATCHES_MAX);
        // With a queue, long enough that it is full most of the time.
        let least = if self.case.in_flight > 1 { 2 * self.case.in_flight } else { 1 };
        self.batches = in_cache.min(in_time).max(least);
        self.done.reserve(self.batches);
        Ok(())
    }

    /// Bytes of a burst.
    pub(crate) fn burst_bytes(&self) -> usize {
        self.batches * self.case.bytes
    }

    /// Batches of a burst.
    pub(crate) fn burst_batches(&self) -> usize {
        self.batches
    }

    /// Makes the batches of a burst.
    pub(crate) fn prepare(&mut self) -> Result<VecDeque<Batch>, MeasureError> {
        self.buffers.extend(self.done.drain(..).map(|completed| completed.batch.buffer));
        (0..self.batches).map(|_| self.batch()).collect()
    }

    fn batch(&mut self) -> Result<Batch, MeasureError> {
        let buffer = self.buffers.pop().unwrap_or_else(|| Buffer::new(self.case.bytes));
        let operation = self.case.operation;
        let Operation::Open = operation else {
            let segments = self.segments(operation)?;
            return Ok(Batch::new(operation, buffer, segments));
        };
        let segments = self.segments(Operation::Seal)?;
        let sealed = self.run(Batch::new(Operation::Seal, buffer, segments))?;
        let to_open = |segment: &Segment| {
            let ad = AssociatedData::new(segment.associated_data());
            let nonce = StoredNonce::new(*segment.nonce());
            Segment::open(segment.start(), segment.len(), nonce, ad, *segment.tag())
        };
        let segments = sealed.batch.segments.iter().map(to_open).collect();
        Ok(Batch::new(Operation::Open, sealed.batch.buffer, segments))
    }

    fn segments(&mut self, operation: Operation) -> Result<Vec<Segment>, MeasureError> {
        let Case { bytes, segment_bytes, sector_bytes, .. } = self.case;
        let starts = (0..bytes).step_by(segment_bytes.max(1));
        let len = |start: usize| segment_bytes.min(bytes - start);
        if matches!(operation, Operation::EncryptSectors | Operation::DecryptSectors) {
            let sector = |start: usize| {
                let is_whole = len(start).is_multiple_of(sector_bytes as usize);
                let sector_len = if is_whole { sector_bytes } else { 512 };
                Segment::sectors(start, len(start), (start / 512) as u64, sector_len)
            };
            return Ok(starts.map(sector).collect());
        }
        let mut nonces = match &mut self.short {
            Some(short) => Nonces::Short(short),
            None => Nonces::Drawn(self.nonces.batch(bytes).map_err(|_| MeasureError::Entropy)?),
        };
        let ad = AssociatedData::new(&[7; 32]);
        let segment = |start: usize| match operation {
            Operation::Keystream => Segment::keystream(start, len(start), nonces.draw()),
            _ => Segment::seal(start, len(start), nonces.draw(), ad),
        };
        Ok(starts.map(segment).collect())
    }

    /// One batch from submission to completion.
    fn run(&self, batch: Batch) -> Result<Completed, MeasureError> {
        let mut batch = batch;
        for _ in 0..BUSY_MAX {
            match self.engine.submit(&self.session, batch) {
                Ok(ticket) => return finished(ticket),
                Err(refused) if refused.refusal == Refusal::Busy => {
                    batch = refused.batch;
                    std::thread::sleep(BUSY_PAUSE);
                }
                Err(refused) => return Err(MeasureError::Refused(refused.refusal)),
            }
        }
        Err(MeasureError::Refused(Refusal::Busy))
    }

    /// Has the engine do what was prepared, with so many in flight as the case
    /// says. This is what is timed; what came back is kept for [`Work::prepare`].
    pub(crate) fn burst(&mut self, mut prepared: VecDeque<Batch>) -> Result<(), MeasureError> {
        let mut out: VecDeque<Ticket> = VecDeque::with_capacity(self.case.in_flight);
        let mut pauses = 0;
        while let Some(batch) = prepared.pop_front() {
            if out.len() >= self.case.in_flight
                && let Some(oldest) = out.pop_front()
            {
                self.done.push(finished(oldest)?);
            }
            match self.engine.submit(&self.session, batch) {
                Ok(ticket) if ticket.is_inline() => self.done.push(finished(ticket)?),
                Ok(ticket) => out.push_back(ticket),
                Err(refused) if refused.refusal == Refusal::Busy => {
                    prepared.push_front(refused.batch);
                    match out.pop_front() {
                        Some(oldest) => self.done.push(finished(oldest)?),
                        None if pauses < BUSY_MAX => {
                            pauses += 1;
                            std::thread::sleep(BUSY_PAUSE);
                        }
                        None => return Err(MeasureError::Refused(Refusal::Busy)),
                    }
                }
                Err(refused) => return Err(MeasureError::Refused(refused.refusal)),
            }
        }
        for ticket in out {
            self.done.push(finished(ticket)?);
        }
        Ok(())
    }
}

fn finished(ticket: Ticket) -> Result<Completed, MeasureError> {
    match ticket.wait() {
        Ok(completed) if completed.outcome == Outcome::Done => Ok(completed),
        Ok(completed) => Err(MeasureError::Failed(completed.outcome)),
        Err(_) => Err(MeasureError::Failed(Outcome::DeviceLost)),
    }
}
