//! The masks for reads of one file: a window before the place that is read,
//! shifted while reads go on within it and given up when one jumps out of it.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use strongroom_engine::{Segment, StoredNonce};

use super::{IDLE, Lot, Masks, ORDER_MAX, ORDER_MIN, Ready};

/// Bytes that are ordered ahead at most: two of the longest orders, one of which
/// is used up while the other is made.
const AHEAD_MAX: usize = 2 * ORDER_MAX;

/// Bytes before and behind the window in which a read still belongs to it: the
/// kernel reads ahead by several requests at once, which come in any order.
const SLACK: usize = 1 << 20;

/// Sequences of one file that are followed at once: readers of their own, or one
/// that goes to and fro.
const STREAMS: usize = 4;

/// The windows of one file: one for each sequence that it is read in.
#[derive(Default)]
pub(crate) struct Windows {
    version: u64,
    /// How many windows there have been.
    begun: u64,
    streams: Vec<Window>,
}

/// Blocks of which masks are wanted, and for which window: it may have given way
/// to another before they are ordered.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) blocks: Range<u64>,
    window: u64,
}

/// Masks for the blocks of one sequence that will probably be read next.
struct Window {
    number: u64,
    /// Behind the farthest block that was read.
    at: u64,
    /// Behind the last block that was ordered.
    ordered_to: u64,
    /// Where the window began.
    begun: u64,
    /// Blocks that were read since then: what has been read in sequence says how
    /// much more will be.
    streak: u64,
    ready: Shelf,
    orders: VecDeque<(Vec<u64>, Lot<StoredNonce>)>,
    last_read: Instant,
}

/// Masks by the places of their blocks, from the first place on.
#[derive(Default)]
struct Shelf {
    first: u64,
    masks: VecDeque<Option<Ready<StoredNonce>>>,
}

impl Shelf {
    fn put(&mut self, block: u64, ready: Ready<StoredNonce>) {
        // What lies before has been read, and nobody comes for it.
        let Some(at) = block.checked_sub(self.first).map(|at| at as usize) else { return };
        if at >= self.masks.len() {
            self.masks.resize_with(at + 1, || None);
        }
        self.masks[at] = Some(ready);
    }

    fn take(&mut self, block: u64) -> Option<Ready<StoredNonce>> {
        let at = usize::try_from(block.checked_sub(self.first)?).ok()?;
        self.masks.get_mut(at)?.take()
    }

    /// Drops what lies before a block.
    fn drop_before(&mut self, block: u64) {
        let passed = block.saturating_sub(self.first).min(self.masks.len() as u64);
        self.masks.drain(..passed as usize);
        self.first = self.first.max(block);
    }
}

impl Windows {
    /// Gives the segments of a read of these blocks the masks that there are for
    /// them, and says which blocks to order now. Who asks orders them, and says
    /// what came of it.
    pub(crate) fn serve(
        &mut self,
        masks: &Masks,
        version: u64,
        read: Range<u64>,
        segments: &mut [Segment],
    ) -> Option<Wanted> {
        if version != self.version {
            self.version = version;
            self.streams.clear();
        }
        let slack = in_blocks(masks, SLACK);
        let window = self.window_of(&read, slack);
        window.collect();
        window.bring(masks, read.start, segments);
        let blocks = window.advance(masks, read)?;
        Some(Wanted { blocks, window: window.number })
    }

    /// The window that a read goes on with. One that belongs to none begins
    /// another, in the place of what has not been read for longest.
    fn window_of(&mut self, read: &Range<u64>, slack: u64) -> &mut Window {
        let now = Instant::now();
        self.streams.retain(|window| !window.is_idle(now));
        let found = self.streams.iter().position(|window| window.goes_on_with(read, slack));
        let at = found.unwrap_or_else(|| {
            if self.streams.len() == STREAMS {
                let oldest = (0..STREAMS).min_by_key(|at| self.streams[*at].last_read);
                self.streams.swap_remove(oldest.unwrap_or(0));
            }
            self.begun += 1;
            self.streams.push(Window::begin(self.begun, read.start, now));
            self.streams.len() - 1
        });
        self.streams[at].last_read = now;
        &mut self.streams[at]
    }

    /// What came of an order: masks of the blocks at these places, or none, since
    /// the device is busy. Where not all that was wanted is known, `reached` is
    /// where that ends. The rest is asked for again; what others have ordered
    /// meanwhile stays so.
    pub(crate) fn note(
        &mut self,
        wanted: &Wanted,
        places: Vec<u64>,
        lot: Option<Lot<StoredNonce>>,
        reached: u64,
    ) {
        let Some(window) = self.streams.iter_mut().find(|window| window.number == wanted.window) else {
            return;
        };
        let reached = match (&lot, places.first()) {
            (None, Some(first)) => reached.min(*first),
            _ => reached,
        };
        if reached < wanted.blocks.end {
            window.ordered_to = window.ordered_to.min(reached);
        }
        window.orders.extend(lot.map(|lot| (places, lot)));
    }

    /// Drops what nobody has read for a while.
    pub(crate) fn give_back(&mut self) {
        let now = Instant::now();
        self.streams.retain(|window| !window.is_idle(now));
    }
}

fn in_blocks(masks: &Masks, bytes: usize) -> u64 {
    (bytes / masks.block_len).max(1) as u64
}

impl Window {
    fn begin(number: u64, at: u64, now: Instant) -> Window {
        let (ready, orders) = Default::default();
        Window { number, at, ordered_to: at, begun: at, streak: 0, ready, orders, last_read: now }
    }

    /// Whether a read belongs to it: it begins within reach, and at least half of
    /// what lies between the window's beginning and the end of the read has been
    /// read. Jumps that happen to fall close to one another are no sequence.
    fn goes_on_with(&self, read: &Range<u64>, slack: u64) -> bool {
        let reach = self.at.saturating_sub(slack)..=self.at.max(self.ordered_to) + slack;
        let span = self.at.max(read.end) - self.begun.min(read.start);
        reach.contains(&read.start) && 2 * (self.streak + (read.end - read.start)) >= span
    }

    /// Gives segments of whole blocks, the first of which would be `first`, their
    /// masks.
    fn bring(&mut self, masks: &Masks, first: u64, segments: &mut [Segment]) {
        let (mut hits, mut misses) = (0, 0);
        for segment in segments {
            let block = first + (segment.start() / masks.block_len) as u64;
            if let Some(ready) = self.ready.take(block) {
                segment.bring(ready.mask);
            }
            *(if segment.has_mask() { &mut hits } else { &mut misses }) += segment.len();
        }
        masks.reads.used(hits, misses);
    }

    /// Takes in what has been made, in whatever order.
    fn collect(&mut self) {
        for _ in 0..self.orders.len() {
            let Some((blocks, lot)) = self.orders.pop_front() else { return };
            match lot.poll() {
                Ok(ready) => {
                    blocks.into_iter().zip(ready).for_each(|(block, ready)| self.ready.put(block, ready))
                }
                Err(lot) => self.orders.push_back((blocks, lot)),
            }
        }
    }

    /// Notes that `read` is read, and says which blocks to order now. One read is
    /// no sequence, however long it is.
    fn advance(&mut self, masks: &Masks, read: Range<u64>) -> Option<Range<u64>> {
        let is_first = self.streak == 0;
        self.begun = self.begun.min(read.start);
        self.at = self.at.max(read.end);
        self.streak += read.end - read.start;
        self.ready.drop_before(self.at.saturating_sub(in_blocks(masks, SLACK)));
        let ahead = (2 * self.streak).min(in_blocks(masks, AHEAD_MAX));
        self.ordered_to = self.ordered_to.max(self.at);
        let wanted = self.ordered_to..self.at + ahead;
        let is_worth = !is_first
            && self.streak >= in_blocks(masks, ORDER_MIN)
            && wanted.start < wanted.end
            && 2 * (wanted.end - wanted.start) >= ahead;
        is_worth.then(|| {
            self.ordered_to = wanted.end.min(wanted.start + in_blocks(masks, ORDER_MAX));
            wanted.start..self.ordered_to
        })
    }

    fn is_idle(&self, now: Instant) -> bool {
        now.duration_since(self.last_read) >= IDLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::masks::tests::masks;

    const BLOCK: usize = 4096;

    /// Reads ranges of blocks; what was to be ordered after each.
    fn ordered(reads: impl IntoIterator<Item = Range<u64>>) -> Vec<Option<Range<u64>>> {
        let (masks, mut windows) = (masks(BLOCK), Windows::default());
        let serve = |read| windows.serve(&masks, 0, read, &mut []).map(|wanted| wanted.blocks);
        reads.into_iter().map(serve).collect()
    }

    #[test]
    fn a_sequence_is_ordered_ahead_more_and_more() {
        let reads = (0..200u64).map(|at| 32 * at..32 * (at + 1));
        let mut reached = 0;
        for (read, wanted) in reads.clone().zip(ordered(reads)) {
            let Some(wanted) = wanted else { continue };
            assert!(wanted.start >= reached.max(read.end), "{wanted:?} after {read:?}");
            assert!((wanted.end - read.end) as usize * BLOCK <= AHEAD_MAX);
            assert!((wanted.end - wanted.start) as usize * BLOCK <= ORDER_MAX);
            reached = wanted.end;
        }
        let ahead = reached - 200 * 32;
        assert!((AHEAD_MAX / BLOCK / 2..=AHEAD_MAX / BLOCK).contains(&(ahead as usize)), "{ahead}");
    }

    #[test]
    fn requests_that_come_out_of_order_are_a_sequence_all_the_same() {
        let reads = (0..40u64).map(|at| at ^ 3).map(|at| 32 * at..32 * (at + 1));
        assert!(ordered(reads).into_iter().flatten().count() >= 3);
    }

    /// Orders what is known of what is wanted: that far.
    fn order(masks: &Masks, windows: &mut Windows, wanted: &Wanted, reached: u64) {
        let places: Vec<u64> = (wanted.blocks.start..reached).collect();
        let messages = places.iter().map(|block| (StoredNonce::new([*block as u8; 24]), BLOCK));
        let lot = masks.order(&masks.blocks, messages.collect(), &masks.reads);
        windows.note(wanted, places, lot, reached);
    }

    /// The kernel reads ahead by several requests at once: while one reader orders,
    /// another wants what follows.
    #[test]
    fn what_another_ordered_meanwhile_is_not_ordered_again() {
        let (masks, mut windows) = (masks(BLOCK), Windows::default());
        let mut reads = (0..).map(|at| 32 * at..32 * (at + 1));
        let mut wanted = Vec::new();
        while wanted.len() < 2 {
            wanted.extend(windows.serve(&masks, 0, reads.next().expect("endless"), &mut []));
        }
        assert!(wanted[0].blocks.end <= wanted[1].blocks.start, "{wanted:?}");
        for wanted in &wanted {
            order(&masks, &mut windows, wanted, wanted.blocks.end);
        }
        let next = reads.find_map(|read| windows.serve(&masks, 0, read, &mut [])).expect("endless");
        assert!(next.blocks.start >= wanted[1].blocks.end, "{wanted:?}, then {next:?}");
    }

    #[test]
    fn what_is_not_known_yet_is_asked_for_again() {
        let (masks, mut windows) = (masks(BLOCK), Windows::default());
        let mut reads = (0..).map(|at| 32 * at..32 * (at + 1));
        let mut next = |windows: &mut Windows| {
            reads.find_map(|read| windows.serve(&masks, 0, read, &mut [])).expect("endless")
        };
        let wanted = next(&mut windows);
        order(&masks, &mut windows, &wanted, wanted.blocks.start + 8);
        assert!(next(&mut windows).blocks.start < wanted.blocks.end, "what was not ordered is left out");
    }

    /// A window that has given way takes in nothing: another that lies terabytes
    /// before it would make room for all that is between them.
    #[test]
    fn what_was_ordered_for_a_window_that_is_gone_is_dropped() {
        let (masks, mut windows) = (masks(BLOCK), Windows::default());
        let far = 1 << 40;
        let mut reads = (0..).map(|at| far + 32 * at..far + 32 * (at + 1));
        let wanted = reads.find_map(|read| windows.serve(&masks, 0, read, &mut [])).expect("endless");
        for other in 0..STREAMS as u64 {
            windows.serve(&masks, 0, other << 20..(other << 20) + 1, &mut []);
        }
        order(&masks, &mut windows, &wanted, wanted.blocks.end);
        assert!(windows.streams.iter().all(|window| window.orders.is_empty()));
        (0..STREAMS as u64).for_each(|other| {
            windows.serve(&masks, 0, (other << 20) + 1..(other << 20) + 2, &mut []);
        });
        assert!(windows.streams.iter().all(|window| window.ready.masks.is_empty()));
    }

    #[test]
    fn each_of_several_readers_has_a_window() {
        let of =
            |reader: u64| (0..40).map(move |at| (reader << 30) + 32 * at..(reader << 30) + 32 * (at + 1));
        let alone = ordered(of(0)).into_iter().flatten().count();
        let in_turn = (0..40).flat_map(|at| (0..STREAMS as u64).filter_map(move |reader| of(reader).nth(at)));
        assert_eq!(ordered(in_turn).into_iter().flatten().count(), STREAMS * alone);
    }

    #[test]
    fn nothing_is_ordered_for_random_reads() {
        // Of 4 KiB, far apart and close together, of 64 KiB and of 256 KiB.
        let scattered = |span: u64, len: u64| {
            (1..2000u64).map(move |at| {
                let start = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % span;
                start..start + len
            })
        };
        for (span, len) in [(1 << 20, 1), (1 << 15, 1), (1 << 20, 16), (1 << 24, 64)] {
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
