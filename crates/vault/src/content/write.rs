//! Writing: merge what is partial, seal, and put each block where the rules
//! of section 7 allow: home when nothing that survives a crash points there,
//! into the journal otherwise.

use std::time::Instant;

use strongroom_engine::{AssociatedData, Batch, BatchNonces, Buffer, Operation, Segment};
use strongroom_format::vault::WriteSession;
use strongroom_format::vault::node::Entry;
use strongroom_store::SetTime;
use strongroom_units::{
    BlockIndex, GROUP_BLOCKS, GroupIndex, MAX_PLAIN_LEN, PAGE_LEN, PlainLen, PlainOffset,
};

use super::commit::Extent;
use super::range::{Merge, merge, pieces};
use super::state::{Source, State};
use super::{Content, NODES_IN_MEMORY, Promise};
use crate::error::{Error, Result, errno};
use crate::journal::after;
use crate::rules::Rule;
use crate::sealer::{Purpose, Sealer};

/// Fresh writes up to this many bytes may go into the journal when the file is
/// synced often: a second barrier costs more than writing them twice.
const SMALL_WRITE: usize = 64 << 10;

/// A write behind a pending cut that is larger than this commits the cut
/// first, and is then written once instead of twice.
const LARGE_WRITE: usize = 64 << 10;

/// One block to be sealed and stored.
#[derive(Clone, Copy, Debug)]
struct Job {
    block: BlockIndex,
    /// Where its plaintext, then ciphertext, stands in its buffer.
    at: usize,
    len: usize,
}

/// Blocks to be stored from one buffer, in ascending order.
struct Load<'a> {
    buffer: &'a mut Buffer,
    jobs: Vec<Job>,
    sealed: Vec<Segment>,
}

impl Content {
    /// Writes `buffer[..len]` at `offset`, sealing in place: afterwards the
    /// buffer's bytes are ciphertext, or undefined after an error.
    ///
    /// # Errors
    /// `EFBIG`, `EROFS`, or what reading, sealing or the store reported; the
    /// file's old bytes are then still what is read, except where the store
    /// failed in the middle of a block never made durable.
    pub fn write_at(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.check_range(offset, len as u64)?;
        let mut promise = self.promise_for(offset, len as u64)?;
        let mut state = self.write_state_for(len)?;
        self.write_locked(&mut state, offset, len, buffer, &mut promise)
    }

    /// As [`Content::write_at`] at the end of the file; gives the offset.
    ///
    /// # Errors
    /// As [`Content::write_at`].
    pub fn append(&self, len: usize, buffer: &mut Buffer) -> Result<u64> {
        let size = self.geometry().block_size().bytes();
        let mut promise = self.promise_for(size - 1, len as u64)?;
        let mut state = self.write_state_for(len)?;
        let offset = state.plain_len().0;
        self.check_range(offset, len as u64)?;
        self.write_locked(&mut state, offset, len, buffer, &mut promise)?;
        Ok(offset)
    }

    pub(super) fn check_range(&self, offset: u64, len: u64) -> Result<()> {
        self.context.check_writable()?;
        match offset.checked_add(len) {
            Some(end) if end <= MAX_PLAIN_LEN => Ok(()),
            _ => Err(Error::Refused(errno::EFBIG)),
        }
    }

    /// The state, locked for a write of `len` bytes.
    fn write_state_for(&self, len: usize) -> Result<crate::sync::RwLockWriteGuard<'_, State>> {
        let state = self.write_state();
        if len <= LARGE_WRITE || state.pending_cut().is_none() {
            return Ok(state);
        }
        drop(state);
        self.commit(Extent::Data)?;
        Ok(self.write_state())
    }

    fn write_locked(
        &self,
        state: &mut State,
        offset: u64,
        len: usize,
        buffer: &mut Buffer,
        promise: &mut Promise<'_>,
    ) -> Result<()> {
        state.evict(NODES_IN_MEMORY);
        let size = self.geometry().block_size();
        let new_len = PlainLen(state.plain_len().0.max(offset + len as u64));
        let (whole, partial): (Vec<_>, Vec<_>) = pieces(size, PlainOffset(offset), len)
            .partition(|piece| merge(size, piece, new_len) == Merge::Whole);
        let stretched = self.stretched_block(state, new_len, size.block_of(PlainOffset(offset)))?;
        let spare = (partial.len() + stretched.iter().len()) * size.bytes() as usize;
        let mut scratch = if spare == 0 { Buffer::empty() } else { Buffer::new(spare) };
        let mut merged = Vec::with_capacity(partial.len() + 1);
        for block in stretched.into_iter().chain(partial.iter().map(|piece| piece.block)) {
            let at = merged.len() * size.bytes() as usize;
            self.read_for_merge(state, block, &mut scratch[at..at + size.bytes() as usize])?;
            merged.push(Job { block, at, len: size.block_len(block, new_len) });
        }
        for piece in &partial {
            let job =
                merged.iter().find(|job| job.block == piece.block).expect("every partial piece has a job");
            scratch[job.at + piece.from..job.at + piece.to]
                .copy_from_slice(&buffer[piece.at..piece.at + piece.len()]);
        }
        let jobs =
            whole.iter().map(|piece| Job { block: piece.block, at: piece.at, len: piece.len() }).collect();
        let mut loads = [Load::new(buffer, jobs), Load::new(&mut scratch, merged)];
        self.store_blocks(state, &mut loads, new_len, Room::Make, promise)
    }

    /// The old last block, when growing to `new_len` changes its length and
    /// no piece from `first` on covers it.
    fn stretched_block(
        &self,
        state: &mut State,
        new_len: PlainLen,
        first: BlockIndex,
    ) -> Result<Option<BlockIndex>> {
        let size = self.geometry().block_size();
        let old_len = state.plain_len();
        if old_len.0.is_multiple_of(size.bytes()) || new_len <= old_len {
            return Ok(None);
        }
        let last = size.block_of(PlainOffset(old_len.0 - 1));
        self.load_group(state, last.group())?;
        Ok((last < first && state.source(last) != Source::Hole).then_some(last))
    }

    /// Reads one block's plaintext; what lies behind it in `bytes` is zero.
    fn read_for_merge(&self, state: &mut State, block: BlockIndex, bytes: &mut [u8]) -> Result<()> {
        let len = self.geometry().block_size().block_len(block, state.plain_len());
        self.load_group(state, block.group())?;
        if len > 0 && state.source(block) != Source::Hole {
            let mut old = Buffer::new(len);
            self.open_blocks(state, block, block, &mut old)?;
            bytes[..len].copy_from_slice(&old);
        }
        Ok(())
    }

    /// Seals again, at the length that they have in a file of `new_len`, the
    /// given blocks that hold data; the file takes that length.
    pub(super) fn reseal(
        &self,
        state: &mut State,
        blocks: &[BlockIndex],
        new_len: PlainLen,
        promise: &mut Promise<'_>,
    ) -> Result<()> {
        self.reseal_with(state, blocks, new_len, Room::Make, promise)
    }

    fn reseal_with(
        &self,
        state: &mut State,
        blocks: &[BlockIndex],
        new_len: PlainLen,
        room: Room,
        promise: &mut Promise<'_>,
    ) -> Result<()> {
        let size = self.geometry().block_size();
        let mut scratch = Buffer::new(blocks.len() * size.bytes() as usize);
        let mut jobs = Vec::with_capacity(blocks.len());
        for &block in blocks {
            let at = jobs.len() * size.bytes() as usize;
            self.read_for_merge(state, block, &mut scratch[at..at + size.bytes() as usize])?;
            jobs.push(Job { block, at, len: size.block_len(block, new_len) });
        }
        self.store_blocks(state, &mut [Load::new(&mut scratch, jobs)], new_len, room, promise)
    }

    /// Zeroes a part of one block that holds data.
    pub(super) fn zero_part(
        &self,
        state: &mut State,
        block: BlockIndex,
        from: usize,
        to: usize,
        promise: &mut Promise<'_>,
    ) -> Result<()> {
        let size = self.geometry().block_size();
        let len = state.plain_len();
        let mut scratch = Buffer::new(size.bytes() as usize);
        self.read_for_merge(state, block, &mut scratch)?;
        scratch[from..to].fill(0);
        let job = Job { block, at: 0, len: size.block_len(block, len) };
        self.store_blocks(state, &mut [Load::new(&mut scratch, vec![job])], len, Room::Make, promise)
    }

    /// Seals and stores the jobs of all loads and makes them the file's
    /// blocks. Nothing changes in memory unless everything was stored.
    fn store_blocks(
        &self,
        state: &mut State,
        loads: &mut [Load<'_>],
        new_len: PlainLen,
        room: Room,
        promise: &mut Promise<'_>,
    ) -> Result<()> {
        let bytes = loads.iter().flat_map(|load| &load.jobs).map(|job| job.len).sum();
        let mut nonces = self.context.sealer.draw(bytes)?;
        let mut tickets = Vec::with_capacity(loads.len());
        for load in loads.iter_mut().filter(|load| !load.jobs.is_empty()) {
            tickets.push(self.context.sealer.submit(Purpose::Blocks, load.batch(&mut nonces, self))?);
        }
        // While the engine is at work, the nodes are fetched and given room.
        let prepared = self.prepare_nodes(state, loads, WriteSession(nonces.session().0), room, promise);
        for (load, ticket) in loads.iter_mut().filter(|load| !load.jobs.is_empty()).zip(tickets) {
            let batch = Sealer::wait(ticket)?;
            *load.buffer = batch.buffer;
            load.sealed = batch.segments;
        }
        prepared?;
        let mut placed = Vec::new();
        let home_len = state.home_len;
        for load in loads.iter() {
            if let Err(error) = self.place_load(state, load, promise, &mut placed) {
                self.undo_growth(state, home_len);
                return Err(error);
            }
        }
        self.apply(state, loads, &placed, new_len, promise);
        Ok(())
    }

    /// Loads the nodes of all jobs and makes sure that each has room for the
    /// session that seals them.
    fn prepare_nodes(
        &self,
        state: &mut State,
        loads: &[Load<'_>],
        session: WriteSession,
        room: Room,
        promise: &mut Promise<'_>,
    ) -> Result<()> {
        let mut groups: Vec<GroupIndex> =
            loads.iter().flat_map(|load| &load.jobs).map(|job| job.block.group()).collect();
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            self.load_group(state, group)?;
            let Some(node) = state.nodes.get(&group.0) else {
                self.reserve_group(state, group)?;
                continue;
            };
            if room == Room::Made || node.slot.page.has_room_for(session) {
                continue;
            }
            // Sealing again needs a session in the table too: the blocks of
            // the sparsest one leave it together.
            let sparsest = node.slot.page.sparsest_session().expect("a full table has sessions");
            let first = group.0 * GROUP_BLOCKS;
            let blocks: Vec<BlockIndex> =
                node.slot.page.entries_of(sparsest).map(|entry| BlockIndex(first + entry as u64)).collect();
            self.reseal_with(state, &blocks, state.plain_len(), Room::Made, promise)?;
        }
        Ok(())
    }

    /// Writes a load's ciphertext out, run by run, and notes where.
    fn place_load(
        &self,
        state: &mut State,
        load: &Load<'_>,
        promise: &mut Promise<'_>,
        placed: &mut Vec<(BlockIndex, Source)>,
    ) -> Result<()> {
        let size = self.geometry().block_size();
        let slots = (size.bytes() as usize / PAGE_LEN) as u32;
        let bytes: usize = load.jobs.iter().map(|job| job.len).sum();
        let small = state.journal_small && bytes <= SMALL_WRITE && !state.unlinked;
        let overwrites = self.context.rules.keeps(Rule::JournalOverwrites);
        // A file without a name is overwritten in place only once that is
        // durable: until then a crash may bring it back.
        let may_journal = state.born && !state.gone;
        let journaled = |job: &Job| may_journal && (small || (overwrites && state.is_referenced(job.block)));
        let runs = load.jobs.chunk_by(|a, b| {
            b.block.0 == a.block.0 + 1
                && b.at == a.at + a.len
                && a.len as u64 == size.bytes()
                && journaled(a) == journaled(b)
                && (journaled(a) || b.block.0 % GROUP_BLOCKS != 0)
        });
        let mut home_end = state.home_len;
        for run in runs {
            let (first, last) = (run[0], run[run.len() - 1]);
            let data = &load.buffer[first.at..last.at + last.len];
            if journaled(&first) {
                if state.unlinked {
                    self.context.table.note_removed();
                }
                self.reserve_blocks(state, first.block, last.block, data.len())?;
                let place = promise.write_images(data, slots * run.len() as u32)?;
                placed.extend(
                    run.iter()
                        .enumerate()
                        .map(|(index, job)| (job.block, Source::Journal(after(place, slots * index as u32)))),
                );
            } else {
                let offset = self.geometry().block_offset(first.block).0;
                self.file.write_at(data, offset)?;
                home_end = home_end.max(offset + data.len() as u64);
                placed.extend(run.iter().map(|job| (job.block, Source::Home)));
            }
        }
        state.home_len = home_end;
        Ok(())
    }

    /// Makes what was stored the file's state.
    fn apply(
        &self,
        state: &mut State,
        loads: &[Load<'_>],
        placed: &[(BlockIndex, Source)],
        new_len: PlainLen,
        promise: &mut Promise<'_>,
    ) {
        for job in loads.iter().flat_map(|load| &load.jobs) {
            let node = state.node_for_writing(job.block.group());
            node.slot.page.clear_entry(job.block.entry());
        }
        for load in loads {
            for (job, segment) in load.jobs.iter().zip(&load.sealed) {
                let node = state.node_for_writing(job.block.group());
                let entry = Entry::new(segment.nonce(), *segment.tag());
                node.slot.page.set_entry(job.block.entry(), &entry).expect("room was made before sealing");
                if !node.slot.dirty {
                    node.slot.dirty = true;
                    promise.keep(1);
                }
            }
        }
        let mut home = 0;
        for &(block, source) in placed {
            match source {
                Source::Journal(place) => {
                    state.images.insert(block.0, place);
                }
                Source::Home | Source::Hole => {
                    home += self.geometry().block_size().bytes();
                    state.images.remove(&block.0);
                }
            }
        }
        state.fresh_bytes += home;
        state.writes += 1;
        state.unsynced |= home > 0;
        if home == 0 && !placed.is_empty() {
            // Nothing was written to the stored file, whose times are the
            // user's: it is touched as a write would have touched it.
            let _ = self.file.set_times(SetTime::Omit, SetTime::Now);
        }
        if new_len != state.plain_len() {
            state.header.plain_len = new_len;
        }
        self.note_dirty(state, promise);
    }

    /// Marks the file as changed, and keeps slots for its commit.
    pub(super) fn note_dirty(&self, state: &mut State, promise: &mut Promise<'_>) {
        if state.dirty_since.is_none() {
            state.dirty_since = Some(Instant::now());
            promise.keep(COMMIT_SLOTS);
        }
        state.promised += promise.hand_over();
        self.context.note_pending(self);
    }
}

/// Whether nodes have room for the session that seals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    /// It is made where it lacks.
    Make,
    /// The blocks being sealed are all those of one session, which they leave.
    Made,
}

/// Slots for a commit's header page and the beginning of its record.
const COMMIT_SLOTS: u32 = 3;

impl<'a> Load<'a> {
    fn new(buffer: &'a mut Buffer, jobs: Vec<Job>) -> Load<'a> {
        Load { buffer, jobs, sealed: Vec::new() }
    }

    fn batch(&mut self, nonces: &mut BatchNonces, content: &Content) -> Batch {
        let segments = self
            .jobs
            .iter()
            .map(|job| {
                let bound = AssociatedData::new(&content.blocks.at(job.block));
                Segment::seal(job.at, job.len, nonces.draw(), bound)
            })
            .collect();
        Batch::new(Operation::Seal, self.buffer.take(), segments)
    }
}
