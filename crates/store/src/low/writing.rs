//! Writing bytes that others may change meanwhile.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use strongroom_units::SharedBytes;

/// `pwrite(2)` of `bytes`, which may be a mapping's: tells how many of them
/// were written.
///
/// # Errors
/// The system's: `EFAULT`, and no signal, when the first of them is a page of
/// a mapping that cannot be had; `InvalidInput` for an offset of 2^63 or more.
pub(crate) fn write_shared(to: impl AsFd, bytes: SharedBytes<'_>, offset: u64) -> io::Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the range is readable as long as it is borrowed, and it is the
    // kernel that reads it, for which a change meanwhile is no fault.
    let written =
        unsafe { libc::pwrite64(to.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), offset) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}
