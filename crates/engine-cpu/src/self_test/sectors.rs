//! Known-answer tests of the sector ciphers: for each combination of cipher,
//! mode and IV a hash of what all key lengths make of a few sectors, enough of
//! them to fill the widest registers and to leave a rest. The answers are
//! those of the reference engine, which the conformance suite holds against
//! published vectors.

use strongroom_engine::{Operation, SectorCipher, SectorNumbers};

use crate::hardware::Tier;
use crate::low::aws_lc;
use crate::modes::Sectors;
use crate::process::{SectorCipher as _, SectorSegment};

mod answers;

/// Bytes of a sector and of the text.
const SECTOR_LEN: usize = 37 * 16;
const TEXT_LEN: usize = 3 * SECTOR_LEN;

/// The first number, near the end of the 32 bits that `plain` keeps.
const FIRST: u128 = 0xffff_fffe;

/// Bytes that depend on their place.
fn pattern<const LEN: usize>(factor: u8) -> [u8; LEN] {
    std::array::from_fn(|i| (i as u8).wrapping_mul(factor) ^ (i >> 8) as u8)
}

pub(super) fn passes(tier: Tier, sector: SectorCipher) -> bool {
    let answer = answers::ANSWERS.iter().find(|(known, _)| *known == sector);
    let text = pattern::<TEXT_LEN>(167);
    let mut hash = [0; 32];
    for &key_len in strongroom_engine::Algorithm::Sector(sector).key_lens() {
        let key = pattern::<64>(61);
        let Ok(cipher) = Sectors::new(tier, sector, &key[..key_len]) else { return false };
        let mut data = text;
        crypt(&cipher, Operation::EncryptSectors, &mut data);
        let of_key = aws_lc::sha256(&data);
        hash.iter_mut().zip(*of_key).for_each(|(byte, of_key)| *byte ^= of_key);
        crypt(&cipher, Operation::DecryptSectors, &mut data);
        if data != text {
            return false;
        }
    }
    answer.is_some_and(|(_, answer)| hash[..8] == answer.to_be_bytes())
}

fn crypt(cipher: &Sectors, operation: Operation, data: &mut [u8]) {
    let numbers = SectorNumbers { first: FIRST, step: 1 };
    cipher.sectors(operation, SectorSegment { numbers, sector_len: SECTOR_LEN, data });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReferenceEngine;
    use strongroom_engine::{Algorithm, Batch, Buffer, Engine, Segment};

    fn answer_of_reference(sector: SectorCipher) -> u64 {
        let mut hash = [0; 32];
        for &key_len in Algorithm::Sector(sector).key_lens() {
            let key = pattern::<64>(61);
            let session = ReferenceEngine.session(Algorithm::Sector(sector), &key[..key_len]).unwrap();
            let buffer = Buffer::copy_of(&pattern::<TEXT_LEN>(167));
            let numbers = SectorNumbers { first: FIRST, step: 1 };
            let segment = Segment::numbered_sectors(0, TEXT_LEN, numbers, SECTOR_LEN as u32);
            let batch = Batch::new(Operation::EncryptSectors, buffer, vec![segment]);
            let completed = ReferenceEngine.submit(&session, batch).unwrap().wait().unwrap();
            let of_key = aws_lc::sha256(&completed.batch.buffer);
            hash.iter_mut().zip(*of_key).for_each(|(byte, of_key)| *byte ^= of_key);
        }
        u64::from_be_bytes(hash[..8].try_into().unwrap())
    }

    #[test]
    fn answers_are_those_of_the_reference() {
        let expected: Vec<_> = SectorCipher::all().map(|known| (known, answer_of_reference(known))).collect();
        let lines = expected.iter().map(|(sector, answer)| format!("{sector} {answer:#x}\n"));
        assert!(answers::ANSWERS == expected, "the table should be\n{}", lines.collect::<String>());
    }

    #[test]
    fn a_wrong_kernel_is_noticed() {
        let sector = SectorCipher::AES_XTS_PLAIN64;
        let other = answers::ANSWERS.iter().find(|(known, _)| *known != sector).unwrap().1;
        assert_ne!(other, answer_of_reference(sector));
        assert!(Tier::ALL.iter().filter(|&&tier| tier <= Tier::best()).all(|&tier| passes(tier, sector)));
    }
}
