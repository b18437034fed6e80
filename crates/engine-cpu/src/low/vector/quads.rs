//! Registers of AVX-512 as 64-bit words: what Poly1305 needs beside
//! [`super::Vector`].

use std::arch::x86_64::*;

use super::V512;
use crate::low::cpu::Avx512;

impl V512 {
    /// The word in every place.
    #[inline(always)]
    pub(crate) fn splat_quad(_token: Avx512, word: u64) -> V512 {
        // SAFETY: the token proves AVX-512.
        V512(unsafe { _mm512_set1_epi64(word as i64) })
    }

    /// These words.
    #[inline(always)]
    pub(crate) fn load_quads(_token: Avx512, words: &[u64; 8]) -> V512 {
        // SAFETY: the token proves AVX-512; 64 bytes are read.
        V512(unsafe { _mm512_loadu_si512(words.as_ptr().cast()) })
    }

    /// Its words.
    #[inline(always)]
    pub(crate) fn quads(self) -> [u64; 8] {
        let mut words = [0; 8];
        // SAFETY: a value of this type exists only with a token of AVX-512; 64
        // bytes are written.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), self.0) }
        words
    }

    /// Sum of words modulo 2^64.
    #[inline(always)]
    pub(crate) fn add_quads(self, other: V512) -> V512 {
        // SAFETY: a value of this type exists only with a token of AVX-512.
        V512(unsafe { _mm512_add_epi64(self.0, other.0) })
    }

    /// Each word shifted left; `N < 64`.
    #[inline(always)]
    pub(crate) fn quads_left<const N: u32>(self) -> V512 {
        // SAFETY: a value of this type exists only with a token of AVX-512.
        V512(unsafe { _mm512_slli_epi64::<N>(self.0) })
    }

    /// Each word shifted right; `N < 64`.
    #[inline(always)]
    pub(crate) fn quads_right<const N: u32>(self) -> V512 {
        // SAFETY: a value of this type exists only with a token of AVX-512.
        V512(unsafe { _mm512_srli_epi64::<N>(self.0) })
    }
}
