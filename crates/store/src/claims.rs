//! Claims on files and devices: who uses one keeps others out, and what a loop
//! device lies on is told.

use std::fs::File;
use std::io;

use crate::low;

/// Claims `file` for as long as it, or a copy of its descriptor, is open:
/// `exclusive`, for whoever writes, and then it has to be open for writing; or
/// shared. False when another claim keeps it out.
///
/// A claim is a lock of the open file description (`F_OFD_SETLK`, fcntl(2)) on
/// the byte `at`, which need not be there. It is apart from `flock(2)`, which
/// others take for shorter times.
///
/// # Errors
/// The system's.
pub fn claim(file: &File, at: i64, exclusive: bool) -> io::Result<bool> {
    low::lock_byte(file, at, exclusive)
}

/// Where a loop device's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopTarget {
    /// Device of the file that it lies on, as `st_dev` tells it.
    pub device: u64,
    /// Inode of that file.
    pub inode: u64,
    /// The byte of the file at which it begins.
    pub offset: u64,
}

/// What an open loop device lies on.
///
/// # Errors
/// The system's: `ENXIO` when it lies on nothing, `ENOTTY` when it is none.
pub fn loop_target(device: &File) -> io::Result<LoopTarget> {
    let (device, inode, offset) = low::loop_status(device)?;
    Ok(LoopTarget { device, inode, offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_keeps_others_out_and_readers_share() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let opened = || File::options().read(true).write(true).open(file.path()).expect("open");
        let (first, second, third) = (opened(), opened(), opened());
        assert!(claim(&first, 1 << 40, false).expect("locks"));
        assert!(claim(&second, 1 << 40, false).expect("locks"));
        assert!(!claim(&third, 1 << 40, true).expect("locks"));
        drop((first, second));
        assert!(claim(&third, 1 << 40, true).expect("locks"));
        // Apart from flock, which others take.
        assert!(rustix::fs::flock(opened(), rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok());
        assert!(loop_target(&third).is_err());
    }
}
