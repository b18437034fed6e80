//! XAES-256-GCM after C2SP: the key derivation of NIST SP 800-108r1 with CMAC,
//! whose message of one block makes CMAC a single encryption.

use strongroom_engine::Tag;

use super::gcm::Gcm;
use crate::process::{AeadCipher, Forged};

/// A key for XAES-256-GCM.
pub(super) struct Xaes {
    cipher: Gcm,
}

impl Xaes {
    pub(super) fn new(key: &[u8; 32]) -> Xaes {
        Xaes { cipher: Gcm::new(key) }
    }

    /// Steps 1 to 6 of the specification: the key and nonce for AES-256-GCM.
    fn derive(&self, nonce: &[u8; 24]) -> (Gcm, [u8; 12]) {
        let l = u128::from_be_bytes(self.cipher.encrypt_block([0; 16]));
        let k1 = if l >> 127 == 0 { l << 1 } else { l << 1 ^ 0b1000_0111 };
        let mut key = Vec::new();
        for counter in [1, 2] {
            let mut m = vec![0x00, counter, 0x58, 0x00];
            m.extend_from_slice(&nonce[..12]);
            let m = u128::from_be_bytes(m.try_into().expect("sixteen bytes"));
            key.extend_from_slice(&self.cipher.encrypt_block((m ^ k1).to_be_bytes()));
        }
        let key: [u8; 32] = key.try_into().expect("two blocks");
        (Gcm::new(&key), nonce[12..].try_into().expect("twelve bytes"))
    }
}

impl AeadCipher for Xaes {
    type Cursor<'a> = ();

    fn cursor(&self) {}

    fn seal(&self, (): &mut (), nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        let (cipher, nonce) = self.derive(nonce);
        cipher.seal(&nonce, ad, data)
    }

    fn open(
        &self,
        (): &mut (),
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        let (cipher, nonce) = self.derive(nonce);
        cipher.open(&nonce, ad, tag, data)
    }

    fn keystream(&self, (): &mut (), nonce: &[u8; 24], data: &mut [u8]) {
        let (cipher, nonce) = self.derive(nonce);
        data.fill(0);
        cipher.counter_mode(&nonce, data);
    }
}
