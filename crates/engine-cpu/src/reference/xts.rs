//! AES-XTS after IEEE 1619 section 5, for sectors of whole blocks.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes256, Block};
use strongroom_engine::Operation;

use crate::process::SectorCipher;

/// A key for AES-XTS: one half for the data, one for the tweak.
pub(super) enum Xts {
    Aes128(Box<Aes128>, Box<Aes128>),
    Aes256(Box<Aes256>, Box<Aes256>),
}

impl Xts {
    /// `None` unless the key has 32 or 64 bytes.
    pub(super) fn new(key: &[u8]) -> Option<Xts> {
        let (data, tweak) = key.split_at(key.len() / 2);
        match key.len() {
            32 => Some(Xts::Aes128(
                Box::new(Aes128::new_from_slice(data).ok()?),
                Box::new(Aes128::new_from_slice(tweak).ok()?),
            )),
            64 => Some(Xts::Aes256(
                Box::new(Aes256::new_from_slice(data).ok()?),
                Box::new(Aes256::new_from_slice(tweak).ok()?),
            )),
            _ => None,
        }
    }

    fn encrypt_tweak(&self, number: u64) -> [u8; 16] {
        let mut block: Block = u128::from(number).to_le_bytes().into();
        match self {
            Xts::Aes128(_, tweak) => tweak.encrypt_block(&mut block),
            Xts::Aes256(_, tweak) => tweak.encrypt_block(&mut block),
        }
        block.into()
    }

    fn block(&self, block: &mut Block, encrypt: bool) {
        match (self, encrypt) {
            (Xts::Aes128(data, _), true) => data.encrypt_block(block),
            (Xts::Aes128(data, _), false) => data.decrypt_block(block),
            (Xts::Aes256(data, _), true) => data.encrypt_block(block),
            (Xts::Aes256(data, _), false) => data.decrypt_block(block),
        }
    }
}

/// Multiplication by alpha (section 5.2): bytes shifted left from the first,
/// each taking the bit that the one before it lost.
fn multiply_by_alpha(tweak: &mut [u8; 16]) {
    let mut carry = 0;
    for byte in tweak.iter_mut() {
        let lost = *byte >> 7;
        *byte = *byte << 1 | carry;
        carry = lost;
    }
    if carry == 1 {
        tweak[0] ^= 0x87;
    }
}

impl SectorCipher for Xts {
    type Cursor<'a> = bool;

    fn cursor(&self, operation: Operation) -> bool {
        operation == Operation::EncryptSectors
    }

    fn sector(&self, encrypt: &mut bool, number: u64, data: &mut [u8]) {
        let mut tweak = self.encrypt_tweak(number);
        for chunk in data.chunks_exact_mut(16) {
            let mut block = Block::default();
            for ((block, data), tweak) in block.iter_mut().zip(&*chunk).zip(tweak) {
                *block = data ^ tweak;
            }
            self.block(&mut block, *encrypt);
            for ((data, block), tweak) in chunk.iter_mut().zip(block).zip(tweak) {
                *data = block ^ tweak;
            }
            multiply_by_alpha(&mut tweak);
        }
    }
}
