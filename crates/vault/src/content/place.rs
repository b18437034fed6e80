//! Storing what is sealed: each block in place when nothing that survives a
//! crash points there, into the journal otherwise (section 7 of the format).
//!
//! What goes in place is written in the order of the file, and pieces that
//! follow each other are one write: the blocks of a group, before them its
//! node page and the map pages that it brings with it. Blocks that were merged
//! with what they held come last: if the store fails before, that is still
//! there. A page that the write does not fill ([`super::filled`]) is zeros until
//! a commit writes it. So a file that is written from its beginning to its end
//! reaches the store in that order, without gaps and without a way back.

use std::io::IoSlice;
use std::ops::Range;

use strongroom_store::File;
use strongroom_units::{BlockIndex, GROUP_BLOCKS, GroupIndex, PAGE_LEN, PlainLen};

use super::filled::Filled;
use super::load::{Job, Load, Run, first_of};
use super::state::{Source, State};
use super::{Content, Promise};
use crate::error::Result;
use crate::journal::slots_of;
use crate::life::Naming;
use crate::page::PageAddress;
use crate::rules::Rule;

/// Fresh writes up to this many bytes may go into the journal when the file is
/// synced often: a second barrier costs more than writing them twice.
const SMALL_WRITE: usize = 64 << 10;

/// What stands in the place of a page until a commit writes it.
static NO_PAGE: [u8; PAGE_LEN] = [0; PAGE_LEN];

/// Blocks one behind the other that have been stored: where the first stands.
pub(super) struct Placed {
    pub(super) blocks: Range<u64>,
    pub(super) source: Source,
}

impl Content {
    /// Stores what is sealed, and makes it the file's blocks.
    pub(super) fn place(
        &self,
        state: &mut State,
        loads: &[Load<'_>],
        new_len: PlainLen,
        promise: &mut Promise<'_>,
    ) -> Result<()> {
        let before = self.context.barriers.moment();
        let runs = self.runs(state, loads);
        let filled = self.seal_filled(state, loads, &runs, new_len)?;
        let home_len = state.home_len;
        let placed = match self.place_runs(state, &runs, &filled, promise) {
            Ok(placed) => placed,
            Err(error) => {
                state.has_failed = true;
                self.undo_growth(state, home_len);
                return Err(error);
            }
        };
        if placed.iter().any(|placed| !matches!(placed.source, Source::Journal(_))) {
            state.note_home_write(before);
        }
        self.apply(state, loads, &placed, new_len, promise);
        state.note_filled(filled);
        Ok(())
    }

    /// Where each block goes: in the order of the loads, and together what is
    /// stored together.
    fn runs<'l>(&self, state: &State, loads: &'l [Load<'_>]) -> Vec<Run<'l>> {
        let size = self.geometry().block_size();
        let overwrites = self.context.rules.keeps(Rule::JournalOverwrites);
        // A file without a name is overwritten in place only once that is
        // durable: until then a crash may bring it back.
        let may_journal = state.birth.is_written() && state.naming != Naming::Gone;
        let mut jobs: Vec<(&'l Load<'_>, Job, bool)> = Vec::new();
        for load in loads {
            let small = state.habit.journal_small && load.bytes() <= SMALL_WRITE && state.naming.is_named();
            let mut homes = state.homes_from(load.jobs.first().map_or(BlockIndex(0), |job| job.block));
            let mut is_journaled =
                |job: &Job| may_journal && (small || (overwrites && homes.is_referenced(job.block)));
            jobs.extend(load.jobs.iter().map(|job| (load, *job, is_journaled(job))));
        }
        let runs = jobs.chunk_by(|(load, a, a_journaled), (b_load, b, b_journaled)| {
            std::ptr::eq(*load, *b_load)
                && b.block.0 == a.block.0 + 1
                && b.at == a.at + a.len
                && a.len as u64 == size.bytes()
                && a_journaled == b_journaled
                && (*a_journaled || b.block.0 % GROUP_BLOCKS != 0)
        });
        let run = |run: &[(&'l Load<'_>, Job, bool)]| {
            let ((load, first, is_journaled), (_, last, _)) = (run[0], run[run.len() - 1]);
            let data = &load.buffer[first.at..last.at + last.len];
            Run { blocks: first.block.0..last.block.0 + 1, is_journaled, data }
        };
        runs.map(run).collect()
    }

    /// Writes runs out, with the pages of the groups that are new or filled, and
    /// notes where.
    fn place_runs(
        &self,
        state: &mut State,
        runs: &[Run<'_>],
        filled: &Filled,
        promise: &mut Promise<'_>,
    ) -> Result<Vec<Placed>> {
        let slots = slots_of(self.geometry().block_size());
        let mut placed = Vec::with_capacity(runs.len());
        let mut pieces = Pieces::new(&*self.file);
        let mut held = Vec::new();
        for run in runs {
            for group in run.groups() {
                self.place_pages(state, (group, run.is_journaled), filled, &mut held, &mut pieces)?;
            }
            let (first, last) = (BlockIndex(run.blocks.start), BlockIndex(run.blocks.end - 1));
            let source = if run.is_journaled {
                if !state.naming.is_named() {
                    self.context.waiting.note_removed();
                }
                self.reserve_blocks(state, first, last, run.data.len())?;
                let blocks = (run.blocks.end - run.blocks.start) as u32;
                Source::Journal(promise.write_images(run.data, slots * blocks)?)
            } else {
                pieces.add(self.geometry().block_offset(first).0, run.data)?;
                Source::Home
            };
            placed.push(Placed { blocks: run.blocks.clone(), source });
        }
        state.home_len = state.home_len.max(pieces.finish()?);
        Ok(placed)
    }

    /// The pages that come before a group's blocks: its node page, if the write
    /// fills it, and of a new group what holds the places of its pages.
    ///
    /// Zeros hold them where they may be written and the blocks are, and else
    /// the store is asked to reserve them. `held` are those that have been, since
    /// several groups have a map in common, and several runs a group.
    fn place_pages<'p>(
        &self,
        state: &State,
        (group, is_journaled): (GroupIndex, bool),
        filled: &'p Filled,
        held: &mut Vec<PageAddress>,
        pieces: &mut Pieces<'p>,
    ) -> Result<()> {
        let offset = |page: PageAddress| self.geometry().page_offset(page.kind, page.number).0;
        let node = PageAddress::node(group);
        let is_new = !state.nodes.contains_key(&group.0);
        let may_write = !is_journaled && !state.behind_cut(first_of(group));
        let pages = if is_new { state.absent_way(group) } else { vec![node] };
        for page in pages {
            if held.contains(&page) {
                continue;
            }
            match filled.page(group).filter(|_| page == node) {
                Some(image) => pieces.add(offset(page), image)?,
                None if is_new && may_write => pieces.add(offset(page), &NO_PAGE)?,
                None if is_new => self.reserve_home(offset(page), PAGE_LEN as u64)?,
                None => {}
            }
            held.push(page);
        }
        Ok(())
    }
}

/// What is written to a stored file: pieces that follow each other together.
struct Pieces<'p> {
    file: &'p dyn File,
    slices: Vec<IoSlice<'p>>,
    start: u64,
    end: u64,
    /// The end of the last byte written.
    reached: u64,
}

impl<'p> Pieces<'p> {
    fn new(file: &'p dyn File) -> Pieces<'p> {
        Pieces { file, slices: Vec::new(), start: 0, end: 0, reached: 0 }
    }

    fn add(&mut self, offset: u64, bytes: &'p [u8]) -> Result<()> {
        if offset != self.end {
            self.write()?;
            (self.start, self.end) = (offset, offset);
        }
        self.slices.push(IoSlice::new(bytes));
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if !self.slices.is_empty() {
            self.file.write_vectored_at(&self.slices, self.start)?;
            self.slices.clear();
            self.reached = self.reached.max(self.end);
        }
        Ok(())
    }

    /// Writes the last of it; gives the end of all that was written.
    fn finish(mut self) -> Result<u64> {
        self.write()?;
        Ok(self.reached)
    }
}
