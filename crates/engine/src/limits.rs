//! Every bound of the contract, in one place.

/// Most bytes of associated data of one segment.
pub const ASSOCIATED_DATA_MAX: usize = 96;

/// Most bytes that may be sealed under one write session of a
/// [`crate::NonceSource`], in cipher blocks of 16 bytes, before it renews
/// itself. NIST SP 800-38D section 8.3 and the bound of 2^36 cipher blocks
/// keep the distinguishing advantage of AES-GCM below 2^-56.
pub const SESSION_CIPHER_BLOCKS_MAX: u64 = 1 << 36;

/// Nonces that one batch may take.
pub const BATCH_NONCES_MAX: u64 = 1 << 32;

/// The first number that the five bytes of a nonce's counter cannot hold.
pub const COUNTER_END: u64 = 1 << 40;

/// Nonces that are drawn in a write session before another is opened. What is
/// left of the counter is enough for the batches under way: 128 of them, were
/// each to take all that it may.
pub const SESSION_NONCES_MAX: u64 = COUNTER_END - 128 * BATCH_NONCES_MAX;

/// A machine that has been suspended for this long, in nanoseconds, since a
/// write session was opened opens another. Far above what the two clocks that
/// tell it are apart when they are read.
pub const SUSPENSION_MIN_NS: u64 = 100_000_000;
