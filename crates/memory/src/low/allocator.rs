//! The program's allocator: the system's, but the arena within a [`Scope`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::arena;

thread_local! {
    /// How many scopes this thread is in. Without a destructor, so that it can
    /// be read as long as the thread allocates.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// While it lives, this thread allocates in locked memory.
pub(crate) struct Scope(PhantomData<*const ()>);

impl Scope {
    pub(crate) fn enter() -> Scope {
        DEPTH.set(DEPTH.get() + 1);
        Scope(PhantomData)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// To be a program's `#[global_allocator]`: the system's allocator, but for
/// what is allocated within [`in_locked_heap`](crate::in_locked_heap). What
/// came from there goes back there, wherever it is freed or grown.
pub struct Allocator;

// SAFETY: blocks are the system allocator's or the arena's, which give memory
// of the layout that is asked for and of nobody else. Which of the two is told
// by the address. A thread-local without a destructor and a lock that nothing
// allocates under are all that is used besides. Layouts have no zero size here.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if DEPTH.get() > 0 {
            return arena::allocate(layout).as_ptr();
        }
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if DEPTH.get() > 0 {
            return arena::allocate(layout).as_ptr();
        }
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match NonNull::new(block) {
            // SAFETY: the caller's; the arena gave it, as its address says.
            Some(block) if arena::holds(block.as_ptr()) => unsafe { arena::release(block, layout) },
            // SAFETY: the caller's; the system gave it.
            _ => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match NonNull::new(block) {
            Some(old) if arena::holds(block) => {
                // SAFETY: the caller's: `size` does not overflow the layout.
                let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
                let new = arena::allocate(wanted);
                // SAFETY: both blocks have so many bytes, and do not overlap;
                // the old one came from the arena and is used no more.
                unsafe {
                    new.copy_from_nonoverlapping(old, layout.size().min(size));
                    arena::release(old, layout);
                }
                new.as_ptr()
            }
            // What was allocated before the scope stays where it was.
            // SAFETY: the caller's; the system gave it.
            _ => unsafe { System.realloc(block, layout, size) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_locked_heap;

    /// The tests of this crate have it.
    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    fn is_locked(bytes: &[u8]) -> bool {
        arena::holds(bytes.as_ptr())
    }

    #[test]
    fn what_is_allocated_in_the_scope_is_locked_and_nothing_else() {
        let before = vec![1; 100];
        let within = in_locked_heap(|| in_locked_heap(|| vec![2; 100]));
        assert!(is_locked(&within));
        let after = Vec::from([3; 100]);
        assert!(!is_locked(&before) && !is_locked(&after));
        let other = in_locked_heap(|| std::thread::spawn(|| vec![4; 100]).join().expect("no panic"));
        assert!(!is_locked(&other), "another thread");
    }

    #[test]
    fn it_stays_there_when_it_grows_outside() {
        let mut grown = in_locked_heap(|| vec![7; 40]);
        grown.extend_from_slice(&[8; 10_000]);
        assert!(is_locked(&grown));
        assert!(grown[..40].iter().all(|byte| *byte == 7) && grown[40..].iter().all(|byte| *byte == 8));
        grown.truncate(3);
        grown.shrink_to_fit();
        assert!(is_locked(&grown) && grown == [7; 3]);
        let mut before = vec![9; 40];
        in_locked_heap(|| before.extend_from_slice(&[9; 4000]));
        assert!(!is_locked(&before) && before == [9; 4040]);
    }

    #[test]
    fn a_panic_leaves_the_scope() {
        let _ = std::panic::catch_unwind(|| in_locked_heap(|| panic!("as expected")));
        assert!(!is_locked(&Vec::from([1; 100])));
    }
}
