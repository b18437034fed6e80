//! The keystreams of the suites: whose counter modes they are, from which counter on, and under which keys, derived on
//! the CPU for each nonce's prefix.

use std::ops::Range;

use aes::cipher::{Block as CipherBlock, BlockCipherEncrypt, KeyInit};
use chacha20::R20;
use hkdf::Hkdf;
use sha2::Sha256;
use strongroom_engine::Aead;
use strongroom_memory::in_wiped_frames;
use zeroize::{Zeroize, Zeroizing};

use crate::cipher::{Cipher, PaddedKey};
use crate::plan::{Builder, Stream};

/// How many bytes of the nonce a derived key depends on, and how it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Derivation {
    /// The key itself.
    None,
    /// HChaCha20 of the first 16 bytes (draft-irtf-cfrg-xchacha section 2.2).
    HChaCha20,
    /// AES-CMAC of the first 12 bytes (C2SP XAES-256-GCM).
    XAes,
    /// HKDF with SHA-256 for the first 12 bytes, with the suite's name and the cipher's (vault format, section 3.1).
    Hkdf,
}

/// What the keystream of a suite is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// In `info` of HKDF.
    name: &'static str,
    /// Whose keystreams are XORed.
    ciphers: &'static [Cipher],
    derivation: Derivation,
    /// The counter of the data's first block.
    counter: u32,
}

/// The suites built on a counter mode.
pub(crate) fn recipe(aead: Aead) -> Option<&'static Recipe> {
    const fn of(ciphers: &'static [Cipher], derivation: Derivation, counter: u32) -> Recipe {
        Recipe { name: "", ciphers, derivation, counter }
    }
    const XAES: Recipe = of(&[Cipher::Aes], Derivation::XAes, 2);
    const GCM: Recipe = of(&[Cipher::Aes], Derivation::None, 2);
    const XCHACHA: Recipe = of(&[Cipher::ChaCha20], Derivation::HChaCha20, 1);
    const CHACHA: Recipe = of(&[Cipher::ChaCha20], Derivation::None, 1);
    const SERPENT: Recipe =
        Recipe { name: "serpent-256-poly1305", ..of(&[Cipher::Serpent], Derivation::Hkdf, 2) };
    const CASCADE: Recipe = Recipe {
        name: "cascade",
        ..of(&[Cipher::Aes, Cipher::Twofish, Cipher::Serpent], Derivation::Hkdf, 2)
    };
    Some(match aead {
        Aead::XAes256Gcm => &XAES,
        Aead::Aes256Gcm => &GCM,
        Aead::XChaCha20Poly1305 => &XCHACHA,
        Aead::ChaCha20Poly1305 => &CHACHA,
        Aead::Serpent256Poly1305 => &SERPENT,
        Aead::Cascade => &CASCADE,
        Aead::Aegis256X2 | Aead::Aegis256X4 => return None,
    })
}

impl Recipe {
    pub(crate) fn ciphers(&self) -> &'static [Cipher] {
        self.ciphers
    }

    /// Adds the passes that make the keystreams of `messages`, each of a nonce and where it goes.
    pub(crate) fn build(
        &self,
        key: &[u8; 32],
        builder: &mut Builder<'_>,
        messages: &[([u8; 24], Range<usize>)],
    ) {
        for (number, &cipher) in self.ciphers.iter().enumerate() {
            builder.pass(cipher, 8);
            let mut last: Option<(&[u8], u32)> = None;
            let mut streams = Vec::with_capacity(messages.len());
            for (nonce, range) in messages {
                let prefix = &nonce[..self.prefix_len()];
                let number = match last {
                    Some((of, number)) if of == prefix => number,
                    _ => builder.key(&self.derive(cipher, key, prefix)),
                };
                last = Some((prefix, number));
                let stream = Stream { key: number, nonce: self.stream_nonce(nonce), counter: self.counter };
                streams.push((stream, range.clone()));
            }
            builder.counter(streams, number > 0);
        }
    }

    fn prefix_len(&self) -> usize {
        match self.derivation {
            Derivation::None => 0,
            Derivation::HChaCha20 => 16,
            Derivation::XAes | Derivation::Hkdf => 12,
        }
    }

    fn stream_nonce(&self, nonce: &[u8; 24]) -> [u8; 12] {
        let mut short = [0; 12];
        match self.derivation {
            Derivation::HChaCha20 => short[4..].copy_from_slice(&nonce[16..]),
            _ => short.copy_from_slice(&nonce[12..]),
        }
        short
    }

    fn derive(&self, cipher: Cipher, key: &[u8; 32], prefix: &[u8]) -> PaddedKey {
        in_wiped_frames(|| match self.derivation {
            Derivation::None => Zeroizing::new(*key),
            Derivation::HChaCha20 => {
                let input: [u8; 16] = prefix.try_into().expect("a prefix of 16 bytes");
                let mut subkey = chacha20::hchacha::<R20>(&(*key).into(), &input.into());
                let derived = Zeroizing::new(subkey.into());
                subkey.as_mut_slice().zeroize();
                derived
            }
            Derivation::XAes => derive_xaes(key, prefix),
            Derivation::Hkdf => {
                let mut derived = Zeroizing::new([0; 32]);
                let info = [self.name.as_bytes(), b" ", cipher.name().as_bytes(), b"\0", prefix];
                Hkdf::<Sha256>::new(None, key)
                    .expand_multi_info(&info, &mut derived[..])
                    .expect("32 bytes are less than 255 hashes");
                derived
            }
        })
    }
}

/// C2SP XAES-256-GCM: the key of AES-256-GCM for a nonce that begins with `prefix`.
fn derive_xaes(key: &[u8; 32], prefix: &[u8]) -> PaddedKey {
    let cipher = aes::Aes256::new(&(*key).into());
    let encrypt = |block: &mut [u8; 16]| {
        let mut encrypted: CipherBlock<aes::Aes256> = (*block).into();
        cipher.encrypt_block(&mut encrypted);
        *block = encrypted.into();
        encrypted.as_mut_slice().zeroize();
    };
    let mut subkey = Zeroizing::new([0; 16]);
    encrypt(&mut subkey);
    // Doubled in the field of CMAC (NIST SP 800-38B section 6.1).
    let value = Zeroizing::new(u128::from_be_bytes(*subkey));
    *subkey = ((*value << 1) ^ ((*value >> 127) * 0x87)).to_be_bytes();
    let mut derived = Zeroizing::new([0; 32]);
    for (counter, half) in (1u8..).zip(derived.as_chunks_mut::<16>().0) {
        half[..4].copy_from_slice(&[0, counter, b'X', 0]);
        half[4..].copy_from_slice(prefix);
        half.iter_mut().zip(*subkey).for_each(|(byte, subkey)| *byte ^= subkey);
        encrypt(half);
    }
    derived
}
