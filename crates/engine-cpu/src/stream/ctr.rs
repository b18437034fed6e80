//! AES in counter mode (NIST SP 800-38A), in pieces.

use std::sync::Arc;

use zeroize::Zeroize;

use super::masks::{MANY, Masks, Source, xor};
use crate::kernel::{Block, Kernel, few};
use crate::modes;

/// A keystream of AES in counter mode and the place in it. The counter is the
/// whole block, big-endian, and wraps. A clone goes on by itself.
#[derive(Clone)]
pub struct AesCtr {
    counter: Counter,
    masks: Masks,
    /// Bytes of keystream before the next.
    place: u64,
}

#[derive(Clone)]
struct Counter {
    kernel: Arc<dyn Kernel>,
    first: u128,
}

impl Counter {
    fn block(&self, place: u64) -> Block {
        self.first.wrapping_add(u128::from(place / 16)).to_be_bytes()
    }

    fn apply(&self, place: u64, blocks: &mut [Block]) {
        modes::ctr(&*self.kernel, &[self.block(place)], blocks.len(), blocks);
    }
}

impl Source for Counter {
    const UNIT: usize = 16;
    const FEW: usize = 128;

    fn fill(&self, place: u64, masks: &mut [u8; MANY], len: usize) {
        let (blocks, _) = masks[..len].as_chunks_mut::<16>();
        if len == Self::FEW {
            for (at, block) in blocks.iter_mut().enumerate() {
                *block = self.block(place + 16 * at as u64);
            }
            few(&*self.kernel, true, blocks);
        } else {
            blocks.as_flattened_mut().fill(0);
            self.apply(place, blocks);
        }
    }
}

impl AesCtr {
    /// Under a key of 16, 24 or 32 bytes, from the counter block `iv` on; none
    /// for other lengths.
    #[must_use]
    pub fn new(key: &[u8], iv: &[u8; 16]) -> Option<AesCtr> {
        let counter = Counter { kernel: super::aes(key)?, first: u128::from_be_bytes(*iv) };
        Some(AesCtr { counter, masks: Masks::new(), place: 0 })
    }

    /// Begins another keystream under the same key, `skipped` bytes (0 to 15)
    /// of its first block being spent.
    pub fn restart(&mut self, iv: &[u8; 16], skipped: usize) {
        self.masks.forget();
        self.counter.first = u128::from_be_bytes(*iv);
        self.place = skipped as u64 % 16;
    }

    /// The counter block of the next block of keystream that has not been
    /// begun, and how many bytes of the one before it are spent: 0 to 15, 0
    /// meaning all of them.
    #[must_use]
    pub fn position(&self) -> ([u8; 16], usize) {
        (self.counter.block(self.place + 15), (self.place % 16) as usize)
    }

    /// Encrypts or decrypts the next bytes in place.
    pub fn apply(&mut self, data: &mut [u8]) {
        let mut rest = data;
        while !rest.is_empty() {
            let in_block = (self.place % 16) as usize;
            let len = if rest.len() >= MANY && in_block == 0 {
                let len = rest.len() / MANY * MANY;
                self.counter.apply(self.place, rest[..len].as_chunks_mut().0);
                len
            } else {
                let wanted = if rest.len() < MANY { rest.len() } else { 16 - in_block };
                let masks = self.masks.at(self.place, wanted, &self.counter);
                let len = masks.len().min(wanted);
                xor(&mut rest[..len], masks);
                len
            };
            self.place += len as u64;
            rest = &mut rest[len..];
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.first.zeroize();
    }
}
