//! Locks of open file descriptions, and what a loop device lies on.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

// The C library's own call takes offsets of 32 bits on machines of 32 bits.
#[cfg(target_pointer_width = "64")]
use libc::{SYS_fcntl as FCNTL, flock as Lock};
#[cfg(target_pointer_width = "32")]
use libc::{SYS_fcntl64 as FCNTL, flock64 as Lock};

/// `LOOP_GET_STATUS64` (linux/loop.h).
const LOOP_STATUS: libc::Ioctl = 0x4c05;
/// Bytes of `struct loop_info64`.
const LOOP_INFO_LEN: usize = 232;

/// Sets a lock of `file`'s description on one byte (`F_OFD_SETLK`, fcntl(2));
/// false when somebody else has one that keeps it out.
///
/// # Errors
/// The system's.
pub(crate) fn lock_byte(file: impl AsFd, at: i64, exclusive: bool) -> io::Result<bool> {
    // SAFETY: the structure is of integers alone, for which zeros are values.
    let mut lock: Lock = unsafe { std::mem::zeroed() };
    lock.l_type = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK } as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = at;
    lock.l_len = 1;
    // SAFETY: the descriptor is open as long as it is borrowed, and the kernel
    // only reads the structure, which outlives the call.
    let done = unsafe { libc::syscall(FCNTL, file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    match done {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            error => Err(error),
        },
    }
}

/// Device, inode and offset of what a loop device lies on.
///
/// # Errors
/// The system's: `ENXIO` when it lies on nothing, `ENOTTY` when it is none.
pub(crate) fn loop_status(device: impl AsFd) -> io::Result<(u64, u64, u64)> {
    let mut info = [0u64; LOOP_INFO_LEN / 8];
    // SAFETY: the descriptor is open as long as it is borrowed, and the kernel
    // writes no more than the structure's length, which the array has, with
    // its alignment.
    let done = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_STATUS, info.as_mut_ptr()) };
    match done {
        0 => Ok((info[0], info[1], info[3])),
        _ => Err(io::Error::last_os_error()),
    }
}
