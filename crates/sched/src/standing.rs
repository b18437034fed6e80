//! Decisions that stand for a while: where `adaptive` chose an inline engine and
//! would do so even if no device had anything else to do, the next batches of the
//! same operation and size class go there without asking again.
//!
//! A cache beside the policies, which stay pure functions. What it holds is
//! bound to an *epoch*, which ends after 16 batches of the session
//! that were placed so; to the version of the settings;
//! and to the number of batches in flight at which it was decided. A look
//! costs three loads and two compares.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use strongroom_engine::Operation;

use crate::policy::Reason;
use crate::record::{OPERATIONS, SIZE_CLASSES, size_class};

/// Batches of an epoch: few enough that a queue which has formed meanwhile is
/// seen within a fraction of a millisecond, enough that a decision costs each of
/// them a few nanoseconds.
const BATCHES: u32 = 16;

/// Epoch and version have 20 bits each, then 4 bits the engine, 4 the reason,
/// and 16 the most batches in flight, of which there is one at least.
const KEY_BITS: u32 = 20;
const VALUE_BITS: u32 = 24;

/// See the module.
#[derive(Default)]
pub struct Standing {
    epoch: AtomicU32,
    /// Batches placed by decisions that stood, since the last that was made.
    /// Threads may lose some.
    stood: AtomicU32,
    cells: [[AtomicU64; SIZE_CLASSES]; OPERATIONS],
}

impl Standing {
    /// To what a decision that is made now is bound.
    fn key(&self, version: u32) -> u64 {
        let mask = (1 << KEY_BITS) - 1;
        u64::from(self.epoch.load(Relaxed)) & mask | (u64::from(version) & mask) << KEY_BITS
    }

    /// The inline engine on which such a batch is computed for now, and why,
    /// with so many in flight and under this version of the settings.
    #[must_use]
    pub fn engine(
        &self,
        operation: Operation,
        bytes: u64,
        in_flight: u32,
        version: u32,
    ) -> Option<(usize, Reason)> {
        let cell = self.cells[operation as usize][size_class(bytes)].load(Relaxed);
        if cell >> VALUE_BITS != self.key(version) || in_flight > cell as u32 & 0xffff {
            return None;
        }
        let stood = self.stood.load(Relaxed) + 1;
        self.stood.store(stood, Relaxed);
        if stood >= BATCHES {
            self.epoch.fetch_add(1, Relaxed);
        }
        let reason = *Reason::ALL.get(cell as usize >> 16 & 0xf)?;
        Some((cell as usize >> 20 & 0xf, reason))
    }

    /// Has a decision stand until the epoch ends.
    pub(crate) fn stands(
        &self,
        operation: Operation,
        bytes: u64,
        in_flight: u32,
        version: u32,
        (engine, reason): (usize, Reason),
    ) {
        let value = (engine as u64) << 20 | (reason as u64) << 16 | u64::from(in_flight.min(0xffff));
        let cell = &self.cells[operation as usize][size_class(bytes)];
        cell.store(self.key(version) << VALUE_BITS | value, Relaxed);
    }

    /// How many batches were placed by decisions that stood, since this was
    /// asked last.
    pub(crate) fn take_stood(&self) -> u32 {
        let stood = self.stood.load(Relaxed);
        if stood > 0 {
            self.stood.store(0, Relaxed);
        }
        stood
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_stands_for_its_like_until_something_changes() {
        let standing = Standing::default();
        let look = |bytes, in_flight, version| standing.engine(Operation::Open, bytes, in_flight, version);
        assert_eq!(look(4096, 1, 0), None);
        standing.stands(Operation::Open, 4096, 3, 7, (5, Reason::Soonest));
        assert_eq!(look(4096, 3, 7), Some((5, Reason::Soonest)));
        assert_eq!(look(2049, 1, 7), Some((5, Reason::Soonest)));
        for (bytes, in_flight, version) in [(4097, 1, 7), (2048, 1, 7), (4096, 4, 7), (4096, 1, 8)] {
            assert_eq!(look(bytes, in_flight, version), None);
        }
        assert_eq!(standing.engine(Operation::Seal, 4096, 1, 7), None);
        assert_eq!((standing.take_stood(), standing.take_stood()), (2, 0));
        assert!((0..BATCHES).all(|_| look(4096, 3, 7).is_some()));
        assert_eq!(look(4096, 3, 7), None, "the epoch is over");
    }
}
