//! Mappings of their own, and bytes in one or in the arena.

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::Relaxed;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use zeroize::Zeroize;

use super::{BYTES, REFUSED, arena};

/// Bytes above which a secret has a mapping of its own, which goes back to the
/// kernel, and its lock with it.
const ARENA_MAX: usize = 32 << 10;
const ALIGNMENT: usize = 16;

/// A private anonymous mapping, wiped before it is unmapped, left out of core
/// dumps and forked processes, locked where the limits allow it.
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    locked: bool,
}

// SAFETY: a mapping is plain memory that nothing else points to; it belongs to
// whoever has the value, on whatever thread.
unsafe impl Send for Region {}
// SAFETY: through a shared reference it can only be read.
unsafe impl Sync for Region {}

impl Region {
    /// `len` zero bytes from the beginning of a page; `None` when there is not
    /// so much memory. Whether it could be locked is told by
    /// [`Region::is_locked`] alone: it is meant for working memory as large as
    /// Argon2's, for which limits are rarely made.
    #[must_use]
    pub fn new(len: usize) -> Option<Region> {
        let len = len.max(1).checked_next_multiple_of(rustix::param::page_size())?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), len, prot, MapFlags::PRIVATE) }.ok()?;
        let start = NonNull::new(start.cast())?;
        // SAFETY: the range is the mapping just made, and nobody else's.
        let locked = unsafe { seclude(start.as_ptr(), len) };
        Some(Region { start, len, locked })
    }

    /// True when the kernel has locked it.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// The bytes, whole pages of them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` readable bytes, initialised by the
        // kernel, and is borrowed from self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, to be filled in.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, writable, and borrowed exclusively from self.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.bytes_mut().zeroize();
        let address: *mut c_void = self.start.as_ptr().cast();
        // SAFETY: the mapping is ours, whole, and nothing borrows from a value
        // that is being dropped. Unmapping unlocks.
        let unmapped = unsafe { munmap(address, self.len) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }
}

/// Leaves whole pages out of core dumps and of forked processes, and locks
/// them; false when the kernel refuses that.
///
/// A forked process has no copy of a key: it ends by a signal when it uses one,
/// rather than seal under a key of zeros.
///
/// # Safety
/// The range is mapped, writable and its caller's.
pub(super) unsafe fn seclude(start: *mut u8, len: usize) -> bool {
    let start: *mut c_void = start.cast();
    // A kernel that refuses this advice leaves dumps to the process's limit.
    // SAFETY: the caller's range; the advice changes no byte of this process.
    let _ = unsafe { madvise(start, len, Advice::LinuxDontDump) };
    // SAFETY: as above.
    let _ = unsafe { madvise(start, len, Advice::LinuxDontFork) };
    // SAFETY: as above; locking changes no byte.
    unsafe { mlock(start, len) }.is_ok()
}

/// Bytes of a secret.
pub struct Bytes(Kept);

enum Kept {
    Arena { start: NonNull<u8>, len: usize },
    Region { region: Region, len: usize },
}

// SAFETY: plain memory that nothing else points to, as a `Region`.
unsafe impl Send for Bytes {}
// SAFETY: through a shared reference it can only be read.
unsafe impl Sync for Bytes {}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len.max(1), ALIGNMENT).expect("it is short")
}

impl Bytes {
    /// `len` zero bytes. Ends the process, as any allocation, when there is no
    /// memory at all.
    #[must_use]
    pub fn zeroed(len: usize) -> Bytes {
        if len <= ARENA_MAX {
            return Bytes(Kept::Arena { start: arena::allocate(layout(len)), len });
        }
        let Some(region) = Region::new(len) else {
            handle_alloc_error(Layout::array::<u8>(len).unwrap_or(Layout::new::<u8>()));
        };
        if !region.is_locked() {
            REFUSED.store(true, Relaxed);
        }
        BYTES.fetch_add(region.len, Relaxed);
        Bytes(Kept::Region { region, len })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: the arena gave `len` bytes, zeroed, which are this
            // value's until it is dropped; borrowed from self.
            Kept::Arena { start, len } => unsafe { std::slice::from_raw_parts(start.as_ptr(), *len) },
            Kept::Region { region, len } => &region.bytes()[..*len],
        }
    }

    /// The bytes, to be filled in.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            // SAFETY: as in `bytes`, and borrowed exclusively from self.
            Kept::Arena { start, len } => unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), *len) },
            Kept::Region { region, len } => &mut region.bytes_mut()[..*len],
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        match &self.0 {
            // SAFETY: the arena gave it by this layout, and it is used no more.
            Kept::Arena { start, len } => unsafe { arena::release(*start, layout(*len)) },
            Kept::Region { region, .. } => drop(BYTES.fetch_sub(region.len, Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::low::tests::flags_of;

    #[test]
    fn regions_are_zero_locked_and_left_out_of_dumps_and_forks() {
        let mut region = Region::new(5000).expect("two pages");
        assert_eq!(region.bytes(), [0; 8192]);
        region.bytes_mut().fill(0xaa);
        assert_eq!(region.bytes(), [0xaa; 8192]);
        let flags = flags_of(region.bytes());
        assert!(flags.contains("dd") && flags.contains("dc"), "{flags}");
        assert_eq!(flags.contains("lo"), region.is_locked(), "{flags}");
        assert!(Region::new(usize::MAX).is_none());
        assert!(Region::new(usize::MAX / 2).is_none(), "more than any address space");
    }

    #[test]
    fn bytes_of_any_length_are_zero_and_their_own() {
        for len in [0, 1, 31, 32, 4096, 4097, ARENA_MAX, ARENA_MAX + 1, 1 << 20] {
            let (mut a, mut b) = (Bytes::zeroed(len), Bytes::zeroed(len));
            assert!(a.bytes().len() == len && a.bytes().iter().all(|byte| *byte == 0), "{len}");
            a.bytes_mut().fill(1);
            b.bytes_mut().fill(2);
            assert!(a.bytes().iter().all(|byte| *byte == 1), "{len}");
            if len > 0 {
                let flags = flags_of(a.bytes());
                assert!(flags.contains("dd") && flags.contains("dc"), "{len}: {flags}");
            }
        }
    }
}
