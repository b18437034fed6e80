//! Engines that compute on the CPU.
//!
//! [`CpuEngine`] is the fast one, in three tiers that can stand side by side:
//! own vector kernels for AES, Serpent, Twofish, Camellia, ChaCha20-Poly1305
//! and (with AVX-512) AES-GCM, else AWS-LC, and libaegis for AEGIS. It is
//! inline: a batch is complete when `submit` returns, in place, without an
//! allocation. [`ReferenceEngine`] computes the same by the book from other
//! code, slowly, for tests and cross-checks.
//!
//! Invariants: no algorithm is used before it has passed its known-answer
//! test; a segment that fails authentication is zeroed; unsafe code is in
//! `low` alone.
#![deny(unsafe_code)]

mod aegis256x;
mod authenticator;
mod by_block;
mod chacha20;
mod chacha20_poly1305;
mod counter_poly1305;
mod engine;
mod galois;
mod gcm;
mod hardware;
mod kernel;
mod key_cache;
mod low;
mod modes;
mod poly1305;
mod polyval;
mod process;
mod rates;
mod self_test;
mod twofish;
mod xaes;
mod xchacha;

pub mod reference;
pub mod stream;

pub use engine::CpuEngine;
pub use hardware::{Tier, aes_instructions};
pub use kernel::Code;
pub use reference::ReferenceEngine;

/// Has the libraries of this crate keep the key schedules that they allocate
/// themselves in locked memory. To be called once and first of all, by a
/// program: what they hold by then stays where it is, and is never freed.
///
/// False when it was called before.
pub fn keep_library_keys_locked() -> bool {
    low::aws_lc::allocate_in_locked_memory()
}
