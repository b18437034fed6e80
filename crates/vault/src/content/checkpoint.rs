//! Checkpoints: committed images are copied from the journal to their homes,
//! after which the journal's slots are free.

use std::collections::BTreeMap;
use std::sync::Arc;

use strongroom_format::vault::record::Place;
use strongroom_units::{BlockIndex, GROUP_BLOCKS, PAGE_LEN, PlainLen};

use super::Content;
use super::commit::{Extent, sync_homes};
use super::images::Images;
use super::journaled::Committed;
use crate::context::Context;
use crate::error::Result;
use crate::journal::{Segments, after, slots_of};
use crate::life::Naming;
use crate::page::PageAddress;
use crate::rules::Rule;

/// What one file's checkpoint has copied home.
pub(crate) struct Landing {
    content: Arc<Content>,
    copied: Committed,
    /// How many barriers of the file had failed before it was copied.
    losses: u64,
}

/// Brings everything committed of these files home, durably as `rule` says.
///
/// # Errors
/// What the store reported; the journal still holds everything then of the files
/// that it concerns. What is to be had of the others has come home: a store that
/// has failed tells each file of its own.
pub(crate) fn checkpoint_all(context: &Context, contents: &[Arc<Content>], rule: Rule) -> Result<()> {
    context.fenced.check()?;
    let mut landings = Vec::new();
    let mut copied_all = Ok(());
    for content in contents {
        match content.rehome_unlinked().and_then(|()| content.copy_home()) {
            Ok(landing) => landings.extend(landing),
            Err(error) => copied_all = Err(error),
        }
    }
    if context.rules.keeps(rule) {
        let homes: Vec<&Content> = landings.iter().map(|landing| &*landing.content).collect();
        // The records that held the times are given up too.
        let keeps = context.rules.keeps(Rule::AttributesBeforeReply);
        let synced = sync_homes(context, &homes, if keeps { Extent::File } else { Extent::Data });
        let is_covered = |landing: &Landing| landing.content.read_state().losses.since(landing.losses);
        if let Err(error) = synced.and_then(|()| landings.iter().try_for_each(is_covered)) {
            for content in homes {
                content.note_loss(&error);
                content.relearn_len(&mut content.write_state());
            }
            return Err(error);
        }
    }
    for landing in landings {
        landing.content.write_state().journaled.land(&landing.copied);
    }
    copied_all
}

impl Content {
    /// Copies committed images home; `None` when there are none.
    fn copy_home(self: &Arc<Self>) -> Result<Option<Landing>> {
        let _commit = self.lock_commit();
        let (copied, segments, writes, before, losses) = {
            let mut state = self.write_state();
            let Some(copied) = state.journaled.committed().filter(|_| state.naming.is_named()).cloned()
            else {
                return Ok(None);
            };
            self.follow_cut(&mut state)?;
            let segments = Arc::clone(state.journaled.segments()?);
            (copied, segments, state.writes, self.file.attributes()?, state.losses.count())
        };
        let mut end = self.copy_blocks(&segments, &copied.blocks, PlainLen(copied.len))?;
        end = end.max(self.copy_pages(&segments, &copied.pages)?);
        let mut state = self.write_state();
        state.home_len = state.home_len.max(end);
        let len = self.geometry().stored_len(PlainLen(copied.len)).0;
        if state.home_len < len {
            self.file.set_len(len)?;
            state.home_len = len;
        }
        if state.writes == writes {
            self.restore_times(&state, &before)?;
        }
        Ok(Some(Landing { content: Arc::clone(self), copied, losses }))
    }

    fn copy_blocks(&self, segments: &Segments, blocks: &Images, len: PlainLen) -> Result<u64> {
        let size = self.geometry().block_size();
        let slots = slots_of(size);
        let blocks: Vec<(u64, Place)> = blocks.iter().collect();
        let mut end = 0;
        let runs =
            blocks.chunk_by(|a, b| b.0 == a.0 + 1 && b.0 % GROUP_BLOCKS != 0 && b.1 == after(a.1, slots));
        for run in runs {
            let last = BlockIndex(run[run.len() - 1].0);
            let run_len = (run.len() as u64 - 1) * size.bytes() + size.block_len(last, len) as u64;
            let offset = self.geometry().block_offset(BlockIndex(run[0].0)).0;
            segments.copy_whole(run[0].1, &*self.file, offset, run_len)?;
            end = end.max(offset + run_len);
        }
        Ok(end)
    }

    fn copy_pages(&self, segments: &Segments, pages: &BTreeMap<PageAddress, Place>) -> Result<u64> {
        let mut end = 0;
        for (&address, &place) in pages {
            let offset = self.geometry().page_offset(address.kind, address.number).0;
            segments.copy_whole(place, &*self.file, offset, PAGE_LEN as u64)?;
            end = end.max(offset + PAGE_LEN as u64);
        }
        Ok(end)
    }
}

impl Content {
    /// Whether an image of this file stands in a journal segment.
    pub(crate) fn has_images_in(&self, segment: u8) -> bool {
        self.read_state().journaled.is_in(segment)
    }

    /// The removal of the file's last name is durable.
    pub(crate) fn set_gone(&self) {
        self.write_state().naming = Naming::Gone;
    }

    /// Whether the file has no name left, and a crash might still bring it back.
    pub(crate) fn is_going(&self) -> bool {
        self.read_state().naming == Naming::Removed
    }

    /// A file that is gone is never recovered, so that its images need no
    /// barrier and no record on their way home.
    fn rehome_unlinked(&self) -> Result<()> {
        let _commit = self.lock_commit();
        let mut state = self.write_state();
        if state.naming != Naming::Gone || state.journaled.is_empty() {
            return Ok(());
        }
        let segments = Arc::clone(state.journaled.segments()?);
        let mut end = self.copy_blocks(&segments, &state.journaled.newest, state.plain_len())?;
        if let Some(committed) = state.journaled.committed() {
            end = end.max(self.copy_pages(&segments, &committed.pages)?);
        }
        state.home_len = state.home_len.max(end);
        state.journaled.clear();
        Ok(())
    }
}
