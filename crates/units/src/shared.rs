//! Bytes that others may change at any moment, such as those of a mapped file.
//!
//! Two types, because memory that may only be read ends a program that stores
//! to it: [`SharedBytes`] has no way to store, [`SharedBytesMut`] is made only
//! of what may be written. Every access through either is one of single bytes,
//! atomic and relaxed, or has to be one that such accesses explain.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

/// Bytes to be read that others may change.
///
/// No safe code can store to them, whatever memory they lie in:
///
/// ```compile_fail,E0599
/// # use strongroom_units::SharedBytes;
/// let memory = [const { core::sync::atomic::AtomicU8::new(0) }; 4];
/// SharedBytes::new(&memory).store(0, 1);
/// ```
#[derive(Clone, Copy)]
pub struct SharedBytes<'a>(&'a [AtomicU8]);

/// Bytes to be written that others may read and change.
pub struct SharedBytesMut<'a>(&'a [AtomicU8]);

impl<'a> SharedBytes<'a> {
    /// Those of `bytes`, to be read alone from here on.
    #[must_use]
    pub const fn new(bytes: &'a [AtomicU8]) -> SharedBytes<'a> {
        SharedBytes(bytes)
    }

    /// Bytes.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// True when there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The byte at `at`, as it is now.
    ///
    /// # Panics
    /// Beyond the last.
    #[must_use]
    pub fn load(self, at: usize) -> u8 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// A range of them.
    ///
    /// # Panics
    /// When they are fewer.
    #[must_use]
    pub fn part(self, range: Range<usize>) -> SharedBytes<'a> {
        SharedBytes(&self.0[range])
    }

    /// A copy, each byte read once.
    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        (0..self.len()).map(|at| self.load(at)).collect()
    }

    /// Where they lie, for code that proves its accesses itself: it may read
    /// there, as long as the borrow lasts, in ways that relaxed atomic loads of
    /// single bytes explain.
    #[must_use]
    pub const fn as_ptr(self) -> *const u8 {
        self.0.as_ptr().cast()
    }
}

impl<'a> SharedBytesMut<'a> {
    /// Those of `bytes`, which lie in memory that may be written.
    #[must_use]
    pub const fn new(bytes: &'a [AtomicU8]) -> SharedBytesMut<'a> {
        SharedBytesMut(bytes)
    }

    /// Bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same bytes, to be read.
    #[must_use]
    pub const fn to_read(&self) -> SharedBytes<'_> {
        SharedBytes(self.0)
    }

    /// Changes the byte at `at`.
    ///
    /// # Panics
    /// Beyond the last.
    pub fn store(&mut self, at: usize, byte: u8) {
        self.0[at].store(byte, Ordering::Relaxed);
    }

    /// A range of them.
    ///
    /// # Panics
    /// When they are fewer.
    #[must_use]
    pub fn part(&mut self, range: Range<usize>) -> SharedBytesMut<'_> {
        SharedBytesMut(&self.0[range])
    }

    /// Where they lie, as [`SharedBytes::as_ptr`], to be written too.
    #[must_use]
    pub const fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_ptr().cast::<u8>().cast_mut()
    }
}

impl fmt::Debug for SharedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({})", self.len())
    }
}

impl fmt::Debug for SharedBytesMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytesMut({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_loaded_and_parts_are_of_the_same_bytes() {
        let memory: [AtomicU8; 8] = core::array::from_fn(|at| AtomicU8::new(at as u8));
        let mut writable = SharedBytesMut::new(&memory);
        let mut part = writable.part(2..5);
        part.store(0, 20);
        assert_eq!((part.len(), part.is_empty(), part.to_read().load(1)), (3, false, 3));
        assert_eq!(writable.as_mut_ptr().cast_const(), writable.to_read().as_ptr());
        let read = SharedBytes::new(&memory);
        assert_eq!(read.to_vec(), [0, 1, 20, 3, 4, 5, 6, 7]);
        assert_eq!(read.part(2..4).to_vec(), [20, 3]);
        assert!(read.part(8..8).is_empty());
    }
}
