//! All unsafe code of the crate: AWS-LC's C interface, and vector kernels of
//! the block ciphers, ChaCha20 and the hashes.
//!
//! Invariant: a kernel demands a token of [`cpu`], which exists only where the
//! CPU has its instructions; a vector value is made only with one. So nothing
//! above can reach an instruction that the CPU lacks.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
pub(crate) mod aes;
pub(crate) mod aws_lc;
#[cfg(target_arch = "x86_64")]
pub(crate) mod bitsliced;
#[cfg(target_arch = "x86_64")]
pub(crate) mod camellia;
#[cfg(target_arch = "x86_64")]
pub(crate) mod chacha20;
#[cfg(target_arch = "x86_64")]
pub(crate) mod cpu;
#[cfg(target_arch = "x86_64")]
pub(crate) mod gcm;
#[cfg(target_arch = "x86_64")]
pub(crate) mod poly1305;
#[cfg(target_arch = "x86_64")]
pub(crate) mod polyval;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod serpent;
#[cfg(target_arch = "x86_64")]
pub(crate) mod twofish;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod vector;
pub(crate) mod wipe;
