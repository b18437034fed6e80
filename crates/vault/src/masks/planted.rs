//! Faults of pools that types do not let happen by themselves: nonces that are
//! given out again. In builds for tests alone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use strongroom_engine::{FreshNonce, Mask, SessionId};

use super::rules::MaskRule;

/// Names the rule that a test program leaves out from its start on.
const VARIABLE: &str = "STRONGROOM_TEST_LEAVE_OUT_OF_MASKS";

/// Bit `i`: rule `i` is left out.
static LEFT_OUT: LazyLock<AtomicU32> = LazyLock::new(|| {
    let rule = std::env::var(VARIABLE).ok().map(|name| {
        let named = MaskRule::ALL.iter().find(|rule| format!("{rule:?}") == name);
        *named.unwrap_or_else(|| panic!("{VARIABLE}: there is no rule `{name}`"))
    });
    AtomicU32::new(rule.map_or(0, |rule| 1 << rule as u8))
});

pub(super) fn left_out() -> u32 {
    LEFT_OUT.load(Ordering::Relaxed)
}

/// Leaves out one rule of masks, or none, in this whole process from now on.
pub fn leave_out_of_masks(rule: Option<MaskRule>) {
    LEFT_OUT.store(rule.map_or(0, |rule| 1 << rule as u8), Ordering::Relaxed);
}

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
