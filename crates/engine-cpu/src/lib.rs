//! Engines that compute on the CPU.
//!
//! [`CpuEngine`] is the fast one: AWS-LC for AES-GCM, AES-XTS and ChaCha20,
//! libaegis for AEGIS. It is inline: a batch is complete when `submit`
//! returns, in place, without an allocation. [`ReferenceEngine`] computes the
//! same by the book from other code, slowly, for tests and cross-checks.
//!
//! Invariants: no algorithm is used before it has passed its known-answer
//! test; a segment that fails authentication is zeroed; unsafe code is in
//! `low` alone.
#![deny(unsafe_code)]

mod aegis256x2;
mod engine;
mod hardware;
mod low;
mod process;
mod self_test;
mod xaes;
mod xaes_cache;
mod xchacha;
mod xts;

pub mod reference;

pub use engine::CpuEngine;
pub use hardware::aes_instructions;
pub use reference::ReferenceEngine;
