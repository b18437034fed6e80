//! Memory that the device reaches: pinned, and in one piece for it. The device
//! may write to it while a request names it, so it is only copied from and to.

use std::ffi::c_void;
use std::ptr::{NonNull, copy_nonoverlapping};

use super::Library;
use crate::cpa::Address;

/// Any node of the machine's memory (`NUMA_ANY_NODE`).
const ANY_NODE: i32 = -1;
/// Bytes that beginnings are multiples of.
pub(super) const ALIGNMENT: usize = 64;
/// Bytes of the least piece that a [`Pool`] has, and of all of them at most.
const PIECE_MIN: usize = 4096;
const POOL_MAX: usize = 64 << 20;
/// Pieces that nobody uses and that are kept.
const IDLE_MAX: usize = 64;

/// A piece of it, wiped when it is given back.
pub(super) struct Pinned {
    library: &'static Library,
    at: NonNull<u8>,
    len: usize,
    /// Where the device sees the first byte.
    pub(super) address: Address,
}

impl Pinned {
    /// So many bytes, if there are any left.
    pub(super) fn new(library: &'static Library, len: usize) -> Option<Pinned> {
        // SAFETY: any size and node may be asked for; the alignment is a power of two.
        let at = unsafe { (library.usdm.qaeMemAllocNUMA)(len.max(1), ANY_NODE, ALIGNMENT) };
        let at = NonNull::new(at.cast::<u8>())?;
        // SAFETY: the address is one that was just given out.
        let address = unsafe { (library.usdm.qaeVirtToPhysNUMA)(at.as_ptr().cast()) };
        let pinned = Pinned { library, at, len, address };
        // What the device cannot reach goes back by being dropped.
        (address != 0 && at.as_ptr().align_offset(ALIGNMENT) == 0).then_some(pinned)
    }

    /// A place in it, which stays as long as this does.
    pub(super) fn pointer(&self, at: usize) -> *mut u8 {
        assert!(at <= self.len, "within");
        // SAFETY: it lies within the piece, or just behind it.
        unsafe { self.at.as_ptr().add(at) }
    }

    /// Copies to there.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at, "within");
        // SAFETY: both are as long as that, and Rust's slice is not of this memory.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), self.pointer(at), bytes.len()) }
    }

    /// Copies from there.
    pub(super) fn read(&self, at: usize, bytes: &mut [u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at, "within");
        // SAFETY: both are as long as that, and Rust's slice is not of this memory.
        unsafe { copy_nonoverlapping(self.pointer(at), bytes.as_mut_ptr(), bytes.len()) }
    }
}

impl Drop for Pinned {
    /// The library overwrites it with zeros.
    fn drop(&mut self) {
        let mut at = self.at.as_ptr().cast::<c_void>();
        // SAFETY: it was given out by the same library, and nothing points to it
        // any more: whoever has the device use it keeps this.
        unsafe { (self.library.usdm.qaeMemFreeNUMA)(&mut at) }
    }
}

/// Pieces for requests: to ask the library for each would take longer than the
/// device does.
pub(super) struct Pool {
    library: &'static Library,
    idle: Vec<Pinned>,
    /// Bytes of all that it has made.
    bytes: usize,
}

impl Pool {
    pub(super) fn new(library: &'static Library) -> Pool {
        Pool { library, idle: Vec::new(), bytes: 0 }
    }

    /// A piece of at least so many bytes, with anything in it, and at most four
    /// times as many.
    pub(super) fn take(&mut self, len: usize) -> Option<Pinned> {
        let wanted = len.next_power_of_two().max(PIECE_MIN);
        let fits = |piece: &Pinned| (wanted..=4 * wanted).contains(&piece.len);
        if let Some(found) = self.idle.iter().rposition(fits) {
            return Some(self.idle.swap_remove(found));
        }
        while self.bytes + wanted > POOL_MAX && !self.idle.is_empty() {
            self.shrink();
        }
        if self.bytes + wanted > POOL_MAX {
            return None;
        }
        let piece = Pinned::new(self.library, wanted)?;
        self.bytes += wanted;
        Some(piece)
    }

    /// Takes a piece back that the device is done with.
    pub(super) fn give_back(&mut self, piece: Pinned) {
        self.idle.push(piece);
        if self.idle.len() > IDLE_MAX {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        self.bytes -= self.idle.remove(0).len;
    }
}
