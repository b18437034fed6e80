//! Every bound of the crate, in one place.

use std::time::Duration;

/// Most contexts of one launch.
pub const CONTEXTS_MAX: usize = 4096;

/// Most bytes of one launch: as many contexts of 4 KiB.
pub const LAUNCH_BYTES_MAX: usize = CONTEXTS_MAX * 4096;

/// Cipher blocks of 16 bytes, at most, that work-items of one piece share. Longer runs are cut into pieces, so that
/// a launch of short and long runs has no work-items without work to speak of.
pub const PIECE_BLOCKS_MAX: usize = 256;

/// Most sectors of one launch: what 16 MiB have of 512 bytes, twice.
pub const SECTORS_MAX: usize = 1 << 16;

/// Most pieces of one launch, for data and tweaks of up to three passes.
pub const PIECES_MAX: usize = 1 << 15;

/// Most keys of one launch: one for each context and pass.
pub const KEYS_MAX: usize = 3 * CONTEXTS_MAX;

/// Launches in flight on a device, each with a thread, a queue and device memory of its own.
pub const LANES_DEFAULT: usize = 2;
/// The most that may be asked for.
pub const LANES_MAX: usize = 8;

/// Launches that wait for a lane; more are refused as busy.
pub const WAITING_MAX: usize = 4;

/// Pinned blocks beside those of lanes and waiting launches: what may be lent as masks at a time.
pub const LENT_MAX: usize = 12;

/// How long a launch may take before the device counts as lost.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Launches that may fail one after the other before the device counts as lost.
pub const FAILURES_MAX: u32 = 3;

const _: () = {
    assert!(PIECES_MAX >= LAUNCH_BYTES_MAX / (PIECE_BLOCKS_MAX * 16) + 3 * CONTEXTS_MAX);
    assert!(SECTORS_MAX >= LAUNCH_BYTES_MAX / 512);
    assert!(LANES_DEFAULT >= 2 && LANES_DEFAULT <= LANES_MAX);
    // Offsets in words of 4 bytes fit the kernels' 32 bits.
    assert!(LAUNCH_BYTES_MAX / 4 <= u32::MAX as usize);
};
