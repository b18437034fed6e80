//! After a barrier on the journal has failed: images that no durable record
//! names may be lost even if the next barrier succeeds, because the system
//! counts as written what it could not write. They are read back, held
//! against their entries and written again before a record names them.

use strongroom_engine::Buffer;
use strongroom_units::BlockIndex;

use super::Content;
use super::state::State;
use crate::error::{Error, Result};
use crate::journal::Place;

impl Content {
    /// Writes every image that is not yet committed again, if a barrier has
    /// failed since it was written. A lost one is let go: its block is what the
    /// last commit left, and the rest of the file can be committed. Whoever syncs
    /// the file is told: the barrier may have been for others.
    pub(super) fn rescue_images(&self, state: &mut State) -> Result<()> {
        let Some(journal) = &self.context.journal else { return Ok(()) };
        let failures = journal.failures();
        if state.journaled.failures == failures {
            return Ok(());
        }
        let images: Vec<(u64, Place)> = state.journaled.uncommitted().collect();
        let mut lost = false;
        for (block, place) in images {
            let index = BlockIndex(block);
            self.load_group(state, index.group())?;
            let len = self.geometry().block_size().block_len(index, state.plain_len());
            let mut bytes = Buffer::new(len);
            match self.open_blocks(state, index, index, &mut bytes) {
                Ok(()) => {
                    state.journaled.segments()?.read_whole(place, &mut bytes)?;
                    journal.rewrite_images(place, &bytes)?;
                }
                Err(Error::Damaged(_)) => {
                    state.revert(index);
                    lost = true;
                }
                Err(error) => return Err(error),
            }
        }
        state.journaled.failures = failures;
        if let Some(error) = journal.failure().filter(|_| lost) {
            self.context.untold.note(self.inode, &error);
            state.losses.note(&error);
        }
        Ok(())
    }
}
