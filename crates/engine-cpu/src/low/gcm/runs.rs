//! AES-GCM in pieces: whole strides from any counter and any hash on, the same
//! code as for a message at once.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use super::ghash::{FewPowers, Hash, Powers, absorbed};
use super::{KEYS, LONG, Message, SHORT, Stride, WIDTH, encrypted, strides};
use crate::kernel::Block;
use crate::low::aes::vectors::AesVector;
use crate::low::aes::{RoundKeys, encrypt_registers};
use crate::low::cpu::Vaes512;
use crate::low::vector::V512;
use crate::low::wipe::wipe;
use crate::stream::gcm::{FEW_MASKS, GcmRuns, MANY_MASKS, STRIDE};
use crate::stream::xor;

const _: () = assert!(STRIDE == size_of::<Stride<SHORT>>());
/// Registers of the few masks that a short message takes.
const FEW: usize = FEW_MASKS / WIDTH;
const _: () = assert!(FEW * WIDTH == FEW_MASKS && SHORT * WIDTH == MANY_MASKS);

/// A key of AES-GCM, of any length, for messages that come in pieces. Who uses
/// a key for one short message pays for no more powers than that takes.
pub(crate) struct Runs512 {
    keys: RoundKeys,
    few: FewPowers,
    many: OnceLock<Box<Powers>>,
    /// Bytes that were done before there were many.
    done: AtomicUsize,
    token: Vaes512,
}

/// Calls a function for the number of round keys that the key has.
macro_rules! by_rounds {
    ($runs:expr, $function:ident($($argument:expr),*)) => {
        // SAFETY: the token proves the features that are enabled.
        unsafe {
            match $runs.keys.rounds() {
                10 => $function::<11>($runs.token, $runs.keys.first(), $($argument),*),
                12 => $function::<13>($runs.token, $runs.keys.first(), $($argument),*),
                _ => $function::<KEYS>($runs.token, $runs.keys.first(), $($argument),*),
            }
        }
    };
}

impl Runs512 {
    /// For a key of 16, 24 or 32 bytes.
    pub(crate) fn new(token: Vaes512, key: &[u8]) -> Arc<Runs512> {
        let runs = Runs512 {
            keys: RoundKeys::new(token.into(), key),
            few: FewPowers::none(),
            many: OnceLock::new(),
            done: AtomicUsize::new(0),
            token,
        };
        let mut runs = Arc::new(runs);
        let place = Arc::get_mut(&mut runs).expect("nobody else has it yet");
        let few = &mut place.few;
        by_rounds!(place, set_few(few));
        runs
    }

    fn powers(&self) -> &Powers {
        self.many.get_or_init(|| {
            let mut powers = Box::new(Powers::none());
            let place = &mut *powers;
            by_rounds!(self, set_many(place));
            powers
        })
    }
}

/// Bytes under one key that are not worth many powers.
const SHORT_LIVED: usize = 4096;

impl Runs512 {
    /// Whether this piece is to be done with few powers: the key may be for one
    /// short message.
    fn is_short_lived(&self, len: usize) -> bool {
        self.many.get().is_none() && self.done.fetch_add(len, Relaxed) + len < SHORT_LIVED
    }

    /// Stride by stride, with few powers.
    fn shortly(&self, encrypt: bool, counter: &Block, hash: &mut u128, data: &mut [u8]) {
        let mut masks = [[0; 16]; MANY_MASKS];
        for (at, stride) in data.as_chunks_mut::<STRIDE>().0.iter_mut().enumerate() {
            if !encrypt {
                self.absorb(hash, stride.as_chunks().0);
            }
            let counter = u128::from_be_bytes(*counter) + (at * MANY_MASKS) as u128;
            self.many_masks(&counter.to_be_bytes(), &mut masks);
            xor(stride, masks.as_flattened());
            if encrypt {
                self.absorb(hash, stride.as_chunks().0);
            }
        }
        wipe(&mut masks);
    }
}

impl GcmRuns for Runs512 {
    fn seal(&self, counter: &Block, hash: &mut u128, data: &mut [u8]) {
        if self.is_short_lived(data.len()) {
            return self.shortly(true, counter, hash, data);
        }
        let powers = self.powers();
        *hash = by_rounds!(self, seal(powers, counter, *hash, data));
    }

    fn open(&self, counter: &Block, hash: &mut u128, data: &mut [u8]) {
        if self.is_short_lived(data.len()) {
            return self.shortly(false, counter, hash, data);
        }
        let powers = self.powers();
        *hash = by_rounds!(self, open(powers, counter, *hash, data));
    }

    fn absorb(&self, hash: &mut u128, blocks: &[Block]) {
        // SAFETY: the token proves the features that are enabled.
        *hash = unsafe { absorb(self.token, &self.few, *hash, blocks) };
    }

    fn few_masks(&self, counter: &Block, masks: &mut [Block; FEW_MASKS]) {
        by_rounds!(self, few_masks(counter, masks));
    }

    fn many_masks(&self, counter: &Block, masks: &mut [Block; MANY_MASKS]) {
        by_rounds!(self, many_masks(counter, masks));
    }
}

/// The counters of four blocks from this one on, as little-endian numbers.
#[inline(always)]
fn counters_from(token: Vaes512, counter: &Block) -> V512 {
    let places: [Block; WIDTH] = [0, 1, 2, 3].map(u128::to_le_bytes);
    let counter = V512::splat_block(token, &u128::from_be_bytes(*counter).to_le_bytes());
    counter.add_words(V512::load_blocks(token, &places))
}

impl<'k, const K: usize> Message<'k, K> {
    /// Goes on at a counter and a hash; `blocks` of data will come.
    #[inline(always)]
    fn resume(
        token: Vaes512,
        keys: &'k [Block; K],
        powers: &'k Powers,
        counter: &Block,
        hash: u128,
        blocks: usize,
    ) -> Self {
        let hash = Hash::resume(token, powers, hash, blocks);
        Message { token, keys, mask: [0; 16], hash, counters: counters_from(token, counter) }
    }
}

/// The keystream of `R` registers.
#[inline(always)]
fn fill<const R: usize, const K: usize>(
    token: Vaes512,
    keys: &[Block; K],
    counter: &Block,
    masks: &mut [Block],
) {
    let step = V512::splat_block(token, &(WIDTH as u128).to_le_bytes());
    let mut counters = counters_from(token, counter);
    let mut state = [counters; R];
    for register in &mut state {
        *register = counters.reversed(token);
        counters = counters.add_words(step);
    }
    encrypt_registers(token, keys, &mut state);
    let mut register = 0;
    while register < R {
        state[register].store_blocks(&mut masks[register * WIDTH..]);
        register += 1;
    }
}

vaes512! {
    fn set_few<const K: usize>(token: Vaes512, keys: &[Block; K], powers: &mut FewPowers) {
        powers.fill(token, &encrypted(token, keys, &[0; 16]));
    }

    fn set_many<const K: usize>(token: Vaes512, keys: &[Block; K], powers: &mut Powers) {
        powers.fill(token, &encrypted(token, keys, &[0; 16]));
    }

    fn seal<const K: usize>(
        token: Vaes512, keys: &[Block; K], powers: &Powers, counter: &Block, hash: u128, data: &mut [u8]
    ) -> u128 {
        let mut message = Message::resume(token, keys, powers, counter, hash, data.len() / 16);
        let (long, rest) = strides::<LONG>(data);
        message.seal(long);
        let (short, _) = strides::<SHORT>(rest);
        message.seal(short);
        message.hash.paused()
    }

    fn open<const K: usize>(
        token: Vaes512, keys: &[Block; K], powers: &Powers, counter: &Block, hash: u128, data: &mut [u8]
    ) -> u128 {
        let mut message = Message::resume(token, keys, powers, counter, hash, data.len() / 16);
        let (long, rest) = strides::<LONG>(data);
        message.open(long);
        let (short, _) = strides::<SHORT>(rest);
        message.open(short);
        message.hash.paused()
    }

    fn absorb(token: Vaes512, powers: &FewPowers, hash: u128, blocks: &[Block]) -> u128 {
        absorbed(token, powers, hash, blocks)
    }

    fn few_masks<const K: usize>(
        token: Vaes512, keys: &[Block; K], counter: &Block, masks: &mut [Block; FEW_MASKS]
    ) {
        fill::<FEW, K>(token, keys, counter, masks);
    }

    fn many_masks<const K: usize>(
        token: Vaes512, keys: &[Block; K], counter: &Block, masks: &mut [Block; MANY_MASKS]
    ) {
        fill::<SHORT, K>(token, keys, counter, masks);
    }
}
