//! What a file system says of an open file when it is closed.

use std::io;
use std::os::fd::{AsFd, IntoRawFd};

/// Closes another descriptor of the same open file: a program that serves the
/// file is asked then whether all that was written is written (`FUSE_FLUSH`).
///
/// # Errors
/// What `close(2)` gives, or that no other descriptor can be had.
pub(crate) fn flush(fd: impl AsFd) -> io::Result<()> {
    let other = fd.as_fd().try_clone_to_owned()?.into_raw_fd();
    // SAFETY: the descriptor was made here, and nobody else knows of it. Linux
    // has closed it whatever the call returns, and it is not used again.
    let closed = unsafe { libc::close(other) };
    if closed < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
