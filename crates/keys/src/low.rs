//! Memory from the kernel for secrets. All unsafe code of this crate.
//!
//! Each [`Pages`] is its own mapping, so that no secret shares a page with
//! anything else and unmapping it returns it to the kernel, which zeroes it
//! before anybody else gets it.

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use argon2::Block;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use zeroize::Zeroize;

static LOCK_REFUSED: AtomicBool = AtomicBool::new(false);

/// True once the kernel has refused to lock secret memory.
pub(crate) fn lock_refused() -> bool {
    LOCK_REFUSED.load(Ordering::Relaxed)
}

/// A private anonymous mapping, zeroed, left out of core dumps.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory that nothing else points to; it belongs to
// whoever has the value, on whatever thread.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference it can only be read.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(len: usize) -> Option<Mapping> {
        let len = len.max(1).checked_next_multiple_of(rustix::param::page_size())?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), len, prot, MapFlags::PRIVATE) }.ok()?;
        let mapping = Mapping { start: NonNull::new(start.cast())?, len };
        // A kernel that refuses this advice leaves dumps to `protect_process`.
        // SAFETY: the range is the mapping just made; the advice changes no byte.
        let _ = unsafe { madvise(mapping.address(), len, Advice::LinuxDontDump) };
        Some(mapping)
    }

    fn address(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and nothing borrows from a value
        // that is being dropped. Unmapping unlocks.
        let unmapped = unsafe { munmap(self.address(), self.len) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }
}

/// Secret memory: locked where the kernel allows it, wiped before it goes.
pub(crate) struct Pages {
    mapping: Mapping,
    len: usize,
}

impl Pages {
    /// `len` zero bytes. Ends the process, as any allocation, when there is no
    /// memory at all; when it cannot be locked, [`lock_refused`] tells.
    pub(crate) fn new(len: usize) -> Pages {
        let Some(mapping) = Mapping::new(len) else {
            handle_alloc_error(Layout::array::<u8>(len).unwrap_or(Layout::new::<u8>()));
        };
        // SAFETY: the range is the mapping just made; locking changes no byte.
        if unsafe { mlock(mapping.address(), mapping.len) }.is_err() {
            LOCK_REFUSED.store(true, Ordering::Relaxed);
        }
        Pages { mapping, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `len` readable bytes begin at the mapping's start, no larger
        // than the mapping, initialised by the kernel, and borrowed from self.
        unsafe { std::slice::from_raw_parts(self.mapping.start.as_ptr(), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, writable, and borrowed exclusively from self.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start.as_ptr(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.bytes_mut().zeroize();
        #[cfg(test)]
        tests::LAST_DROPPED.set(self.bytes().to_vec());
    }
}

/// Working memory of Argon2id. Not locked, since it is large; what was in it
/// goes back to the kernel at once.
pub(crate) struct Scratch(Mapping);

impl Scratch {
    /// `blocks` blocks of 1 KiB; `None` when there is not so much memory.
    pub(crate) fn new(blocks: usize) -> Option<Scratch> {
        Some(Scratch(Mapping::new(blocks.checked_mul(Block::SIZE)?)?))
    }

    pub(crate) fn blocks(&mut self) -> &mut [Block] {
        const { assert!(size_of::<Block>() == Block::SIZE && align_of::<Block>() <= 4096) };
        let count = self.0.len / Block::SIZE;
        // SAFETY: a mapping begins at a page, which is aligned for a block, and
        // holds `count` blocks; a block is an array of integers, for which the
        // kernel's zeros are valid; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr().cast::<Block>(), count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// What the last secret memory that this thread dropped held, after
        /// the wipe and before it was unmapped.
        pub(super) static LAST_DROPPED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }

    #[test]
    fn memory_is_zero_at_first_and_wiped_at_last() {
        let mut pages = Pages::new(5000);
        assert_eq!(pages.bytes(), [0; 5000]);
        pages.bytes_mut().fill(0xaa);
        assert_eq!(pages.bytes(), [0xaa; 5000]);
        drop(pages);
        assert_eq!(LAST_DROPPED.take(), [0; 5000]);
    }

    #[test]
    fn secret_memory_is_locked_and_left_out_of_dumps() {
        let pages = Pages::new(32);
        let address = pages.mapping.start.as_ptr() as usize;
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("procfs");
        let flags = flags_at(&maps, address).expect("the mapping is listed");
        assert!(flags.contains(&"dd"), "{flags:?}");
        assert!(flags.contains(&"lo") || lock_refused(), "{flags:?}");
    }

    /// The flags of the mapping that holds `address`.
    fn flags_at(maps: &str, address: usize) -> Option<Vec<&str>> {
        let holds = |line: &str| {
            let (start, end) = line.split_whitespace().next()?.split_once('-')?;
            let hex = |text| usize::from_str_radix(text, 16).ok();
            Some((hex(start)?..hex(end)?).contains(&address))
        };
        let mut lines = maps.lines().skip_while(|line| holds(line) != Some(true));
        lines.find_map(|line| line.strip_prefix("VmFlags:")).map(|flags| flags.split_whitespace().collect())
    }

    #[test]
    fn scratch_holds_as_many_blocks_as_asked_for() {
        let mut scratch = Scratch::new(1025).expect("a megabyte");
        assert!(scratch.blocks().len() >= 1025);
        assert!(Scratch::new(usize::MAX).is_none());
        assert!(Scratch::new(usize::MAX / 2048).is_none(), "more than any address space");
    }
}
