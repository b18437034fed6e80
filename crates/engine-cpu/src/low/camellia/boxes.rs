//! The four S-boxes on registers of bytes.
//!
//! In the field of AES, GF(2)[x]/(x^8 + x^4 + x^3 + x + 1), s1 is an affine
//! map, the inversion, and another affine map; s2 and s3 turn the result by a
//! bit, s4 turns the argument. The maps come from section 2.4.4 of RFC 3713
//! with the isomorphism that takes Camellia's generator to 0x12.

use std::arch::x86_64::*;

use crate::low::cpu::{AesAvx2, Avx2, Avx512, Avx512Gfni};
use crate::low::vector::bytes::Bytes;
use crate::low::vector::{V256, V512};

/// An affine map: row 7 of its matrix in the lowest byte, as GFNI has it, and
/// what it adds.
pub(super) struct Affine(pub(super) i64, pub(super) i32);

/// Before the inversion of s1, s2 and s3.
pub(super) const BEFORE: Affine = Affine(0x3e8a_d8b5_2d81_a4c5, 0x0b);
/// Before the inversion of s4.
pub(super) const BEFORE_S4: Affine = Affine(0x1f45_6cda_96c0_52e2, 0x0b);
/// After the inversion of s1 and s4.
pub(super) const AFTER: Affine = Affine(0xc0ba_5f8c_8dfc_1e04_u64 as i64, 0x6e);
/// After the inversion of s2.
const AFTER_S2: Affine = Affine(0x04c0_ba5f_8c8d_fc1e, 0xdc);
/// After the inversion of s3.
const AFTER_S3: Affine = Affine(0xba5f_8c8d_fc1e_04c0_u64 as i64, 0x37);

/// The S-boxes of RFC 3713 section 2.4.4 on every byte.
pub(super) trait Boxes: Bytes {
    /// The proof of the instructions of the S-boxes.
    type BoxToken: Copy + Into<Self::Token>;

    fn s1(self, token: Self::BoxToken) -> Self;
    fn s2(self, token: Self::BoxToken) -> Self;
    fn s3(self, token: Self::BoxToken) -> Self;
    fn s4(self, token: Self::BoxToken) -> Self;
}

impl From<Avx512Gfni> for Avx512 {
    #[inline(always)]
    fn from(token: Avx512Gfni) -> Avx512 {
        token.without_gfni()
    }
}

impl From<AesAvx2> for Avx2 {
    #[inline(always)]
    fn from(token: AesAvx2) -> Avx2 {
        token.without_aes()
    }
}

macro_rules! gfni {
    ($name:ident, $before:ident, $after:ident) => {
        #[inline(always)]
        fn $name(self, _token: Avx512Gfni) -> V512 {
            // SAFETY: the token proves AVX-512 and GFNI.
            V512(unsafe {
                let (before, after) = (_mm512_set1_epi64($before.0), _mm512_set1_epi64($after.0));
                let argument = _mm512_gf2p8affine_epi64_epi8::<{ $before.1 }>(self.0, before);
                _mm512_gf2p8affineinv_epi64_epi8::<{ $after.1 }>(argument, after)
            })
        }
    };
}

impl Boxes for V512 {
    type BoxToken = Avx512Gfni;

    gfni!(s1, BEFORE, AFTER);
    gfni!(s2, BEFORE, AFTER_S2);
    gfni!(s3, BEFORE, AFTER_S3);
    gfni!(s4, BEFORE_S4, AFTER);
}

/// An affine map as two tables, one for each half of a byte; the second adds
/// nothing.
struct Halves {
    low: u128,
    high: u128,
}

/// As [`BEFORE`].
const HALVES_BEFORE: Halves =
    Halves { low: 0x7ec67dc5a71fa41c69d16ad2b008b30b, high: 0x3e33676abab7e3eed0dd898454590d00 };
/// As [`BEFORE_S4`].
const HALVES_BEFORE_S4: Halves =
    Halves { low: 0xcbc81211dcdf0506c6c51f1cd1d2080b, high: 0x8bd20f56653ce1b8336ab7eedd845900 };
/// [`AFTER`] behind the inverse of the affine map of AES's S-box.
const HALVES_AFTER: Halves =
    Halves { low: 0x776ad6cb3f229e83726fd3ce3a279b86, high: 0x7b9e34d160852fcab154fe1baa4fe500 };
/// [`AFTER_S2`], likewise.
const HALVES_AFTER_S2: Halves =
    Halves { low: 0xeed4ad977e443d07e4dea79d744e370d, high: 0xf63d68a3c00b5e9563a8fd36559ecb00 };
/// [`AFTER_S3`], likewise.
const HALVES_AFTER_S3: Halves =
    Halves { low: 0xbb356be59f114fc139b7e9671d93cd43, high: 0xbd4f1ae830c29765d82a7f8d55a7f200 };

/// Looks both halves of every byte up, in registers.
#[inline(always)]
fn affine(_token: AesAvx2, value: __m256i, halves: &Halves) -> __m256i {
    // SAFETY: the token proves AVX2; the loads read the 16 bytes of a table.
    unsafe {
        let table =
            |table: &u128| _mm256_broadcastsi128_si256(_mm_loadu_si128(std::ptr::from_ref(table).cast()));
        let mask = _mm256_set1_epi8(0x0f);
        let low = _mm256_shuffle_epi8(table(&halves.low), _mm256_and_si256(value, mask));
        let high = _mm256_and_si256(_mm256_srli_epi16::<4>(value), mask);
        _mm256_xor_si256(low, _mm256_shuffle_epi8(table(&halves.high), high))
    }
}

/// The S-box of AES: the last round, with its shift of rows undone before.
#[inline(always)]
fn aes_box(_token: AesAvx2, value: __m256i) -> __m256i {
    // SAFETY: the token proves AES and AVX2.
    unsafe {
        let unshift = _mm256_setr_epi8(
            0, 13, 10, 7, 4, 1, 14, 11, 8, 5, 2, 15, 12, 9, 6, 3, 0, 13, 10, 7, 4, 1, 14, 11, 8, 5, 2, 15,
            12, 9, 6, 3,
        );
        let unshifted = _mm256_shuffle_epi8(value, unshift);
        let zero = _mm_setzero_si128();
        let low = _mm_aesenclast_si128(_mm256_castsi256_si128(unshifted), zero);
        let high = _mm_aesenclast_si128(_mm256_extracti128_si256::<1>(unshifted), zero);
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }
}

macro_rules! by_aes {
    ($name:ident, $before:ident, $after:ident) => {
        #[inline(always)]
        fn $name(self, token: AesAvx2) -> V256 {
            let argument = affine(token, self.0, &$before);
            V256(affine(token, aes_box(token, argument), &$after))
        }
    };
}

impl Boxes for V256 {
    type BoxToken = AesAvx2;

    by_aes!(s1, HALVES_BEFORE, HALVES_AFTER);
    by_aes!(s2, HALVES_BEFORE, HALVES_AFTER_S2);
    by_aes!(s3, HALVES_BEFORE, HALVES_AFTER_S3);
    by_aes!(s4, HALVES_BEFORE_S4, HALVES_AFTER);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::low::camellia::schedule::s1;

    type Scalar = fn(u8) -> u8;

    /// The S-boxes of both vector widths against the computed one.
    fn check<V: Boxes>(token: V::BoxToken) {
        for first in (0..256).step_by(V::BLOCKS * 16) {
            let mut blocks = [[0; 16]; 4];
            for (i, byte) in blocks.as_flattened_mut().iter_mut().enumerate() {
                *byte = (first + i) as u8;
            }
            let argument = V::load(token.into(), &blocks);
            let boxes: [(V, Scalar); 4] = [
                (argument.s1(token), s1),
                (argument.s2(token), |byte| s1(byte).rotate_left(1)),
                (argument.s3(token), |byte| s1(byte).rotate_right(1)),
                (argument.s4(token), |byte| s1(byte.rotate_left(1))),
            ];
            for (number, (found, expected)) in boxes.into_iter().enumerate() {
                let mut images = blocks;
                found.store(&mut images);
                for (&byte, &image) in
                    blocks.as_flattened().iter().zip(images.as_flattened()).take(16 * V::BLOCKS)
                {
                    assert_eq!(image, expected(byte), "s{} of {byte}", number + 1);
                }
            }
        }
    }

    #[test]
    fn vector_boxes_are_the_computed_ones() {
        AesAvx2::detect().into_iter().for_each(check::<V256>);
        Avx512Gfni::detect().into_iter().for_each(check::<V512>);
    }
}
