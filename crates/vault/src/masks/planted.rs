//! Faults of pools that types do not let happen by themselves: nonces that are
//! given out again. In builds for tests alone.

use std::sync::{Mutex, MutexGuard, PoisonError};

use strongroom_engine::{FreshNonce, Mask, SessionId};

use super::rules::MaskRule;

/// Nonces of masks that were taken, in a pool that does not let them go.
#[derive(Default)]
pub(super) struct Again {
    /// By whoever took last.
    taken: Mutex<Vec<[u8; 24]>>,
    /// To be given out again.
    again: Mutex<Vec<[u8; 24]>>,
}

fn lock(nonces: &Mutex<Vec<[u8; 24]>>) -> MutexGuard<'_, Vec<[u8; 24]>> {
    nonces.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Again {
    pub(super) fn note(&self, masks: &[Mask<FreshNonce>]) {
        let nonces: Vec<_> = masks.iter().map(|mask| mask.nonce().bytes()).collect();
        match MaskRule::TakenOnce.is_kept() {
            true => *lock(&self.taken) = nonces,
            false => lock(&self.again).extend(nonces),
        }
    }

    pub(super) fn note_failure(&self) {
        let taken = std::mem::take(&mut *lock(&self.taken));
        if !MaskRule::FailedIsSpent.is_kept() {
            lock(&self.again).extend(taken);
        }
    }

    /// What is to be used again in this session.
    pub(super) fn draw(&self, session: SessionId) -> Option<FreshNonce> {
        let mut again = lock(&self.again);
        let at = again.iter().position(|nonce| nonce[..12] == session.0)?;
        Some(FreshNonce::published(again.remove(at)))
    }
}
