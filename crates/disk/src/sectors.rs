//! Encrypting and decrypting whole sectors: the one way from here to an engine.

use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use strongroom_engine::client::{Client, Failure};
use strongroom_engine::{Batch, Buffer, Crossing, Engine, Operation, SectorNumbers, Segment, SharedBytes};
use strongroom_format::luks::{CipherSpec, UNIT};

use crate::cipher;
use crate::error::{Error, Result};

/// Most segments of a batch.
pub(crate) const SEGMENTS_MAX: usize = 64;
/// Lists of segments that are there from the beginning: more batches are not
/// under way together, as a rule.
const LISTS: usize = 32;

/// A sector cipher with its key and sector size.
pub(crate) struct KeyedCipher {
    client: Client,
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
        let client = cipher::client(engine, spec, key)?;
        let lists = Mutex::new((0..LISTS).map(|_| Vec::with_capacity(SEGMENTS_MAX)).collect());
        Ok(KeyedCipher { client, sector_len, lists })
    }

    /// `len` zero bytes that suit the engine.
    pub(crate) fn buffer(&self, len: usize) -> Buffer {
        self.client.buffer(len)
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

    /// Decrypts sectors from one place to another, whose first 512 bytes have the
    /// number `unit` in the tweak; false when the engine does not do that, and
    /// nothing was written.
    pub(crate) fn cross(&self, unit: u64, from: SharedBytes<'_>, to: &mut [u8]) -> bool {
        let numbers = SectorNumbers { first: unit.into(), step: self.sector_len / UNIT as u32 };
        self.client.cross(Crossing { numbers, sector_len: self.sector_len, from, to }).is_ok()
    }

    /// Runs `operation` over a list's segments of `buffer`, in place. The
    /// buffer keeps its length; when an engine has lost it, it is a new one,
    /// of zeros.
    ///
    /// # Errors
    /// [`Error::Engine`]; the segments may hold anything then.
    pub(crate) fn apply(&self, operation: Operation, buffer: &mut Buffer, list: Vec<Segment>) -> Result<()> {
        let len = buffer.len();
        let (result, batch) = match self.client.execute(Batch::new(operation, buffer.take(), list)) {
            Ok(completed) => (Ok(()), Some(completed.batch)),
            Err(Failure { cause, batch }) => (Err(Error::Engine(cause.what())), batch.map(|batch| *batch)),
        };
        match batch {
            Some(batch) => {
                *buffer = batch.buffer;
                self.put_back(batch.segments);
            }
            None => *buffer = self.buffer(len),
        }
        result
    }
}
