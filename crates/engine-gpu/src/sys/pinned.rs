//! Memory that a driver has pinned, so that a device reaches it without a copy in between, and parts of it that go
//! separate ways.

use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// Gives memory back to the driver that pinned it.
pub(super) trait Release: Send {
    /// # Safety
    /// `start` is what this was made for; it is not used again.
    unsafe fn release(&mut self, start: NonNull<u8>);
}

/// Pinned memory, owned. It is wiped before it is given back to the driver, whatever its owners have wiped; that of a
/// launch that has not ended is never given back ([`InFlight`](super::in_flight::InFlight)).
pub(crate) struct Block {
    start: NonNull<u8>,
    len: usize,
    release: Box<dyn Release>,
}

// SAFETY: a block owns its memory, which no thread has a tie to, as `Vec<u8>` does.
unsafe impl Send for Block {}

struct Plain(usize);

impl Release for Plain {
    unsafe fn release(&mut self, start: NonNull<u8>) {
        // SAFETY: `Block::plain` leaked a boxed slice of this start and length.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start.as_ptr(), self.0)) });
    }
}

impl Block {
    /// # Safety
    /// The `len` bytes at `start` are initialised and belong to the block alone until it calls `release`.
    pub(super) unsafe fn from_raw(start: NonNull<u8>, len: usize, release: Box<dyn Release>) -> Block {
        Block { start, len, release }
    }

    /// Of the process's own memory, not pinned: for devices that are not there.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests use it"))]
    pub(crate) fn plain(len: usize) -> Block {
        let bytes = Box::leak(vec![0; len].into_boxed_slice());
        // SAFETY: the leaked bytes belong to nobody else.
        unsafe { Block::from_raw(NonNull::from(bytes).cast(), len, Box::new(Plain(len))) }
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `from_raw` promises initialised bytes that the block owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the block is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        strongroom_memory::wipe(self);
        // SAFETY: `start` is what `release` was made for, and the block ends here.
        unsafe { self.release.release(self.start) };
    }
}

/// Takes a block whose parts are gone.
type GiveBack = Box<dyn FnOnce(Block) + Send + Sync>;

/// A block that is divided. It is not looked at as a whole until all parts are gone.
struct Whole {
    start: NonNull<u8>,
    block: Option<(Block, GiveBack)>,
}

// SAFETY: what is inside is reached from `drop` alone; parts only keep it alive, and copy `start` from it.
unsafe impl Sync for Whole {}
// SAFETY: block and function are Send; `start` is the block's.
unsafe impl Send for Whole {}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some((block, give_back)) = self.block.take() {
            give_back(block);
        }
    }
}

/// A range of a divided block, which nobody else reaches. It is wiped when it is dropped.
pub(crate) struct Part {
    whole: Arc<Whole>,
    range: Range<usize>,
}

/// Divides a block. `give_back` has it when the last part is dropped.
///
/// # Panics
/// When ranges overlap, are not in ascending order, or lie outside of the block.
pub(crate) fn split(mut block: Block, ranges: &[Range<usize>], give_back: GiveBack) -> Vec<Part> {
    let mut end = 0;
    for range in ranges {
        assert!(end <= range.start && range.start <= range.end, "ranges overlap");
        end = range.end;
    }
    assert!(end <= block.len(), "a range lies outside of the block");
    let start = NonNull::new(block.as_mut_ptr()).expect("a slice is not null");
    let whole = Arc::new(Whole { start, block: Some((block, give_back)) });
    ranges.iter().map(|range| Part { whole: Arc::clone(&whole), range: range.clone() }).collect()
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `split` checked that the range lies in the block and that no other part has any of it; the block
        // lives and is not looked at while a part does.
        unsafe {
            std::slice::from_raw_parts(self.whole.start.as_ptr().add(self.range.start), self.range.len())
        }
    }
}

impl DerefMut for Part {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the part is borrowed mutably.
        unsafe {
            std::slice::from_raw_parts_mut(self.whole.start.as_ptr().add(self.range.start), self.range.len())
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        strongroom_memory::wipe(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_wiped_and_the_block_comes_back_with_the_last() {
        let (gives, given) = std::sync::mpsc::channel();
        let give_back = move |block: Block| gives.send(block.to_vec()).unwrap();
        let mut block = Block::plain(10);
        block.fill(5);
        let mut parts = split(block, &[1..3, 3..3, 5..10], Box::new(give_back));
        parts[0][1] = 9;
        assert_eq!((&parts[0][..], &parts[1][..], &parts[2][..]), (&[5, 9][..], &[][..], &[5; 5][..]));
        let last = parts.pop();
        drop(parts);
        assert!(given.try_recv().is_err());
        std::thread::spawn(move || drop(last)).join().unwrap();
        assert_eq!(given.recv().unwrap(), [5, 0, 0, 5, 5, 0, 0, 0, 0, 0]);
    }

    /// Tells what was in the memory that is given back.
    struct Tells(Plain, std::sync::mpsc::Sender<Vec<u8>>);

    impl Release for Tells {
        unsafe fn release(&mut self, start: NonNull<u8>) {
            // SAFETY: the block, which ends here, has so many initialised bytes at its start.
            let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), self.0.0) }.to_vec();
            self.1.send(bytes).unwrap();
            // SAFETY: passed on.
            unsafe { self.0.release(start) };
        }
    }

    #[test]
    fn a_block_is_wiped_before_it_is_given_back() {
        let (tells, told) = std::sync::mpsc::channel();
        let bytes = Box::leak(vec![7_u8; 100].into_boxed_slice());
        // SAFETY: the leaked bytes belong to nobody else.
        let block =
            unsafe { Block::from_raw(NonNull::from(bytes).cast(), 100, Box::new(Tells(Plain(100), tells))) };
        assert_eq!(block[..], [7; 100]);
        drop(block);
        assert_eq!(told.recv().unwrap(), [0; 100]);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn parts_do_not_overlap() {
        split(Block::plain(10), &[0..6, 5..7], Box::new(drop));
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn parts_lie_in_the_block() {
        split(Block::plain(10), &[0..6, 7..11], Box::new(drop));
    }
}
