//! Reading with masks: which blocks will be wanted, and their nonces, which the
//! node pages have.

use std::ops::Range;
use std::sync::PoisonError;

use strongroom_engine::{Segment, StoredNonce};
use strongroom_units::{BlockIndex, PlainOffset};

use super::state::{Source, State};
use super::{Content, NODES_IN_MEMORY};
use crate::masks::window::Windows;
use crate::sealer::Purpose;
use crate::sync::MutexGuard;

/// A block whose mask is wanted: its place, nonce and length.
type Wanted = (u64, StoredNonce, usize);

impl Content {
    fn windows(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the segments of a read of these blocks the masks that there are for
    /// them, and has those made that will be wanted next. One that belongs to no
    /// sequence costs a look.
    pub(super) fn bring_masks(&self, read: Range<u64>, segments: &mut [Segment]) {
        let Some(masks) = self.context.sealer.masks() else { return };
        let Some(version) = masks.standing() else { return };
        let Some(wanted) = self.windows().serve(masks, version, read, segments) else { return };
        let Ok(client) = self.context.sealer.client(Purpose::Blocks(self.generation())) else { return };
        let (blocks, reached) = self.wanted(wanted.blocks.clone());
        let places: Vec<u64> = blocks.iter().map(|(block, ..)| *block).collect();
        let messages: Vec<_> = blocks.into_iter().map(|(_, nonce, len)| (nonce, len)).collect();
        let lot = match messages.is_empty() {
            true => None,
            false => masks.order(client, messages, &masks.reads),
        };
        self.windows().note(&wanted, places, lot, reached);
    }

    /// Drops masks that nobody has come for.
    pub(crate) fn give_back_masks(&self) {
        self.windows().give_back();
    }

    /// What is known of the blocks of a range, and how far that goes. Nodes are
    /// loaded as reading would load them soon.
    fn wanted(&self, range: Range<u64>) -> (Vec<Wanted>, u64) {
        let (first, last) = (BlockIndex(range.start).group(), BlockIndex(range.end - 1).group());
        if !Self::groups_loaded(&self.read_state(), first, last) {
            self.load_ahead(first, last);
            let mut state = self.write_state();
            state.evict(NODES_IN_MEMORY);
            // What does not load is for whoever reads it to say.
            let _ = self.load_groups(&mut state, first, last);
        }
        let state = self.read_state();
        let end = self.geometry().block_size().block_of(PlainOffset(state.plain_len().0)).0 + 1;
        let mut blocks = Vec::with_capacity((range.end - range.start) as usize);
        for block in (range.start..range.end.min(end)).map(BlockIndex) {
            if !Self::groups_loaded(&state, block.group(), block.group()) {
                return (blocks, block.0);
            }
            blocks.extend(self.wanted_block(&state, block));
        }
        (blocks, range.end)
    }

    fn wanted_block(&self, state: &State, block: BlockIndex) -> Option<Wanted> {
        let len = self.geometry().block_size().block_len(block, state.plain_len());
        let entry = state.entry(block).filter(|_| len > 0 && state.source(block) != Source::Hole)?;
        Some((block.0, StoredNonce::new(entry.nonce()), len))
    }
}
