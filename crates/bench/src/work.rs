//! Batches to be timed: made beforehand, so that making them is not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use strongroom_engine::client::{Client, Failure};
use strongroom_engine::{
    Algorithm, AssociatedData, Batch, BatchNonces, Buffer, Completed, Engine, FreshNonce, NonceSource,
    Operation, Outcome, Segment, StoredNonce, StreamNonces,
};

use crate::case::Case;
use crate::measure::MeasureError;

/// Bytes that are worked on before they are made again: in cache on every CPU
/// of interest, as the data of a request are.
const BURST_BYTES: usize = 256 << 10;
/// Most batches of a burst, but for more in flight.
const BURST_BATCHES_MAX: usize = 128;

/// What one thread needs for a case.
pub(crate) struct Work {
    client: Client,
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

impl Work {
    pub(crate) fn new(engine: &Arc<dyn Engine>, case: Case) -> Result<Work, MeasureError> {
        // Any key will do; the halves of one for XTS have to differ.
        let key: Vec<u8> = (1..=case.key_len).map(|byte| byte as u8).collect();
        let client = Client::open(engine, case.algorithm, &key).map_err(MeasureError::Session)?;
        let short = match case.algorithm {
            Algorithm::Aead(aead) if aead.nonce_len() == 12 => Some(StreamNonces::for_fresh_key()),
            _ => None,
        };
        Ok(Work {
            client,
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
    pub(crate) fn prepare(&mut self) -> Result<Vec<Batch>, MeasureError> {
        self.buffers.extend(self.done.drain(..).map(|completed| completed.batch.buffer));
        (0..self.batches).map(|_| self.batch()).collect()
    }

    fn batch(&mut self) -> Result<Batch, MeasureError> {
        let buffer = self.buffers.pop().unwrap_or_else(|| self.client.buffer(self.case.bytes));
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
        finished(self.client.execute(batch))
    }

    /// Has the engine do what was prepared, with so many in flight as the case
    /// says. This is what is timed; what came back is kept for [`Work::prepare`].
    pub(crate) fn burst(&mut self, prepared: Vec<Batch>) -> Result<(), MeasureError> {
        let mut flight = self.client.flight();
        for batch in prepared {
            if flight.len() >= self.case.in_flight
                && let Some(oldest) = flight.next()
            {
                self.done.push(finished(oldest)?);
            }
            flight.add(self.client.session(), batch).map_err(refused)?;
        }
        for completed in flight {
            self.done.push(finished(completed)?);
        }
        Ok(())
    }
}

fn finished(answer: Result<Completed, Failure>) -> Result<Completed, MeasureError> {
    let completed = answer.map_err(refused)?;
    match completed.outcome {
        Outcome::Done => Ok(completed),
        outcome => Err(MeasureError::Failed(outcome)),
    }
}

fn refused(failure: Failure) -> MeasureError {
    MeasureError::Engine(failure.cause)
}
