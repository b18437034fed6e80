//! Registers of AVX-512 as 32-bit words: what ChaCha20 needs beside
//! [`super::Vector`].

use std::arch::x86_64::*;

use super::V512;
use crate::low::cpu::Avx512;

impl V512 {
    /// Sum of words modulo 2^32.
    #[inline(always)]
    pub(crate) fn add_words(self, other: V512) -> V512 {
        // SAFETY: a value of this type exists only with a token of AVX-512.
        V512(unsafe { _mm512_add_epi32(self.0, other.0) })
    }

    /// The words of each block in another order, two bits for each place.
    #[inline(always)]
    pub(crate) fn reorder<const ORDER: i32>(self) -> V512 {
        // SAFETY: a value of this type exists only with a token of AVX-512.
        V512(unsafe { _mm512_shuffle_epi32::<ORDER>(self.0) })
    }

    /// The four words in every block.
    #[inline(always)]
    pub(crate) fn repeat(_token: Avx512, row: &[u32; 4]) -> V512 {
        // SAFETY: the token proves AVX-512; 16 bytes are read.
        V512(unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(row.as_ptr().cast())) })
    }

    /// These words.
    #[inline(always)]
    pub(crate) fn load_words(_token: Avx512, words: &[u32; 16]) -> V512 {
        // SAFETY: the token proves AVX-512; 64 bytes are read.
        V512(unsafe { _mm512_loadu_si512(words.as_ptr().cast()) })
    }

    /// Registers as columns of blocks: the first row, the second, and so on.
    #[inline(always)]
    pub(crate) fn by_rows([a, b, c, d]: [V512; 4]) -> [V512; 4] {
        // SAFETY: a value of this type exists only with a token of AVX-512.
        unsafe {
            let ab_low = _mm512_shuffle_i32x4::<0x44>(a.0, b.0);
            let ab_high = _mm512_shuffle_i32x4::<0xee>(a.0, b.0);
            let cd_low = _mm512_shuffle_i32x4::<0x44>(c.0, d.0);
            let cd_high = _mm512_shuffle_i32x4::<0xee>(c.0, d.0);
            [
                V512(_mm512_shuffle_i32x4::<0x88>(ab_low, cd_low)),
                V512(_mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low)),
                V512(_mm512_shuffle_i32x4::<0x88>(ab_high, cd_high)),
                V512(_mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high)),
            ]
        }
    }
}
