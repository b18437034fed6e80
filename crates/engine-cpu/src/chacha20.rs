//! ChaCha20's state (RFC 8439 section 2.3).

use zeroize::Zeroize;

/// The words that the rounds begin with, their counter being 0. Wiped when
/// dropped.
pub(crate) struct State([u32; 16]);

impl Drop for State {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl State {
    pub(crate) fn new(key: &[u8; 32], nonce: &[u8; 12]) -> State {
        let mut words = [0; 16];
        let counter = [0; 4];
        let bytes = [b"expand 32-byte k", key.as_slice(), counter.as_slice(), nonce.as_slice()];
        let bytes = bytes.into_iter().flat_map(|part| part.chunks_exact(4));
        for (word, bytes) in words.iter_mut().zip(bytes) {
            *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        }
        State(words)
    }
}

/// What vector kernels begin with.
#[cfg(target_arch = "x86_64")]
impl State {
    /// Constants and key, without counter and nonce.
    pub(crate) fn words(&self) -> &[u32; 12] {
        self.0.first_chunk().expect("of sixteen")
    }

    /// The last row: the counter and the nonce.
    pub(crate) fn row_of(&self, counter: u32) -> [u32; 4] {
        [counter, self.0[13], self.0[14], self.0[15]]
    }
}
