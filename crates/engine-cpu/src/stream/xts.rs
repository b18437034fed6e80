//! AES in XTS (IEEE 1619, NIST SP 800-38E), a data unit at a time, of any
//! length from one block on.

use std::sync::Arc;

use crate::kernel::{Block, Kernel, few};
use crate::modes;

/// Blocks that are not worth a kernel's whole width.
const FEW: usize = 8;

/// Bytes of a data unit, at most: 2^20 blocks.
const UNIT_MAX: usize = 16 << 20;

/// Why a data unit was left as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XtsError {
    /// It is shorter than a block.
    TooShort,
    /// It is longer than 2^20 blocks.
    TooLong,
}

impl std::fmt::Display for XtsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            XtsError::TooShort => "a data unit of XTS has a block of 16 bytes or more",
            XtsError::TooLong => "a data unit of XTS has at most 2^20 blocks",
        })
    }
}

impl std::error::Error for XtsError {}

/// Both keys of AES-128 or AES-256 in XTS; cheap to clone.
#[derive(Clone)]
pub struct XtsKey {
    data: Arc<dyn Kernel>,
    tweak: Arc<dyn Kernel>,
}

/// The encrypted tweak of a data unit.
#[derive(Clone, Copy)]
pub struct Tweak(Block);

impl XtsKey {
    /// For a key of 32 or 64 bytes, that of the data before that of the tweak;
    /// none for other lengths. Equal halves are not secure (FIPS 140-2 IG A.9),
    /// and the caller's to refuse.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<XtsKey> {
        let (data, tweak) = matches!(key.len(), 32 | 64).then(|| key.split_at(key.len() / 2))?;
        Some(XtsKey { data: super::aes(data)?, tweak: super::aes(tweak)? })
    }

    /// Encrypts a tweak.
    #[must_use]
    pub fn tweak(&self, iv: &[u8; 16]) -> Tweak {
        let mut tweak = [*iv];
        few(&*self.tweak, true, &mut tweak);
        Tweak(tweak[0])
    }

    /// Encrypts a data unit in place.
    ///
    /// # Errors
    /// [`XtsError`]; nothing was changed.
    pub fn encrypt(&self, tweak: Tweak, unit: &mut [u8]) -> Result<(), XtsError> {
        let stolen = check(unit)?;
        let whole = unit.len() - stolen;
        self.blocks(true, tweak, unit[..whole].as_chunks_mut().0);
        if stolen > 0 {
            let (last, rest) = unit[whole - 16..].split_at_mut(16);
            for (last, rest) in last.iter_mut().zip(rest) {
                std::mem::swap(last, rest);
            }
            self.blocks(true, tweak.after(whole / 16), last.as_chunks_mut().0);
        }
        Ok(())
    }

    /// Decrypts a data unit in place.
    ///
    /// # Errors
    /// [`XtsError`]; nothing was changed.
    pub fn decrypt(&self, tweak: Tweak, unit: &mut [u8]) -> Result<(), XtsError> {
        let stolen = check(unit)?;
        let whole = unit.len() - stolen;
        if stolen == 0 {
            self.blocks(false, tweak, unit.as_chunks_mut().0);
            return Ok(());
        }
        let (head, tail) = unit.split_at_mut(whole - 16);
        self.blocks(false, tweak, head.as_chunks_mut().0);
        // The last two tweaks come in the other order.
        let (last, rest) = tail.split_at_mut(16);
        self.blocks(false, tweak.after(whole / 16), last.as_chunks_mut().0);
        for (last, rest) in last.iter_mut().zip(rest) {
            std::mem::swap(last, rest);
        }
        self.blocks(false, tweak.after(whole / 16 - 1), last.as_chunks_mut().0);
        Ok(())
    }

    fn blocks(&self, encrypt: bool, tweak: Tweak, blocks: &mut [Block]) {
        if blocks.is_empty() {
            return;
        }
        if blocks.len() > FEW {
            return modes::xts(&*self.data, encrypt, &[tweak.0], blocks.len(), blocks);
        }
        match self.data.fused() {
            Some(fused) => fused.xts_few(encrypt, &tweak.0, blocks),
            None => modes::xts(&*self.data, encrypt, &[tweak.0], blocks.len(), blocks),
        }
    }
}

/// How many bytes stand behind the last whole block.
fn check(unit: &[u8]) -> Result<usize, XtsError> {
    match unit.len() {
        ..16 => Err(XtsError::TooShort),
        len if len > UNIT_MAX => Err(XtsError::TooLong),
        len => Ok(len % 16),
    }
}

impl Tweak {
    /// That of the block so many blocks further on.
    fn after(self, blocks: usize) -> Tweak {
        let mut tweak = u128::from_le_bytes(self.0);
        for _ in 0..blocks / 64 {
            tweak = times_x(tweak, 64);
        }
        Tweak(times_x(tweak, blocks as u32 % 64).to_le_bytes())
    }
}

/// The product with x to the power of `exponent`, at most 64, modulo
/// x^128 + x^7 + x^2 + x + 1.
fn times_x(tweak: u128, exponent: u32) -> u128 {
    // What leaves at the top; two shifts, since one by 128 is none.
    let above = tweak >> 1 >> (127 - exponent);
    tweak << exponent ^ above ^ above << 1 ^ above << 2 ^ above << 7
}
