//! AES-256-GCM and ChaCha20-Poly1305 with the last 12 bytes of the contract's
//! nonce.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use strongroom_engine::Tag;

use super::gcm::Gcm;
use crate::process::{AeadCipher, Forged, short_nonce};

/// A key for AES-256-GCM.
pub(super) struct AesGcm(pub(super) Gcm);

impl AeadCipher for AesGcm {
    type Cursor<'a> = ();

    fn cursor(&self) {}

    fn seal(&self, (): &mut (), nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        self.0.seal(&short_nonce(nonce), ad, data)
    }

    fn open(
        &self,
        (): &mut (),
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        self.0.open(&short_nonce(nonce), ad, tag, data)
    }

    fn keystream(&self, (): &mut (), nonce: &[u8; 24], data: &mut [u8]) {
        data.fill(0);
        self.0.counter_mode(&short_nonce(nonce), data);
    }
}

/// A key for ChaCha20-Poly1305.
pub(super) struct ChaCha {
    cipher: ChaCha20Poly1305,
    key: zeroize::Zeroizing<[u8; 32]>,
}

impl ChaCha {
    pub(super) fn new(key: &[u8; 32]) -> ChaCha {
        ChaCha { cipher: ChaCha20Poly1305::new(&(*key).into()), key: zeroize::Zeroizing::new(*key) }
    }
}

impl AeadCipher for ChaCha {
    type Cursor<'a> = ();

    fn cursor(&self) {}

    fn seal(&self, (): &mut (), nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        let sealed = self.cipher.encrypt_inout_detached(&short_nonce(nonce).into(), ad, data.into());
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
        let nonce = short_nonce(nonce).into();
        self.cipher.decrypt_inout_detached(&nonce, ad, data.into(), &(*tag).into()).map_err(|_| Forged)
    }

    fn keystream(&self, (): &mut (), nonce: &[u8; 24], data: &mut [u8]) {
        let mut stream = ChaCha20::new(&(*self.key).into(), &short_nonce(nonce).into());
        stream.seek(64u64);
        data.fill(0);
        stream.apply_keystream(data);
    }
}
