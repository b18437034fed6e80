//! The ciphers that have kernels, and what a launch has to know of each.

use strongroom_engine::BlockCipher;
use zeroize::Zeroizing;

/// A cipher with kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cipher {
    /// FIPS 197.
    Aes,
    /// Serpent (Anderson, Biham, Knudsen 1998).
    Serpent,
    /// Twofish (Schneier and others 1998).
    Twofish,
    /// RFC 3713.
    Camellia,
    /// RFC 8439; counter mode alone.
    ChaCha20,
}

/// A key as kernels take it.
pub(crate) type PaddedKey = Zeroizing<[u8; 32]>;

impl Cipher {
    /// Every one.
    pub const ALL: [Cipher; 5] =
        [Cipher::Aes, Cipher::Serpent, Cipher::Twofish, Cipher::Camellia, Cipher::ChaCha20];

    /// Its name in lower case, which begins the names of its kernels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cipher::Aes => "aes",
            Cipher::Serpent => "serpent",
            Cipher::Twofish => "twofish",
            Cipher::Camellia => "camellia",
            Cipher::ChaCha20 => "chacha20",
        }
    }

    /// Bytes of a cipher block.
    pub(crate) const fn block_len(self) -> usize {
        match self {
            Cipher::ChaCha20 => 64,
            _ => 16,
        }
    }

    /// Cipher blocks of one work-item (`*_BLOCKS` of the kernels).
    pub(crate) const fn blocks_per_item(self) -> usize {
        match self {
            Cipher::Aes => 2,
            Cipher::Serpent | Cipher::ChaCha20 => 1,
            Cipher::Twofish | Cipher::Camellia => 4,
        }
    }

    /// Words of a schedule (`*_SCHEDULE` of the kernels); 0 where the key is the schedule.
    pub(crate) const fn schedule_words(self) -> usize {
        match self {
            Cipher::Aes => 180,
            Cipher::Serpent => 140,
            Cipher::Twofish => 72,
            Cipher::Camellia => 340,
            Cipher::ChaCha20 => 0,
        }
    }

    /// Words of the largest schedule.
    pub(crate) const SCHEDULE_WORDS_MAX: usize = 340;

    /// True for those that can decrypt, and so have sectors.
    #[cfg(test)]
    pub(crate) const fn is_block_cipher(self) -> bool {
        !matches!(self, Cipher::ChaCha20)
    }

    /// The key in 32 bytes. Serpent's shorter keys end with a bit that is set, Camellia's of 24 bytes repeat their
    /// last eight inverted; the others' padding is not used.
    ///
    /// # Panics
    /// If the key is longer.
    pub(crate) fn padded(self, key: &[u8]) -> PaddedKey {
        let mut padded = Zeroizing::new([0; 32]);
        padded[..key.len()].copy_from_slice(key);
        match (self, key.len()) {
            (Cipher::Serpent, 16 | 24) => padded[key.len()] = 1,
            (Cipher::Camellia, 24) => {
                for i in 16..24 {
                    padded[i + 8] = !key[i];
                }
            }
            _ => {}
        }
        padded
    }
}

impl From<BlockCipher> for Cipher {
    fn from(cipher: BlockCipher) -> Cipher {
        match cipher {
            BlockCipher::Aes => Cipher::Aes,
            BlockCipher::Serpent => Cipher::Serpent,
            BlockCipher::Twofish => Cipher::Twofish,
            BlockCipher::Camellia => Cipher::Camellia,
        }
    }
}

impl std::fmt::Display for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number behind `#define NAME` in a cipher's kernels.
    fn defined(cipher: Cipher, what: &str) -> Option<usize> {
        let source = crate::source::kernels(cipher);
        let name = format!("#define {}_{what} ", cipher.name().to_uppercase());
        let number = source.split(&name).nth(1)?;
        number.split('u').next()?.parse().ok()
    }

    #[test]
    fn the_numbers_are_those_of_the_kernels() {
        for cipher in Cipher::ALL.into_iter().filter(|cipher| cipher.is_block_cipher()) {
            assert_eq!(defined(cipher, "BLOCKS"), Some(cipher.blocks_per_item()), "{cipher}");
            assert_eq!(defined(cipher, "SCHEDULE"), Some(cipher.schedule_words()), "{cipher}");
            assert!(cipher.schedule_words() <= Cipher::SCHEDULE_WORDS_MAX);
        }
    }
}
