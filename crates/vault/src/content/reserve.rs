//! Space at home for what is not written there yet: a change that was accepted
//! must reach its home even if the store is full by then, or the journal could
//! never be emptied again and every overwrite would fail.
//!
//! A block that goes into the journal, and a page that will be sealed by a
//! later commit, have their homes reserved before they count as written.
//! Whoever writes is told when there is no space. What was ever written home
//! has its space already. Where the store cannot reserve, nothing is promised.

use strongroom_store::AllocateMode;
use strongroom_units::{BlockIndex, GroupIndex, PAGE_LEN};

use super::Content;
use super::state::State;
use crate::error::{Result, errno};
use crate::page::PageAddress;

impl Content {
    /// The header page of a new file, which its first commit writes.
    ///
    /// Zeros, and no reservation: a page that the store may place together
    /// with the data behind it. Recovery takes both for a file that was never
    /// made durable.
    pub(crate) fn reserve_header(&self) -> Result<()> {
        self.file.write_at(&[0; PAGE_LEN], 0)?;
        let mut state = self.write_state();
        state.home_len = state.home_len.max(PAGE_LEN as u64);
        Ok(())
    }

    /// The homes of `first` to `last`, neighbours in one group, that are about
    /// to be written to the journal; `len` bytes in all.
    ///
    /// What is referenced has had its space since it was first written, but
    /// behind a cut, and where the old last block grows.
    pub(super) fn reserve_blocks(
        &self,
        state: &State,
        first: BlockIndex,
        last: BlockIndex,
        len: usize,
    ) -> Result<()> {
        let size = self.geometry().block_size();
        let last_len = len as u64 - (last.0 - first.0) * size.bytes();
        let grows = last_len > size.block_len(last, state.plain_len()) as u64;
        let mut homes = state.homes_from(first);
        if !grows && (first.0..=last.0).all(|block| homes.has_space(BlockIndex(block))) {
            return Ok(());
        }
        self.reserve_home(self.geometry().block_offset(first).0, len as u64)
    }

    /// The stored file has been cut to `len`: what stands in the journal, or
    /// has not been written yet, and belongs behind it needs its space again.
    /// A store that somebody else has filled in this moment keeps the journal
    /// waiting until there is some.
    pub(super) fn reserve_behind(&self, state: &State, len: u64) {
        let geometry = self.geometry();
        let size = geometry.block_size();
        for (block, _) in state.journaled.newest.iter() {
            let offset = geometry.block_offset(BlockIndex(block)).0;
            let block_len = size.block_len(BlockIndex(block), state.plain_len()) as u64;
            if offset + block_len > len {
                let _ = self.reserve_home(offset, block_len);
            }
        }
        let fresh_nodes = state.nodes.iter().filter(|(_, node)| node.slot.image.is_none());
        let fresh_maps = state.maps.iter().filter(|(_, map)| map.image.is_none());
        let pages = fresh_nodes
            .map(|(&number, _)| PageAddress::node(GroupIndex(number)))
            .chain(fresh_maps.map(|(&address, _)| address))
            .chain(state.journaled.pages());
        for page in pages {
            let offset = geometry.page_offset(page.kind, page.number).0;
            if offset >= len {
                let _ = self.reserve_home(offset, PAGE_LEN as u64);
            }
        }
    }

    /// A write has failed, and may have left the stored file longer than the
    /// `home_len` from before, which would be damage: it is cut again, now or
    /// by the next commit.
    pub(super) fn undo_growth(&self, state: &mut State, home_len: u64) {
        let Ok(found) = self.file.len() else {
            // Nobody knows: a cut does no harm where there is nothing to cut.
            return self.cut_later(state, u64::MAX);
        };
        if found <= home_len {
            return;
        }
        if self.file.set_len(home_len).is_err() {
            return self.cut_later(state, found);
        }
        state.home_len = home_len;
        self.reserve_behind(state, home_len);
    }

    /// A barrier has failed, and what it should have covered may be lost: the
    /// stored length may be what it was before. What lies behind the known one
    /// was cut off, and is cut again. Pages that were written with their blocks
    /// are written again.
    pub(super) fn relearn_len(&self, state: &mut State) {
        state.doubt_ahead();
        match self.file.len() {
            Ok(found) if found <= state.home_len => state.home_len = found,
            _ => {
                state.note_home_write(self.context.barriers.moment());
                self.undo_growth(state, state.home_len);
            }
        }
    }

    fn cut_later(&self, state: &mut State, found: u64) {
        state.home_len = found;
        if state.birth.is_written() {
            state.pending.note_cut(state.plain_len().0);
        }
        state.pending.note_change();
    }

    pub(super) fn reserve_home(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        match self.file.allocate(AllocateMode::KeepLength, offset, len) {
            Err(error) if error.errno() != errno::EOPNOTSUPP => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The page that the first group of a reserved range may need; those of
    /// later groups lie in the range.
    pub(super) fn reserve_page_before(&self, first: BlockIndex) -> Result<()> {
        let page = PageAddress::node(first.group());
        self.reserve_home(self.geometry().page_offset(page.kind, page.number).0, PAGE_LEN as u64)
    }
}
