//! AES-GCM (NIST SP 800-38D) in one pass: counter mode on four blocks in
//! each of sixteen registers, and between its rounds the hash of the stride
//! before, when sealing, or of the same one, when opening. What is left behind
//! these strides goes through eight registers at once. Constant time, as the
//! instructions are.
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

/// Registers of counters worked on side by side: a round of one waits for the
/// round before it, and with eight of them two units for AES would wait too.
const LONG: usize = 16;
/// The same of what is left, and of a short message.
const SHORT: usize = 8;
/// Blocks of a register.
const WIDTH: usize = 4;
/// Round keys of AES-256.
const KEYS: usize = 15;
/// The last of these rounds but one, between which is hashed.
const HASHING: usize = 8;

/// What goes through the cipher at once in `R` registers.
type Stride<const R: usize> = [[Block; WIDTH]; R];

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

mod runs;

pub(crate) use runs::Runs512;

vaes512! {
    fn set_up(gcm: &mut Gcm512) {
        let hash_key = encrypted::<KEYS>(gcm.token, gcm.keys.first(), &[0; 16]);
        gcm.powers.fill(gcm.token, &hash_key);
    }

    fn seal(token: Vaes512, key: &Gcm512, nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag {
        let (data_len, mut message) = (data.len(), Message::<KEYS>::begin(token, key, nonce, ad, data.len()));
        let (long, rest) = strides::<LONG>(data);
        message.seal(long);
        let (short, rest) = strides::<SHORT>(rest);
        message.seal(short);
        if !rest.is_empty() {
            let mut padded = padded(rest);
            let stream = message.key_stream::<SHORT>(None);
            xor_onto(token, &mut padded, stream);
            cut(&mut padded, rest);
            message.hash.add_alone(&padded);
        }
        message.hash.tag(&message.mask, ad.len(), data_len)
    }

    fn open(token: Vaes512, key: &Gcm512, nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag {
        let (data_len, mut message) = (data.len(), Message::<KEYS>::begin(token, key, nonce, ad, data.len()));
        let (long, rest) = strides::<LONG>(data);
        message.open(long);
        let (short, rest) = strides::<SHORT>(rest);
        message.open(short);
        if !rest.is_empty() {
            let mut padded = padded(rest);
            let beside = Some(message.hash.next(&padded));
            let stream = message.key_stream::<SHORT>(beside);
            xor_onto(token, &mut padded, stream);
            cut(&mut padded, rest);
        }
        message.hash.tag(&message.mask, ad.len(), data_len)
    }
}

/// One block through the cipher.
#[inline(always)]
fn encrypted<const K: usize>(token: Vaes512, keys: &[Block; K], block: &Block) -> Block {
    let token = token.into();
    let mut state = V128::splat_block(token, block).xor_with(V128::splat_block(token, &keys[0]));
    for key in &keys[1..K - 1] {
        state = state.encrypt_round(token, V128::splat_block(token, key));
    }
    let mut encrypted = [[0; 16]];
    state.encrypt_last(token, V128::splat_block(token, &keys[K - 1])).store_blocks(&mut encrypted);
    encrypted[0]
}

/// The counter block number `counter`, as a number. It does not pass through
/// memory: what is written there in parts can be read as a whole only once all
/// before it has been computed.
#[inline(always)]
fn counter_number(&[a, b, c, d, e, f, g, h, i, j, k, l]: &[u8; 12], counter: u32) -> u128 {
    let high = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let low = u32::from_be_bytes([i, j, k, l]);
    u128::from(high) << 64 | u128::from(low) << 32 | u128::from(counter)
}

/// A message that is being sealed or opened, with `K` round keys.
struct Message<'k, const K: usize> {
    token: Vaes512,
    keys: &'k [Block; K],
    /// What masks the tag.
    mask: Block,
    hash: Hash<'k>,
    /// Those of the next four blocks, as little-endian numbers.
    counters: V512,
}

impl<'k, const K: usize> Message<'k, K> {
    #[inline(always)]
    fn begin(token: Vaes512, key: &'k Gcm512, nonce: &[u8; 12], ad: &[u8], data_len: usize) -> Self {
        let keys = key.keys.first();
        let mask = encrypted(token, keys, &counter_number(nonce, 1).to_be_bytes());
        let hash = Hash::begin(token, &key.powers, ad, data_len);
        Message { token, keys, mask, hash, counters: first_counters(token, nonce) }
    }

    /// Encrypts, and hashes each stride beside the one behind it.
    #[inline(always)]
    fn seal<const R: usize>(&mut self, strides: &mut [Stride<R>]) {
        let Some((first, others)) = strides.split_first_mut() else { return };
        let stream = self.key_stream::<R>(None);
        xor_onto(self.token, first, stream);
        let mut before: &Stride<R> = first;
        for stride in others {
            let beside = Some(self.hash.next(before));
            let stream = self.key_stream::<R>(beside);
            xor_onto(self.token, stride, stream);
            before = stride;
        }
        self.hash.add_alone(before);
    }

    /// Hashes and decrypts.
    #[inline(always)]
    fn open<const R: usize>(&mut self, strides: &mut [Stride<R>]) {
        for stride in strides {
            let beside = Some(self.hash.next(stride));
            let stream = self.key_stream::<R>(beside);
            xor_onto(self.token, stride, stream);
        }
    }

    /// The key stream of the next stride. What is to be hashed beside it has its
    /// products made between the last rounds: what was sealed before is written
    /// by then.
    #[inline(always)]
    fn key_stream<const R: usize>(&mut self, beside: Option<Pending<'_, R>>) -> [V512; R] {
        let (token, keys) = (self.token, self.keys);
        let step = V512::splat_block(token, &(WIDTH as u128).to_le_bytes());
        let mut state = [V512::splat_block(token, &keys[0]); R];
        for register in &mut state {
            *register = register.xor_with(self.counters.reversed(token));
            self.counters = self.counters.add_words(step);
        }
        let (first, others) = keys[1..K - 1].split_at(K - 2 - HASHING);
        for key in first {
            round(token, key, &mut state);
        }
        match beside {
            Some(mut pending) => {
                let mut registers = pending.registers();
                // A loop of a length that the compiler does not know: it would put
                // the products before the rounds, and wait for both.
                for key in black_box(others) {
                    round(token, key, &mut state);
                    // What `take` gives would be one more loop in it.
                    let mut left = R / HASHING;
                    while left > 0 {
                        let register = registers.next().expect("as many as the rounds take");
                        self.hash.add(register, &mut pending.onto);
                        left -= 1;
                    }
                }
                self.hash.added(R);
            }
            None => {
                for key in others {
                    round(token, key, &mut state);
                }
            }
        }
        let last = V512::splat_block(token, &keys[K - 1]);
        for register in &mut state {
            *register = register.encrypt_last(token, last);
        }
        state
    }
}

/// Whole strides, and what is left behind them.
#[inline(always)]
fn strides<const R: usize>(data: &mut [u8]) -> (&mut [Stride<R>], &mut [u8]) {
    let (strides, rest) = data.split_at_mut(data.len() - data.len() % size_of::<Stride<R>>());
    let (blocks, _) = strides.as_chunks_mut();
    let (registers, _) = blocks.as_chunks_mut();
    (registers.as_chunks_mut().0, rest)
}

/// The counters of the first four blocks of data, as little-endian numbers. A
/// segment is too short for the counter to leave its 32 bits.
#[inline(always)]
fn first_counters(token: Vaes512, nonce: &[u8; 12]) -> V512 {
    let counters: [Block; WIDTH] = [2, 3, 4, 5].map(u128::to_le_bytes);
    let nonce = V512::splat_block(token, &counter_number(nonce, 0).to_le_bytes());
    nonce.add_words(V512::load_blocks(token, &counters))
}

#[inline(always)]
fn round<const R: usize>(token: Vaes512, key: &Block, state: &mut [V512; R]) {
    let key = V512::splat_block(token, key);
    for register in state {
        *register = register.encrypt_round(token, key);
    }
}

#[inline(always)]
fn xor_onto<const R: usize>(token: Vaes512, stride: &mut Stride<R>, stream: [V512; R]) {
    // All are loaded before any is stored: a load of what was spilled to the stack waits for a store to the
    // same place of another page.
    let mut sealed = stream;
    let mut register = 0;
    while register < R {
        sealed[register] = V512::load_blocks(token, &stride[register]).xor_with(stream[register]);
        register += 1;
    }
    register = 0;
    while register < R {
        sealed[register].store_blocks(&mut stride[register]);
        register += 1;
    }
}

/// What is left behind the last whole stride, and zeros.
#[inline(always)]
fn padded(rest: &[u8]) -> Stride<SHORT> {
    let mut padded = [[[0; 16]; WIDTH]; SHORT];
    padded.as_flattened_mut().as_flattened_mut()[..rest.len()].copy_from_slice(rest);
    padded
}

/// Gives it back, and puts zeros where nothing was.
#[inline(always)]
fn cut(padded: &mut Stride<SHORT>, rest: &mut [u8]) {
    let (ours, behind) = padded.as_flattened_mut().as_flattened_mut().split_at_mut(rest.len());
    rest.copy_from_slice(ours);
    behind.fill(0);
}
