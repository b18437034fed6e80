//! Every bound of the contract, in one place.

use std::time::Duration;

/// How often a busy engine is asked again at once, before it is left alone.
pub const BUSY_ATTEMPTS: u32 = 4;

/// How long a busy engine is left alone the first time, twice as long each
/// time: the service time of a small batch on a fast device.
pub const BUSY_PAUSE_MIN: Duration = Duration::from_micros(20);

/// The longest of these pauses: that of a large batch on a slow one.
pub const BUSY_PAUSE_MAX: Duration = Duration::from_millis(5);

/// Pauses of an engine that stays busy, in all, before that is an error: ten
/// times what a scheduler gives a device to answer.
pub const BUSY_MAX: Duration = Duration::from_secs(20);

/// A batch is waited for in steps of this length, so that the time in which the
/// whole process stood still counts as one of them at most.
pub const ANSWER_STEP: Duration = Duration::from_secs(1);

/// Steps after which an engine that does not answer is in error.
pub const ANSWER_STEPS: u32 = 60;

/// Longest time that a [`crate::Poller`] is asked to wait at once. A waiter
/// whose answer was found by another one notices after this at the latest.
pub const POLL_MAX: Duration = Duration::from_millis(10);

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
