//! A vector of segments that each thread uses again, for the batches of what
//! it reads. It is larger than what an allocator keeps at hand, and reading a
//! long file page by page would grow the heap behind it each time. It stays as
//! large as its longest read had it: 40 KiB for 1 MiB in blocks of 4 KiB.

use std::cell::Cell;

use strongroom_engine::Segment;

thread_local! {
    static SPARE: Cell<Vec<Segment>> = const { Cell::new(Vec::new()) };
}

/// An empty vector with room for so many.
pub(super) fn take(segments: usize) -> Vec<Segment> {
    let mut spare = SPARE.take();
    spare.reserve(segments);
    spare
}

/// Keeps it for the next batch of this thread. One that is not given back, as
/// after an error, is made anew.
pub(super) fn give(mut segments: Vec<Segment>) {
    segments.clear();
    SPARE.set(segments);
}

#[cfg(test)]
mod tests {
    use super::*;
    use strongroom_engine::{AssociatedData, StoredNonce};

    #[test]
    fn what_is_given_back_comes_again_and_is_empty() {
        let mut segments = take(64);
        let nonce = StoredNonce::new([1; 24]);
        segments.push(Segment::open(0, 16, nonce, AssociatedData::new(&[]), [0; 16]));
        give(segments);
        let again = take(1);
        assert!(again.is_empty() && again.capacity() >= 64);
        assert!(take(1).capacity() < 64);
    }
}
