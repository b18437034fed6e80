//! XAES-256-GCM (C2SP): AES-256-GCM under a key that AES-CMAC derives from the
//! first 12 bytes of the nonce.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use strongroom_engine::Tag;
use zeroize::Zeroize;

use crate::process::{AeadCipher, Forged};
use crate::xaes_cache::KeyCache;

/// A key for XAES-256-GCM, with the AES-GCM keys derived from it lately.
pub(crate) struct Xaes {
    block_cipher: EncryptingKey,
    subkey: [u8; 16],
    derived: KeyCache,
}

impl Drop for Xaes {
    fn drop(&mut self) {
        self.subkey.zeroize();
    }
}

/// The key of the last segment.
pub(crate) struct Cursor {
    prefix: [u8; 12],
    key: Option<Arc<LessSafeKey>>,
}

impl Xaes {
    pub(crate) fn new(key: &[u8; 32]) -> Xaes {
        let unbound = UnboundCipherKey::new(&AES_256, key).expect("an AES-256 key has 32 bytes");
        let block_cipher = EncryptingKey::ecb(unbound).expect("AES has an ECB mode");
        let mut subkey = [0; 16];
        encrypt_block(&block_cipher, &mut subkey);
        double(&mut subkey);
        Xaes { block_cipher, subkey, derived: KeyCache::new() }
    }

    /// The AES-GCM key for a nonce that begins with `prefix`. Allocates only
    /// when the prefix was not seen lately.
    fn key(&self, prefix: [u8; 12]) -> Arc<LessSafeKey> {
        self.derived.find_or_insert(prefix, || self.derive(prefix))
    }

    fn derive(&self, prefix: [u8; 12]) -> LessSafeKey {
        let mut key = [0; 32];
        for (counter, half) in (1u8..).zip(key.chunks_exact_mut(16)) {
            half[..4].copy_from_slice(&[0, counter, b'X', 0]);
            half[4..].copy_from_slice(&prefix);
            for (byte, subkey) in half.iter_mut().zip(self.subkey) {
                *byte ^= subkey;
            }
        }
        encrypt_block(&self.block_cipher, &mut key);
        let derived = UnboundKey::new(&AES_256_GCM, &key).expect("an AES-256 key has 32 bytes");
        key.zeroize();
        LessSafeKey::new(derived)
    }

    fn at<'c>(&self, cursor: &'c mut Cursor, nonce: &[u8; 24]) -> (&'c LessSafeKey, Nonce) {
        let prefix: [u8; 12] = nonce[..12].try_into().expect("twelve bytes");
        let suffix: [u8; 12] = nonce[12..].try_into().expect("twelve bytes");
        if cursor.prefix != prefix {
            cursor.key = None;
            cursor.prefix = prefix;
        }
        let key = cursor.key.get_or_insert_with(|| self.key(prefix));
        (key, Nonce::assume_unique_for_key(suffix))
    }
}

impl AeadCipher for Xaes {
    type Cursor<'a> = Cursor;

    fn cursor(&self) -> Cursor {
        Cursor { prefix: [0; 12], key: None }
    }

    fn seal(&self, cursor: &mut Cursor, nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        let (key, nonce) = self.at(cursor, nonce);
        let tag = key
            .seal_in_place_separate_tag(nonce, Aad::from(ad), data)
            .expect("a segment is shorter than the limit of GCM");
        tag.as_ref().try_into().expect("a tag has 16 bytes")
    }

    fn open(
        &self,
        cursor: &mut Cursor,
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        let (key, nonce) = self.at(cursor, nonce);
        match key.open_in_place_separate_tag(nonce, Aad::from(ad), tag, data) {
            Ok(_) => Ok(()),
            Err(_) => Err(Forged),
        }
    }

    /// Seals zeros: the fused AES-GCM code is faster than the counter mode
    /// alone, though its tag is not needed.
    fn keystream(&self, cursor: &mut Cursor, nonce: &[u8; 24], data: &mut [u8]) {
        data.fill(0);
        let _tag = self.seal(cursor, nonce, &[], data);
    }
}

/// Encrypts whole blocks, each by itself.
fn encrypt_block(cipher: &EncryptingKey, blocks: &mut [u8]) {
    cipher.less_safe_encrypt(blocks, EncryptionContext::None).expect("whole blocks");
}

/// Doubles in the field of CMAC (NIST SP 800-38B section 6.1), in constant time.
fn double(block: &mut [u8; 16]) {
    let value = u128::from_be_bytes(*block);
    let carry = (value >> 127) * 0x87;
    *block = ((value << 1) ^ carry).to_be_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;
    use shake::digest::{ExtendableOutput, Update, XofReader};

    /// C2SP XAES-256-GCM, both vectors: K1 with and without a carry.
    #[test]
    fn subkeys_of_the_specification() {
        for (byte, expected) in
            [(1, "e531954aca063d5b8d9c47a47d4cc6f0"), (3, "23810ec50edb99f374409466ed1f4b7b")]
        {
            assert_eq!(HEXLOWER.encode(&Xaes::new(&[byte; 32]).subkey), expected);
        }
    }

    /// C2SP XAES-256-GCM, accumulated test of 10,000 iterations.
    #[test]
    fn accumulated_test_of_the_specification() {
        let mut source = shake::Shake128::default().finalize_xof();
        let mut accumulated = shake::Shake128::default();
        let mut sealed = Vec::new();
        for _ in 0..10_000 {
            let mut key = [0; 32];
            let mut nonce = [0; 24];
            source.read(&mut key);
            source.read(&mut nonce);
            let mut draw = || {
                let mut len = [0];
                source.read(&mut len);
                let mut bytes = vec![0; usize::from(len[0])];
                source.read(&mut bytes);
                bytes
            };
            let plaintext = draw();
            let ad = draw();

            let cipher = Xaes::new(&key);
            sealed.clear();
            sealed.extend_from_slice(&plaintext);
            let mut cursor = cipher.cursor();
            let tag = cipher.seal(&mut cursor, &nonce, &ad, &mut sealed);
            accumulated.update(&sealed);
            accumulated.update(&tag);
            assert!(cipher.open(&mut cursor, &nonce, &ad, &tag, &mut sealed).is_ok());
            assert_eq!(sealed, plaintext);
        }
        let mut hash = [0; 32];
        accumulated.finalize_xof().read(&mut hash);
        assert_eq!(
            HEXLOWER.encode(&hash),
            "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939"
        );
    }
}
