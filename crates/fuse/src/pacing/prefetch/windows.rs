//! Which windows of files were asked for piece by piece of late.

use crate::filesystem::NodeId;
use crate::pacing::limits::{MISSES, MISSES_AGAIN, WINDOW, WINDOWS};
use std::sync::atomic::{AtomicU32, Ordering};

/// How often windows were missed. A later one takes the place of an earlier
/// one now and then; two that are taken for each other cost a fill.
#[derive(Debug)]
pub(super) struct Windows {
    /// A part of the window's hash, and in the lowest bits the misses since
    /// the last fill.
    slots: Box<[AtomicU32]>,
}

impl Windows {
    /// None was missed.
    pub(super) fn new() -> Windows {
        Windows { slots: (0..WINDOWS).map(|_| AtomicU32::new(0)).collect() }
    }

    /// A piece was asked for of the window that holds a byte. True when the
    /// window is to be filled.
    pub(super) fn missed(&self, node: NodeId, offset: u64) -> bool {
        let hash = hash(node.0, offset / WINDOW as u64);
        let slot = &self.slots[hash as usize % WINDOWS];
        // The upper half, of which the slot's number is no part.
        let tag = (hash >> 32) as u32 & !(2 * MISSES_AGAIN - 1);
        let known = slot.load(Ordering::Relaxed);
        let misses = if known & !(2 * MISSES_AGAIN - 1) == tag { known - tag + 1 } else { 1 };
        let counted = if misses == MISSES_AGAIN { MISSES } else { misses };
        slot.store(tag | counted, Ordering::Relaxed);
        misses == MISSES || misses == MISSES_AGAIN
    }
}

/// Spreads windows that lie side by side (the finalizer of SplitMix64, Steele
/// and others 2014).
fn hash(node: u64, window: u64) -> u64 {
    let mut x = node.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(window);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_miss_of_a_window_counts_and_then_every_sixth() {
        let windows = Windows::new();
        let at = |offset| windows.missed(NodeId(5), offset);
        assert_eq!([at(0), at(65_536), at(4096), at(131_071)], [false, false, true, true]);
        let later: Vec<bool> = (0..12).map(|_| at(8192)).collect();
        assert_eq!(later.iter().filter(|&&fills| fills).count(), 2);
        assert!(later[5] && later[11]);
        assert!(!windows.missed(NodeId(6), 0));
    }

    #[test]
    fn of_a_file_of_which_little_is_read_few_windows_are_filled() {
        let windows = Windows::new();
        let mut place = 0u64;
        // A full cycle of a linear congruential generator over 2^24 windows: 1 TiB.
        let mut next = || {
            place = (place * 1_664_525 + 1_013_904_223) % (1 << 24);
            windows.missed(NodeId(5), place << 16)
        };
        let filled = (0..1_000_000).filter(|_| next()).count();
        assert!(filled < 1000, "{filled}");
    }
}
