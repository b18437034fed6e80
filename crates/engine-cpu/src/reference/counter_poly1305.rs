//! Counter mode of one block cipher or of three with Poly1305, committing to
//! the key, after section 3.1 of the vault format, in its order: derive, make
//! the keystream byte by byte, authenticate, hash.

use poly1305::Poly1305;
use poly1305::universal_hash::{KeyInit, UniversalHash};
use sha2::{Digest, Sha256};
use strongroom_engine::{BlockCipher, Tag};
use zeroize::Zeroizing;

use super::block::{Keyed, keyed};
use crate::process::{AeadCipher, Forged};

/// A key of either suite.
pub(super) struct CounterPoly1305 {
    suite: &'static str,
    /// With their names in `info`.
    ciphers: &'static [(&'static str, BlockCipher)],
    key: Zeroizing<[u8; 32]>,
}

/// RFC 2104 for keys of at most a block.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let padded = |pad: u8| -> Vec<u8> {
        let mut block = vec![pad; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::digest([&padded(0x36)[..], message].concat());
    Sha256::digest([&padded(0x5c)[..], &inner].concat()).into()
}

/// RFC 5869 without salt, for 32 bytes of output.
fn hkdf(secret: &[u8; 32], info: &[u8]) -> [u8; 32] {
    let extracted = hmac(&[0; 32], secret);
    hmac(&extracted, &[info, &[1]].concat())
}

impl CounterPoly1305 {
    pub(super) fn serpent(key: &[u8; 32]) -> CounterPoly1305 {
        CounterPoly1305 {
            suite: "serpent-256-poly1305",
            ciphers: &[("serpent", BlockCipher::Serpent)],
            key: Zeroizing::new(*key),
        }
    }

    pub(super) fn cascade(key: &[u8; 32]) -> CounterPoly1305 {
        CounterPoly1305 {
            suite: "cascade",
            ciphers: &[
                ("aes", BlockCipher::Aes),
                ("twofish", BlockCipher::Twofish),
                ("serpent", BlockCipher::Serpent),
            ],
            key: Zeroizing::new(*key),
        }
    }

    /// The first bytes of the message's keystream.
    fn stream(&self, nonce: &[u8; 24], len: usize) -> Vec<u8> {
        let ciphers: Vec<Box<dyn Keyed>> = self
            .ciphers
            .iter()
            .map(|(name, cipher)| {
                let mut info = format!("{} {name}\0", self.suite).into_bytes();
                info.extend_from_slice(&nonce[..12]);
                keyed(*cipher, &hkdf(&self.key, &info)).expect("a key of 32 bytes")
            })
            .collect();
        let mut stream = Vec::with_capacity(len + 16);
        for counter in 0u32.. {
            if stream.len() >= len {
                break;
            }
            let mut mask = [0; 16];
            for cipher in &ciphers {
                let mut block = [0; 16];
                block[..12].copy_from_slice(&nonce[12..]);
                block[12..].copy_from_slice(&counter.to_be_bytes());
                cipher.encrypt(&mut block);
                mask.iter_mut().zip(block).for_each(|(mask, byte)| *mask ^= byte);
            }
            stream.extend_from_slice(&mask);
        }
        stream.truncate(len);
        stream
    }

    fn tag(&self, stream: &[u8], nonce: &[u8; 24], ad: &[u8], ciphertext: &[u8]) -> Tag {
        let key: [u8; 32] = stream[..32].try_into().expect("32 bytes");
        let mut poly1305 = Poly1305::new(&key.into());
        poly1305.update_padded(ad);
        poly1305.update_padded(ciphertext);
        let lengths = [(ad.len() as u64).to_le_bytes(), (ciphertext.len() as u64).to_le_bytes()];
        poly1305.update_padded(lengths.as_flattened());
        let tag: [u8; 16] = poly1305.finalize().into();
        let commitment = hkdf(&self.key, format!("{} commitment\0", self.suite).as_bytes());
        let hash = Sha256::digest([&commitment[..], nonce, ad, &tag].concat());
        hash[..16].try_into().expect("16 bytes")
    }
}

fn xor(data: &mut [u8], mask: &[u8]) {
    data.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
}

impl AeadCipher for CounterPoly1305 {
    type Cursor<'a> = ();

    fn cursor(&self) {}

    fn seal(&self, (): &mut (), nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        let stream = self.stream(nonce, 32 + data.len());
        xor(data, &stream[32..]);
        self.tag(&stream, nonce, ad, data)
    }

    fn open(
        &self,
        (): &mut (),
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        let stream = self.stream(nonce, 32 + data.len());
        if self.tag(&stream, nonce, ad, data) != *tag {
            return Err(Forged);
        }
        xor(data, &stream[32..]);
        Ok(())
    }

    fn keystream(&self, (): &mut (), nonce: &[u8; 24], data: &mut [u8]) {
        data.copy_from_slice(&self.stream(nonce, 32 + data.len())[32..]);
    }
}
