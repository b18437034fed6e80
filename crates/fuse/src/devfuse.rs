//! `/dev/fuse` itself: opening it, and writing to it.

use crate::errno::Errno;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::io::IoSlice;

/// Path of the device.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// A descriptor of the device, not yet of any connection.
pub(crate) fn open() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// Writes a reply or notification, which the kernel takes whole or not at all.
pub(crate) fn send(file: impl AsFd, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| rustix::io::writev(&file, parts))?;
    Ok(())
}
