//! Camellia (RFC 3713), byte-sliced: a register holds one byte of many blocks.
//!
//! Its S-boxes are inversions in GF(2^8) between affine maps. With GFNI the
//! inversion is an instruction over the field of AES; with AES instructions it
//! is the last round of AES with what that adds taken off again. Constant
//! time: no address and no branch depends on key or data, in the key schedule
//! neither.

mod boxes;
mod schedule;

use boxes::Boxes;
use schedule::Subkeys;

use super::cpu::{AesAvx2, Avx512Gfni};
use super::vector::bytes::{Bytes, transpose_bytes};
use super::vector::{V256, V512};
use crate::kernel::{Block, Code, Kernel, by_chunks};

/// A key schedule and the proof of the instructions that use it.
pub(crate) struct Camellia<Token> {
    encrypting: Box<Subkeys>,
    decrypting: Box<Subkeys>,
    token: Token,
}

impl<Token> Camellia<Token> {
    /// For a key of 16, 24 or 32 bytes.
    ///
    /// # Panics
    /// If it has another length.
    pub(crate) fn new(token: Token, key: &[u8]) -> Camellia<Token> {
        let encrypting = Subkeys::new(key);
        let decrypting = encrypting.reversed();
        Camellia { encrypting: Box::new(encrypting), decrypting: Box::new(decrypting), token }
    }
}

/// A subkey with each byte repeated four times, first byte first.
type Spread = [u32; 8];

/// Half of the state.
type Half<V> = [V; 8];

#[inline(always)]
fn mix_key<V: Boxes>(token: V::BoxToken, half: Half<V>, key: &Spread) -> Half<V> {
    let mut mixed = half;
    let mut i = 0;
    while i < 8 {
        mixed[i] = half[i].xor(V::splat(token.into(), key[i]));
        i += 1;
    }
    mixed
}

/// XORs F of `from` under `key` onto `onto` (RFC 3713 section 2.4.1).
#[inline(always)]
fn round<V: Boxes>(token: V::BoxToken, from: &Half<V>, onto: &mut Half<V>, key: &Spread) {
    let [z1, z2, z3, z4, z5, z6, z7, z8] = mix_key(token, *from, key);
    let (z1, z2, z3, z4) = (z1.s1(token), z2.s2(token), z3.s3(token), z4.s4(token));
    let (z5, z6, z7, z8) = (z5.s2(token), z6.s3(token), z7.s4(token), z8.s1(token));
    let (z1, z2, z3, z4) = (z1.xor(z6), z2.xor(z7), z3.xor(z8), z4.xor(z5));
    let (z5, z6, z7, z8) = (z5.xor(z3), z6.xor(z4), z7.xor(z1), z8.xor(z2));
    let (z1, z2, z3, z4) = (z1.xor(z8), z2.xor(z5), z3.xor(z6), z4.xor(z7));
    let (z5, z6, z7, z8) = (z5.xor(z4), z6.xor(z1), z7.xor(z2), z8.xor(z3));
    let mixed = [z5, z6, z7, z8, z1, z2, z3, z4];
    let mut i = 0;
    while i < 8 {
        onto[i] = onto[i].xor(mixed[i]);
        i += 1;
    }
}

/// Four bytes of every block, as a 32-bit word with its most significant byte
/// first, rotated left by one.
#[inline(always)]
fn rotate_left_1<V: Bytes>(token: V::Token, word: [V; 4]) -> [V; 4] {
    let one = V::splat(token, 0x0101_0101);
    let mut rotated = word;
    let mut i = 0;
    while i < 4 {
        let carry = word[(i + 1) % 4].shift_right_7().and(one);
        rotated[i] = word[i].add_bytes(word[i]).or(carry);
        i += 1;
    }
    rotated
}

/// FL (RFC 3713 section 2.4.2).
#[inline(always)]
fn fl<V: Bytes>(token: V::Token, half: &mut Half<V>, key: &Spread) {
    mix_second_word(token, half, key);
    mix_first_word(token, half, key);
}

/// FLINV (RFC 3713 section 2.4.3).
#[inline(always)]
fn fl_inverse<V: Bytes>(token: V::Token, half: &mut Half<V>, key: &Spread) {
    mix_first_word(token, half, key);
    mix_second_word(token, half, key);
}

#[inline(always)]
fn mix_first_word<V: Bytes>(token: V::Token, half: &mut Half<V>, key: &Spread) {
    let mut i = 0;
    while i < 4 {
        half[i] = half[i].xor(half[i + 4].or(V::splat(token, key[i + 4])));
        i += 1;
    }
}

#[inline(always)]
fn mix_second_word<V: Bytes>(token: V::Token, half: &mut Half<V>, key: &Spread) {
    let mut masked = [half[0], half[1], half[2], half[3]];
    let mut i = 0;
    while i < 4 {
        masked[i] = masked[i].and(V::splat(token, key[i]));
        i += 1;
    }
    let rotated = rotate_left_1(token, masked);
    i = 0;
    while i < 4 {
        half[i + 4] = half[i + 4].xor(rotated[i]);
        i += 1;
    }
}

/// Sixteen registers of blocks, in place.
#[inline(always)]
fn crypt<V: Boxes>(token: V::BoxToken, subkeys: &Subkeys, blocks: &mut [Block]) {
    let mut i = 0;
    let mut rows = [V::splat(token.into(), 0); 16];
    while i < 16 {
        rows[i] = V::load(token.into(), &blocks[i * V::BLOCKS..]);
        i += 1;
    }
    let [l0, l1, l2, l3, l4, l5, l6, l7, r0, r1, r2, r3, r4, r5, r6, r7] = transpose_bytes(rows);
    let mut left = mix_key(token, [l0, l1, l2, l3, l4, l5, l6, l7], &subkeys.before[0]);
    let mut right = mix_key(token, [r0, r1, r2, r3, r4, r5, r6, r7], &subkeys.before[1]);
    for (six, rounds) in subkeys.rounds().iter().enumerate() {
        if six > 0 {
            let [key, inverse_key] = &subkeys.layers[six - 1];
            fl(token.into(), &mut left, key);
            fl_inverse(token.into(), &mut right, inverse_key);
        }
        for [odd, even] in rounds {
            round(token, &left, &mut right, odd);
            round(token, &right, &mut left, even);
        }
    }
    let [r0, r1, r2, r3, r4, r5, r6, r7] = mix_key(token, right, &subkeys.after[0]);
    let [l0, l1, l2, l3, l4, l5, l6, l7] = mix_key(token, left, &subkeys.after[1]);
    let rows = transpose_bytes([r0, r1, r2, r3, r4, r5, r6, r7, l0, l1, l2, l3, l4, l5, l6, l7]);
    let mut i = 0;
    while i < 16 {
        rows[i].store(&mut blocks[i * V::BLOCKS..]);
        i += 1;
    }
}

#[target_feature(enable = "aes,pclmulqdq,avx2,ssse3,sse4.1")]
fn crypt_avx2(token: AesAvx2, subkeys: &Subkeys, blocks: &mut [Block]) {
    by_chunks::<32>(blocks, |chunk| crypt::<V256>(token, subkeys, chunk));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni,avx2,ssse3,sse4.1")]
fn crypt_avx512(token: Avx512Gfni, subkeys: &Subkeys, blocks: &mut [Block]) {
    by_chunks::<64>(blocks, |chunk| crypt::<V512>(token, subkeys, chunk));
}

impl Kernel for Camellia<AesAvx2> {
    fn code(&self) -> Code {
        Code::constant_time("own, AVX2 with AES-NI")
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { crypt_avx2(self.token, &self.encrypting, blocks) }
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { crypt_avx2(self.token, &self.decrypting, blocks) }
    }
}

impl Kernel for Camellia<Avx512Gfni> {
    fn code(&self) -> Code {
        Code::constant_time("own, AVX-512 with GFNI")
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { crypt_avx512(self.token, &self.encrypting, blocks) }
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { crypt_avx512(self.token, &self.decrypting, blocks) }
    }
}
