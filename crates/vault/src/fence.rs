//! What keeps a writer from going on when another has taken the vault over.
//!
//! Locks of the operating system do not reach every machine that shares a
//! store. What the caller has left in the store instead is looked at before
//! anything that others would take for the vault's state: commits,
//! checkpoints, headers. Writes of fresh blocks between two commits are not
//! held back; nothing refers to them.

use crate::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::error::{Error, Result};

/// Tells whether the vault is still its caller's to write to.
pub trait Fence: Send + Sync {
    /// False once somebody else has it; asked before each commit.
    ///
    /// # Errors
    /// Why that cannot be told now. Nothing is committed then, and the next
    /// commit asks again: a store that was gone for a while may come back.
    fn holds(&self) -> std::result::Result<bool, strongroom_store::Error>;
}

/// A fence, and whether it has fallen: then it stays so.
#[derive(Default)]
pub(crate) struct Fenced {
    fence: Option<Arc<dyn Fence>>,
    lost: AtomicBool,
}

impl Fenced {
    pub(crate) fn new(fence: Option<Arc<dyn Fence>>) -> Fenced {
        Fenced { fence, lost: AtomicBool::new(false) }
    }

    /// To be asked before a commit, a checkpoint, or a header.
    ///
    /// # Errors
    /// [`Error::TakenOver`], now and from now on; what kept the fence from
    /// telling, this time.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_known()?;
        if let Some(fence) = &self.fence
            && !fence.holds()?
        {
            self.lost.store(true, Ordering::Release);
        }
        self.check_known()
    }

    /// The same without looking again.
    ///
    /// # Errors
    /// [`Error::TakenOver`].
    pub(crate) fn check_known(&self) -> Result<()> {
        if self.lost.load(Ordering::Acquire) { Err(Error::TakenOver) } else { Ok(()) }
    }
}
