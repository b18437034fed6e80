//! Writing: merge what is partial, seal, have it stored (`place`), and make it
//! the file's state.

use std::time::{Duration, Instant};

use strongroom_engine::Buffer;
use strongroom_format::vault::WriteSession;
use strongroom_store::SetTime;
use strongroom_units::{BlockIndex, GROUP_BLOCKS, MAX_PLAIN_LEN, PlainLen, PlainOffset};

use super::ahead::Ahead;
use super::commit::Extent;
use super::filled::enter;
use super::load::{Job, Load, groups_of, overlay, tail, whole_jobs};
use super::place::Placed;
use super::range::{Merge, merge, pieces};
use super::state::{Source, State};
use super::{Content, NODES_IN_MEMORY, Promise};
use crate::error::{Error, Result, errno};
use crate::journal::{after, slots_of};

/// A write behind a pending cut that is larger than this commits the cut
/// first, and is then written once instead of twice.
const LARGE_WRITE: usize = 64 << 10;

/// Stored files are touched this often at most: no clock tick of a kernel, by
/// which it stamps files, is shorter.
const TOUCH_INTERVAL: Duration = Duration::from_millis(1);

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
        let written = self.write_some(offset, len, buffer);
        #[cfg(feature = "planted-faults")]
        if let (Err(_), Some(masks)) = (&written, self.context.sealer.masks()) {
            masks.note_failure();
        }
        written
    }

    fn write_some(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<()> {
        self.check_range(offset, len as u64)?;
        let mut promise = self.promise_for(offset, len as u64)?;
        let ahead = self.seal_ahead(offset, len, buffer)?;
        let mut state = self.write_state_for(len)?;
        self.write_locked(&mut state, offset, (buffer, len), ahead, &mut promise)
    }

    /// As [`Content::write_at`] at the end of the file; gives the offset.
    ///
    /// # Errors
    /// As [`Content::write_at`].
    pub fn append(&self, len: usize, buffer: &mut Buffer) -> Result<u64> {
        let size = self.geometry().block_size().bytes();
        let mut promise = self.promise_for(size - 1, len as u64)?;
        let expected = self.plain_len();
        let ahead = self.append_ahead(expected, len, buffer)?;
        let mut state = self.write_state_for(len)?;
        let offset = state.plain_len().0;
        self.check_range(offset, len as u64)?;
        let ahead = match ahead {
            Some(ahead) if offset != expected => {
                self.unseal(&ahead, buffer)?;
                None
            }
            ahead => ahead,
        };
        self.write_locked(&mut state, offset, (buffer, len), ahead, &mut promise)?;
        Ok(offset)
    }

    /// Seals ahead at the end that the file has now. Where several append, that
    /// is mostly in vain, and nobody waits for an inline engine.
    fn append_ahead(&self, end: u64, len: usize, buffer: &mut Buffer) -> Result<Option<Ahead>> {
        if len == 0 || self.context.sealer.is_inline() || self.check_range(end, len as u64).is_err() {
            return Ok(None);
        }
        self.seal_ahead(end, len, buffer)
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
        if len <= LARGE_WRITE || state.pending.lowest_cut().is_none() {
            return Ok(state);
        }
        drop(state);
        self.commit(Extent::Data)?;
        Ok(self.write_state())
    }

    /// Writes what was sealed ahead, if the file still is as it was then; else
    /// merges and seals with the state locked, which has an end however many
    /// write.
    fn write_locked(
        &self,
        state: &mut State,
        offset: u64,
        (buffer, len): (&mut Buffer, usize),
        ahead: Option<Ahead>,
        promise: &mut Promise<'_>,
    ) -> Result<()> {
        state.evict(NODES_IN_MEMORY);
        let size = self.geometry().block_size();
        let new_len = PlainLen(state.plain_len().0.max(offset + len as u64));
        let (whole, partial): (Vec<_>, Vec<_>) = pieces(size, PlainOffset(offset), len)
            .partition(|piece| merge(size, piece, new_len) == Merge::Whole);
        let stretched = self.stretched_block(state, new_len, size.block_of(PlainOffset(offset)))?;
        match ahead {
            Some(ahead) if ahead.holds(state, stretched) => {
                return self.place_ahead(state, (buffer, whole_jobs(whole)), ahead, new_len, promise);
            }
            // All blocks of a write are of one session.
            Some(ahead) => self.unseal(&ahead, buffer)?,
            None => {}
        }
        let spare = (partial.len() + stretched.iter().len()) * size.bytes() as usize;
        let mut scratch = if spare == 0 { Buffer::empty() } else { self.block_buffer(spare) };
        let mut merged = Vec::with_capacity(partial.len() + 1);
        for block in stretched.into_iter().chain(partial.iter().map(|piece| piece.block)) {
            let at = merged.len() * size.bytes() as usize;
            self.read_for_merge(state, block, &mut scratch[at..at + size.bytes() as usize])?;
            merged.push(Job { block, at, len: size.block_len(block, new_len) });
        }
        overlay(&partial, &merged, buffer, &mut scratch);
        let mut loads = [Load::new(buffer, whole_jobs(whole)), Load::new(&mut scratch, merged)];
        self.store_blocks(state, &mut loads, new_len, Room::Make, promise)
    }

    fn place_ahead(
        &self,
        state: &mut State,
        (buffer, whole): (&mut Buffer, Vec<Job>),
        ahead: Ahead,
        new_len: PlainLen,
        promise: &mut Promise<'_>,
    ) -> Result<()> {
        let Ahead { session, sealed, merged } = ahead;
        let (mut scratch, jobs, merged) = match merged {
            Some(merged) => (merged.scratch, merged.jobs, merged.sealed),
            None => (Buffer::empty(), Vec::new(), Vec::new()),
        };
        let mut loads = [Load::new(buffer, whole), Load::new(&mut scratch, jobs)];
        (loads[0].sealed, loads[1].sealed) = (sealed, merged);
        self.prepare_nodes(state, &loads, WriteSession(session.0), Room::Make, promise)?;
        self.place(state, &loads, new_len, promise)
    }

    /// The old last block, when growing to `new_len` changes its length and
    /// no piece from `first` on covers it.
    fn stretched_block(
        &self,
        state: &mut State,
        new_len: PlainLen,
        first: BlockIndex,
    ) -> Result<Option<BlockIndex>> {
        let Some(tail) = tail(self.geometry().block_size(), state.plain_len(), new_len, first) else {
            return Ok(None);
        };
        self.load_group(state, tail.group())?;
        Ok((state.source(tail) != Source::Hole).then_some(tail))
    }

    /// Reads one block's plaintext; what lies behind it in `bytes` is zero.
    fn read_for_merge(&self, state: &mut State, block: BlockIndex, bytes: &mut [u8]) -> Result<()> {
        let len = self.geometry().block_size().block_len(block, state.plain_len());
        self.load_group(state, block.group())?;
        if len > 0 && state.source(block) != Source::Hole {
            let mut old = self.block_buffer(len);
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
        let mut scratch = self.block_buffer(blocks.len() * size.bytes() as usize);
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
        let mut scratch = self.block_buffer(size.bytes() as usize);
        self.read_for_merge(state, block, &mut scratch)?;
        scratch[from..to].fill(0);
        let job = Job { block, at: 0, len: size.block_len(block, len) };
        self.store_blocks(state, &mut [Load::new(&mut scratch, vec![job])], len, Room::Make, promise)
    }

    /// Seals and stores the jobs of all loads and makes them the file's
    /// blocks. Nothing changes in memory unless everything was stored.
    ///
    /// The state stays locked while the engine seals, for what comes here: writes
    /// that met another one, and cuts, clearing and growing, whose blocks change
    /// together with the file's length.
    fn store_blocks(
        &self,
        state: &mut State,
        loads: &mut [Load<'_>],
        new_len: PlainLen,
        room: Room,
        promise: &mut Promise<'_>,
    ) -> Result<()> {
        let bytes = loads.iter().map(Load::bytes).sum();
        let mut nonces = self.draw_for(loads.iter().map(Load::blocks).sum(), bytes)?;
        let mut flight = self.begin_sealing(loads, &mut nonces)?;
        // While the engine is at work, the nodes are fetched and given room.
        let prepared = self.prepare_nodes(state, loads, WriteSession(nonces.session().0), room, promise);
        Self::end_sealing(loads, &mut flight)?;
        prepared?;
        self.place(state, loads, new_len, promise)
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
        for group in groups_of(loads) {
            self.load_group(state, group)?;
            let Some(node) = state.nodes.get(&group.0) else { continue };
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

    /// Makes what was stored the file's state.
    pub(super) fn apply(
        &self,
        state: &mut State,
        loads: &[Load<'_>],
        placed: &[Placed],
        new_len: PlainLen,
        promise: &mut Promise<'_>,
    ) {
        for group in groups_of(loads) {
            let node = state.node_for_writing(group);
            let is_first = node.begin_change();
            enter(&mut node.slot.page, group, loads);
            if is_first {
                promise.keep(1 + state.mark_way_dirty(group));
            }
        }
        let mut home = 0;
        let size = self.geometry().block_size();
        let slots = slots_of(size);
        for Placed { blocks, source } in placed {
            match source {
                Source::Journal(first) => {
                    let places = (0..).map(|index| after(*first, slots * index));
                    state.journaled.newest.extend(blocks.clone().zip(places));
                }
                Source::Home | Source::Hole => {
                    home += (blocks.end - blocks.start) * size.bytes();
                    state.journaled.newest.remove_all(blocks.clone());
                }
            }
        }
        state.habit.fresh_bytes += home;
        state.writes += 1;
        if home == 0 && !placed.is_empty() {
            self.touch(state);
        }
        if new_len != state.plain_len() {
            state.header.plain_len = new_len;
        }
        self.note_dirty(state, promise);
    }

    /// Nothing was written to the stored file, whose times are the user's: it
    /// is touched as a write would have touched it.
    fn touch(&self, state: &mut State) {
        let now = Instant::now();
        let is_recent = |touched: Instant| now.duration_since(touched) < TOUCH_INTERVAL;
        if !state.touched.is_some_and(is_recent) {
            let _ = self.file.set_times(SetTime::Omit, SetTime::Now);
            state.touched = Some(now);
        }
    }

    /// Marks the file as changed, and keeps slots for its commit.
    pub(super) fn note_dirty(&self, state: &mut State, promise: &mut Promise<'_>) {
        state.pending.note_promised(promise);
        self.note_pending();
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
