//! What engines may be able to compute: authenticated ciphers, and block
//! ciphers for sectors as an orthogonal choice of cipher, mode and IV.

use std::fmt;
use std::str::FromStr;

/// An authenticated cipher with a 16-byte tag.
///
/// The nonces of the contract have 24 bytes. An algorithm whose own nonce has
/// 12 takes the last twelve; the first twelve must be zero, which no nonce of
/// a [`crate::NonceSource`] has: such a key needs a rule of its own that no
/// nonce comes twice, as [`crate::StreamNonces`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Aead {
    /// XAES-256-GCM: AES-256-GCM under a key derived from the first 12 bytes
    /// of the nonce (C2SP XAES-256-GCM, NIST SP 800-108r1 and SP 800-38D).
    XAes256Gcm,
    /// XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha).
    XChaCha20Poly1305,
    /// AEGIS-256X2 with the nonce padded to 32 bytes by a fixed prefix
    /// (draft-irtf-cfrg-aegis-aead).
    Aegis256X2,
    /// AEGIS-256X4, with the same nonce.
    Aegis256X4,
    /// AES-256-GCM (NIST SP 800-38D) with a nonce of 12 bytes.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439) with a nonce of 12 bytes.
    ChaCha20Poly1305,
    /// Serpent-256 in counter mode with Poly1305, committing to the key (the
    /// vault format, section 3.1).
    Serpent256Poly1305,
    /// AES-256, Twofish-256 and Serpent-256 in counter mode, their keystreams
    /// XORed, with Poly1305, committing to the key (the same).
    Cascade,
}

impl Aead {
    /// Every authenticated cipher.
    pub const ALL: [Aead; 8] = [
        Aead::XAes256Gcm,
        Aead::XChaCha20Poly1305,
        Aead::Aegis256X2,
        Aead::Aegis256X4,
        Aead::Aes256Gcm,
        Aead::ChaCha20Poly1305,
        Aead::Serpent256Poly1305,
        Aead::Cascade,
    ];

    /// Bytes of the contract's nonce that the algorithm takes, its last ones.
    #[must_use]
    pub const fn nonce_len(self) -> usize {
        match self {
            Aead::XAes256Gcm
            | Aead::XChaCha20Poly1305
            | Aead::Aegis256X2
            | Aead::Aegis256X4
            | Aead::Serpent256Poly1305
            | Aead::Cascade => 24,
            Aead::Aes256Gcm | Aead::ChaCha20Poly1305 => 12,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Aead::XAes256Gcm => "xaes-256-gcm",
            Aead::XChaCha20Poly1305 => "xchacha20-poly1305",
            Aead::Aegis256X2 => "aegis-256x2",
            Aead::Aegis256X4 => "aegis-256x4",
            Aead::Aes256Gcm => "aes-256-gcm",
            Aead::ChaCha20Poly1305 => "chacha20-poly1305",
            Aead::Serpent256Poly1305 => "serpent-256-poly1305",
            Aead::Cascade => "cascade",
        }
    }
}

/// A block cipher with blocks of 16 bytes and keys of 16, 24 or 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockCipher {
    /// FIPS 197.
    Aes,
    /// Serpent (Anderson, Biham, Knudsen 1998), bytes in the order of the
    /// NESSIE vectors, as dm-crypt has it.
    Serpent,
    /// Twofish (Schneier and others 1998).
    Twofish,
    /// RFC 3713.
    Camellia,
}

impl BlockCipher {
    /// Every block cipher.
    pub const ALL: [BlockCipher; 4] =
        [BlockCipher::Aes, BlockCipher::Serpent, BlockCipher::Twofish, BlockCipher::Camellia];

    const fn name(self) -> &'static str {
        match self {
            BlockCipher::Aes => "aes",
            BlockCipher::Serpent => "serpent",
            BlockCipher::Twofish => "twofish",
            BlockCipher::Camellia => "camellia",
        }
    }
}

/// How the blocks of one sector are chained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SectorMode {
    /// XTS (IEEE 1619, NIST SP 800-38E) over whole blocks. The key is two
    /// keys of the block cipher, which must differ: data, then tweak.
    Xts,
    /// CBC (NIST SP 800-38A). Encryption is serial within a sector; engines
    /// work on several sectors at once.
    Cbc,
    /// Counter mode (NIST SP 800-38A): the IV is the first counter block, and
    /// the counter is the whole block, big-endian, as in dm-crypt. Two
    /// versions of a sector under one key betray their XOR: only for sectors
    /// that are written once.
    Ctr,
}

impl SectorMode {
    /// Every mode.
    pub const ALL: [SectorMode; 3] = [SectorMode::Xts, SectorMode::Cbc, SectorMode::Ctr];

    const fn name(self) -> &'static str {
        match self {
            SectorMode::Xts => "xts",
            SectorMode::Cbc => "cbc",
            SectorMode::Ctr => "ctr",
        }
    }
}

/// How a sector's number becomes its IV (for XTS, the tweak before it is
/// encrypted). The names are dm-crypt's, but for `plain128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SectorIv {
    /// The low 32 bits of the number, little-endian; it repeats after 2 TiB.
    Plain,
    /// The number in 64 bits, little-endian.
    Plain64,
    /// The number in 128 bits, little-endian: for consumers that choose whole
    /// tweaks themselves.
    Plain128,
    /// ESSIV: the number in 64 bits, little-endian, encrypted by the same
    /// block cipher under the SHA-256 of the key (for XTS, of both its keys).
    EssivSha256,
}

impl SectorIv {
    /// Every rule.
    pub const ALL: [SectorIv; 4] =
        [SectorIv::Plain, SectorIv::Plain64, SectorIv::Plain128, SectorIv::EssivSha256];

    /// The number as a block, before ESSIV encrypts it.
    #[must_use]
    pub const fn number_block(self, number: u128) -> [u8; 16] {
        let kept = match self {
            SectorIv::Plain => number & u32::MAX as u128,
            SectorIv::Plain64 | SectorIv::EssivSha256 => number & u64::MAX as u128,
            SectorIv::Plain128 => number,
        };
        kept.to_le_bytes()
    }

    /// The highest sector number that the rule takes.
    #[must_use]
    pub const fn number_max(self) -> u128 {
        match self {
            SectorIv::Plain | SectorIv::Plain64 | SectorIv::EssivSha256 => u64::MAX as u128,
            SectorIv::Plain128 => u128::MAX,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            SectorIv::Plain => "plain",
            SectorIv::Plain64 => "plain64",
            SectorIv::Plain128 => "plain128",
            SectorIv::EssivSha256 => "essiv:sha256",
        }
    }
}

/// A cipher for sectors. Written and parsed as dm-crypt does:
/// `aes-xts-plain64`, `serpent-cbc-essiv:sha256`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SectorCipher {
    /// What encrypts a block.
    pub cipher: BlockCipher,
    /// How blocks are chained.
    pub mode: SectorMode,
    /// How a sector begins.
    pub iv: SectorIv,
}

impl SectorCipher {
    /// The default of disk encryption.
    pub const AES_XTS_PLAIN64: SectorCipher =
        SectorCipher::new(BlockCipher::Aes, SectorMode::Xts, SectorIv::Plain64);

    /// The combination of the three.
    #[must_use]
    pub const fn new(cipher: BlockCipher, mode: SectorMode, iv: SectorIv) -> SectorCipher {
        SectorCipher { cipher, mode, iv }
    }

    /// Every combination.
    pub fn all() -> impl Iterator<Item = SectorCipher> {
        BlockCipher::ALL.into_iter().flat_map(|cipher| {
            SectorMode::ALL.into_iter().flat_map(move |mode| {
                SectorIv::ALL.into_iter().map(move |iv| SectorCipher::new(cipher, mode, iv))
            })
        })
    }
}

/// What an engine may be able to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Seal, open, or make the keystream of an authenticated cipher.
    Aead(Aead),
    /// Encrypt or decrypt sectors.
    Sector(SectorCipher),
}

impl Algorithm {
    /// Every algorithm that the contract knows.
    pub fn all() -> impl Iterator<Item = Algorithm> {
        Aead::ALL.into_iter().map(Algorithm::Aead).chain(SectorCipher::all().map(Algorithm::Sector))
    }

    /// The lengths in bytes that a key may have, ascending.
    #[must_use]
    pub const fn key_lens(self) -> &'static [usize] {
        match self {
            Algorithm::Aead(_) => &[32],
            Algorithm::Sector(sector) => match sector.mode {
                SectorMode::Xts => &[32, 48, 64],
                SectorMode::Cbc | SectorMode::Ctr => &[16, 24, 32],
            },
        }
    }
}

impl fmt::Display for Aead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for BlockCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for SectorMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for SectorIv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for SectorCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}-{}", self.cipher, self.mode, self.iv))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Aead(aead) => aead.fmt(f),
            Algorithm::Sector(sector) => sector.fmt(f),
        }
    }
}

/// A name that no algorithm has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no algorithm of this name")
    }
}

impl std::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Algorithm, UnknownAlgorithm> {
        let aead = Aead::ALL.into_iter().find(|aead| aead.name() == name);
        match aead {
            Some(aead) => Ok(Algorithm::Aead(aead)),
            None => name.parse().map(Algorithm::Sector),
        }
    }
}

impl FromStr for SectorCipher {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<SectorCipher, UnknownAlgorithm> {
        let mut parts = name.splitn(3, '-');
        let mut part = || parts.next().ok_or(UnknownAlgorithm);
        let (cipher, mode, iv) = (part()?, part()?, part()?);
        let cipher = BlockCipher::ALL.into_iter().find(|known| known.name() == cipher);
        let mode = SectorMode::ALL.into_iter().find(|known| known.name() == mode);
        let iv = SectorIv::ALL.into_iter().find(|known| known.name() == iv);
        match (cipher, mode, iv) {
            (Some(cipher), Some(mode), Some(iv)) => Ok(SectorCipher::new(cipher, mode, iv)),
            _ => Err(UnknownAlgorithm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_none_comes_twice() {
        let names: std::collections::BTreeSet<_> = Algorithm::all().map(|known| known.to_string()).collect();
        assert_eq!(names.len(), Algorithm::all().count());
        assert!(Algorithm::all().all(|known| known.to_string().parse() == Ok(known)));
        for name in ["", "aes", "aes-xts", "aes-xts-plain65", "aes-xts-plain64-", "null-cbc-plain"] {
            assert_eq!(name.parse::<Algorithm>(), Err(UnknownAlgorithm), "{name}");
        }
    }

    #[test]
    fn numbers_become_blocks_by_rule() {
        let number = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
        let block = |iv: SectorIv| u128::from_le_bytes(iv.number_block(number));
        assert_eq!(block(SectorIv::Plain), 0x0d0e_0f10);
        assert_eq!(block(SectorIv::Plain64), 0x090a_0b0c_0d0e_0f10);
        assert_eq!(block(SectorIv::EssivSha256), 0x090a_0b0c_0d0e_0f10);
        assert_eq!(block(SectorIv::Plain128), number);
    }
}
