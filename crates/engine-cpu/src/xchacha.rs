//! XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha): HChaCha20 over the first 16
//! bytes of the nonce gives the key of ChaCha20-Poly1305. And that itself as an
//! algorithm of the contract.

use strongroom_engine::Tag;
use zeroize::{Zeroize, Zeroizing};

use crate::chacha20_poly1305::ChaCha20Poly1305;
use crate::process::{AeadCipher, Forged, short_nonce};

/// A key for XChaCha20-Poly1305.
pub(crate) struct XChaCha {
    inner: ChaCha20Poly1305,
    key: Zeroizing<[u8; 32]>,
}

/// The subkey of the last segment.
pub(crate) struct Cursor {
    prefix: Option<[u8; 16]>,
    subkey: Zeroizing<[u8; 32]>,
}

impl XChaCha {
    pub(crate) fn new(key: &[u8; 32]) -> XChaCha {
        XChaCha { inner: ChaCha20Poly1305::of_this_cpu(), key: Zeroizing::new(*key) }
    }

    fn at<'c>(&self, cursor: &'c mut Cursor, nonce: &[u8; 24]) -> (&'c [u8; 32], [u8; 12]) {
        let prefix: [u8; 16] = nonce[..16].try_into().expect("sixteen bytes");
        if cursor.prefix != Some(prefix) {
            hchacha20(&self.key, &prefix, &mut cursor.subkey);
            cursor.prefix = Some(prefix);
        }
        let mut short = [0; 12];
        short[4..].copy_from_slice(&nonce[16..]);
        (&cursor.subkey, short)
    }
}

impl AeadCipher for XChaCha {
    type Cursor<'a> = Cursor;

    fn cursor(&self) -> Cursor {
        Cursor { prefix: None, subkey: Zeroizing::new([0; 32]) }
    }

    fn seal(&self, cursor: &mut Cursor, nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        let (subkey, nonce) = self.at(cursor, nonce);
        self.inner.seal(subkey, &nonce, ad, data)
    }

    fn open(
        &self,
        cursor: &mut Cursor,
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        let (subkey, nonce) = self.at(cursor, nonce);
        self.inner.open(subkey, &nonce, ad, tag, data)
    }

    fn keystream(&self, cursor: &mut Cursor, nonce: &[u8; 24], data: &mut [u8]) {
        let (subkey, nonce) = self.at(cursor, nonce);
        self.inner.keystream(subkey, &nonce, data);
    }
}

/// A key for ChaCha20-Poly1305 (RFC 8439).
pub(crate) struct ChaCha {
    inner: ChaCha20Poly1305,
    key: Zeroizing<[u8; 32]>,
}

impl ChaCha {
    pub(crate) fn new(key: &[u8; 32]) -> ChaCha {
        ChaCha { inner: ChaCha20Poly1305::of_this_cpu(), key: Zeroizing::new(*key) }
    }
}

impl AeadCipher for ChaCha {
    type Cursor<'a> = ();

    fn cursor(&self) {}

    fn seal(&self, (): &mut (), nonce: &[u8; 24], ad: &[u8], data: &mut [u8]) -> Tag {
        self.inner.seal(&self.key, &short_nonce(nonce), ad, data)
    }

    fn open(
        &self,
        (): &mut (),
        nonce: &[u8; 24],
        ad: &[u8],
        tag: &Tag,
        data: &mut [u8],
    ) -> Result<(), Forged> {
        self.inner.open(&self.key, &short_nonce(nonce), ad, tag, data)
    }

    fn keystream(&self, (): &mut (), nonce: &[u8; 24], data: &mut [u8]) {
        self.inner.keystream(&self.key, &short_nonce(nonce), data);
    }
}

/// HChaCha20 (draft-irtf-cfrg-xchacha section 2.2): the rounds of ChaCha20
/// without the final addition; the first and last rows are the subkey.
fn hchacha20(key: &[u8; 32], input: &[u8; 16], subkey: &mut [u8; 32]) {
    let mut state = [0u32; 16];
    let words = b"expand 32-byte k".chunks_exact(4).chain(key.chunks_exact(4)).chain(input.chunks_exact(4));
    for (word, bytes) in state.iter_mut().zip(words) {
        *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    }
    for _ in 0..10 {
        for column in 0..4 {
            quarter_round(&mut state, [column, column + 4, column + 8, column + 12]);
        }
        for column in 0..4 {
            let diagonal = |row: usize| row * 4 + (column + row) % 4;
            quarter_round(&mut state, [diagonal(0), diagonal(1), diagonal(2), diagonal(3)]);
        }
    }
    let rows = state[..4].iter().chain(&state[12..]);
    for (bytes, word) in subkey.chunks_exact_mut(4).zip(rows) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    state.zeroize();
}

/// RFC 8439 section 2.1.
fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (sum, addend, turned, left) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[sum] = state[sum].wrapping_add(state[addend]);
        state[turned] = (state[turned] ^ state[sum]).rotate_left(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    /// draft-irtf-cfrg-xchacha section 2.2.1.
    #[test]
    fn hchacha20_of_the_draft() {
        let key = std::array::from_fn(|i| i as u8);
        let input = HEXLOWER.decode(b"000000090000004a0000000031415927").unwrap().try_into().unwrap();
        let mut subkey = [0; 32];
        hchacha20(&key, &input, &mut subkey);
        assert_eq!(
            HEXLOWER.encode(&subkey),
            "82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc"
        );
    }
}
