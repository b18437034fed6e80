//! Sealing ahead: what a write wants of the engine is done before the file's
//! state is locked for it, on the file as it is then. Under the lock it only has
//! to be seen whether that is still so. While a device seals for one thread,
//! others read and write.
//!
//! A write of whole blocks depends on nothing. One of parts of blocks depends on
//! the blocks that it is merged with and on the file's length; it is sealed
//! ahead where the engine is not inline. An inline engine computes as fast with
//! the lock as without, and then nothing has to be done twice.

use strongroom_engine::{AssociatedData, Batch, Buffer, Operation, Segment, SessionId, StoredNonce, Verdict};
use strongroom_format::vault::node::Entry;
use strongroom_units::{BlockIndex, PlainLen, PlainOffset};

use super::Content;
use super::load::{Job, Load, overlay, tail, whole_jobs};
use super::range::{Merge, Piece, merge, pieces};
use super::state::{Source, State};
use crate::error::{Error, Result};
use crate::sealer::Purpose;

/// Blocks that were sealed before the file's state was locked.
pub(super) struct Ahead {
    pub(super) session: SessionId,
    /// In the write's buffer: blocks that it covers whole.
    pub(super) sealed: Vec<Segment>,
    pub(super) merged: Option<Merged>,
}

/// Blocks that a write covers in part, with the rest of what they hold.
pub(super) struct Merged {
    pub(super) scratch: Buffer,
    pub(super) jobs: Vec<Job>,
    pub(super) sealed: Vec<Segment>,
    basis: Basis,
}

/// What the merged blocks depend on. An entry has a nonce, by which it is the
/// only one of its kind: the same entry is the same content.
struct Basis {
    plain_len: PlainLen,
    held: Vec<(BlockIndex, Option<Entry>)>,
}

/// A write, taken apart on the file as it was.
struct Parts {
    whole: Vec<Piece>,
    partial: Vec<Piece>,
    jobs: Vec<Job>,
    basis: Basis,
    /// Of blocks that hold data: the batch that opens each, and its place.
    held: Vec<(usize, Batch)>,
}

impl Content {
    /// Seals a write ahead; `None` where it is to be done under the lock.
    ///
    /// # Errors
    /// The engine's, after which the buffer is anything.
    pub(super) fn seal_ahead(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<Option<Ahead>> {
        let size = self.geometry().block_size();
        let (first, last) = (PlainOffset(offset), PlainOffset(offset + len as u64 - 1));
        self.load_ahead(size.block_of(first).group(), size.block_of(last).group());
        if (offset | len as u64).is_multiple_of(size.bytes()) {
            let mut load = Load::new(buffer, whole_jobs(pieces(size, first, len)));
            let mut nonces = self.draw_for(load.blocks(), len)?;
            let batch = load.batch(&mut nonces, self);
            let batch = self.context.sealer.execute(Purpose::Blocks(self.generation()), batch)?;
            *buffer = batch.buffer;
            return Ok(Some(Ahead { session: nonces.session(), sealed: batch.segments, merged: None }));
        }
        if self.context.sealer.is_inline() {
            return Ok(None);
        }
        let end = PlainLen(offset + len as u64);
        let now = PlainLen(self.plain_len());
        if let Some(tail) = tail(size, now, end, size.block_of(first)) {
            self.load_ahead(tail.group(), tail.group());
        }
        match self.parts(offset, len)? {
            Some(parts) => self.seal_merged(parts, buffer),
            None => Ok(None),
        }
    }

    /// Merges and seals the parts of a write.
    fn seal_merged(&self, parts: Parts, buffer: &mut Buffer) -> Result<Option<Ahead>> {
        let Parts { whole, partial, jobs, basis, held } = parts;
        let Some(mut scratch) = self.open_held(held, jobs.len())? else { return Ok(None) };
        overlay(&partial, &jobs, buffer, &mut scratch);
        let mut loads = [Load::new(buffer, whole_jobs(whole)), Load::new(&mut scratch, jobs.clone())];
        let (blocks, bytes) = (loads.iter().map(Load::blocks).sum(), loads.iter().map(Load::bytes).sum());
        let mut nonces = self.draw_for(blocks, bytes)?;
        let mut flight = self.begin_sealing(&mut loads, &mut nonces)?;
        Self::end_sealing(&mut loads, &mut flight)?;
        drop(flight);
        let [sealed, merged] = loads.map(|load| load.sealed);
        let merged = Some(Merged { scratch, jobs, sealed: merged, basis });
        Ok(Some(Ahead { session: nonces.session(), sealed, merged }))
    }

    /// Takes a write apart and fetches what its blocks hold; `None` when that
    /// is not in memory or cannot be read.
    fn parts(&self, offset: u64, len: usize) -> Result<Option<Parts>> {
        let size = self.geometry().block_size();
        let state = self.read_state();
        let plain_len = state.plain_len();
        let new_len = PlainLen(plain_len.0.max(offset + len as u64));
        let (whole, partial): (Vec<_>, Vec<_>) = pieces(size, PlainOffset(offset), len)
            .partition(|piece| merge(size, piece, new_len) == Merge::Whole);
        let first = size.block_of(PlainOffset(offset));
        let tail = tail(size, plain_len, new_len, first);
        let is_loaded = |block: BlockIndex| Self::groups_loaded(&state, block.group(), block.group());
        if !partial.iter().map(|piece| piece.block).chain(tail).all(is_loaded) {
            return Ok(None);
        }
        let stretched = tail.filter(|tail| state.source(*tail) != Source::Hole);
        let mut parts = Parts {
            whole,
            partial,
            jobs: Vec::new(),
            basis: Basis { plain_len, held: Vec::new() },
            held: Vec::new(),
        };
        for block in stretched.into_iter().chain(parts.partial.iter().map(|piece| piece.block)) {
            let at = parts.jobs.len() * size.bytes() as usize;
            parts.jobs.push(Job { block, at, len: size.block_len(block, new_len) });
            parts.basis.held.push((block, state.entry(block)));
            let held_len = size.block_len(block, plain_len);
            if held_len > 0 && state.source(block) != Source::Hole {
                let mut bytes = self.block_buffer(held_len);
                let Ok(segments) = self.fetch_blocks(&state, block, block, &mut bytes) else {
                    return Ok(None);
                };
                parts.held.push((at, Batch::new(Operation::Open, bytes, segments)));
            }
        }
        Ok(Some(parts))
    }

    /// Opens what blocks hold, each at its place in a new buffer; `None` when
    /// one does not open.
    fn open_held(&self, held: Vec<(usize, Batch)>, blocks: usize) -> Result<Option<Buffer>> {
        let purpose = Purpose::Blocks(self.generation());
        let size = self.geometry().block_size().bytes() as usize;
        let mut scratch = self.block_buffer(blocks * size);
        let (places, batches): (Vec<usize>, Vec<Batch>) = held.into_iter().unzip();
        let flight = self.context.sealer.submit_many(purpose, batches)?;
        for (at, completed) in places.into_iter().zip(flight) {
            let batch = completed?.batch;
            if batch.segments.iter().any(|segment| segment.verdict() != Verdict::Done) {
                return Ok(None);
            }
            scratch[at..at + batch.buffer.len()].copy_from_slice(&batch.buffer);
        }
        Ok(Some(scratch))
    }

    /// Makes plaintext again of what was sealed ahead.
    pub(super) fn unseal(&self, ahead: &Ahead, buffer: &mut Buffer) -> Result<()> {
        if ahead.sealed.is_empty() {
            return Ok(());
        }
        let open = |sealed: &Segment| {
            let bound = AssociatedData::new(sealed.associated_data());
            let nonce = StoredNonce::new(*sealed.nonce());
            Segment::open(sealed.start(), sealed.len(), nonce, bound, *sealed.tag())
        };
        let batch = Batch::new(Operation::Open, buffer.take(), ahead.sealed.iter().map(open).collect());
        let batch = self.context.sealer.execute(Purpose::Blocks(self.generation()), batch)?;
        *buffer = batch.buffer;
        match batch.segments.iter().all(|segment| segment.verdict() == Verdict::Done) {
            true => Ok(()),
            false => Err(Error::Engine("it cannot open what it has just sealed")),
        }
    }
}

impl Ahead {
    /// Whether the file still is as it was: for whole blocks, that no other one
    /// is to be sealed again, the old last one, because the file becomes longer.
    pub(super) fn holds(&self, state: &State, stretched: Option<BlockIndex>) -> bool {
        let Some(merged) = &self.merged else { return stretched.is_none() };
        let is_same = |(block, entry): &(BlockIndex, Option<Entry>)| {
            Content::groups_loaded(state, block.group(), block.group()) && state.entry(*block) == *entry
        };
        state.plain_len() == merged.basis.plain_len && merged.basis.held.iter().all(is_same)
    }
}
