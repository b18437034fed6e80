//! Encrypting and decrypting whole sectors: the one way from here to an engine.

use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use strongroom_engine::{
    Batch, Buffer, Crossing, Engine, Operation, Outcome, Refusal, SectorNumbers, Segment, Session, Way,
};
use strongroom_format::luks::{CipherSpec, UNIT};

use crate::cipher;
use crate::error::{Error, Result};

/// How often a busy engine is asked again before it is an error.
const RETRIES: u32 = 1000;
/// How long is waited before the first retry that waits.
const PAUSE: Duration = Duration::from_micros(50);

/// Most segments of a batch.
pub(crate) const SEGMENTS_MAX: usize = 64;
/// Lists of segments that are there from the beginning: more batches are not
/// under way together, as a rule.
const LISTS: usize = 32;

/// A sector cipher with its key and sector size.
pub(crate) struct KeyedCipher {
    engine: Arc<dyn Engine>,
    session: Session,
    sector_len: u32,
    /// Lists of segments that are not in use, so that none is allocated for
    /// each batch: a server that backs swap must not ask for memory.
    lists: Mutex<Vec<Vec<Segment>>>,
}

impl KeyedCipher {
    /// # Errors
    /// [`Error::Cipher`].
    pub(crate) fn new(
        engine: &Arc<dyn Engine>,
        spec: &CipherSpec,
        key: &[u8],
        sector_len: u32,
    ) -> Result<KeyedCipher> {
        let session = cipher::session(&**engine, spec, key)?;
        let lists = Mutex::new((0..LISTS).map(|_| Vec::with_capacity(SEGMENTS_MAX)).collect());
        Ok(KeyedCipher { engine: Arc::clone(engine), session, sector_len, lists })
    }

    /// An empty list with room for [`SEGMENTS_MAX`] segments, to be handed to
    /// [`KeyedCipher::apply`].
    pub(crate) fn list(&self) -> Vec<Segment> {
        let list = self.lists.lock().unwrap_or_else(PoisonError::into_inner).pop();
        list.unwrap_or_else(|| Vec::with_capacity(SEGMENTS_MAX))
    }

    /// Gives a list back that was not used.
    pub(crate) fn put_back(&self, mut list: Vec<Segment>) {
        list.clear();
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).push(list);
    }

    /// Adds whole sectors to a list: `len` bytes at `start` in the buffer,
    /// whose first 512 bytes have the number `unit` in the tweak.
    pub(crate) fn add(&self, list: &mut Vec<Segment>, start: usize, len: usize, unit: u64) {
        // Numbers count 512 bytes whatever the sector's size.
        let numbers = SectorNumbers { first: unit.into(), step: self.sector_len / UNIT as u32 };
        list.push(Segment::numbered_sectors(start, len, numbers, self.sector_len));
    }

    /// Sectors from one place to another, whose first 512 bytes have the number
    /// `unit` in the tweak; false when the engine does not do that, and nothing
    /// was written.
    pub(crate) fn cross(&self, unit: u64, way: Way<'_>) -> bool {
        let numbers = SectorNumbers { first: unit.into(), step: self.sector_len / UNIT as u32 };
        let crossing = Crossing { numbers, sector_len: self.sector_len, way };
        self.engine.crossing().is_some_and(|engine| engine.cross(&self.session, crossing).is_ok())
    }

    /// Runs `operation` over a list's segments of `buffer`, in place. The
    /// buffer keeps its length; when an engine has lost it, it is a new one,
    /// of zeros.
    ///
    /// # Errors
    /// [`Error::Engine`]; the segments may hold anything then.
    pub(crate) fn apply(&self, operation: Operation, buffer: &mut Buffer, list: Vec<Segment>) -> Result<()> {
        let len = buffer.len();
        let (result, batch) = self.run(Batch::new(operation, buffer.take(), list));
        match batch {
            Some(batch) => {
                *buffer = batch.buffer;
                self.put_back(batch.segments);
            }
            None => *buffer = Buffer::new(len),
        }
        result
    }

    /// What came of a batch, and the batch if it came back.
    fn run(&self, mut batch: Batch) -> (Result<()>, Option<Batch>) {
        for attempt in 0..RETRIES {
            let ticket = match self.engine.submit(&self.session, batch) {
                Ok(ticket) => ticket,
                Err(refused) if refused.refusal == Refusal::Busy => {
                    batch = refused.batch;
                    if attempt > 4 {
                        std::thread::sleep(PAUSE * attempt.min(100));
                    }
                    continue;
                }
                Err(refused) => {
                    let what = match refused.refusal {
                        Refusal::Misuse(what) => what,
                        _ => "it does not have the operation",
                    };
                    return (Err(Error::Engine(what)), Some(refused.batch));
                }
            };
            return match ticket.wait() {
                Ok(completed) if completed.outcome == Outcome::Done => (Ok(()), Some(completed.batch)),
                Ok(completed) => (Err(Error::Engine("the device was lost")), Some(completed.batch)),
                Err(_) => (Err(Error::Engine("a batch was lost")), None),
            };
        }
        (Err(Error::Engine("it stays busy")), Some(batch))
    }
}
