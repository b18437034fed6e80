//! Disk sectors in XTS (IEEE 1619, NIST SP 800-38E) with the IVs of dm-crypt.

use std::ops::Range;

use sha2::{Digest, Sha256};
use strongroom_engine::{SectorCipher, SectorIv, SectorMode, Segment, SessionError};

use crate::cipher::{Cipher, PaddedKey};
use crate::limits::SECTORS_MAX;
use crate::plan::{Builder, Sectors};

/// Keys for the sectors of a disk.
pub(crate) struct SectorKeys {
    cipher: Cipher,
    iv: SectorIv,
    /// Words of each of the two keys.
    key_words: usize,
    data: PaddedKey,
    tweak: PaddedKey,
    /// Encrypts the number before the tweak key does.
    essiv: Option<PaddedKey>,
}

/// Whether there are kernels for it.
pub(crate) fn offers(sector: SectorCipher) -> bool {
    sector.mode == SectorMode::Xts
}

/// How many sectors segments have, and whether a launch takes so many.
pub(crate) fn fit(segments: &[Segment]) -> bool {
    let sectors = segments.iter().map(|segment| segment.len() / (segment.sector_len() as usize).max(1));
    sectors.sum::<usize>() <= SECTORS_MAX
}

impl SectorKeys {
    /// # Errors
    /// [`SessionError::KeyLength`], or [`SessionError::Unsupported`] for another mode, a length of Twofish's keys that
    /// is not there, or a key of two equal halves, which is not secure.
    pub(crate) fn new(sector: SectorCipher, key: &[u8]) -> Result<SectorKeys, SessionError> {
        if !strongroom_engine::Algorithm::Sector(sector).key_lens().contains(&key.len()) {
            return Err(SessionError::KeyLength);
        }
        let (data, tweak) = key.split_at(key.len() / 2);
        if !offers(sector) || data == tweak {
            return Err(SessionError::Unsupported);
        }
        let cipher = Cipher::from(sector.cipher);
        let essiv = matches!(sector.iv, SectorIv::EssivSha256).then(|| {
            let mut hash: [u8; 32] = Sha256::digest(key).into();
            let essiv = cipher.padded(&hash);
            zeroize::Zeroize::zeroize(&mut hash);
            essiv
        });
        Ok(SectorKeys {
            cipher,
            iv: sector.iv,
            key_words: data.len() / 4,
            data: cipher.padded(data),
            tweak: cipher.padded(tweak),
            essiv,
        })
    }

    /// Adds the passes for segments of sectors, whose data are in the block already.
    pub(crate) fn build(
        &self,
        builder: &mut Builder<'_>,
        decrypt: bool,
        segments: &[Segment],
        ranges: &[Range<usize>],
    ) {
        let mut runs = Vec::with_capacity(segments.len());
        for (segment, range) in segments.iter().zip(ranges).filter(|(segment, _)| !segment.is_empty()) {
            let sector_len = segment.sector_len() as usize;
            let mut first = None;
            for index in 0..segment.len() / sector_len {
                let number = self.iv.number_block(segment.sector_numbers().at(index));
                let tweak = builder.tweak(number);
                first.get_or_insert(tweak);
            }
            let blocks_per_sector = (sector_len / 16) as u32;
            runs.push((Sectors { tweak: first.expect("a sector"), blocks_per_sector }, range.clone()));
        }
        if let Some(essiv) = &self.essiv {
            builder.pass(self.cipher, 8);
            let key = builder.key(essiv);
            builder.encrypt_tweaks(key);
        }
        builder.pass(self.cipher, self.key_words);
        let (tweak, data) = (builder.key(&self.tweak), builder.key(&self.data));
        builder.encrypt_tweaks(tweak);
        builder.xts(data, decrypt, runs);
    }
}
