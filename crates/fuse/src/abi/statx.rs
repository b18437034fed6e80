//! The reply to STATX.

use crate::node::{Attributes, Timestamp};
use std::time::Duration;

/// What `statx` shows beyond `stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statx {
    /// What `stat` shows.
    pub attributes: Attributes,
    /// For how long it holds without asking again.
    pub timeout: Duration,
    /// When the node was made, if that is known.
    pub birth: Option<Timestamp>,
}

/// Bytes of the reply's body.
pub(super) const LEN: usize = 288;

/// `STATX_BASIC_STATS`: everything that `stat` shows.
const BASIC: u32 = 0x7ff;
/// `STATX_BTIME`: the time of birth.
const BIRTH: u32 = 0x800;

pub(super) fn encode(statx: &Statx, body: &mut Vec<u8>) {
    let attributes = &statx.attributes;
    let start = body.len();
    body.extend_from_slice(&statx.timeout.as_secs().to_ne_bytes());
    body.extend_from_slice(&statx.timeout.subsec_nanos().to_ne_bytes());
    body.resize(start + 32, 0);
    let mask = BASIC | if statx.birth.is_some() { BIRTH } else { 0 };
    for word in [mask, attributes.block_size, 0, 0, attributes.nlink, attributes.uid, attributes.gid] {
        body.extend_from_slice(&word.to_ne_bytes());
    }
    // The field holds 16 bits, and so does a mode.
    body.extend_from_slice(&(attributes.mode as u16).to_ne_bytes());
    body.extend_from_slice(&[0; 2]);
    for word in [attributes.inode, attributes.size, attributes.blocks, 0] {
        body.extend_from_slice(&word.to_ne_bytes());
    }
    let birth = statx.birth.unwrap_or_default();
    for time in [attributes.atime, birth, attributes.ctime, attributes.mtime] {
        body.extend_from_slice(&time.seconds.to_ne_bytes());
        body.extend_from_slice(&time.nanoseconds.to_ne_bytes());
        body.extend_from_slice(&[0; 4]);
    }
    for word in device_numbers(attributes.rdev) {
        body.extend_from_slice(&word.to_ne_bytes());
    }
    body.resize(start + LEN, 0);
}

/// Major and minor of the kernel's 32-bit encoding (12 bits of major amid 20
/// of minor).
fn device_numbers(rdev: u32) -> [u32; 2] {
    [(rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xfff00)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_kernel_looks() {
        let attributes = Attributes {
            inode: 7,
            size: 11,
            mode: 0o100644,
            nlink: 3,
            rdev: 0x1234_5678,
            mtime: Timestamp { seconds: -2, nanoseconds: 9 },
            ..Attributes::default()
        };
        let birth = Timestamp { seconds: 5, nanoseconds: 6 };
        let mut body = Vec::new();
        encode(&Statx { attributes, timeout: Duration::from_millis(1500), birth: Some(birth) }, &mut body);
        assert_eq!(body.len(), LEN);
        let u32_at = |at: usize| u32::from_ne_bytes(body[at..at + 4].try_into().unwrap());
        let u64_at = |at: usize| u64::from_ne_bytes(body[at..at + 8].try_into().unwrap());
        assert_eq!((u64_at(0), u32_at(8)), (1, 500_000_000));
        assert_eq!(u32_at(32), BASIC | BIRTH);
        assert_eq!(u32_at(48), 3, "nlink");
        assert_eq!(u16::from_ne_bytes([body[60], body[61]]), 0o100644);
        assert_eq!((u64_at(64), u64_at(72)), (7, 11), "inode and size");
        assert_eq!((u64_at(112), u32_at(120)), (5, 6), "birth");
        assert_eq!((u64_at(144) as i64, u32_at(152)), (-2, 9), "mtime");
        assert_eq!((u32_at(160), u32_at(164)), (0x456, 0x12378), "device");
    }
}
