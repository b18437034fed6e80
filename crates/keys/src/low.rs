//! Argon2's working memory, and what a program that is started inherits. All
//! unsafe code of this crate.
#![allow(unsafe_code)]

use argon2::Block;
use strongroom_memory::Region;

/// Blocks of Argon2: locked where the limits allow so much, wiped when dropped,
/// and left out of core dumps in any case.
pub(crate) struct Scratch(Region);

impl Scratch {
    /// `blocks` blocks of 1 KiB; `None` when there is not so much memory.
    pub(crate) fn new(blocks: usize) -> Option<Scratch> {
        Some(Scratch(Region::new(blocks.checked_mul(Block::SIZE)?)?))
    }

    pub(crate) fn blocks(&mut self) -> &mut [Block] {
        const { assert!(size_of::<Block>() == Block::SIZE && align_of::<Block>() <= 4096) };
        let bytes = self.0.bytes_mut();
        let count = bytes.len() / Block::SIZE;
        // SAFETY: a region begins at a page, which is aligned for a block, and
        // holds `count` blocks; a block is an array of integers, for which any
        // bytes are valid; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<Block>(), count) }
    }
}

/// Has the kernel close every descriptor from `first` on when another program
/// is executed; in this process they stay as they are.
///
/// # Errors
/// The kernel's.
pub(crate) fn close_on_exec_from(first: u32) -> std::io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // The call itself: musl has no function for it.
    // SAFETY: the call takes numbers alone, and with this flag it closes
    // nothing: whoever owns a descriptor of this process still has it.
    match unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_holds_as_many_blocks_as_asked_for() {
        let mut scratch = Scratch::new(1025).expect("a megabyte");
        assert!(scratch.blocks().len() >= 1025);
        assert!(Scratch::new(usize::MAX).is_none());
        assert!(Scratch::new(usize::MAX / 2048).is_none(), "more than any address space");
    }
}
