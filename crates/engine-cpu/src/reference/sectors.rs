//! Sectors in XTS (IEEE 1619 section 5, for whole blocks), CBC and counter
//! mode (NIST SP 800-38A), with the IVs of dm-crypt.

use sha2::{Digest, Sha256};
use strongroom_engine::{Operation, SectorCipher, SectorIv, SectorMode};

use super::block::{Keyed, keyed};
use crate::process;

/// A key for a sector cipher.
pub(super) struct Sectors {
    sector: SectorCipher,
    data: Box<dyn Keyed>,
    /// Encrypts the IV of XTS.
    tweak: Option<Box<dyn Keyed>>,
    /// Encrypts the number for ESSIV.
    essiv: Option<Box<dyn Keyed>>,
}

impl Sectors {
    /// `None` when the key has the wrong length.
    pub(super) fn new(sector: SectorCipher, key: &[u8]) -> Option<Sectors> {
        let (data, tweak) = match sector.mode {
            SectorMode::Xts => {
                let (data, tweak) = key.split_at(key.len() / 2);
                (keyed(sector.cipher, data)?, Some(keyed(sector.cipher, tweak)?))
            }
            SectorMode::Cbc | SectorMode::Ctr => (keyed(sector.cipher, key)?, None),
        };
        let essiv = match sector.iv {
            SectorIv::EssivSha256 => Some(keyed(sector.cipher, &Sha256::digest(key))?),
            SectorIv::Plain | SectorIv::Plain64 | SectorIv::Plain128 => None,
        };
        Some(Sectors { sector, data, tweak, essiv })
    }

    fn iv(&self, number: u128) -> [u8; 16] {
        let mut iv = self.sector.iv.number_block(number);
        for cipher in self.essiv.iter().chain(&self.tweak) {
            cipher.encrypt(&mut iv);
        }
        iv
    }

    fn xts(&self, mut tweak: [u8; 16], blocks: &mut [[u8; 16]], encrypt: bool) {
        for block in blocks {
            xor(block, &tweak);
            match encrypt {
                true => self.data.encrypt(block),
                false => self.data.decrypt(block),
            }
            xor(block, &tweak);
            multiply_by_alpha(&mut tweak);
        }
    }

    fn cbc_encrypt(&self, mut last: [u8; 16], blocks: &mut [[u8; 16]]) {
        for block in blocks {
            xor(block, &last);
            self.data.encrypt(block);
            last = *block;
        }
    }

    fn cbc_decrypt(&self, mut last: [u8; 16], blocks: &mut [[u8; 16]]) {
        for block in blocks {
            let ciphertext = *block;
            self.data.decrypt(block);
            xor(block, &last);
            last = ciphertext;
        }
    }

    fn ctr(&self, first: [u8; 16], blocks: &mut [[u8; 16]]) {
        let mut counter = u128::from_be_bytes(first);
        for block in blocks {
            let mut mask = counter.to_be_bytes();
            self.data.encrypt(&mut mask);
            xor(block, &mask);
            counter = counter.wrapping_add(1);
        }
    }
}

fn xor(block: &mut [u8; 16], mask: &[u8; 16]) {
    for (byte, mask) in block.iter_mut().zip(mask) {
        *byte ^= mask;
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

impl process::SectorCipher for Sectors {
    fn sectors(&self, operation: Operation, segment: process::SectorSegment<'_>) {
        let encrypt = operation == Operation::EncryptSectors;
        for (index, sector) in segment.data.chunks_exact_mut(segment.sector_len).enumerate() {
            let iv = self.iv(segment.numbers.at(index));
            let (blocks, _) = sector.as_chunks_mut::<16>();
            match (self.sector.mode, encrypt) {
                (SectorMode::Xts, _) => self.xts(iv, blocks, encrypt),
                (SectorMode::Cbc, true) => self.cbc_encrypt(iv, blocks),
                (SectorMode::Cbc, false) => self.cbc_decrypt(iv, blocks),
                (SectorMode::Ctr, _) => self.ctr(iv, blocks),
            }
        }
    }
}
