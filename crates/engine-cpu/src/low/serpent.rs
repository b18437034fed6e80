//! Serpent (Anderson, Biham, Knudsen: "Serpent: A Proposal for the Advanced
//! Encryption Standard", 1998), bitsliced as its authors meant it: a register
//! holds one word of many blocks, and an S-box is a Boolean circuit. Constant
//! time: no address and no branch depends on key or data.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod circuits;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use zeroize::Zeroize;

use super::vector::{Bits, Vector, transpose_words};
use crate::kernel::Block;

/// The fraction of the golden ratio that the key schedule mixes in.
const PHI: u32 = 0x9e37_79b9;

/// The subkeys of 32 rounds and the last mixing.
type Subkeys = [[u32; 4]; 33];

/// A key schedule and the proof of the instructions that use it.
pub(crate) struct Serpent<Token> {
    subkeys: Box<Subkeys>,
    token: Token,
}

impl<Token> Drop for Serpent<Token> {
    fn drop(&mut self) {
        self.subkeys.as_flattened_mut().zeroize();
    }
}

impl<Token> Serpent<Token> {
    /// For a key of at most 32 bytes; a shorter one is padded as the proposal
    /// says.
    pub(crate) fn new(token: Token, key: &[u8]) -> Serpent<Token> {
        Serpent { subkeys: Box::new(expand(key)), token }
    }
}

/// The key schedule, bitsliced like the cipher.
fn expand(key: &[u8]) -> Subkeys {
    let mut padded = [0; 32];
    padded[..key.len()].copy_from_slice(key);
    if let Some(end) = padded.get_mut(key.len()) {
        *end = 1;
    }
    let mut words = [0u32; 8 + 132];
    for (word, bytes) in words.iter_mut().zip(padded.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    }
    for i in 8..words.len() {
        let mixed = words[i - 8] ^ words[i - 5] ^ words[i - 3] ^ words[i - 1] ^ PHI ^ (i as u32 - 8);
        words[i] = mixed.rotate_left(11);
    }
    let mut subkeys = [[0; 4]; 33];
    for (i, (subkey, words)) in subkeys.iter_mut().zip(words[8..].chunks_exact(4)).enumerate() {
        let words: [u32; 4] = words.try_into().expect("four words");
        // S3, S2, S1, S0, S7, ...
        *subkey = match i % 8 {
            0 => circuits::s3(words),
            1 => circuits::s2(words),
            2 => circuits::s1(words),
            3 => circuits::s0(words),
            4 => circuits::s7(words),
            5 => circuits::s6(words),
            6 => circuits::s5(words),
            _ => circuits::s4(words),
        };
    }
    words.zeroize();
    padded.zeroize();
    subkeys
}

/// The words of the blocks of two independent groups, interleaved to keep the
/// execution units busy.
type State<V> = [[V; 4]; 2];

#[inline(always)]
fn mix_key<V: Vector>(token: V::Token, state: &mut State<V>, subkey: &[u32; 4]) {
    for (word, &key) in subkey.iter().enumerate() {
        let key = V::splat(token, key);
        for group in state.iter_mut() {
            group[word] = group[word].xor(key);
        }
    }
}

/// The linear transformation.
#[inline(always)]
fn mix_words<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let x0 = x0.rotate_left::<13, 19>();
    let x2 = x2.rotate_left::<3, 29>();
    let x1 = xor3(x1, x0, x2).rotate_left::<1, 31>();
    let x3 = xor3(x3, x2, x0.shift_left::<3>()).rotate_left::<7, 25>();
    let x0 = xor3(x0, x1, x3).rotate_left::<5, 27>();
    let x2 = xor3(x2, x3, x1.shift_left::<7>()).rotate_left::<22, 10>();
    [x0, x1, x2, x3]
}

/// Its inverse.
#[inline(always)]
fn unmix_words<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let x2 = x2.rotate_left::<10, 22>();
    let x0 = x0.rotate_left::<27, 5>();
    let x2 = xor3(x2, x3, x1.shift_left::<7>());
    let x0 = xor3(x0, x1, x3);
    let x3 = xor3(x3.rotate_left::<25, 7>(), x2, x0.shift_left::<3>());
    let x1 = xor3(x1.rotate_left::<31, 1>(), x0, x2);
    let x2 = x2.rotate_left::<29, 3>();
    let x0 = x0.rotate_left::<19, 13>();
    [x0, x1, x2, x3]
}

#[inline(always)]
fn xor3<B: Bits>(a: B, b: B, c: B) -> B {
    B::lut3::<0x96>(a, b, c)
}

#[inline(always)]
fn load<V: Vector>(token: V::Token, blocks: &[Block]) -> State<V> {
    let mut registers = [V::load(token, blocks); 8];
    let mut i = 1;
    while i < 8 {
        registers[i] = V::load(token, &blocks[i * V::BLOCKS..]);
        i += 1;
    }
    let [a, b, c, d, e, f, g, h] = registers;
    [transpose_words([a, b, c, d]), transpose_words([e, f, g, h])]
}

#[inline(always)]
fn store<V: Vector>(state: State<V>, blocks: &mut [Block]) {
    for (half, group) in state.into_iter().enumerate() {
        for (index, register) in transpose_words(group).into_iter().enumerate() {
            register.store(&mut blocks[(4 * half + index) * V::BLOCKS..]);
        }
    }
}

/// Eight registers of blocks.
#[inline(always)]
fn encrypt<V: Vector>(token: V::Token, subkeys: &Subkeys, blocks: &mut [Block]) {
    let mut state = load::<V>(token, blocks);
    macro_rules! round {
        ($round:expr, $sbox:ident) => {
            mix_key(token, &mut state, &subkeys[$round]);
            state = [mix_words(circuits::$sbox(state[0])), mix_words(circuits::$sbox(state[1]))];
        };
    }
    for eight in 0..4 {
        let first = 8 * eight;
        round!(first, s0);
        round!(first + 1, s1);
        round!(first + 2, s2);
        round!(first + 3, s3);
        round!(first + 4, s4);
        round!(first + 5, s5);
        round!(first + 6, s6);
        if eight < 3 {
            round!(first + 7, s7);
        }
    }
    mix_key(token, &mut state, &subkeys[31]);
    state = [circuits::s7(state[0]), circuits::s7(state[1])];
    mix_key(token, &mut state, &subkeys[32]);
    store(state, blocks);
}

/// Eight registers of blocks.
#[inline(always)]
fn decrypt<V: Vector>(token: V::Token, subkeys: &Subkeys, blocks: &mut [Block]) {
    let mut state = load::<V>(token, blocks);
    macro_rules! round {
        ($round:expr, $sbox:ident) => {
            state = [circuits::$sbox(unmix_words(state[0])), circuits::$sbox(unmix_words(state[1]))];
            mix_key(token, &mut state, &subkeys[$round]);
        };
    }
    mix_key(token, &mut state, &subkeys[32]);
    state = [circuits::inverse_s7(state[0]), circuits::inverse_s7(state[1])];
    mix_key(token, &mut state, &subkeys[31]);
    for eight in (0..4).rev() {
        let first = 8 * eight;
        if eight < 3 {
            round!(first + 7, inverse_s7);
        }
        round!(first + 6, inverse_s6);
        round!(first + 5, inverse_s5);
        round!(first + 4, inverse_s4);
        round!(first + 3, inverse_s3);
        round!(first + 2, inverse_s2);
        round!(first + 1, inverse_s1);
        round!(first, inverse_s0);
    }
    store(state, blocks);
}
