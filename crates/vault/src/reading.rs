//! Reads and copies that tell a file's end from a store that failed.

use strongroom_store::{Error, File, Result};

use crate::error::errno;

/// Fills `bytes` from `offset`; gives fewer at the end of the file alone.
///
/// # Errors
/// `EIO` when the store gave fewer although the file is longer, or what it
/// reported: a store that fails must not pass for a file that was cut.
pub(crate) fn read_at(file: &dyn File, bytes: &mut [u8], offset: u64) -> Result<usize> {
    let read = file.read_at(bytes, offset)?;
    if read < bytes.len() && file.len()? > offset + read as u64 {
        return Err(Error::new(errno::EIO, "pread"));
    }
    Ok(read)
}

/// Copies `len` bytes at `at` of `from` to `offset` of `to`; gives fewer at the
/// end of `from` alone.
///
/// # Errors
/// As [`read_at`].
pub(crate) fn copy_at((from, at): (&dyn File, u64), (to, offset): (&dyn File, u64), len: u64) -> Result<u64> {
    let copied = to.copy_from(from, at, offset, len)?;
    if copied < len && from.len()? > at + copied {
        return Err(Error::new(errno::EIO, "pread"));
    }
    Ok(copied)
}
