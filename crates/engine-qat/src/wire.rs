//! What the contract's algorithms are to an instance.

use aes::cipher::{Block, BlockCipherEncrypt, KeyInit};
use strongroom_engine::{Aead, Algorithm, BlockCipher, SectorCipher, SectorIv, SectorMode};
use strongroom_memory::in_wiped_frames;
use zeroize::{Zeroize, Zeroizing};

use crate::cpa::cipher;

/// Bytes of the longest key.
pub(crate) const KEY_MAX: usize = 64;

/// A cipher of the library's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Ctr,
    Cbc,
    Xts,
    Gcm,
}

impl Wire {
    pub(crate) fn cipher(self) -> u32 {
        match self {
            Wire::Ctr => cipher::AES_CTR,
            Wire::Cbc => cipher::AES_CBC,
            Wire::Xts => cipher::AES_XTS,
            Wire::Gcm => cipher::AES_GCM,
        }
    }

    /// Whether a session of it encrypts. In CTR the library has no other.
    pub(crate) fn session_encrypts(self, encrypts: bool) -> bool {
        encrypts || self == Wire::Ctr
    }
}

/// How requests are made of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One for each segment.
    Gcm,
    /// One for each segment, under a key derived from its nonce.
    XAesGcm,
    /// One for each sector.
    Sectors(SectorCipher),
}

/// What an algorithm is, if the contract has it and QAT too.
pub(crate) fn of(algorithm: Algorithm) -> Option<(Wire, Kind)> {
    match algorithm {
        Algorithm::Aead(Aead::Aes256Gcm) => Some((Wire::Gcm, Kind::Gcm)),
        Algorithm::Aead(Aead::XAes256Gcm) => Some((Wire::Gcm, Kind::XAesGcm)),
        Algorithm::Aead(_) => None,
        // Whose IV would have to be encrypted before it is sent.
        Algorithm::Sector(SectorCipher { iv: SectorIv::EssivSha256, .. }) => None,
        Algorithm::Sector(sector) if sector.cipher == BlockCipher::Aes => {
            let wire = match sector.mode {
                SectorMode::Xts => Wire::Xts,
                SectorMode::Cbc => Wire::Cbc,
                SectorMode::Ctr => Wire::Ctr,
            };
            Some((wire, Kind::Sectors(sector)))
        }
        Algorithm::Sector(_) => None,
    }
}

/// The key of AES-256-GCM for nonces that begin with `prefix` (C2SP
/// XAES-256-GCM: AES-CMAC in the counter mode of NIST SP 800-108r1).
pub(crate) fn derived_key(key: &[u8; 32], prefix: &[u8; 12]) -> Zeroizing<[u8; 32]> {
    in_wiped_frames(|| {
        let cipher = aes::Aes256::new(&(*key).into());
        let encrypt = |block: &mut [u8; 16]| {
            let mut encrypted: Block<aes::Aes256> = (*block).into();
            cipher.encrypt_block(&mut encrypted);
            *block = encrypted.into();
            encrypted.as_mut_slice().zeroize();
        };
        let mut doubled = Zeroizing::new([0; 16]);
        encrypt(&mut doubled);
        let value = Zeroizing::new(u128::from_be_bytes(*doubled));
        // In the field of CMAC (NIST SP 800-38B, section 6.1).
        *doubled = ((*value << 1) ^ ((*value >> 127) * 0x87)).to_be_bytes();
        let mut derived = Zeroizing::new([0; 32]);
        for (counter, half) in (1u8..).zip(derived.as_chunks_mut::<16>().0) {
            half[..4].copy_from_slice(&[0, counter, b'X', 0]);
            half[4..].copy_from_slice(prefix);
            half.iter_mut().zip(*doubled).for_each(|(byte, other)| *byte ^= other);
            encrypt(half);
        }
        derived
    })
}
