//! Registers of one, two or four cipher blocks, so that each kernel is
//! written once.
//!
//! Methods are `inline(always)`: they become instructions only inside a kernel
//! that enables its features. A value is made with the token of its features
//! alone, which is the proof that every method's instructions exist.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) mod bytes;
mod lut3;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
pub(crate) mod quads;
#[cfg(target_arch = "x86_64")]
pub(crate) mod words;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::V256;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::V512;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::{Neon, VNeon};

/// One block in a register of SSE2, which every x86-64 CPU has.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct V128(pub(in crate::low) std::arch::x86_64::__m128i);

use crate::kernel::Block;

/// Booleans in parallel: what a bitsliced circuit is made of.
pub(crate) trait Bits: Copy {
    /// The Boolean function whose value for bits `a`, `b`, `c` is bit
    /// `4a + 2b + c` of `TABLE`.
    fn lut3<const TABLE: i32>(a: Self, b: Self, c: Self) -> Self;

    /// Exclusive or.
    fn xor(self, other: Self) -> Self;

    /// Each 32-bit word rotated left; `0 < N < 32`, `M == 32 - N`.
    fn rotate_left<const N: i32, const M: i32>(self) -> Self;

    /// Each 32-bit word shifted left.
    fn shift_left<const N: u32>(self) -> Self;
}

/// A register of [`Vector::BLOCKS`] blocks.
pub(crate) trait Vector: Bits {
    /// The proof of its instructions.
    type Token: Copy;

    /// Blocks of a register.
    const BLOCKS: usize;

    /// The first blocks of `blocks`.
    ///
    /// # Panics
    /// If there are fewer than [`Vector::BLOCKS`].
    fn load(token: Self::Token, blocks: &[Block]) -> Self;

    /// Writes the first blocks of `blocks`.
    ///
    /// # Panics
    /// If there are fewer than [`Vector::BLOCKS`].
    fn store(self, blocks: &mut [Block]);

    /// The word in every place.
    fn splat(token: Self::Token, word: u32) -> Self;

    /// Words 0 and 1 of each block of `self` and `other`, interleaved.
    fn unpack_low_words(self, other: Self) -> Self;

    /// Words 2 and 3 of each block, interleaved.
    fn unpack_high_words(self, other: Self) -> Self;

    /// The low half of each block of `self`, then that of `other`.
    fn unpack_low_halves(self, other: Self) -> Self;

    /// The high half of each block of `self`, then that of `other`.
    fn unpack_high_halves(self, other: Self) -> Self;
}

/// Four registers of blocks as four registers of words, where register `i`
/// holds word `i` of every block; and back. The order of blocks is the same
/// for all four, and undone by the way back.
#[inline(always)]
pub(crate) fn transpose_words<V: Vector>([a, b, c, d]: [V; 4]) -> [V; 4] {
    let (ab_low, ab_high) = (a.unpack_low_words(b), a.unpack_high_words(b));
    let (cd_low, cd_high) = (c.unpack_low_words(d), c.unpack_high_words(d));
    [
        ab_low.unpack_low_halves(cd_low),
        ab_low.unpack_high_halves(cd_low),
        ab_high.unpack_low_halves(cd_high),
        ab_high.unpack_high_halves(cd_high),
    ]
}

impl Bits for u32 {
    #[inline(always)]
    fn lut3<const TABLE: i32>(a: u32, b: u32, c: u32) -> u32 {
        lut3::by_operations::<u32, TABLE>(a, b, c)
    }

    #[inline(always)]
    fn xor(self, other: u32) -> u32 {
        self ^ other
    }

    #[inline(always)]
    fn rotate_left<const N: i32, const M: i32>(self) -> u32 {
        self.rotate_left(N as u32)
    }

    #[inline(always)]
    fn shift_left<const N: u32>(self) -> u32 {
        self << N
    }
}

impl lut3::Gates for u32 {
    #[inline(always)]
    fn and(self, other: u32) -> u32 {
        self & other
    }

    #[inline(always)]
    fn or(self, other: u32) -> u32 {
        self | other
    }

    #[inline(always)]
    fn xor(self, other: u32) -> u32 {
        self ^ other
    }

    #[inline(always)]
    fn and_not(self, other: u32) -> u32 {
        self & !other
    }

    #[inline(always)]
    fn not(self) -> u32 {
        !self
    }
}
