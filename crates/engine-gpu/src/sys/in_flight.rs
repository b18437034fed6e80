//! The block of a lane's launch, from when it is queued until it has ended.

use super::pinned::Block;
use crate::failure::Failure;

/// See the module. Memory that a device may still write to is never freed.
#[derive(Default)]
pub(super) struct InFlight {
    block: Option<Block>,
    /// A launch failed half-way.
    is_broken: bool,
}

impl InFlight {
    /// Keeps the block from now on, whether `queue` could queue all of the launch or not.
    ///
    /// # Panics
    /// When a launch is in flight, or one has failed.
    pub(super) fn begin(
        &mut self,
        mut block: Block,
        queue: impl FnOnce(&mut Block) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        assert!(self.block.is_none() && !self.is_broken, "one launch at a time, and none after a failure");
        let queued = queue(&mut block);
        self.block = Some(block);
        self.is_broken = queued.is_err();
        queued
    }

    /// The block, once the launch has ended well.
    pub(super) fn end(&mut self, has_ended: Result<bool, Failure>) -> Result<Option<Block>, Failure> {
        self.is_broken |= has_ended.is_err();
        Ok(if has_ended? { self.block.take() } else { None })
    }

    /// Whether a device may still write to what the launch uses, which then has to stay; the block does.
    pub(super) fn is_left_behind(&mut self) -> bool {
        let may_write = self.is_broken || self.block.is_some();
        std::mem::forget(self.block.take());
        may_write
    }
}
