//! Reading: which runs of blocks stand together, one read for each, one batch
//! to open them all.

use std::ops::RangeInclusive;

use crate::sync::RwLockReadGuard;

use strongroom_engine::{AssociatedData, Batch, Buffer, Operation, Segment, StoredNonce, Verdict};
use strongroom_units::{BlockIndex, GROUP_BLOCKS, PlainOffset};

use super::state::{Blocks, Source, State};
use super::{Content, NODES_IN_MEMORY, spare};
use crate::error::{Damage, Error, Result};
use crate::journal::slots_of;
use crate::reader_rules::ReaderRule;
use crate::reading::read_at;
use crate::sealer::Purpose;

/// Blocks that stand one behind the other, or are all holes.
struct Run {
    first: BlockIndex,
    blocks: u64,
    source: Source,
}

impl Content {
    /// Reads up to `len` bytes at `offset` into `buffer`, from its start;
    /// gives fewer only at the end of the file.
    ///
    /// # Errors
    /// [`Error::Damaged`] when any block of the range does not open, and then
    /// nothing of `buffer` is to be used.
    pub fn read_at(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<usize> {
        self.in_one_state(|| self.read_known(offset, len, buffer))
    }

    /// The same of the file as it is known.
    fn read_known(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<usize> {
        let size = self.geometry().block_size();
        loop {
            let state = self.read_state();
            let end = state.plain_len().0.min(offset.saturating_add(len as u64));
            if offset >= end {
                return Ok(0);
            }
            let first = size.block_of(PlainOffset(offset));
            let last = size.block_of(PlainOffset(end - 1));
            if !Self::groups_loaded(&state, first.group(), last.group()) {
                drop(state);
                self.load_ahead(first.group(), last.group());
                let mut state = self.write_state();
                state.evict(NODES_IN_MEMORY);
                self.load_groups(&mut state, first.group(), last.group())?;
                continue;
            }
            return self.read_loaded(state, offset, end, buffer);
        }
    }

    /// Takes the blocks as they stand now, and opens them when the state is free
    /// again: whatever is written meanwhile, they are what stood there.
    fn read_loaded(
        &self,
        state: RwLockReadGuard<'_, State>,
        offset: u64,
        end: u64,
        buffer: &mut Buffer,
    ) -> Result<usize> {
        let size = self.geometry().block_size();
        let first = size.block_of(PlainOffset(offset));
        let last = size.block_of(PlainOffset(end - 1));
        let skip = (offset - size.start_of(first).0) as usize;
        let wanted = (end - offset) as usize;
        let spanned = (size.start_of(last).0 - size.start_of(first).0) as usize
            + size.block_len(last, state.plain_len());
        if skip == 0 && spanned <= buffer.len() {
            let segments = self.fetch_blocks(&state, first, last, buffer)?;
            drop(state);
            self.open_masked(buffer, segments, first..=last)?;
        } else {
            let mut scratch = self.block_buffer(spanned);
            let segments = self.fetch_blocks(&state, first, last, &mut scratch)?;
            drop(state);
            self.open_masked(&mut scratch, segments, first..=last)?;
            buffer[..wanted].copy_from_slice(&scratch[skip..skip + wanted]);
        }
        Ok(wanted)
    }

    /// Reads and opens the blocks `first..=last` into `buffer`, one behind the
    /// other, each at the length it has in the file. Their nodes are loaded.
    /// Whoever has the state locked keeps it so while the engine computes.
    pub(super) fn open_blocks(
        &self,
        state: &State,
        first: BlockIndex,
        last: BlockIndex,
        buffer: &mut Buffer,
    ) -> Result<()> {
        let segments = self.fetch_blocks(state, first, last, buffer)?;
        self.open_segments(buffer, segments, first)
    }

    /// Reads the blocks `first..=last` into `buffer`, as [`Content::open_blocks`]
    /// does, and says how they open. Holes are done.
    pub(super) fn fetch_blocks(
        &self,
        state: &State,
        first: BlockIndex,
        last: BlockIndex,
        buffer: &mut Buffer,
    ) -> Result<Vec<Segment>> {
        let size = self.geometry().block_size();
        let base = size.start_of(first).0;
        let mut segments = spare::take((last.0 - first.0 + 1) as usize);
        let mut cut_off = None;
        let mut blocks = state.blocks_from(first);
        for run in runs(state, first, last) {
            let start = (size.start_of(run.first).0 - base) as usize;
            let end_block = BlockIndex(run.first.0 + run.blocks - 1);
            let len = (size.start_of(end_block).0 - size.start_of(run.first).0) as usize
                + size.block_len(end_block, state.plain_len());
            let bytes = &mut buffer[start..start + len];
            let read = match run.source {
                Source::Hole => {
                    bytes.fill(0);
                    continue;
                }
                Source::Home => read_at(&*self.file, bytes, self.geometry().block_offset(run.first).0)?,
                Source::Journal(place) => state.journaled.segments()?.read(place, bytes)?,
            };
            if read < len {
                cut_off = Some(BlockIndex(run.first.0 + (read as u64 >> size.shift())));
                bytes[read..].fill(0);
            }
            segments.extend((run.first.0..run.first.0 + run.blocks).map(BlockIndex).map(|block| {
                let at = (size.start_of(block).0 - base) as usize;
                self.segment_to_open(state, &mut blocks, block, at)
            }));
        }
        if let Some(block) = cut_off {
            return Err(self.damaged_blocks(block, 1));
        }
        Ok(segments)
    }

    // Made where it is to stand: moving it would take longer than making it.
    #[inline(always)]
    fn segment_to_open(
        &self,
        state: &State,
        blocks: &mut Blocks<'_>,
        block: BlockIndex,
        at: usize,
    ) -> Segment {
        let node = blocks.node(block).expect("the node is loaded");
        let entry = node.entry(block.entry()).expect("a run of data has entries");
        Segment::open(
            at,
            self.geometry().block_size().block_len(block, state.plain_len()),
            StoredNonce::new(entry.nonce()),
            AssociatedData::new(&self.blocks.at(block)),
            entry.tag,
        )
    }

    /// Opens the blocks of a range that were fetched, with the masks that there
    /// are for them, and has those made that will be wanted next. The state is
    /// not locked.
    fn open_masked(
        &self,
        buffer: &mut Buffer,
        mut segments: Vec<Segment>,
        blocks: RangeInclusive<BlockIndex>,
    ) -> Result<()> {
        let (first, last) = blocks.into_inner();
        self.bring_masks(first.0..last.0 + 1, &mut segments);
        self.open_segments(buffer, segments, first)
    }

    /// Opens blocks that were fetched, of which `first` was the first.
    fn open_segments(&self, buffer: &mut Buffer, segments: Vec<Segment>, first: BlockIndex) -> Result<()> {
        if segments.is_empty() {
            spare::give(segments);
            return Ok(());
        }
        let batch = Batch::new(Operation::Open, buffer.take(), segments);
        let batch = self.context.sealer.execute(Purpose::Blocks(self.generation()), batch)?;
        *buffer = batch.buffer;
        let mut forged = batch.segments.iter().filter(|segment| segment.verdict() != Verdict::Done);
        match forged.next().filter(|_| ReaderRule::BlockTag.is_kept()) {
            None => {
                spare::give(batch.segments);
                Ok(())
            }
            Some(segment) => {
                let size = self.geometry().block_size();
                let block = size.block_of(PlainOffset(size.start_of(first).0 + segment.start() as u64));
                Err(self.damaged_blocks(block, 1 + forged.count() as u64))
            }
        }
    }

    pub(super) fn damaged_blocks(&self, first: BlockIndex, blocks: u64) -> Error {
        let offset = self.geometry().block_size().start_of(first);
        Error::Damaged(Damage::Blocks { first, blocks, offset })
    }
}

/// Splits `first..=last` into runs. A run at home ends with its group, since a
/// page stands before the next; a run in the journal where the places do.
fn runs(state: &State, first: BlockIndex, last: BlockIndex) -> impl Iterator<Item = Run> + '_ {
    let slots_per_block = slots_of(state.geometry.block_size());
    let mut next = first.0;
    let mut all = state.blocks_from(first);
    std::iter::from_fn(move || {
        if next > last.0 {
            return None;
        }
        let run_first = BlockIndex(next);
        let source = all.source(run_first);
        let mut blocks = 1;
        while run_first.0 + blocks <= last.0 {
            let block = BlockIndex(run_first.0 + blocks);
            let follows = match (source, all.source(block)) {
                (Source::Hole, Source::Hole) => true,
                (Source::Home, Source::Home) => !block.0.is_multiple_of(GROUP_BLOCKS),
                (Source::Journal(start), Source::Journal(place)) => {
                    place.segment == start.segment
                        && u64::from(place.slot)
                            == u64::from(start.slot) + blocks * u64::from(slots_per_block)
                }
                _ => false,
            };
            if !follows {
                break;
            }
            blocks += 1;
        }
        next += blocks;
        Some(Run { first: run_first, blocks, source })
    })
}
