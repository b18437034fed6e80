//! AES without instructions for it, bitsliced after Käsper and Schwabe
//! ("Faster and Timing-Attack Resistant AES-GCM", 2009): register `i` holds
//! bit `i` of every byte of eight blocks in each 128 bits of its width.
//! Constant time: no address and no branch depends on key or data.

mod planes;
mod sbox;

use zeroize::Zeroize;

use super::cpu::{Avx2, Avx512};
use super::vector::{V256, V512};
use crate::galois::{self, AES_POLYNOMIAL};
use crate::kernel::{Block, Code, Kernel, by_chunks};
use planes::{Planes, State};

/// A round key as eight planes; every block has the same.
type RoundKey = [Block; 8];

/// A key schedule and the proof of the instructions that use it.
pub(crate) struct Bitsliced<Token> {
    keys: Box<[RoundKey; 15]>,
    rounds: usize,
    token: Token,
}

impl<Token> Drop for Bitsliced<Token> {
    fn drop(&mut self) {
        self.keys.as_flattened_mut().as_flattened_mut().zeroize();
    }
}

impl<Token> Bitsliced<Token> {
    /// For a key of 16, 24 or 32 bytes.
    pub(crate) fn new(token: Token, key: &[u8]) -> Bitsliced<Token> {
        let key_words = key.len() / 4;
        let rounds = key_words + 6;
        let mut words = [[0; 4]; 60];
        words.as_flattened_mut()[..key.len()].copy_from_slice(key);
        let mut constant = 1;
        for i in key_words..4 * (rounds + 1) {
            let mut word: [u8; 4] = words[i - 1];
            if i % key_words == 0 {
                word.rotate_left(1);
                word = word.map(galois::aes_box);
                word[0] ^= constant;
                constant = galois::multiply(constant, 2, AES_POLYNOMIAL);
            } else if key_words > 6 && i % key_words == 4 {
                word = word.map(galois::aes_box);
            }
            words[i] = std::array::from_fn(|byte| words[i - key_words][byte] ^ word[byte]);
        }
        let mut keys = Box::new([[[0; 16]; 8]; 15]);
        for (planes, bytes) in keys.iter_mut().zip(words.as_flattened().chunks_exact(16)) {
            for (bit, plane) in planes.iter_mut().enumerate() {
                *plane = std::array::from_fn(|byte| (bytes[byte] >> bit & 1).wrapping_neg());
            }
        }
        words.as_flattened_mut().zeroize();
        Bitsliced { keys, rounds, token }
    }
}

#[inline(always)]
fn mix_key<V: Planes>(token: V::Token, state: &mut State<V>, key: &RoundKey) {
    let mut bit = 0;
    while bit < 8 {
        state[bit] = state[bit].xor(V::splat_block(token, &key[bit]));
        bit += 1;
    }
}

/// FIPS 197 section 5.1.
#[inline(always)]
fn encrypt<V: Planes>(token: V::Token, keys: &[RoundKey], blocks: &mut [Block]) {
    let mut state = planes::load::<V>(token, blocks);
    let last = keys.len() - 1;
    mix_key(token, &mut state, &keys[0]);
    for key in &keys[1..last] {
        state = planes::shift_rows(token, sbox::substitute(token, state));
        state = planes::mix_columns(state);
        mix_key(token, &mut state, key);
    }
    state = planes::shift_rows(token, sbox::substitute(token, state));
    mix_key(token, &mut state, &keys[last]);
    planes::store(token, state, blocks);
}

/// FIPS 197 section 5.3.
#[inline(always)]
fn decrypt<V: Planes>(token: V::Token, keys: &[RoundKey], blocks: &mut [Block]) {
    let mut state = planes::load::<V>(token, blocks);
    let last = keys.len() - 1;
    mix_key(token, &mut state, &keys[last]);
    for key in keys[1..last].iter().rev() {
        state = sbox::unsubstitute(token, planes::unshift_rows(token, state));
        mix_key(token, &mut state, key);
        state = planes::unmix_columns(state);
    }
    state = sbox::unsubstitute(token, planes::unshift_rows(token, state));
    mix_key(token, &mut state, &keys[0]);
    planes::store(token, state, blocks);
}

#[target_feature(enable = "avx2,ssse3,sse4.1")]
fn encrypt_avx2(token: Avx2, keys: &[RoundKey], blocks: &mut [Block]) {
    by_chunks::<16>(blocks, |chunk| encrypt::<V256>(token, keys, chunk));
}

#[target_feature(enable = "avx2,ssse3,sse4.1")]
fn decrypt_avx2(token: Avx2, keys: &[RoundKey], blocks: &mut [Block]) {
    by_chunks::<16>(blocks, |chunk| decrypt::<V256>(token, keys, chunk));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,ssse3,sse4.1")]
fn encrypt_avx512(token: Avx512, keys: &[RoundKey], blocks: &mut [Block]) {
    by_chunks::<32>(blocks, |chunk| encrypt::<V512>(token, keys, chunk));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,ssse3,sse4.1")]
fn decrypt_avx512(token: Avx512, keys: &[RoundKey], blocks: &mut [Block]) {
    by_chunks::<32>(blocks, |chunk| decrypt::<V512>(token, keys, chunk));
}

impl Kernel for Bitsliced<Avx2> {
    fn code(&self) -> Code {
        Code::constant_time("own, bitsliced AVX2")
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { encrypt_avx2(self.token, &self.keys[..=self.rounds], blocks) }
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { decrypt_avx2(self.token, &self.keys[..=self.rounds], blocks) }
    }
}

impl Kernel for Bitsliced<Avx512> {
    fn code(&self) -> Code {
        Code::constant_time("own, bitsliced AVX-512")
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { encrypt_avx512(self.token, &self.keys[..=self.rounds], blocks) }
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { decrypt_avx512(self.token, &self.keys[..=self.rounds], blocks) }
    }
}
