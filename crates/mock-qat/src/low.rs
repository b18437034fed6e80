//! Memory that the device reaches: it is given out zeroed, and the device knows
//! it by addresses of its own, with gaps between the pieces.
//!
//! Invariant: the device copies from and to pieces alone that are in the table,
//! whose lock it holds meanwhile, so that none is freed under it.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ptr::{NonNull, copy_nonoverlapping};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where the device sees the first piece, and bytes between two pieces.
const FIRST: u64 = 1 << 40;
const GAP: u64 = 1 << 16;

struct Piece {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is the only owner of memory that any thread may use.
unsafe impl Send for Piece {}

/// Pieces by the device's addresses.
struct Table {
    pieces: BTreeMap<u64, Piece>,
    next: u64,
}

static TABLE: Mutex<Table> = Mutex::new(Table { pieces: BTreeMap::new(), next: FIRST });

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// Where `len` bytes are that the device sees at `address`.
    fn find(&self, address: u64, len: usize) -> Option<NonNull<u8>> {
        let (first, piece) = self.pieces.range(..=address).next_back()?;
        let start = usize::try_from(address - first).ok()?;
        // SAFETY: the place lies within the piece, or just behind it.
        let place = || unsafe { piece.at.add(start) };
        (start.checked_add(len)? <= piece.layout.size()).then(place)
    }

    /// The device's address of a place in the process, and the bytes that follow.
    fn translate(&self, place: *mut u8) -> Option<(u64, usize)> {
        self.pieces.iter().find_map(|(address, piece)| {
            let start = (place as usize).checked_sub(piece.at.as_ptr() as usize)?;
            let left = piece.layout.size().checked_sub(start).filter(|left| *left > 0)?;
            Some((address + start as u64, left))
        })
    }
}

/// A new piece; null where that cannot be had.
pub(crate) fn allocate(len: usize, alignment: usize) -> *mut u8 {
    let Ok(layout) = Layout::from_size_align(len, alignment) else { return std::ptr::null_mut() };
    if len == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: it has a length.
    let Some(at) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { return std::ptr::null_mut() };
    let mut table = table();
    let address = table.next;
    table.next = (address + len as u64 + GAP).next_multiple_of(GAP);
    table.pieces.insert(address, Piece { at, layout });
    at.as_ptr()
}

/// Frees a piece; false where it is none.
pub(crate) fn free(at: *mut u8) -> bool {
    let mut table = table();
    let found = table.pieces.iter().find(|(_, piece)| piece.at.as_ptr() == at).map(|(address, _)| *address);
    let Some(piece) = found.and_then(|address| table.pieces.remove(&address)) else { return false };
    // SAFETY: it was allocated so, and is in the table no more.
    unsafe { dealloc(piece.at.as_ptr(), piece.layout) };
    true
}

/// Where the device sees a place; 0 where it does not.
pub(crate) fn address_of(place: *mut u8) -> u64 {
    table().translate(place).map_or(0, |(address, _)| address)
}

/// Whether the device reaches so many bytes from there on.
pub(crate) fn is_reached(place: *mut u8, len: usize) -> bool {
    table().translate(place).is_some_and(|(_, left)| len <= left)
}

/// Copies from there, as the device does.
pub(crate) fn read(address: u64, len: usize) -> Option<Vec<u8>> {
    let table = table();
    let from = table.find(address, len)?;
    let mut bytes = vec![0; len];
    // SAFETY: both are as long as that; the piece is not freed meanwhile.
    unsafe { copy_nonoverlapping(from.as_ptr(), bytes.as_mut_ptr(), len) };
    Some(bytes)
}

/// Copies to there, as the device does; false where it does not reach that.
pub(crate) fn write(address: u64, bytes: &[u8]) -> bool {
    let table = table();
    let Some(to) = table.find(address, bytes.len()) else { return false };
    // SAFETY: as above.
    unsafe { copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_reaches_what_was_given_out_by_its_own_addresses() {
        let at = allocate(100, 64);
        let address = address_of(at);
        assert_ne!(address, at as u64);
        assert_eq!(address_of(at.wrapping_add(99)), address + 99);
        assert!(is_reached(at, 100) && !is_reached(at, 101));
        assert!(write(address + 90, &[7; 10]) && !write(address + 91, &[7; 10]));
        assert_eq!(read(address + 90, 10), Some(vec![7; 10]));
        assert_eq!(read(at as u64, 1), None);
        assert!(free(at) && !free(at));
        assert_eq!(read(address, 1), None);
    }
}
