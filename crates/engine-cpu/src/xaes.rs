//! XAES-256-GCM (C2SP): AES-256-GCM under a key that AES-CMAC derives from the
//! first 12 bytes of the nonce.

use std::sync::Arc;

use strongroom_engine::{BlockCipher, Tag};
use zeroize::Zeroize;

use crate::gcm::GcmKey;
use crate::hardware::Tier;
use crate::kernel::Kernel;
use crate::key_cache::KeyCache;
use crate::process::{AeadCipher, Forged};

/// A key for XAES-256-GCM, with the AES-GCM keys derived from it lately.
pub(crate) struct Xaes {
    tier: Tier,
    block_cipher: Box<dyn Kernel>,
    subkey: [u8; 16],
    derived: KeyCache<GcmKey>,
}

impl Drop for Xaes {
    fn drop(&mut self) {
        self.subkey.zeroize();
    }
}

/// The key of the last segment.
pub(crate) struct Cursor {
    prefix: [u8; 12],
    key: Option<Arc<GcmKey>>,
}

impl Xaes {
    pub(crate) fn new(tier: Tier, key: &[u8; 32]) -> Xaes {
        let block_cipher = tier.kernel(BlockCipher::Aes, key).expect("every tier has AES");
        let mut subkey = [[0; 16]];
        block_cipher.encrypt(&mut subkey);
        let [mut subkey] = subkey;
        double(&mut subkey);
        Xaes { tier, block_cipher, subkey, derived: KeyCache::new() }
    }

    /// The AES-GCM key for a nonce that begins with `prefix`. Allocates only
    /// when the prefix was not seen lately.
    fn key(&self, prefix: [u8; 12]) -> Arc<GcmKey> {
        self.derived.find_or_insert(prefix, || self.derive(prefix))
    }

    fn derive(&self, prefix: [u8; 12]) -> GcmKey {
        let mut key = [[0; 16]; 2];
        for (counter, half) in (1u8..).zip(&mut key) {
            half[..4].copy_from_slice(&[0, counter, b'X', 0]);
            half[4..].copy_from_slice(&prefix);
            for (byte, subkey) in half.iter_mut().zip(self.subkey) {
                *byte ^= subkey;
            }
        }
        self.block_cipher.encrypt(&mut key);
        let derived = GcmKey::new(self.tier, key.as_flattened().try_into().expect("two blocks"));
        key.as_flattened_mut().zeroize();
        derived
    }

    fn at<'c>(&self, cursor: &'c mut Cursor, nonce: &[u8; 24]) -> (&'c GcmKey, [u8; 12]) {
        let prefix: [u8; 12] = nonce[..12].try_into().expect("twelve bytes");
        let suffix: [u8; 12] = nonce[12..].try_into().expect("twelve bytes");
        if cursor.prefix != prefix {
            cursor.key = None;
            cursor.prefix = prefix;
        }
        let key = cursor.key.get_or_insert_with(|| self.key(prefix));
        (key, suffix)
    }
}

impl AeadCipher for Xaes {
    type Cursor<'a> = Cursor;

    fn cursor(&self) -> Cursor {
        Cursor { prefix: [0; 12], key: None }
    }

    fn seal(&self, cursor: &mut Cursor, nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        let (key, nonce) = self.at(cursor, nonce);
        key.seal(&nonce, ad, data)
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
        key.open(&nonce, ad, tag, data)
    }

    fn keystream(&self, cursor: &mut Cursor, nonce: &[u8; 24], data: &mut [u8]) {
        let (key, nonce) = self.at(cursor, nonce);
        key.keystream(&nonce, data);
    }
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
            assert_eq!(HEXLOWER.encode(&Xaes::new(Tier::best(), &[byte; 32]).subkey), expected);
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

            let cipher = Xaes::new(Tier::best(), &key);
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
