//! Copying from file to file through this process, where a store has no
//! shorter way.

use crate::{File, Result};

/// Most bytes in memory at once: what stays in a CPU's own cache.
const PART: u64 = 256 << 10;

/// Reads `len` bytes at `at` of `from`, and writes them to `offset` of `to`;
/// gives fewer at the end of `from`.
pub(crate) fn copy_through_memory<F: File + ?Sized>(
    to: &F,
    offset: u64,
    (from, at): (&dyn File, u64),
    len: u64,
) -> Result<u64> {
    // Bounded by the constant.
    let mut bytes = vec![0; len.min(PART) as usize];
    let mut done = 0;
    while done < len {
        let part = (len - done).min(PART) as usize;
        let read = from.read_at(&mut bytes[..part], at + done)?;
        to.write_at(&bytes[..read], offset + done)?;
        done += read as u64;
        if read < part {
            break;
        }
    }
    Ok(done)
}
