//! What a source of nonces asks of the machine that it runs on: random bytes,
//! the clock, and what tells that it has been suspended or copied.
//!
//! A trait, so that tests can be a machine whose memory was copied and whose
//! generator repeats itself.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::nonce::EntropyError;

/// The machine below a source.
pub(crate) trait Machine: Send + Sync {
    /// Fills `bytes` from the generator.
    fn random(&self, bytes: &mut [u8]) -> Result<(), EntropyError>;

    /// Nanoseconds of the wall clock.
    fn clock_ns(&self) -> u64;

    /// Nanoseconds that the machine has been suspended since its start.
    fn suspended_ns(&self) -> u64;

    /// This process.
    fn process(&self) -> u32;
}

/// The machine that this process runs on.
pub(crate) struct Here;

impl Machine for Here {
    /// From the kernel, at the moment it is asked: never from a generator in
    /// user space, which a copy of the process would copy.
    fn random(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        getrandom::fill(bytes).map_err(|_| EntropyError)
    }

    fn clock_ns(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
    }

    /// `CLOCK_BOOTTIME` goes on during a suspension and `CLOCK_MONOTONIC`
    /// does not (clock_gettime(2)).
    fn suspended_ns(&self) -> u64 {
        // Asked in this order the difference is never below what it should be.
        let awake = nanoseconds(ClockId::Monotonic);
        nanoseconds(ClockId::Boottime).saturating_sub(awake)
    }

    fn process(&self) -> u32 {
        std::process::id()
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither clock is negative, and both count from the machine's start.
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_not_suspended_says_so() {
        let before = Here.suspended_ns();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let after = Here.suspended_ns();
        assert!(before.abs_diff(after) < crate::limits::SUSPENSION_MIN_NS, "{before} {after}");
        assert!(Here.clock_ns() > 1_700_000_000_000_000_000);
    }
}
