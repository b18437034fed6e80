//! AES-GCM (NIST SP 800-38D) in pieces.

use std::sync::Arc;

use strongroom_engine::{BlockCipher, Tag};
use zeroize::Zeroize;

use super::aead::{Message, Suite, TooLong};
use super::masks::{MANY, Source};
use crate::hardware::Tier;
use crate::kernel::{Block, Kernel};
use crate::modes;
use crate::polyval::{Polyval, times_x};

pub(crate) use super::aead::STRIDE;

/// Blocks of keystream for a short message.
pub(crate) const FEW_MASKS: usize = 8;
/// Blocks of keystream made ahead for many pieces.
pub(crate) const MANY_MASKS: usize = MANY / 16;

/// A key of AES-GCM as runs of blocks need it. A counter block is the block's
/// own; its last 32 bits do not wrap within a run. The hash is the number whose
/// big-endian bytes GHASH has.
pub(crate) trait GcmRuns: Send + Sync {
    /// Encrypts whole strides of [`STRIDE`] bytes, at least one, and hashes them.
    fn seal(&self, counter: &Block, hash: &mut u128, strides: &mut [u8]);

    /// Hashes whole strides, at least one, and decrypts them.
    fn open(&self, counter: &Block, hash: &mut u128, strides: &mut [u8]);

    /// Hashes blocks.
    fn absorb(&self, hash: &mut u128, blocks: &[Block]);

    /// Makes keystream.
    fn few_masks(&self, counter: &Block, masks: &mut [Block; FEW_MASKS]);

    /// Makes keystream.
    fn many_masks(&self, counter: &Block, masks: &mut [Block; MANY_MASKS]);
}

/// Bytes encrypted before they are hashed, so that they are still in the
/// nearest cache.
const AT_ONCE: usize = 4096;

/// On any tier: counter mode, then the hash.
struct TwoPasses {
    kernel: Box<dyn Kernel>,
    polyval: Box<dyn Polyval>,
}

impl TwoPasses {
    fn apply(&self, counter: &Block, blocks: &mut [Block]) {
        modes::ctr(&*self.kernel, &[*counter], blocks.len(), blocks);
    }

    fn parts<'d>(counter: &Block, strides: &'d mut [u8]) -> impl Iterator<Item = (Block, &'d mut [Block])> {
        let first = u128::from_be_bytes(*counter);
        strides.chunks_mut(AT_ONCE).enumerate().map(move |(at, part)| {
            let counter = first.wrapping_add((at * (AT_ONCE / 16)) as u128);
            (counter.to_be_bytes(), part.as_chunks_mut().0)
        })
    }

    fn fill(&self, counter: &Block, masks: &mut [Block]) {
        masks.fill([0; 16]);
        self.apply(counter, masks);
    }
}

impl GcmRuns for TwoPasses {
    fn seal(&self, counter: &Block, hash: &mut u128, strides: &mut [u8]) {
        for (counter, blocks) in TwoPasses::parts(counter, strides) {
            self.apply(&counter, blocks);
            self.polyval.update(hash, blocks);
        }
    }

    fn open(&self, counter: &Block, hash: &mut u128, strides: &mut [u8]) {
        for (counter, blocks) in TwoPasses::parts(counter, strides) {
            self.polyval.update(hash, blocks);
            self.apply(&counter, blocks);
        }
    }

    fn absorb(&self, hash: &mut u128, blocks: &[Block]) {
        self.polyval.update(hash, blocks);
    }

    fn few_masks(&self, counter: &Block, masks: &mut [Block; FEW_MASKS]) {
        self.fill(counter, masks);
    }

    fn many_masks(&self, counter: &Block, masks: &mut [Block; MANY_MASKS]) {
        self.fill(counter, masks);
    }
}

/// A key of AES-128, AES-192 or AES-256 in GCM; cheap to clone.
#[derive(Clone)]
pub struct GcmKey(Arc<dyn GcmRuns>);

impl GcmKey {
    /// For a key of 16, 24 or 32 bytes; none for other lengths.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<GcmKey> {
        GcmKey::of_tier(Tier::best(), key)
    }

    pub(super) fn of_tier(tier: Tier, key: &[u8]) -> Option<GcmKey> {
        if !matches!(key.len(), 16 | 24 | 32) {
            return None;
        }
        if let Some(runs) = tier.gcm_runs(key) {
            return Some(GcmKey(runs));
        }
        let kernel = tier.kernel(BlockCipher::Aes, key)?;
        let mut hash_key = [[0; 16]];
        kernel.encrypt(&mut hash_key);
        let polyval = tier.polyval(times_x(u128::from_be_bytes(hash_key[0])));
        Some(GcmKey(Arc::new(TwoPasses { kernel, polyval })))
    }

    /// The counter block before the first one of the data.
    fn first_counter(&self, iv: &[u8]) -> Block {
        if let Ok(nonce) = <&[u8; 12]>::try_from(iv) {
            let mut counter = [0; 16];
            counter[..12].copy_from_slice(nonce);
            counter[15] = 1;
            return counter;
        }
        let mut hash = 0;
        let (blocks, rest) = iv.as_chunks::<16>();
        self.0.absorb(&mut hash, blocks);
        if !rest.is_empty() {
            let mut padded = [0; 16];
            padded[..rest.len()].copy_from_slice(rest);
            self.0.absorb(&mut hash, &[padded]);
        }
        self.0.absorb(&mut hash, &[(iv.len() as u128 * 8).to_be_bytes()]);
        hash.to_be_bytes()
    }
}

/// The state of one message.
#[derive(Clone)]
struct State {
    key: GcmKey,
    first: Block,
    hash: u128,
    /// What masks the tag.
    mask: Block,
}

impl Drop for State {
    fn drop(&mut self) {
        self.hash.zeroize();
        self.mask.zeroize();
    }
}

impl State {
    /// The counter block of keystream at `place`, and the blocks from it on
    /// before the counter's 32 bits wrap.
    fn counter(&self, place: u64) -> (Block, u64) {
        let [head @ .., a, b, c, d] = self.first;
        let counter = u32::from_be_bytes([a, b, c, d]).wrapping_add((place / 16) as u32);
        let mut block = [0; 16];
        block[..12].copy_from_slice(&head);
        block[12..].copy_from_slice(&counter.to_be_bytes());
        (block, (1 << 32) - u64::from(counter))
    }

    /// Calls `run` for the strides before the counter wraps, and for those
    /// after it; a stride within which it wraps goes block by block.
    fn by_wraps(&mut self, mut place: u64, mut strides: &mut [u8], seal: bool) {
        while !strides.is_empty() {
            let (counter, blocks) = self.counter(place);
            let whole =
                usize::try_from(blocks * 16).unwrap_or(usize::MAX).min(strides.len()) / STRIDE * STRIDE;
            let (now, rest) = strides.split_at_mut(whole.max(STRIDE));
            match (whole > 0, seal) {
                (true, true) => self.key.0.seal(&counter, &mut self.hash, now),
                (true, false) => self.key.0.open(&counter, &mut self.hash, now),
                (false, _) => self.across_the_wrap(place, now, seal),
            }
            place += now.len() as u64;
            strides = rest;
        }
    }

    #[cold]
    fn across_the_wrap(&mut self, place: u64, stride: &mut [u8], seal: bool) {
        let (blocks, _) = stride.as_chunks_mut::<16>();
        for (at, block) in blocks.iter_mut().enumerate() {
            if !seal {
                self.key.0.absorb(&mut self.hash, &[*block]);
            }
            let mut masks = [[0; 16]; FEW_MASKS];
            self.key.0.few_masks(&self.counter(place + 16 * at as u64).0, &mut masks);
            super::masks::xor(block, &masks[0]);
            if seal {
                self.key.0.absorb(&mut self.hash, &[*block]);
            }
        }
    }
}

impl Source for State {
    const UNIT: usize = 16;
    const FEW: usize = FEW_MASKS * 16;

    fn fill(&self, place: u64, masks: &mut [u8; MANY], len: usize) {
        let (counter, blocks) = self.counter(place);
        let (masks, _) = masks[..len].as_chunks_mut::<16>();
        if blocks < masks.len() as u64 {
            for (at, mask) in masks.iter_mut().enumerate() {
                let mut few = [[0; 16]; FEW_MASKS];
                self.key.0.few_masks(&self.counter(place + 16 * at as u64).0, &mut few);
                *mask = few[0];
            }
        } else if let Ok(few) = <&mut [Block; FEW_MASKS]>::try_from(&mut *masks) {
            self.key.0.few_masks(&counter, few);
        } else {
            self.key.0.many_masks(&counter, masks.try_into().expect("few or many"));
        }
    }
}

impl Suite for State {
    /// NIST SP 800-38D section 5.2.1.1: 2^39 - 256 bits.
    const LEN_MAX: u64 = (1 << 36) - 32;

    fn begin(&mut self, head: &[u8]) {
        self.mask.copy_from_slice(head);
    }

    fn seal(&mut self, place: u64, strides: &mut [u8]) {
        self.by_wraps(place, strides, true);
    }

    fn open(&mut self, place: u64, strides: &mut [u8]) {
        self.by_wraps(place, strides, false);
    }

    fn absorb(&mut self, blocks: &[Block]) {
        self.key.0.absorb(&mut self.hash, blocks);
    }

    fn tag(&mut self, blocks: &mut [Block], ad_len: u64, data_len: u64) -> Tag {
        let lengths = u128::from(ad_len) << 67 | u128::from(data_len) << 3;
        *blocks.last_mut().expect("there is room") = lengths.to_be_bytes();
        self.key.0.absorb(&mut self.hash, blocks);
        (self.hash ^ u128::from_be_bytes(self.mask)).to_be_bytes()
    }
}

/// A message of AES-GCM. A clone goes on by itself.
#[derive(Clone)]
pub struct AesGcm(Message<State>);

impl AesGcm {
    /// Begins a message under an IV of 1 byte or more, which no other message
    /// under the key may have.
    #[must_use]
    pub fn new(key: &GcmKey, iv: &[u8]) -> AesGcm {
        let state = State { key: key.clone(), first: key.first_counter(iv), hash: 0, mask: [0; 16] };
        AesGcm(Message::new(state))
    }

    /// Begins another message under another key.
    pub fn restart_with(&mut self, key: &GcmKey, iv: &[u8]) {
        self.0.restart(|state| {
            state.key = key.clone();
            state.first = key.first_counter(iv);
            state.hash = 0;
        });
    }

    #[cfg(test)]
    pub(super) fn pretend_len(&mut self, len: u64) {
        self.0.pretend_len(len);
    }

    /// Begins another message under the same key.
    pub fn restart(&mut self, iv: &[u8]) {
        self.0.restart(|state| {
            state.first = state.key.first_counter(iv);
            state.hash = 0;
        });
    }

    /// Adds associated data; none may come behind data.
    pub fn associate(&mut self, bytes: &[u8]) {
        self.0.associate(bytes);
    }

    /// Encrypts the next bytes in place.
    ///
    /// # Errors
    /// [`TooLong`] above 2^36 - 32 bytes; nothing was changed.
    pub fn seal(&mut self, data: &mut [u8]) -> Result<(), TooLong> {
        self.0.seal(data)
    }

    /// Decrypts the next bytes in place, before their tag is known to be right.
    ///
    /// # Errors
    /// As [`AesGcm::seal`].
    pub fn open(&mut self, data: &mut [u8]) -> Result<(), TooLong> {
        self.0.open(data)
    }

    /// The tag of everything so far. The message is at its end.
    pub fn tag(&mut self) -> Tag {
        self.0.tag()
    }
}
