//! XChaCha20-Poly1305 from RustCrypto.

use chacha20::XChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use strongroom_engine::Tag;

use crate::process::{AeadCipher, Forged};

/// A key for XChaCha20-Poly1305.
pub(super) struct XChaCha {
    cipher: XChaCha20Poly1305,
    key: zeroize::Zeroizing<[u8; 32]>,
}

impl XChaCha {
    pub(super) fn new(key: &[u8; 32]) -> XChaCha {
        XChaCha { cipher: XChaCha20Poly1305::new(&(*key).into()), key: zeroize::Zeroizing::new(*key) }
    }
}

impl AeadCipher for XChaCha {
    type Cursor<'a> = ();

    fn cursor(&self) {}

    fn seal(&self, (): &mut (), nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        let sealed = self.cipher.encrypt_inout_detached(&(*nonce).into(), ad, data.into());
        sealed.expect("a segment is shorter than the limit of ChaCha20").into()
    }

    fn open(
        &self,
        (): &mut (),
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        let opened = self.cipher.decrypt_inout_detached(&(*nonce).into(), ad, data.into(), &(*tag).into());
        opened.map_err(|_| Forged)
    }

    fn keystream(&self, (): &mut (), nonce: &[u8; 24], data: &mut [u8]) {
        let mut stream = XChaCha20::new(&(*self.key).into(), &(*nonce).into());
        stream.seek(64u64);
        data.fill(0);
        stream.apply_keystream(data);
    }
}
