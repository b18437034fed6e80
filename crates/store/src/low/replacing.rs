//! Another open file description in the place of one that is in use.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Lets the descriptor `old` refer to what `new` refers to from now on
/// (`dup3(2)`). Whoever is in a call on it ends that on what it was.
///
/// # Errors
/// The system's; `old` is as it was then.
pub(crate) fn replace(old: impl AsFd, new: impl AsFd) -> io::Result<()> {
    // SAFETY: both descriptors are open as long as they are borrowed. The old
    // one is open before and after, in one step, so that its owner and all who
    // borrow it have an open one all the time.
    let done = unsafe { libc::dup3(new.as_fd().as_raw_fd(), old.as_fd().as_raw_fd(), libc::O_CLOEXEC) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
