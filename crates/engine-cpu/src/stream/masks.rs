//! Keystream made ahead: pieces that are shorter than what a kernel makes at
//! once share it.

use crate::low::wipe::wipe;

/// Most bytes that are made ahead.
pub(super) const MANY: usize = 512;

/// What makes keystream.
pub(super) trait Source {
    /// Bytes of a block of keystream, a power of two.
    const UNIT: usize;
    /// Bytes that a first short piece has made, whole units.
    const FEW: usize;

    /// Fills the first bytes of `masks`, `len` of them, with the keystream
    /// from byte `place` on. `place` is a multiple of the unit; `len` is
    /// [`Source::FEW`] or [`MANY`].
    fn fill(&self, place: u64, masks: &mut [u8; MANY], len: usize);
}

/// Keystream of the bytes `start..end`.
#[derive(Clone)]
pub(super) struct Masks {
    bytes: [u8; MANY],
    start: u64,
    end: u64,
    /// Bytes that have been written.
    used: usize,
}

impl Drop for Masks {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Masks {
    pub(super) fn new() -> Masks {
        Masks { bytes: [0; MANY], start: 0, end: 0, used: 0 }
    }

    /// Wipes what is there: another keystream begins.
    pub(super) fn forget(&mut self) {
        wipe(&mut self.bytes[..self.used]);
        (self.start, self.end, self.used) = (0, 0, 0);
    }

    /// The keystream from byte `place` on, as much as is there, which is at
    /// least one byte. What has to be made is much when `wanted` bytes are
    /// more than few, or when it goes on from what was there.
    #[inline]
    pub(super) fn at<S: Source>(&mut self, place: u64, wanted: usize, source: &S) -> &[u8] {
        if place < self.start || place >= self.end {
            let start = place / S::UNIT as u64 * S::UNIT as u64;
            let goes_on = self.end > 0 && start == self.end;
            let is_few = !goes_on && wanted + (place - start) as usize <= S::FEW;
            self.make(start, if is_few { S::FEW } else { MANY }, source);
        }
        &self.bytes[(place - self.start) as usize..(self.end - self.start) as usize]
    }

    #[inline(never)]
    fn make<S: Source>(&mut self, start: u64, len: usize, source: &S) {
        source.fill(start, &mut self.bytes, len);
        (self.start, self.end, self.used) = (start, start + len as u64, self.used.max(len));
    }
}

#[cfg(test)]
impl Masks {
    pub(super) fn is_wiped(&self) -> bool {
        self.bytes == [0; MANY]
    }
}

/// XORs the first masks onto the data.
#[inline]
pub(crate) fn xor(data: &mut [u8], masks: &[u8]) {
    let (blocks, rest) = data.as_chunks_mut::<16>();
    let (masks, masks_rest) = masks.as_chunks::<16>();
    for (block, mask) in blocks.iter_mut().zip(masks) {
        *block = (u128::from_ne_bytes(*block) ^ u128::from_ne_bytes(*mask)).to_ne_bytes();
    }
    if !rest.is_empty() {
        let masks = masks.get(blocks.len()).map_or(masks_rest, |mask| &mask[..]);
        rest.iter_mut().zip(masks).for_each(|(byte, mask)| *byte ^= mask);
    }
}
