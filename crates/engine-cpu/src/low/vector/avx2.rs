//! Two blocks in a register of AVX2.

use std::arch::x86_64::*;

use super::lut3::{self, Gates};
use super::{Bits, Vector};
use crate::kernel::Block;
use crate::low::cpu::Avx2;

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct V256(pub(in crate::low) __m256i);

/// Declares a method that is one intrinsic of AVX2.
macro_rules! intrinsic {
    ($name:ident($($argument:ident),*) = $body:expr) => {
        #[inline(always)]
        fn $name(self, $($argument: V256),*) -> V256 {
            // SAFETY: a value of this type exists only with a token of AVX2.
            V256(unsafe { $body(self.0, $($argument.0),*) })
        }
    };
}

impl Gates for V256 {
    intrinsic!(and(other) = _mm256_and_si256);
    intrinsic!(or(other) = _mm256_or_si256);
    intrinsic!(xor(other) = _mm256_xor_si256);

    #[inline(always)]
    fn and_not(self, other: V256) -> V256 {
        // SAFETY: a value of this type exists only with a token of AVX2.
        V256(unsafe { _mm256_andnot_si256(other.0, self.0) })
    }

    #[inline(always)]
    fn not(self) -> V256 {
        // SAFETY: a value of this type exists only with a token of AVX2.
        V256(unsafe { _mm256_xor_si256(self.0, _mm256_set1_epi32(-1)) })
    }
}

impl Bits for V256 {
    #[inline(always)]
    fn lut3<const TABLE: i32>(a: V256, b: V256, c: V256) -> V256 {
        lut3::by_operations::<V256, TABLE>(a, b, c)
    }

    #[inline(always)]
    fn xor(self, other: V256) -> V256 {
        Gates::xor(self, other)
    }

    #[inline(always)]
    fn rotate_left<const N: i32, const M: i32>(self) -> V256 {
        // SAFETY: a value of this type exists only with a token of AVX2.
        V256(unsafe { _mm256_or_si256(_mm256_slli_epi32::<N>(self.0), _mm256_srli_epi32::<M>(self.0)) })
    }

    #[inline(always)]
    fn shift_left<const N: u32>(self) -> V256 {
        // SAFETY: a value of this type exists only with a token of AVX2.
        V256(unsafe { _mm256_sll_epi32(self.0, _mm_cvtsi32_si128(N as i32)) })
    }
}

impl Vector for V256 {
    type Token = Avx2;
    const BLOCKS: usize = 2;

    #[inline(always)]
    fn load(_token: Avx2, blocks: &[Block]) -> V256 {
        assert!(blocks.len() >= Self::BLOCKS, "a register's worth of blocks");
        // SAFETY: the token proves AVX2; 32 bytes are readable, as just seen,
        // and need no alignment.
        V256(unsafe { _mm256_loadu_si256(blocks.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        assert!(blocks.len() >= Self::BLOCKS, "a register's worth of blocks");
        // SAFETY: a value of this type exists only with a token of AVX2; 32
        // bytes are writable, as just seen, and need no alignment.
        unsafe { _mm256_storeu_si256(blocks.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn splat(_token: Avx2, word: u32) -> V256 {
        // SAFETY: the token proves AVX2.
        V256(unsafe { _mm256_set1_epi32(word as i32) })
    }

    intrinsic!(unpack_low_words(other) = _mm256_unpacklo_epi32);
    intrinsic!(unpack_high_words(other) = _mm256_unpackhi_epi32);
    intrinsic!(unpack_low_halves(other) = _mm256_unpacklo_epi64);
    intrinsic!(unpack_high_halves(other) = _mm256_unpackhi_epi64);
}
