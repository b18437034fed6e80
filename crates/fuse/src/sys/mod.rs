//! The one place with unsafe code: controls of `/dev/fuse` and of the scheduler
//! ([`class`]) that the system crate has no safe call for, and memory that the
//! kernel writes ([`ring`]).
#![allow(unsafe_code)]

pub(crate) mod class;
pub(crate) mod ring;

use rustix::fd::{AsFd, AsRawFd};
use rustix::io;
use rustix::ioctl::{self, Opcode, Setter, opcode};

/// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, uint32_t)`.
const CLONE: Opcode = opcode::read::<u32>(229, 0);

/// Binds `fresh`, a newly opened `/dev/fuse`, to the connection of `device`,
/// with a queue of its own for requests being answered.
pub(crate) fn clone_connection(fresh: impl AsFd, device: impl AsFd) -> io::Result<()> {
    let number = device.as_fd().as_raw_fd().cast_unsigned();
    // SAFETY: the kernel's fuse_dev_ioctl_clone reads one u32, a descriptor
    // number, through the pointer and writes no memory; `Setter` passes a
    // pointer to such a u32 that lives for the whole call. On a descriptor
    // that is not /dev/fuse, number and size of the control mean nothing, and
    // it fails.
    unsafe { ioctl::ioctl(fresh, Setter::<CLONE, u32>::new(number)) }
}
