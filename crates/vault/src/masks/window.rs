//! The masks for reads of one file: a window before the place that is read,
//! shifted while reads go on within it and given up when one jumps out of it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Instant;

use strongroom_engine::client::Client;
use strongroom_engine::{Segment, StoredNonce};

use super::{IDLE, Lot, Masks, ORDER_MAX, ORDER_MIN, Ready};

/// Bytes before and behind the window in which a read still belongs to it: the
/// kernel reads ahead by several requests at once, which come in any order.
const SLACK: usize = 1 << 20;

/// Masks for the blocks that will probably be read next.
#[derive(Default)]
pub(crate) struct Window {
    version: u64,
    /// Behind the farthest block that was read.
    at: u64,
    /// Behind the last block that was ordered.
    ordered_to: u64,
    /// Where the window began.
    begun: u64,
    /// Blocks that were read since then: what has been read in sequence says how
    /// much more will be.
    streak: u64,
    ready: BTreeMap<u64, Ready<StoredNonce>>,
    orders: VecDeque<(Vec<u64>, Lot<StoredNonce>)>,
    last_read: Option<Instant>,
}

impl Window {
    /// Gives segments of whole blocks, the first of which would be `first`, the
    /// masks that there are for them.
    pub(crate) fn bring(&mut self, masks: &Masks, first: u64, segments: &mut [Segment]) {
        self.collect();
        let (mut hits, mut misses) = (0, 0);
        for segment in segments {
            let block = first + (segment.start() / masks.block_len) as u64;
            if let Some(ready) = self.ready.remove(&block) {
                segment.bring(ready.mask);
            }
            *(if segment.has_mask() { &mut hits } else { &mut misses }) += segment.len();
        }
        masks.reads.used(hits, misses);
    }

    /// Drops everything that is of another version.
    pub(crate) fn keep(&mut self, version: u64) {
        if version != self.version {
            *self = Window { version, ..Window::default() };
        }
    }

    /// Takes in what has been made, in whatever order.
    fn collect(&mut self) {
        for _ in 0..self.orders.len() {
            let Some((blocks, lot)) = self.orders.pop_front() else { return };
            match lot.poll() {
                Ok(ready) => self.ready.extend(blocks.into_iter().zip(ready)),
                Err(lot) => self.orders.push_back((blocks, lot)),
            }
        }
    }

    /// Notes that `read` was read, and says which blocks to order now. Who asks
    /// orders them, or says how far it came.
    pub(crate) fn advance(&mut self, masks: &Masks, version: u64, read: Range<u64>) -> Option<Range<u64>> {
        let in_blocks = |bytes: usize| (bytes / masks.block_len).max(1) as u64;
        let slack = in_blocks(SLACK);
        let reach = self.at.saturating_sub(slack)..=self.at.max(self.ordered_to) + slack;
        self.keep(version);
        if !reach.contains(&read.start) || self.is_idle() || !self.is_dense(&read) {
            *self = Window { version, begun: read.start, at: read.start, ..Window::default() };
        }
        self.last_read = Some(Instant::now());
        self.begun = self.begun.min(read.start);
        self.at = self.at.max(read.end);
        self.streak += read.end - read.start;
        self.ready = self.ready.split_off(&self.at.saturating_sub(slack));
        let ahead = (2 * self.streak).min(in_blocks(ORDER_MAX));
        self.ordered_to = self.ordered_to.max(self.at);
        let wanted = self.ordered_to..self.at + ahead;
        let is_worth = self.streak >= in_blocks(ORDER_MIN)
            && wanted.start < wanted.end
            && 2 * (wanted.end - wanted.start) >= ahead;
        is_worth.then(|| {
            self.ordered_to = wanted.end;
            wanted
        })
    }

    /// Whether at least half of what lies between the window's beginning and the
    /// end of this read has been read: jumps that happen to fall close to one
    /// another are no sequence.
    fn is_dense(&self, read: &Range<u64>) -> bool {
        let span = self.at.max(read.end) - self.begun.min(read.start);
        2 * (self.streak + (read.end - read.start)) >= span
    }

    /// Orders the masks of blocks, of each its place, nonce and length; nothing
    /// behind `ordered_to` was.
    pub(crate) fn order(
        &mut self,
        masks: &Masks,
        client: &Client,
        blocks: Vec<(u64, StoredNonce, usize)>,
        ordered_to: u64,
    ) {
        self.ordered_to = self.ordered_to.min(ordered_to);
        let Some(&(first, ..)) = blocks.first() else { return };
        let places: Vec<u64> = blocks.iter().map(|(block, ..)| *block).collect();
        let messages = blocks.into_iter().map(|(_, nonce, len)| (nonce, len)).collect();
        match masks.order(client, messages, &masks.reads) {
            Some(lot) => self.orders.push_back((places, lot)),
            // The device is busy: they are asked for again.
            None => self.ordered_to = self.ordered_to.min(first),
        }
    }

    /// Drops everything when nobody has read for a while.
    pub(crate) fn give_back(&mut self) {
        if self.is_idle() {
            *self = Window::default();
        }
    }

    fn is_idle(&self) -> bool {
        self.last_read.is_none_or(|last| last.elapsed() >= IDLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::masks::tests::masks;

    const BLOCK: usize = 4096;

    /// Reads ranges of blocks; what was to be ordered after each.
    fn ordered(reads: impl IntoIterator<Item = Range<u64>>) -> Vec<Option<Range<u64>>> {
        let (masks, mut window) = (masks(BLOCK), Window::default());
        reads.into_iter().map(|read| window.advance(&masks, 0, read)).collect()
    }

    #[test]
    fn a_sequence_is_ordered_ahead_more_and_more() {
        let reads = (0..200u64).map(|at| 32 * at..32 * (at + 1));
        let mut reached = 0;
        for (read, wanted) in reads.clone().zip(ordered(reads)) {
            let Some(wanted) = wanted else { continue };
            assert!(wanted.start >= reached.max(read.end), "{wanted:?} after {read:?}");
            assert!((wanted.end - read.end) as usize * BLOCK <= ORDER_MAX);
            reached = wanted.end;
        }
        let ahead = reached - 200 * 32;
        assert!((ORDER_MAX / BLOCK / 2..=ORDER_MAX / BLOCK).contains(&(ahead as usize)), "{ahead}");
    }

    #[test]
    fn requests_that_come_out_of_order_are_a_sequence_all_the_same() {
        let reads = (0..40u64).map(|at| at ^ 3).map(|at| 32 * at..32 * (at + 1));
        assert!(ordered(reads).into_iter().flatten().count() >= 3);
    }

    #[test]
    fn nothing_is_ordered_for_random_reads() {
        // Of 4 KiB, far apart and close together, and of 64 KiB.
        let scattered = |span: u64, len: u64| {
            (1..2000u64).map(move |at| {
                let start = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % span;
                start..start + len
            })
        };
        for (span, len) in [(1 << 20, 1), (1 << 15, 1), (1 << 20, 16)] {
            assert_eq!(ordered(scattered(span, len)).into_iter().flatten().count(), 0, "{span} {len}");
        }
    }

    #[test]
    fn a_jump_out_of_the_window_begins_anew() {
        let reads = (0..20u64).map(|at| 32 * at..32 * (at + 1));
        let jump = std::iter::once(1 << 30..(1 << 30) + 8);
        let wanted = ordered(reads.chain(jump));
        assert!(wanted[..20].iter().flatten().count() > 1);
        assert_eq!(wanted[20], None);
    }
}
