//! `/proc`: a store opens by it what it has looked at, and the table of mounts
//! is read there. A container or `chroot` may lack it.

use std::path::Path;

use crate::failure::{Exit, Failure, Result};

/// Refuses to go on without it: what it leads to would look as if it were not
/// there.
///
/// # Errors
/// Unsupported where it is not mounted.
pub(crate) fn need() -> Result<()> {
    // As the store takes it, and not as the mount table of an emulator has it.
    if Path::new("/proc/self/fd").is_dir() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Unsupported,
        "/proc is not mounted: a vault is opened by it, and mounts are found",
    )
    .hint("Mount it: mount -t proc proc /proc"))
}
