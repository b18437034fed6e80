//! Bytes that others may change at any moment, such as those of a mapped file.
//!
//! Memory that may only be read ends a program that stores to it, so there is no
//! way to store. Every access is one of single bytes, atomic and relaxed, or has
//! to be one that such accesses explain.

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

impl fmt::Debug for SharedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_they_are_now_and_parts_are_of_the_same() {
        let memory: [AtomicU8; 8] = core::array::from_fn(|at| AtomicU8::new(at as u8));
        let read = SharedBytes::new(&memory);
        memory[2].store(20, Ordering::Relaxed);
        assert_eq!((read.len(), read.is_empty(), read.load(1)), (8, false, 1));
        assert_eq!(read.to_vec(), [0, 1, 20, 3, 4, 5, 6, 7]);
        assert_eq!(read.part(2..4).to_vec(), [20, 3]);
        assert_eq!(read.part(0..1).as_ptr(), read.as_ptr());
        assert!(read.part(8..8).is_empty());
    }
}
