//! AES-GCM in pieces: whole strides from any counter and any hash on, the same
//! code as for a message at once.

use super::ghash::{Hash, absorbed};
use super::{Gcm512, KEYS, LONG, Message, SHORT, Stride, WIDTH, strides};
use crate::kernel::Block;
use crate::low::aes::vectors::AesVector;
use crate::low::cpu::Vaes512;
use crate::low::vector::V512;
use crate::stream::gcm::{FEW_MASKS, GcmRuns, MANY_MASKS, STRIDE};

const _: () = assert!(STRIDE == size_of::<Stride<SHORT>>());
/// Registers of the few masks that a short message takes.
const FEW: usize = FEW_MASKS / WIDTH;
const _: () = assert!(FEW * WIDTH == FEW_MASKS && SHORT * WIDTH == MANY_MASKS);

/// Calls a function for the number of round keys that the key has.
macro_rules! by_rounds {
    ($gcm:expr, $function:ident($($argument:expr),*)) => {
        // SAFETY: the token proves the features that are enabled.
        unsafe {
            match $gcm.keys.rounds() {
                10 => $function::<11>($gcm.token, $gcm, $($argument),*),
                12 => $function::<13>($gcm.token, $gcm, $($argument),*),
                _ => $function::<KEYS>($gcm.token, $gcm, $($argument),*),
            }
        }
    };
}

impl GcmRuns for Gcm512 {
    fn seal(&self, counter: &Block, hash: &mut u128, data: &mut [u8]) {
        *hash = by_rounds!(self, seal(counter, *hash, data));
    }

    fn open(&self, counter: &Block, hash: &mut u128, data: &mut [u8]) {
        *hash = by_rounds!(self, open(counter, *hash, data));
    }

    fn absorb(&self, hash: &mut u128, blocks: &[Block]) {
        // SAFETY: the token proves the features that are enabled.
        *hash = unsafe { absorb(self.token, self, *hash, blocks) };
    }

    fn few_masks(&self, counter: &Block, masks: &mut [Block; FEW_MASKS]) {
        by_rounds!(self, few_masks(counter, masks));
    }

    fn many_masks(&self, counter: &Block, masks: &mut [Block; MANY_MASKS]) {
        by_rounds!(self, many_masks(counter, masks));
    }
}

impl<'k, const K: usize> Message<'k, K> {
    /// Goes on at a counter and a hash; `blocks` of data will come.
    #[inline(always)]
    fn resume(token: Vaes512, key: &'k Gcm512, counter: &Block, hash: u128, blocks: usize) -> Self {
        let places: [Block; WIDTH] = [0, 1, 2, 3].map(u128::to_le_bytes);
        let counter = V512::splat_block(token, &u128::from_be_bytes(*counter).to_le_bytes());
        Message {
            token,
            keys: key.keys.first(),
            mask: [0; 16],
            hash: Hash::resume(token, &key.powers, hash, blocks),
            counters: counter.add_words(V512::load_blocks(token, &places)),
        }
    }
}

#[inline(always)]
fn fill<const R: usize, const K: usize>(message: &mut Message<'_, K>, masks: &mut [Block]) {
    let stream = message.key_stream::<R>(None);
    let mut register = 0;
    while register < R {
        stream[register].store_blocks(&mut masks[register * WIDTH..]);
        register += 1;
    }
}

vaes512! {
    fn seal<const K: usize>(
        token: Vaes512, key: &Gcm512, counter: &Block, hash: u128, data: &mut [u8]
    ) -> u128 {
        let mut message = Message::<K>::resume(token, key, counter, hash, data.len() / 16);
        let (long, rest) = strides::<LONG>(data);
        message.seal(long);
        let (short, _) = strides::<SHORT>(rest);
        message.seal(short);
        message.hash.paused()
    }

    fn open<const K: usize>(
        token: Vaes512, key: &Gcm512, counter: &Block, hash: u128, data: &mut [u8]
    ) -> u128 {
        let mut message = Message::<K>::resume(token, key, counter, hash, data.len() / 16);
        let (long, rest) = strides::<LONG>(data);
        message.open(long);
        let (short, _) = strides::<SHORT>(rest);
        message.open(short);
        message.hash.paused()
    }

    fn absorb(token: Vaes512, key: &Gcm512, hash: u128, blocks: &[Block]) -> u128 {
        absorbed(token, &key.powers, hash, blocks)
    }

    fn few_masks<const K: usize>(
        token: Vaes512, key: &Gcm512, counter: &Block, masks: &mut [Block; FEW_MASKS]
    ) {
        let mut message = Message::<K>::resume(token, key, counter, 0, 0);
        fill::<FEW, K>(&mut message, masks);
    }

    fn many_masks<const K: usize>(
        token: Vaes512, key: &Gcm512, counter: &Block, masks: &mut [Block; MANY_MASKS]
    ) {
        let mut message = Message::<K>::resume(token, key, counter, 0, 0);
        fill::<SHORT, K>(&mut message, masks);
    }
}
