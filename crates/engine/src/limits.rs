//! Every bound of the contract, in one place.

/// Most bytes of associated data of one segment.
pub const ASSOCIATED_DATA_MAX: usize = 96;

/// Most bytes that may be sealed under one write session of a
/// [`crate::NonceSource`], in cipher blocks of 16 bytes, before it renews
/// itself. NIST SP 800-38D section 8.3 and the bound of 2^36 cipher blocks
/// keep the distinguishing advantage of AES-GCM below 2^-56.
pub const SESSION_CIPHER_BLOCKS_MAX: u64 = 1 << 36;

/// Nonces that one batch may take: the counter has five bytes, far above it.
pub const BATCH_NONCES_MAX: u64 = 1 << 32;

/// A machine that has been suspended for this long, in nanoseconds, since a
/// write session was opened opens another. Far above what the two clocks that
/// tell it are apart when they are read.
pub const SUSPENSION_MIN_NS: u64 = 100_000_000;
