//! What keeps a writer from going on when another has taken the vault over.
//!
//! Locks of the operating system do not reach every machine that shares a
//! store. What the caller has left in the store instead is looked at before
//! anything that others would take for the vault's state: commits,
//! checkpoints, headers; and, when the last look was a while ago, before names
//! and attributes change. Writes of fresh blocks between two commits are not
//! held back; nothing refers to them.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Names change without a commit, and each look costs calls of the store: as
/// long as this no change of a name makes another. Whoever takes a vault over
/// waits for longer before he opens it: what is begun before the other looks
/// again is then what a crash has left, and no damage of what he writes.
pub const FENCE_INTERVAL: Duration = Duration::from_secs(1);

/// A fence, and whether it has fallen: then it stays so.
pub(crate) struct Fenced {
    fence: Option<Arc<dyn Fence>>,
    lost: AtomicBool,
    began: Instant,
    /// When it was last looked at, in milliseconds since then; 0 before.
    looked_ms: AtomicU64,
}

impl Fenced {
    pub(crate) fn new(fence: Option<Arc<dyn Fence>>) -> Fenced {
        Fenced { fence, lost: AtomicBool::new(false), began: Instant::now(), looked_ms: AtomicU64::new(0) }
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

    /// To be asked before names or attributes change.
    ///
    /// # Errors
    /// As [`Fenced::check`].
    pub(crate) fn check_lately(&self) -> Result<()> {
        self.check_known()?;
        if self.fence.is_none() {
            return Ok(());
        }
        let now = self.began.elapsed().as_millis() as u64 + 1;
        let looked = self.looked_ms.load(Ordering::Relaxed);
        let is_late = looked == 0 || now - looked.min(now) >= FENCE_INTERVAL.as_millis() as u64;
        // Of several that come at once, one looks.
        let is_mine =
            || self.looked_ms.compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !is_late || !is_mine() {
            return Ok(());
        }
        self.check().inspect_err(|_| self.looked_ms.store(0, Ordering::Relaxed))
    }

    /// The same without looking again.
    ///
    /// # Errors
    /// [`Error::TakenOver`].
    pub(crate) fn check_known(&self) -> Result<()> {
        if self.lost.load(Ordering::Acquire) { Err(Error::TakenOver) } else { Ok(()) }
    }
}
