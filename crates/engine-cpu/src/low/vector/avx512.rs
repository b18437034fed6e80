//! Four blocks in a register of AVX-512.

use std::arch::x86_64::*;

use super::{Bits, Vector};
use crate::kernel::Block;
use crate::low::cpu::Avx512;

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct V512(pub(in crate::low) __m512i);

/// Declares a method that is one intrinsic of AVX-512.
macro_rules! intrinsic {
    ($name:ident($($argument:ident),*) = $body:expr) => {
        #[inline(always)]
        fn $name(self, $($argument: V512),*) -> V512 {
            // SAFETY: a value of this type exists only with a token of AVX-512.
            V512(unsafe { $body(self.0, $($argument.0),*) })
        }
    };
}

impl Bits for V512 {
    #[inline(always)]
    fn lut3<const TABLE: i32>(a: V512, b: V512, c: V512) -> V512 {
        // SAFETY: a value of this type exists only with a token of AVX-512.
        V512(unsafe { _mm512_ternarylogic_epi32::<TABLE>(a.0, b.0, c.0) })
    }

    intrinsic!(xor(other) = _mm512_xor_si512);

    #[inline(always)]
    fn rotate_left<const N: i32, const M: i32>(self) -> V512 {
        // SAFETY: a value of this type exists only with a token of AVX-512.
        V512(unsafe { _mm512_rol_epi32::<N>(self.0) })
    }

    #[inline(always)]
    fn shift_left<const N: u32>(self) -> V512 {
        // SAFETY: a value of this type exists only with a token of AVX-512.
        V512(unsafe { _mm512_slli_epi32::<N>(self.0) })
    }
}

impl Vector for V512 {
    type Token = Avx512;
    const BLOCKS: usize = 4;

    #[inline(always)]
    fn load(_token: Avx512, blocks: &[Block]) -> V512 {
        assert!(blocks.len() >= Self::BLOCKS, "a register's worth of blocks");
        // SAFETY: the token proves AVX-512; 64 bytes are readable, as just
        // seen, and need no alignment.
        V512(unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        assert!(blocks.len() >= Self::BLOCKS, "a register's worth of blocks");
        // SAFETY: a value of this type exists only with a token of AVX-512; 64
        // bytes are writable, as just seen, and need no alignment.
        unsafe { _mm512_storeu_si512(blocks.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn splat(_token: Avx512, word: u32) -> V512 {
        // SAFETY: the token proves AVX-512.
        V512(unsafe { _mm512_set1_epi32(word as i32) })
    }

    intrinsic!(unpack_low_words(other) = _mm512_unpacklo_epi32);
    intrinsic!(unpack_high_words(other) = _mm512_unpackhi_epi32);
    intrinsic!(unpack_low_halves(other) = _mm512_unpacklo_epi64);
    intrinsic!(unpack_high_halves(other) = _mm512_unpackhi_epi64);
}
