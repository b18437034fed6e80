//! AES-256-GCM (NIST SP 800-38D) in one pass: counter mode on four blocks in
//! each of eight registers, and between its rounds the hash of the stride
//! before, when sealing, or of the same one, when opening. Constant time, as
//! the instructions are.
//!
//! Powers of the hash key are made once for the key, so that a message of one
//! block of a file pays for nothing but itself.

mod ghash;

use std::hint::black_box;

use ghash::{Hash, Pending, Powers};
use strongroom_engine::Tag;

use super::aes::RoundKeys;
use super::aes::vectors::AesVector;
use super::cpu::Vaes512;
use super::vector::{V128, V512};
use crate::gcm::OnePass;
use crate::kernel::{Block, Code};

/// Registers of counters worked on side by side.
const REGISTERS: usize = 8;
/// Blocks of a register.
const WIDTH: usize = 4;
/// Blocks that go through the cipher at once.
const STRIDE: usize = REGISTERS * WIDTH;
/// Rounds of AES-256.
const ROUNDS: usize = 14;

type Stride = [Block; STRIDE];

/// A key of AES-256-GCM for AVX-512 with VAES.
pub(crate) struct Gcm512 {
    keys: RoundKeys,
    powers: Powers,
    token: Vaes512,
}

impl Gcm512 {
    pub(crate) fn new(token: Vaes512, key: &[u8; 32]) -> Box<Gcm512> {
        let keys = RoundKeys::new(token.into(), key);
        let mut gcm = Box::new(Gcm512 { keys, powers: Powers::none(), token });
        // SAFETY: the token proves the features that are enabled.
        unsafe { set_up(&mut gcm) };
        gcm
    }
}

impl OnePass for Gcm512 {
    fn code(&self) -> Code {
        Code::constant_time("own, VAES with AVX-512")
    }

    fn seal(&self, nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag {
        // SAFETY: the token proves the features that are enabled.
        unsafe { seal(self.token, self, nonce, ad, data) }
    }

    fn open(&self, nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag {
        // SAFETY: the token proves the features that are enabled.
        unsafe { open(self.token, self, nonce, ad, data) }
    }
}

/// Entry points, compiled for the instructions of [`Vaes512`].
macro_rules! vaes512 {
    ($($function:item)+) => {
        $(
            #[target_feature(
                enable = "vaes,vpclmulqdq,aes,pclmulqdq,avx512f,avx512bw,avx512dq,avx512vl,avx2,ssse3,sse4.1"
            )]
            $function
        )+
    };
}

vaes512! {
    fn set_up(gcm: &mut Gcm512) {
        let hash_key = encrypted(gcm.token, gcm.keys.of_aes_256(), &[0; 16]);
        gcm.powers.fill(gcm.token, &hash_key);
    }

    fn seal(token: Vaes512, key: &Gcm512, nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag {
        let (data_len, keys) = (data.len(), key.keys.of_aes_256());
        let (mask, mut hash, mut counters) = begin(token, key, nonce, ad, data_len);
        let (strides, rest, part) = divided(data);
        if let Some((first, others)) = strides.split_first_mut() {
            let stream = key_stream(token, keys, &mut counters, &mut hash, None);
            xor_onto(token, first, stream);
            let mut before: &Stride = first;
            for stride in others {
                let beside = Some(hash.next(before));
                let stream = key_stream(token, keys, &mut counters, &mut hash, beside);
                xor_onto(token, stride, stream);
                before = stride;
            }
            hash.add_alone(before);
        }
        if !(rest.is_empty() && part.is_empty()) {
            let mut short = padded(rest, part);
            let stream = key_stream(token, keys, &mut counters, &mut hash, None);
            xor_onto(token, &mut short, stream);
            cut(&mut short, rest, part);
            hash.add_alone(&short);
        }
        hash.tag(&mask, ad.len(), data_len)
    }

    fn open(token: Vaes512, key: &Gcm512, nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag {
        let (data_len, keys) = (data.len(), key.keys.of_aes_256());
        let (mask, mut hash, mut counters) = begin(token, key, nonce, ad, data_len);
        let (strides, rest, part) = divided(data);
        for stride in strides {
            let beside = Some(hash.next(stride));
            let stream = key_stream(token, keys, &mut counters, &mut hash, beside);
            xor_onto(token, stride, stream);
        }
        if !(rest.is_empty() && part.is_empty()) {
            let mut short = padded(rest, part);
            let beside = Some(hash.next(&short));
            let stream = key_stream(token, keys, &mut counters, &mut hash, beside);
            xor_onto(token, &mut short, stream);
            cut(&mut short, rest, part);
        }
        hash.tag(&mask, ad.len(), data_len)
    }
}

/// One block through the cipher.
#[inline(always)]
fn encrypted(token: Vaes512, keys: &[Block; ROUNDS + 1], block: &Block) -> Block {
    let token = token.into();
    let mut state = V128::splat_block(token, block).xor_with(V128::splat_block(token, &keys[0]));
    for key in &keys[1..ROUNDS] {
        state = state.encrypt_round(token, V128::splat_block(token, key));
    }
    let mut encrypted = [[0; 16]];
    state.encrypt_last(token, V128::splat_block(token, &keys[ROUNDS])).store_blocks(&mut encrypted);
    encrypted[0]
}

/// The counter block number `counter`.
#[inline(always)]
fn counter_block(nonce: &[u8; 12], counter: u32) -> Block {
    let mut block = [0; 16];
    block[..12].copy_from_slice(nonce);
    block[12..].copy_from_slice(&counter.to_be_bytes());
    block
}

/// What masks the tag, the hash of the associated data, and the counters of the
/// first blocks.
#[inline(always)]
fn begin<'k>(
    token: Vaes512,
    key: &'k Gcm512,
    nonce: &[u8; 12],
    ad: &[u8],
    data_len: usize,
) -> (Block, Hash<'k>, V512) {
    let mask = encrypted(token, key.keys.of_aes_256(), &counter_block(nonce, 1));
    (mask, Hash::begin(token, &key.powers, ad, data_len), first_counters(token, nonce))
}

/// Whole strides, whole blocks behind them, and a part of a block.
#[inline(always)]
fn divided(data: &mut [u8]) -> (&mut [Stride], &mut [Block], &mut [u8]) {
    let (blocks, part) = data.as_chunks_mut();
    let (strides, rest) = blocks.as_chunks_mut();
    (strides, rest, part)
}

/// The counters of the first four blocks of data, as little-endian numbers. A
/// segment is too short for the counter to leave its 32 bits.
#[inline(always)]
fn first_counters(token: Vaes512, nonce: &[u8; 12]) -> V512 {
    let blocks: [Block; WIDTH] = [2, 3, 4, 5].map(|counter| counter_block(nonce, counter));
    V512::load_blocks(token, &blocks).reversed(token)
}

/// The key stream of a stride. What is to be hashed beside it has its products
/// made between the last rounds: what was sealed before is written by then.
#[inline(always)]
fn key_stream(
    token: Vaes512,
    keys: &[Block; ROUNDS + 1],
    counters: &mut V512,
    hash: &mut Hash<'_>,
    beside: Option<Pending<'_>>,
) -> [V512; REGISTERS] {
    let step = V512::splat_block(token, &(WIDTH as u128).to_le_bytes());
    let mut state = [V512::splat_block(token, &keys[0]); REGISTERS];
    for register in &mut state {
        *register = register.xor_with(counters.reversed(token));
        *counters = counters.add_words(step);
    }
    let (first, others) = keys[1..ROUNDS].split_at(ROUNDS - 1 - REGISTERS);
    for key in first {
        round(token, key, &mut state);
    }
    match beside {
        Some(mut pending) => {
            // A loop of a length that the compiler does not know: it would put
            // the products before the rounds, and wait for both.
            for (key, register) in black_box(others).iter().zip(pending.registers()) {
                round(token, key, &mut state);
                hash.add(register, &mut pending.onto);
            }
            hash.added();
        }
        None => {
            for key in others {
                round(token, key, &mut state);
            }
        }
    }
    let last = V512::splat_block(token, &keys[ROUNDS]);
    for register in &mut state {
        *register = register.encrypt_last(token, last);
    }
    state
}

#[inline(always)]
fn round(token: Vaes512, key: &Block, state: &mut [V512; REGISTERS]) {
    let key = V512::splat_block(token, key);
    for register in state {
        *register = register.encrypt_round(token, key);
    }
}

#[inline(always)]
fn xor_onto(token: Vaes512, blocks: &mut Stride, stream: [V512; REGISTERS]) {
    let mut register = 0;
    while register < REGISTERS {
        let four = &mut blocks[WIDTH * register..];
        V512::load_blocks(token, four).xor_with(stream[register]).store_blocks(four);
        register += 1;
    }
}

/// The blocks and the part of a block behind the last whole stride, and zeros.
#[inline(always)]
fn padded(rest: &[Block], part: &[u8]) -> Stride {
    let mut short = [[0; 16]; STRIDE];
    short[..rest.len()].copy_from_slice(rest);
    short.as_flattened_mut()[rest.len() * 16..][..part.len()].copy_from_slice(part);
    short
}

/// Gives them back, and puts zeros where nothing was.
#[inline(always)]
fn cut(short: &mut Stride, rest: &mut [Block], part: &mut [u8]) {
    rest.copy_from_slice(&short[..rest.len()]);
    let (_, behind) = short.as_flattened_mut().split_at_mut(rest.len() * 16);
    part.copy_from_slice(&behind[..part.len()]);
    behind[part.len()..].fill(0);
}
