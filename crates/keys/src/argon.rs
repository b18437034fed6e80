//! Argon2 (RFC 9106) where nothing of it is left behind: its memory is wiped,
//! and its lanes are computed on threads that end with it and whose stacks are
//! locked and wiped.

use argon2::Argon2;
use rayon::{ThreadBuilder, ThreadPoolBuilder};
use strongroom_memory::{lock_stack, wipe_stack};

use crate::low::Scratch;

/// Fills `key` with the hash of as many `lanes` as `argon2` has; false when there is not enough memory, or an input is longer
/// than Argon2 takes.
pub(crate) fn hash(argon2: &Argon2<'_>, lanes: u32, secret: &[u8], salt: &[u8], key: &mut [u8]) -> bool {
    let Some(mut scratch) = Scratch::new(argon2.params().block_count()) else { return false };
    let mut compute = || argon2.hash_password_into_with_memory(secret, salt, key, scratch.blocks()).is_ok();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cpus.min(lanes as usize).max(1);
    let wiped = |thread: ThreadBuilder| {
        lock_stack();
        thread.run();
        wipe_stack();
    };
    let pool = ThreadPoolBuilder::new().num_threads(threads);
    match pool.build_scoped(wiped, |pool| pool.install(&mut compute)) {
        Ok(done) => done,
        // No more threads can be had than there are.
        Err(_) => compute(),
    }
}
