//! Ciphers in pieces, for callers that get a message bit by bit and may not
//! wait for its end: AES in GCM, counter mode, CBC and XTS, and
//! ChaCha20-Poly1305. They work in place, on the caller's thread, with the
//! kernels of the engine of the best tier.
//!
//! What they do not do: keep nonces from coming twice, or plaintext from being
//! used before its tag was checked. Both are left to the caller, which is why
//! the engines' contract has no such interface and only the OpenSSL provider
//! uses this one.
//!
//! Invariants: a piece of any length gives the bytes that a message at once
//! gives; keys, keystream made ahead and hashes are wiped when dropped; memory
//! is ordinary, so that a forked child can go on; no algorithm is given out
//! that has not computed a known answer in this process.

mod aead;
mod cbc;
mod chacha;
mod ctr;
pub(crate) mod gcm;
mod masks;
mod self_test;
mod xts;

#[cfg(test)]
mod tests;

pub use aead::TooLong;
pub use cbc::{AesCbc, CbcKey};
pub use chacha::ChaCha20Poly1305;
pub use ctr::AesCtr;
pub use gcm::{AesGcm, GcmKey};
pub(crate) use masks::xor;
pub use self_test::Kind;
pub use xts::{Tweak, XtsError, XtsKey};

use std::sync::Arc;

use strongroom_engine::BlockCipher;

use crate::hardware::Tier;
use crate::kernel::Kernel;

/// A key of AES on the kernel of the best tier; none when it has not 16, 24 or
/// 32 bytes.
fn aes(key: &[u8]) -> Option<Arc<dyn Kernel>> {
    matches!(key.len(), 16 | 24 | 32)
        .then(|| Tier::best().kernel(BlockCipher::Aes, key))
        .flatten()
        .map(Arc::from)
}
