//! Registers as bytes of many blocks: register `i` holds byte `i` of each.

use std::arch::x86_64::*;

use super::{V256, V512, Vector};

/// What byte-sliced ciphers need beside [`Vector`].
pub(crate) trait Bytes: Vector {
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Sum of bytes modulo 256.
    fn add_bytes(self, other: Self) -> Self;
    /// Each 16-bit word shifted right by seven.
    fn shift_right_7(self) -> Self;
    /// The low eight bytes of each block, interleaved.
    fn unpack_low_bytes(self, other: Self) -> Self;
    /// The high eight bytes of each block, interleaved.
    fn unpack_high_bytes(self, other: Self) -> Self;
}

macro_rules! bytes {
    ($vector:ident, $and:ident $or:ident $add:ident $shift:ident
     $low_bytes:ident $high_bytes:ident) => {
        impl Bytes for $vector {
            bytes!(@binary $vector and $and);
            bytes!(@binary $vector or $or);
            bytes!(@binary $vector add_bytes $add);
            bytes!(@binary $vector unpack_low_bytes $low_bytes);
            bytes!(@binary $vector unpack_high_bytes $high_bytes);

            #[inline(always)]
            fn shift_right_7(self) -> Self {
                // SAFETY: a value of this type exists only with the token of
                // its instructions.
                $vector(unsafe { $shift::<7>(self.0) })
            }
        }
    };
    (@binary $vector:ident $name:ident $intrinsic:ident) => {
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            // SAFETY: a value of this type exists only with the token of its
            // instructions.
            $vector(unsafe { $intrinsic(self.0, other.0) })
        }
    };
}

bytes!(
    V256, _mm256_and_si256 _mm256_or_si256 _mm256_add_epi8 _mm256_srli_epi16
    _mm256_unpacklo_epi8 _mm256_unpackhi_epi8
);
bytes!(
    V512, _mm512_and_si512 _mm512_or_si512 _mm512_add_epi8 _mm512_srli_epi16
    _mm512_unpacklo_epi8 _mm512_unpackhi_epi8
);

/// Sixteen registers of blocks as sixteen registers of bytes. Transposing
/// again gives the blocks back.
#[inline(always)]
pub(crate) fn transpose_bytes<V: Bytes>(rows: [V; 16]) -> [V; 16] {
    let rows = zip_rows(rows, V::unpack_low_bytes, V::unpack_high_bytes);
    let rows = zip_rows(rows, V::unpack_low_bytes, V::unpack_high_bytes);
    let rows = zip_rows(rows, V::unpack_low_bytes, V::unpack_high_bytes);
    zip_rows(rows, V::unpack_low_bytes, V::unpack_high_bytes)
}

/// Row `i` and row `i + 8` interleaved into rows `2i` and `2i + 1`. Four times
/// this is the transposition of a 16 by 16 matrix.
#[inline(always)]
fn zip_rows<V: Bytes>(rows: [V; 16], low: impl Fn(V, V) -> V, high: impl Fn(V, V) -> V) -> [V; 16] {
    let mut zipped = rows;
    let mut i = 0;
    while i < 8 {
        zipped[2 * i] = low(rows[i], rows[i + 8]);
        zipped[2 * i + 1] = high(rows[i], rows[i + 8]);
        i += 1;
    }
    zipped
}
