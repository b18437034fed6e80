//! Controls of a connection in `/sys`: aborting it, its readahead, and how
//! much of it may wait to be written back.

use super::table::DeviceNumber;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Where the control file system is mounted.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// The directory of a connection: named by the kernel's device number, 20
/// bits of which are the minor.
fn directory(device: DeviceNumber) -> PathBuf {
    let number = u64::from(device.major) << 20 | u64::from(device.minor);
    Path::new(CONNECTIONS).join(number.to_string())
}

/// Ends a connection. Needs the control file system, and root or the user who
/// mounted.
pub(super) fn abort(device: DeviceNumber) -> io::Result<()> {
    // Opened without creating: where nothing is mounted, there is no file.
    let mut control = std::fs::OpenOptions::new().write(true).open(directory(device).join("abort"))?;
    io::Write::write_all(&mut control, b"1")
}

/// Sets readahead in KiB. Needs root.
pub(super) fn set_readahead(device: DeviceNumber, kib: u32) -> io::Result<()> {
    set_backing(device, "read_ahead_kb", kib)
}

/// Sets which part of the memory that the system lets be dirty may be dirty
/// pages of this mount, in percent. Needs root.
pub(super) fn set_dirty_percent(device: DeviceNumber, percent: u32) -> io::Result<()> {
    set_backing(device, "max_ratio", percent)
}

fn set_backing(device: DeviceNumber, name: &str, value: impl Display) -> io::Result<()> {
    let mut control = std::fs::OpenOptions::new().write(true).open(backing(device, name))?;
    io::Write::write_all(&mut control, value.to_string().as_bytes())
}

fn backing(device: DeviceNumber, name: &str) -> PathBuf {
    format!("/sys/class/bdi/{}:{}/{name}", device.major, device.minor).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_named_by_the_whole_device_number() {
        let at = |major, minor| directory(DeviceNumber { major, minor });
        assert_eq!(at(0, 57), Path::new("/sys/fs/fuse/connections/57"));
        assert_eq!(at(7, 1), Path::new("/sys/fs/fuse/connections/7340033"));
    }
}
