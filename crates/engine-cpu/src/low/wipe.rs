//! Wiping as fast as memory is filled. `zeroize` writes byte by byte, which for
//! the tables of a key that is used once takes longer than its message.

use std::arch::asm;

/// Overwrites the values with zeros, whatever becomes of them then.
#[inline]
pub(crate) fn wipe<T: Copy + Default>(values: &mut [T]) {
    values.fill(T::default());
    // SAFETY: no instruction; the compiler has to take it for one that reads
    // the values, so that it cannot leave out what was written.
    unsafe { asm!("/* {0} */", in(reg) values.as_ptr(), options(nostack, preserves_flags, readonly)) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_is_left() {
        let mut bytes = [7; 1000];
        super::wipe(&mut bytes[1..999]);
        assert_eq!((bytes[0], &bytes[1..999], bytes[999]), (7, &[0; 998][..], 7));
    }
}
