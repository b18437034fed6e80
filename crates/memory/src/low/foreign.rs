//! Locked memory in the form of C's `malloc`, for libraries that take functions
//! for it: blocks remember their size. All are the arena's, so that one that a
//! library has from elsewhere, from before it was given these functions, is
//! known by its address and left alone.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use super::arena;

/// Bytes before a block that hold its size; keeps the alignment of `malloc`.
const HEAD: usize = 16;

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(HEAD)?, HEAD).ok()
}

/// `size` zero bytes, aligned to 16; null when the arena has not so much.
#[must_use]
pub fn allocate(size: usize) -> *mut c_void {
    let Some(layout) = layout(size) else { return null_mut() };
    let Some(block) = arena::find(layout) else { return null_mut() };
    // SAFETY: the block begins with `HEAD` bytes, aligned for a word.
    unsafe {
        block.cast::<usize>().write(size);
        block.add(HEAD).as_ptr().cast()
    }
}

/// Wipes a block and gives it back; null is nothing, and so is what is not from
/// here, which is lost.
///
/// # Safety
/// A block that [`allocate`] or [`reallocate`] gave is used no more, and an
/// address in locked memory is that of such a block.
pub unsafe fn release(block: *mut c_void) {
    let Some(block) = NonNull::new(block.cast::<u8>()).filter(|block| arena::holds(block.as_ptr())) else {
        return;
    };
    // SAFETY: the size stands before the block, and the layout is that of its
    // allocation.
    unsafe {
        let start = block.sub(HEAD);
        let layout = layout(start.cast::<usize>().read()).expect("it was allocated so");
        arena::release(start, layout);
    }
}

/// A block of `size` bytes that begins as `block` does, which is given back;
/// null, and `block` as it was, when there is not so much, or `block` is not
/// from here.
///
/// # Safety
/// As [`release`].
#[must_use]
pub unsafe fn reallocate(block: *mut c_void, size: usize) -> *mut c_void {
    if !block.is_null() && !arena::holds(block.cast()) {
        return null_mut();
    }
    let new = allocate(size);
    let (Some(from), Some(to)) = (NonNull::new(block.cast::<u8>()), NonNull::new(new.cast::<u8>())) else {
        return new;
    };
    // SAFETY: the size stands before the block; both have the bytes that are
    // copied, and are not one.
    unsafe {
        let len = from.sub(HEAD).cast::<usize>().read();
        to.copy_from_nonoverlapping(from, len.min(size));
        release(block);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_and_keep_what_they_hold() {
        let block = allocate(20);
        assert!(arena::holds(block.cast()) && block.addr().is_multiple_of(16));
        // SAFETY: blocks have the sizes that were asked for, and are used no
        // more once they are given back.
        unsafe {
            block.cast::<u8>().write_bytes(5, 20);
            let grown = reallocate(block, 3000);
            let bytes = std::slice::from_raw_parts(grown.cast::<u8>(), 3000);
            assert!(bytes[..20] == [5; 20] && bytes[20..].iter().all(|byte| *byte == 0));
            release(grown);
            let fresh = reallocate(null_mut(), 8);
            assert!(!fresh.is_null());
            release(fresh);
            release(null_mut());
            let mut other = [1_u8; 64];
            let elsewhere: *mut c_void = (&raw mut other[32]).cast();
            release(elsewhere);
            assert!(reallocate(elsewhere, 8).is_null() && other == [1; 64]);
        }
        assert!(allocate(usize::MAX).is_null());
    }
}
