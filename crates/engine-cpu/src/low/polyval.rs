//! POLYVAL (RFC 8452) with carry-less multiplication, eight blocks between
//! reductions.

use std::arch::x86_64::*;

use zeroize::Zeroize;

use super::cpu::AesNi;
use crate::kernel::Block;
use crate::polyval::{Polyval, dot};

/// Blocks whose products are added before they are reduced.
const STRIDE: usize = 8;

/// Powers of a hash key, the highest first, and the proof of the instructions.
pub(crate) struct Pclmul {
    powers: [u128; STRIDE],
    token: AesNi,
}

impl Drop for Pclmul {
    fn drop(&mut self) {
        self.powers.zeroize();
    }
}

impl Pclmul {
    pub(crate) fn new(token: AesNi, key: u128) -> Pclmul {
        let mut powers = [key; STRIDE];
        for i in (0..STRIDE - 1).rev() {
            powers[i] = dot(powers[i + 1], key);
        }
        Pclmul { powers, token }
    }
}

impl Polyval for Pclmul {
    fn update(&self, state: &mut u128, blocks: &[Block]) {
        // SAFETY: the token proves the features that are enabled.
        *state = unsafe { update(self.token, &self.powers, *state, blocks) };
    }
}

#[target_feature(enable = "aes,pclmulqdq,ssse3,sse4.1")]
fn update(token: AesNi, powers: &[u128; STRIDE], state: u128, blocks: &[Block]) -> u128 {
    let (strides, rest) = blocks.as_chunks::<STRIDE>();
    let mut hash = vector(token, state);
    for stride in strides {
        hash = sum_of_products(token, powers, hash, stride);
    }
    if !rest.is_empty() {
        hash = sum_of_products(token, &powers[STRIDE - rest.len()..], hash, rest);
    }
    let mut state = [0; 16];
    // SAFETY: writes the 16 bytes of `state`.
    unsafe { _mm_storeu_si128(state.as_mut_ptr().cast(), hash) };
    u128::from_le_bytes(state)
}

#[inline(always)]
fn vector(_token: AesNi, value: u128) -> __m128i {
    // SAFETY: reads the 16 bytes of the number, little-endian as the CPU is.
    unsafe { _mm_loadu_si128(std::ptr::from_ref(&value).cast()) }
}

/// The sum of blocks times powers, `hash` added to the first block, reduced.
#[inline(always)]
fn sum_of_products(token: AesNi, powers: &[u128], hash: __m128i, blocks: &[Block]) -> __m128i {
    let zero = vector(token, 0);
    let (mut low, mut middle, mut high) = (zero, zero, zero);
    let mut onto = hash;
    for (block, &power) in blocks.iter().zip(powers) {
        let power = vector(token, power);
        // SAFETY: the token proves the instructions; 16 bytes are read.
        unsafe {
            let order = vector(token, 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f);
            let block = _mm_shuffle_epi8(_mm_loadu_si128(block.as_ptr().cast()), order);
            let block = _mm_xor_si128(block, onto);
            low = _mm_xor_si128(low, _mm_clmulepi64_si128::<0x00>(block, power));
            high = _mm_xor_si128(high, _mm_clmulepi64_si128::<0x11>(block, power));
            middle = _mm_xor_si128(middle, _mm_clmulepi64_si128::<0x01>(block, power));
            middle = _mm_xor_si128(middle, _mm_clmulepi64_si128::<0x10>(block, power));
        }
        onto = zero;
    }
    reduced(token, low, middle, high)
}

/// `(high x^128 + middle x^64 + low) x^-128` in the field.
#[inline(always)]
pub(super) fn reduced(token: AesNi, low: __m128i, middle: __m128i, high: __m128i) -> __m128i {
    let polynomial = vector(token, 0xc200_0000_0000_0000_0000_0000_0000_0001);
    // SAFETY: the token proves the instructions.
    unsafe {
        let low = _mm_xor_si128(low, _mm_bslli_si128::<8>(middle));
        let high = _mm_xor_si128(high, _mm_bsrli_si128::<8>(middle));
        let product = _mm_clmulepi64_si128::<0x10>(low, polynomial);
        let folded = _mm_xor_si128(_mm_shuffle_epi32::<0x4e>(low), product);
        let product = _mm_clmulepi64_si128::<0x10>(folded, polynomial);
        let folded = _mm_xor_si128(_mm_shuffle_epi32::<0x4e>(folded), product);
        _mm_xor_si128(high, folded)
    }
}
