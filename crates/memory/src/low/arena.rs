//! One range of addresses for all small secrets of the process: a reservation
//! with no access at all, of which pages are opened and locked from its second
//! one on as they are needed, so that inaccessible pages stand at both ends.
//!
//! Sizes are powers of two. A block that is given back is wiped at once and
//! kept for its size: memory once locked stays. Free blocks are zero but for
//! the address of the next, so what is handed out is zero.

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

use super::region::seclude;
use super::{BYTES, REFUSED};

/// Addresses reserved, far above what keys need.
const RESERVED: usize = 64 << 20;
/// How many bytes are opened at a time: what the least common limit of locked
/// memory, 64 KiB, allows once.
const STEP: usize = 64 << 10;
/// The smallest block: what a link fits, and two cipher blocks.
const BLOCK_MIN: usize = 32;
const CLASSES: usize = (RESERVED / BLOCK_MIN).ilog2() as usize;

/// From here to the end of all addresses lies nothing that a kernel gives to
/// who asks for memory.
const NOWHERE: usize = usize::MAX - RESERVED + 1;

/// Where the reservation begins.
static BASE: AtomicUsize = AtomicUsize::new(NOWHERE);

static ARENA: Mutex<Arena> = Mutex::new(Arena { next: 0, opened: 0, free: [0; CLASSES] });

struct Arena {
    /// First address never handed out.
    next: usize,
    /// End of what is open.
    opened: usize,
    /// By class, the address of the first free block, or 0.
    free: [usize; CLASSES],
}

fn class(layout: Layout) -> Option<usize> {
    // A block is aligned to its size, up to a page.
    if layout.align() > 4096 {
        return None;
    }
    let size = layout.size().max(layout.align()).max(BLOCK_MIN).checked_next_power_of_two()?;
    let class = (size / BLOCK_MIN).ilog2() as usize;
    (class < CLASSES).then_some(class)
}

impl Arena {
    fn allocate(&mut self, class: usize) -> Option<NonNull<u8>> {
        let first = self.free[class];
        if first != 0 {
            let block: *mut usize = std::ptr::with_exposed_provenance_mut(first);
            // SAFETY: a free block is open memory of the arena, at least 32
            // bytes and aligned for a word, that nobody else uses; its first
            // word is the next free block's address.
            unsafe {
                self.free[class] = *block;
                *block = 0;
            }
            return NonNull::new(block.cast());
        }
        self.fresh(BLOCK_MIN << class)
    }

    /// A block never used before.
    fn fresh(&mut self, size: usize) -> Option<NonNull<u8>> {
        if self.opened == 0 {
            self.reserve()?;
        }
        let start = self.next.checked_next_multiple_of(size.min(4096))?;
        let end = start.checked_add(size)?;
        // The last page stays closed.
        if end > BASE.load(Relaxed) + RESERVED - 4096 {
            return None;
        }
        if end > self.opened {
            self.open(end)?;
        }
        self.next = end;
        NonNull::new(std::ptr::with_exposed_provenance_mut(start))
    }

    fn reserve(&mut self) -> Option<()> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let base = unsafe { mmap_anonymous(null_mut(), RESERVED, ProtFlags::empty(), flags) }.ok()?;
        let base = base.expose_provenance();
        BASE.store(base, Relaxed);
        // The first page stays closed.
        self.next = base + rustix::param::page_size().max(4096);
        self.opened = self.next;
        Some(())
    }

    fn open(&mut self, end: usize) -> Option<()> {
        let last = BASE.load(Relaxed) + RESERVED - 4096;
        let until = (self.opened + (end - self.opened).next_multiple_of(STEP)).min(last);
        let len = until - self.opened;
        let start: *mut u8 = std::ptr::with_exposed_provenance_mut(self.opened);
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: whole pages of our own reservation, which nobody uses yet.
        unsafe { mprotect(start.cast(), len, access) }.ok()?;
        // SAFETY: the range was just made writable and is the arena's.
        if !unsafe { seclude(start, len) } {
            REFUSED.store(true, Relaxed);
        }
        BYTES.fetch_add(len, Relaxed);
        self.opened = until;
        Some(())
    }
}

/// True for what [`allocate`] took from the arena.
pub(super) fn holds(address: *const u8) -> bool {
    address.addr().wrapping_sub(BASE.load(Relaxed)) < RESERVED
}

/// Zeroed memory of the arena; none when it is full.
pub(super) fn find(layout: Layout) -> Option<NonNull<u8>> {
    // Nothing that holds this lock allocates or panics.
    class(layout).and_then(|class| ARENA.lock().unwrap_or_else(PoisonError::into_inner).allocate(class))
}

/// Zeroed memory of the arena, or of the heap when the arena is full, which
/// counts as refused.
pub(super) fn allocate(layout: Layout) -> NonNull<u8> {
    find(layout).unwrap_or_else(|| {
        REFUSED.store(true, Relaxed);
        // SAFETY: no caller asks for a layout of no bytes.
        let block = unsafe { System.alloc_zeroed(layout) };
        NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
    })
}

/// Wipes memory and gives it back.
///
/// # Safety
/// [`allocate`] gave it by the same layout, and it is used no more.
pub(super) unsafe fn release(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's block has so many bytes.
    unsafe { wipe(block.as_ptr(), layout.size()) };
    if !holds(block.as_ptr()) {
        // SAFETY: then `allocate` took it from the heap, by this layout.
        unsafe { System.dealloc(block.as_ptr(), layout) };
        return;
    }
    let class = class(layout).expect("the arena gave it");
    let mut arena = ARENA.lock().unwrap_or_else(PoisonError::into_inner);
    let link: *mut usize = block.as_ptr().cast();
    // SAFETY: the block has at least 32 bytes, is aligned for a word, and is
    // the arena's again.
    unsafe { *link = arena.free[class] };
    arena.free[class] = link.expose_provenance();
}

/// Zeros that are written whatever the compiler knows of the memory's end.
///
/// # Safety
/// `len` bytes from `start` can be written.
unsafe fn wipe(start: *mut u8, len: usize) {
    // SAFETY: the caller's.
    unsafe { start.write_bytes(0, len) };
    zeroize::optimization_barrier(&start);
}

/// A value in the arena.
pub(crate) struct Place<T>(NonNull<T>);

// SAFETY: it owns the value as a box does.
unsafe impl<T: Send> Send for Place<T> {}
// SAFETY: it gives out shared references as a box does.
unsafe impl<T: Sync> Sync for Place<T> {}

impl<T> Place<T> {
    fn layout() -> Layout {
        let layout = Layout::new::<T>();
        Layout::from_size_align(layout.size().max(1), layout.align()).expect("one byte fits")
    }

    pub(crate) fn new(value: T) -> Place<T> {
        let place = allocate(Self::layout()).cast::<T>();
        // SAFETY: the memory has the value's layout and is not used yet.
        unsafe { place.write(value) };
        Place(place)
    }

    pub(crate) fn value(&self) -> &T {
        // SAFETY: a value was written at the beginning and is dropped with
        // self, from which the reference is borrowed.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn value_mut(&mut self) -> &mut T {
        // SAFETY: as in `value`, borrowed exclusively.
        unsafe { self.0.as_mut() }
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        // SAFETY: the value is whole and is not used again; the memory was
        // allocated by this layout.
        unsafe {
            self.0.drop_in_place();
            release(self.0.cast(), Self::layout());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::low::tests::{flags_at, flags_of};

    #[test]
    fn blocks_do_not_overlap_and_are_aligned() {
        let mut seen: Vec<(usize, usize, NonNull<u8>, Layout)> = Vec::new();
        for size in [1, 31, 32, 33, 100, 240, 500, 4096, 5000, 70_000] {
            for align in [1, 16, 64, 4096] {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                let block = allocate(layout);
                let start = block.as_ptr().addr();
                assert!(start.is_multiple_of(align) && holds(block.as_ptr()));
                assert!(seen.iter().all(|(other, len, ..)| start + size <= *other || other + len <= start));
                seen.push((start, size, block, layout));
            }
        }
        for (.., block, layout) in seen {
            // SAFETY: given above by this layout.
            unsafe { release(block, layout) };
        }
    }

    /// True when the block that was given back was given out again: the harness
    /// may have taken it meanwhile.
    fn is_given_out_again(layout: Layout) -> bool {
        let block = allocate(layout);
        // SAFETY: the block has so many bytes; after it is given back it is
        // still open memory.
        let is_wiped = unsafe {
            block.as_ptr().write_bytes(0xaa, layout.size());
            release(block, layout);
            let left = std::slice::from_raw_parts(block.as_ptr(), layout.size());
            left[8..].iter().all(|byte| *byte == 0)
        };
        let again = allocate(layout);
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(again.as_ptr(), layout.size()) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        // SAFETY: given above by this layout.
        unsafe { release(again, layout) };
        is_wiped && again == block
    }

    #[test]
    fn what_is_given_back_is_wiped_and_given_out_zeroed() {
        // A size that no other test takes.
        let layout = Layout::from_size_align(1 << 17, 8).expect("a layout");
        assert!((0..16).any(|_| is_given_out_again(layout)), "free blocks are used before new ones");
    }

    #[test]
    fn the_arena_is_locked_where_it_may_be_and_stands_between_closed_pages() {
        let place = Place::new([7u8; 40]);
        let flags = flags_of(place.value());
        assert!(flags.contains("dd") && flags.contains("dc"), "{flags}");
        assert!(flags.contains("lo") || !crate::standing().secrets_locked, "{flags}");
        let base = BASE.load(Relaxed);
        for edge in [base, base + RESERVED - 1] {
            let flags = flags_at(edge);
            assert!(!flags.contains("rd") && !flags.contains("wr"), "{flags}");
        }
    }

    #[test]
    fn values_are_dropped() {
        let counted = std::sync::Arc::new(());
        let place = Place::new(std::sync::Arc::clone(&counted));
        assert_eq!(std::sync::Arc::strong_count(place.value()), 2);
        drop(place);
        assert_eq!(std::sync::Arc::strong_count(&counted), 1);
    }
}
