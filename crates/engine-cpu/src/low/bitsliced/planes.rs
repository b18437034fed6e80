//! Bit planes of bytes, and the linear steps of AES on them.

use std::arch::x86_64::*;

use crate::kernel::Block;
use crate::low::vector::{V256, V512, Vector};

/// What the linear steps need beside [`Vector`].
pub(super) trait Planes: Vector {
    /// The block in every place.
    fn splat_block(token: Self::Token, block: &Block) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Each 64-bit word shifted right.
    fn words_right<const N: u32>(self) -> Self;
    /// Each 64-bit word shifted left.
    fn words_left<const N: u32>(self) -> Self;
    /// Bytes within each block, in the order that `order` names.
    fn permute(self, order: Self) -> Self;
}

macro_rules! planes {
    ($vector:ident, $token:ty, $splat:ident $and:ident $right:ident $left:ident $permute:ident) => {
        impl Planes for $vector {
            #[inline(always)]
            fn splat_block(_token: $token, block: &Block) -> Self {
                // SAFETY: the token proves the instruction; 16 bytes are read.
                $vector(unsafe { $splat(_mm_loadu_si128(block.as_ptr().cast())) })
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                // SAFETY: a value of this type exists only with a token.
                $vector(unsafe { $and(self.0, other.0) })
            }

            #[inline(always)]
            fn words_right<const N: u32>(self) -> Self {
                // SAFETY: a value of this type exists only with a token.
                $vector(unsafe { $right(self.0, _mm_cvtsi32_si128(N as i32)) })
            }

            #[inline(always)]
            fn words_left<const N: u32>(self) -> Self {
                // SAFETY: a value of this type exists only with a token.
                $vector(unsafe { $left(self.0, _mm_cvtsi32_si128(N as i32)) })
            }

            #[inline(always)]
            fn permute(self, order: Self) -> Self {
                // SAFETY: a value of this type exists only with a token.
                $vector(unsafe { $permute(self.0, order.0) })
            }
        }
    };
}

planes!(
    V256, crate::low::cpu::Avx2,
    _mm256_broadcastsi128_si256 _mm256_and_si256 _mm256_srl_epi64 _mm256_sll_epi64 _mm256_shuffle_epi8
);
planes!(
    V512, crate::low::cpu::Avx512,
    _mm512_broadcast_i32x4 _mm512_and_si512 _mm512_srl_epi64 _mm512_sll_epi64 _mm512_shuffle_epi8
);

/// Plane `i` is bit `i` of every byte.
pub(super) type State<V> = [V; 8];

/// Exchanges the bits of `b` that `mask` names with those of `a` that stand
/// `N` places higher.
#[inline(always)]
fn exchange<V: Planes, const N: u32>(state: &mut State<V>, a: usize, b: usize, mask: V) {
    let different = state[a].words_right::<N>().xor(state[b]).and(mask);
    state[b] = state[b].xor(different);
    state[a] = state[a].xor(different.words_left::<N>());
}

/// Eight registers of blocks as eight planes; and back.
#[inline(always)]
fn transpose<V: Planes>(token: V::Token, mut state: State<V>) -> State<V> {
    let mask = V::splat(token, 0x5555_5555);
    exchange::<V, 1>(&mut state, 0, 1, mask);
    exchange::<V, 1>(&mut state, 2, 3, mask);
    exchange::<V, 1>(&mut state, 4, 5, mask);
    exchange::<V, 1>(&mut state, 6, 7, mask);
    let mask = V::splat(token, 0x3333_3333);
    exchange::<V, 2>(&mut state, 0, 2, mask);
    exchange::<V, 2>(&mut state, 1, 3, mask);
    exchange::<V, 2>(&mut state, 4, 6, mask);
    exchange::<V, 2>(&mut state, 5, 7, mask);
    let mask = V::splat(token, 0x0f0f_0f0f);
    exchange::<V, 4>(&mut state, 0, 4, mask);
    exchange::<V, 4>(&mut state, 1, 5, mask);
    exchange::<V, 4>(&mut state, 2, 6, mask);
    exchange::<V, 4>(&mut state, 3, 7, mask);
    state
}

#[inline(always)]
pub(super) fn load<V: Planes>(token: V::Token, blocks: &[Block]) -> State<V> {
    let mut state = [V::load(token, blocks); 8];
    let mut i = 1;
    while i < 8 {
        state[i] = V::load(token, &blocks[i * V::BLOCKS..]);
        i += 1;
    }
    transpose(token, state)
}

#[inline(always)]
pub(super) fn store<V: Planes>(token: V::Token, state: State<V>, blocks: &mut [Block]) {
    let state = transpose(token, state);
    let mut i = 0;
    while i < 8 {
        state[i].store(&mut blocks[i * V::BLOCKS..]);
        i += 1;
    }
}

#[inline(always)]
fn permute_all<V: Planes>(token: V::Token, state: State<V>, order: &Block) -> State<V> {
    let order = V::splat_block(token, order);
    let mut permuted = state;
    let mut bit = 0;
    while bit < 8 {
        permuted[bit] = state[bit].permute(order);
        bit += 1;
    }
    permuted
}

#[inline(always)]
pub(super) fn shift_rows<V: Planes>(token: V::Token, state: State<V>) -> State<V> {
    permute_all(token, state, &[0, 5, 10, 15, 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11])
}

#[inline(always)]
pub(super) fn unshift_rows<V: Planes>(token: V::Token, state: State<V>) -> State<V> {
    permute_all(token, state, &[0, 13, 10, 7, 4, 1, 14, 11, 8, 5, 2, 15, 12, 9, 6, 3])
}

/// Every byte times x.
#[inline(always)]
fn times_x<V: Planes>([a, b, c, d, e, f, g, h]: State<V>) -> State<V> {
    [h, a.xor(h), b, c.xor(h), d.xor(h), e, f, g]
}

/// Each byte gets 2 of itself, 3 of the next in its column and 1 of the others.
#[inline(always)]
pub(super) fn mix_columns<V: Planes>(state: State<V>) -> State<V> {
    let mut next = state;
    let mut sums = state;
    let mut bit = 0;
    while bit < 8 {
        next[bit] = state[bit].rotate_left::<24, 8>();
        sums[bit] = state[bit].xor(next[bit]);
        bit += 1;
    }
    let doubled = times_x(sums);
    let mut mixed = state;
    bit = 0;
    while bit < 8 {
        mixed[bit] = V::lut3::<0x96>(doubled[bit], next[bit], sums[bit].rotate_left::<16, 16>());
        bit += 1;
    }
    mixed
}

/// The inverse: [`mix_columns`] after adding 4 of the byte and of the next but
/// one.
#[inline(always)]
pub(super) fn unmix_columns<V: Planes>(state: State<V>) -> State<V> {
    let mut sums = state;
    let mut bit = 0;
    while bit < 8 {
        sums[bit] = state[bit].xor(state[bit].rotate_left::<16, 16>());
        bit += 1;
    }
    let quadrupled = times_x(times_x(sums));
    bit = 0;
    while bit < 8 {
        sums[bit] = state[bit].xor(quadrupled[bit]);
        bit += 1;
    }
    mix_columns(sums)
}
