//! The mount table of this process, `/proc/self/mountinfo`.
//!
//! Source: `proc_pid_mountinfo(5)`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The device number of a mounted file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceNumber {
    pub(super) major: u32,
    pub(super) minor: u32,
}

/// What is mounted at `path`, which is absolute and free of symbolic links;
/// of several mounts the topmost.
pub(super) fn device_at(path: &Path) -> Option<DeviceNumber> {
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    find(&table, path)
}

fn find(table: &[u8], path: &Path) -> Option<DeviceNumber> {
    table.split(|&byte| byte == b'\n').rev().find_map(|line| {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let device = device_number(fields.next()?)?;
        let mount_point = unescape(fields.nth(1)?);
        (OsStr::from_bytes(&mount_point) == path.as_os_str()).then_some(device)
    })
}

fn device_number(field: &[u8]) -> Option<DeviceNumber> {
    let (major, minor) = std::str::from_utf8(field).ok()?.split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// Undoes the octal escapes of blanks, line ends and backslashes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if first == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 0:21 / /proc rw shared:5 - proc proc rw\n\
        30 1 0:40 / /a\\040b\\134c rw - fuse.strongroom strongroom rw\n\
        31 30 0:41 / /m rw - fuse.strongroom one rw\n\
        32 31 0:42 / /m rw,nosuid - fuse.strongroom two rw\n\
        broken line\n";

    #[test]
    fn the_topmost_mount_of_a_path_is_found() {
        let minor = |path: &str| find(TABLE, Path::new(path)).map(|device| device.minor);
        assert_eq!(minor("/proc"), Some(21));
        assert_eq!(minor("/a b\\c"), Some(40));
        assert_eq!(minor("/m"), Some(42));
        assert_eq!(minor("/n"), None);
    }

    #[test]
    fn escapes_that_are_none_stay() {
        assert_eq!(unescape(b"\\04"), b"\\04");
        assert_eq!(unescape(b"\\999\\"), b"\\999\\");
        assert_eq!(unescape(b"\\011x"), b"\tx");
    }
}
