//! A window of a file in memory, shared with everybody who reads or writes the
//! file.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::slice;
use std::sync::atomic::AtomicU8;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munlock, munmap};
use strongroom_units::SharedBytes;

use super::fault::Slot;

/// Bytes of every mapping: a whole number of pages of any size.
pub(crate) const WINDOW_LEN: usize = 256 << 20;

/// Pages asked after at once.
const PAGES_AT_ONCE: usize = 64;

/// [`WINDOW_LEN`] bytes of a file from a multiple of that on, whether or not
/// the file reaches so far.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    /// None while it is made.
    slot: Option<&'static Slot>,
}

// SAFETY: it is memory that is accessed as atomic bytes alone, and is unmapped
// by whoever has the value, on whatever thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing is changed but through atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the window of `file` from `offset` on. Nothing of it is brought
    /// into memory or locked there, even where the process has all that it
    /// maps locked (mlockall(2)).
    ///
    /// # Errors
    /// The system's; `OutOfMemory` when the process has too many.
    pub(crate) fn new(file: impl AsFd, offset: u64) -> io::Result<Mapping> {
        // Without access nothing is brought in where mappings are locked.
        // SAFETY: the kernel chooses the place: nothing else lies there.
        let start =
            unsafe { mmap(null_mut(), WINDOW_LEN, ProtFlags::empty(), MapFlags::SHARED, file, offset)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut mapping = Mapping { start, slot: None };
        // SAFETY: both concern the range just mapped, which nobody accesses yet.
        unsafe {
            munlock(start.as_ptr().cast(), WINDOW_LEN)?;
            mprotect(start.as_ptr().cast(), WINDOW_LEN, MprotectFlags::READ)?;
        }
        mapping.slot = Some(Slot::claim(start.addr().get()).ok_or(io::ErrorKind::OutOfMemory)?);
        Ok(mapping)
    }

    /// The bytes of a range, to be read. Where the file has none, they are
    /// zeros, and [`Mapping::has_faulted`] says so once they were touched.
    ///
    /// # Panics
    /// Beyond [`WINDOW_LEN`].
    pub(crate) fn bytes(&self, range: Range<usize>) -> SharedBytes<'_> {
        assert!(range.start <= range.end && range.end <= WINDOW_LEN, "a range of the window");
        // SAFETY: the range lies in the mapping, which lives as long as the
        // borrow, and is readable whatever becomes of the file: the slot has
        // the handler put pages in place of those that cannot be had. It is
        // shared with others, hence atomic, and may not be written, hence in
        // `SharedBytes`, which has loads alone.
        let bytes = unsafe {
            slice::from_raw_parts(self.start.as_ptr().add(range.start).cast::<AtomicU8>(), range.len())
        };
        SharedBytes::new(bytes)
    }

    /// Whether every page of a range is in the page cache, so that touching it
    /// waits for nothing. It may be gone a moment later.
    ///
    /// # Panics
    /// Beyond [`WINDOW_LEN`].
    pub(crate) fn is_resident(&self, range: Range<usize>) -> bool {
        assert!(range.start <= range.end && range.end <= WINDOW_LEN, "a range of the window");
        let page_len = rustix::param::page_size();
        let mut at = range.start - range.start % page_len;
        let mut found = [0u8; PAGES_AT_ONCE];
        while at < range.end {
            let pages = (range.end - at).div_ceil(page_len).min(PAGES_AT_ONCE);
            // SAFETY: whole pages of the mapping, which ends with a page, and a
            // byte of `found` for each.
            let answer = unsafe {
                libc::mincore(self.start.as_ptr().add(at).cast(), pages * page_len, found.as_mut_ptr())
            };
            if answer != 0 || found[..pages].iter().any(|page| page & 1 == 0) {
                return false;
            }
            at += pages * page_len;
        }
        true
    }

    /// Whether any page of the window could not be had since it was mapped.
    pub(crate) fn has_faulted(&self) -> bool {
        self.slot.is_some_and(Slot::has_faulted)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.free();
        }
        // SAFETY: the mapping is this value's, and no borrow of it is left. It
        // cannot fail for a range that is mapped; if it did, it would stay.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), WINDOW_LEN) };
    }
}
