//! The structures and numbers of `linux/ublk_cmd.h`, in the machine's byte
//! order, as bytes. docs/ublk.md has the same in tables, and a test compares
//! them.

/// Bytes of `struct ublksrv_ctrl_cmd`.
pub const CONTROL_LEN: usize = 32;
/// Bytes of `struct ublksrv_ctrl_dev_info`.
pub const INFO_LEN: usize = 64;
/// Bytes of `struct ublksrv_io_desc`.
pub const DESCRIPTOR_LEN: usize = 24;
/// Bytes of `struct ublksrv_io_cmd`.
pub const IO_LEN: usize = 16;
/// Bytes of `struct ublk_params` up to the end of what is set here.
pub const PARAMETERS_LEN: usize = 60;
/// Descriptors of a queue lie this far apart: the most that a queue can have
/// (`UBLK_MAX_QUEUE_DEPTH`).
pub const QUEUE_DEPTH_MAX: usize = 4096;

/// Commands to `/dev/ublk-control`, as `_IOR` and `_IOWR` make them.
pub mod control {
    use super::{CONTROL_LEN, READ, READ_WRITE, number};

    /// Make a device.
    pub const ADD: u32 = number(READ_WRITE, CONTROL_LEN, 0x04);
    /// Remove it.
    pub const DELETE: u32 = number(READ_WRITE, CONTROL_LEN, 0x05);
    /// Show its disk.
    pub const START: u32 = number(READ_WRITE, CONTROL_LEN, 0x06);
    /// Take its disk away.
    pub const STOP: u32 = number(READ_WRITE, CONTROL_LEN, 0x07);
    /// Say what the disk is like.
    pub const SET_PARAMETERS: u32 = number(READ_WRITE, CONTROL_LEN, 0x08);
    /// Ask what this kernel can do.
    pub const FEATURES: u32 = number(READ, CONTROL_LEN, 0x13);
}

/// Commands to a queue.
pub mod io {
    use super::{IO_LEN, READ_WRITE, number};

    /// Wait for a request.
    pub const FETCH: u32 = number(READ_WRITE, IO_LEN, 0x20);
    /// Answer one and wait for the next.
    pub const COMMIT_AND_FETCH: u32 = number(READ_WRITE, IO_LEN, 0x21);
}

/// Flags of a device.
pub mod flag {
    /// Commands are numbered as ioctls are.
    pub const IOCTL_ENCODED: u64 = 1 << 6;
    /// Data is moved by `pread` and `pwrite`.
    pub const USER_COPY: u64 = 1 << 7;
}

/// What a request asks for.
pub mod operation {
    /// Read.
    pub const READ: u8 = 0;
    /// Write.
    pub const WRITE: u8 = 1;
    /// Make durable.
    pub const FLUSH: u8 = 2;
    /// Discard.
    pub const DISCARD: u8 = 3;
    /// Flag: durable before the answer.
    pub const FUA: u32 = 1 << 13;
}

/// Attributes of a disk.
pub mod attribute {
    /// No writing.
    pub const READ_ONLY: u32 = 1 << 0;
    /// It needs flushes.
    pub const VOLATILE_CACHE: u32 = 1 << 2;
    /// It obeys FUA.
    pub const FUA: u32 = 1 << 3;
}

/// Parts of the parameters that are set.
pub mod parameter {
    /// What every disk has.
    pub const BASIC: u32 = 1 << 0;
    /// Discards.
    pub const DISCARD: u32 = 1 << 1;
}

const READ: u32 = 2;
const READ_WRITE: u32 = 3;

/// `_IOC(direction, 'u', nr, size)`.
const fn number(direction: u32, size: usize, nr: u32) -> u32 {
    direction << 30 | (size as u32) << 16 | (b'u' as u32) << 8 | nr
}

/// First byte of a request's data on the character device
/// (`UBLKSRV_IO_BUF_OFFSET`).
const DATA_OFFSET: u64 = 0x8000_0000;

/// Where the data of a request is read and written on the character device.
#[must_use]
pub fn data_offset(queue: u16, tag: u16) -> u64 {
    DATA_OFFSET + (u64::from(queue) << 41) + (u64::from(tag) << 25)
}

/// Where the descriptors of a queue are mapped from.
#[must_use]
pub fn descriptors_offset(queue: u16) -> u64 {
    u64::from(queue) * (QUEUE_DEPTH_MAX * DESCRIPTOR_LEN) as u64
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// `struct ublksrv_ctrl_cmd`: `address` and `len` of a buffer, and one number.
#[must_use]
pub fn control(device: u32, address: u64, len: u16, data: u64) -> [u8; CONTROL_LEN] {
    let mut bytes = [0; CONTROL_LEN];
    put(&mut bytes, 0, &device.to_ne_bytes());
    // No queue is meant.
    put(&mut bytes, 4, &u16::MAX.to_ne_bytes());
    put(&mut bytes, 6, &len.to_ne_bytes());
    put(&mut bytes, 8, &address.to_ne_bytes());
    put(&mut bytes, 16, &data.to_ne_bytes());
    bytes
}

/// What a device shall be, and after it was made is
/// (`struct ublksrv_ctrl_dev_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Queues.
    pub queues: u16,
    /// Requests of a queue.
    pub depth: u16,
    /// Bytes of a request at most.
    pub request_len_max: u32,
    /// Its number; `u32::MAX` for any.
    pub device: u32,
    /// Bits of [`flag`].
    pub flags: u64,
}

impl Info {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; INFO_LEN] {
        let mut bytes = [0; INFO_LEN];
        put(&mut bytes, 0, &self.queues.to_ne_bytes());
        put(&mut bytes, 2, &self.depth.to_ne_bytes());
        put(&mut bytes, 8, &self.request_len_max.to_ne_bytes());
        put(&mut bytes, 12, &self.device.to_ne_bytes());
        put(&mut bytes, 24, &self.flags.to_ne_bytes());
        bytes
    }

    /// From bytes.
    #[must_use]
    pub fn parse(bytes: &[u8; INFO_LEN]) -> Info {
        let u16_at = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Info {
            queues: u16_at(0),
            depth: u16_at(2),
            request_len_max: u32_at(8),
            device: u32_at(12),
            flags: u64::from_ne_bytes(bytes[24..32].try_into().expect("eight bytes")),
        }
    }
}

/// What a disk is like (`struct ublk_params`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bits of [`attribute`].
    pub attributes: u32,
    /// Bytes of a sector: 512 to 4096, a power of two.
    pub sector_len: u32,
    /// Bytes of a request at most.
    pub request_len_max: u32,
    /// Bytes of the disk.
    pub len: u64,
    /// Whether discards are taken.
    pub discard: bool,
}

impl Parameters {
    /// As bytes. Lengths are told in units of 512 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; PARAMETERS_LEN] {
        let mut bytes = [0; PARAMETERS_LEN];
        let parts = parameter::BASIC | if self.discard { parameter::DISCARD } else { 0 };
        let shift = self.sector_len.trailing_zeros() as u8;
        put(&mut bytes, 0, &(PARAMETERS_LEN as u32).to_ne_bytes());
        put(&mut bytes, 4, &parts.to_ne_bytes());
        put(&mut bytes, 8, &self.attributes.to_ne_bytes());
        // Logical and physical sector, best and least request.
        put(
            &mut bytes,
            12,
            &[shift, shift.max(12), self.request_len_max.trailing_zeros() as u8, shift.max(12)],
        );
        put(&mut bytes, 16, &(self.request_len_max / 512).to_ne_bytes());
        put(&mut bytes, 24, &(self.len / 512).to_ne_bytes());
        if self.discard {
            put(&mut bytes, 44, &self.sector_len.to_ne_bytes());
            put(&mut bytes, 48, &(u32::MAX >> 9).to_ne_bytes());
            put(&mut bytes, 56, &1u16.to_ne_bytes());
        }
        bytes
    }
}

/// A request (`struct ublksrv_io_desc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// One of [`operation`].
    pub operation: u8,
    /// Durable before the answer.
    pub fua: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl Descriptor {
    /// From bytes.
    #[must_use]
    pub fn parse(bytes: &[u8; DESCRIPTOR_LEN]) -> Descriptor {
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let sector = u64::from_ne_bytes(bytes[8..16].try_into().expect("eight bytes"));
        let flags = u32_at(0);
        Descriptor {
            operation: flags as u8,
            fua: flags & operation::FUA != 0,
            offset: sector.saturating_mul(512),
            len: u64::from(u32_at(4)) * 512,
        }
    }
}

/// `struct ublksrv_io_cmd`: the answer to `tag` of `queue`, bytes or a negative
/// error number. No address: data is moved by `pread` and `pwrite`.
#[must_use]
pub fn io_command(queue: u16, tag: u16, result: i32) -> [u8; IO_LEN] {
    let mut bytes = [0; IO_LEN];
    put(&mut bytes, 0, &queue.to_ne_bytes());
    put(&mut bytes, 2, &tag.to_ne_bytes());
    put(&mut bytes, 4, &result.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a C compiler computes them from the kernel's header.
    #[test]
    fn commands_have_the_kernels_numbers() {
        assert_eq!(control::ADD, 0xc020_7504);
        assert_eq!(control::DELETE, 0xc020_7505);
        assert_eq!(control::START, 0xc020_7506);
        assert_eq!(control::STOP, 0xc020_7507);
        assert_eq!(control::SET_PARAMETERS, 0xc020_7508);
        assert_eq!(control::FEATURES, 0x8020_7513);
        assert_eq!(io::FETCH, 0xc010_7520);
        assert_eq!(io::COMMIT_AND_FETCH, 0xc010_7521);
    }

    #[test]
    fn structures_have_their_fields_where_the_kernel_looks() {
        let command = control(3, 0x1122, 64, 77);
        assert_eq!(command[..8], [3, 0, 0, 0, 0xff, 0xff, 64, 0]);
        assert_eq!((command[8], command[9], command[16]), (0x22, 0x11, 77));
        let info = Info { queues: 2, depth: 64, request_len_max: 1 << 18, device: u32::MAX, flags: 0xc0 };
        assert_eq!(info.encode()[8..16], [0, 0, 4, 0, 255, 255, 255, 255]);
        assert_eq!(Info::parse(&info.encode()), info);
        assert_eq!(io_command(1, 2, -5), [1, 0, 2, 0, 0xfb, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(data_offset(1, 3), 0x8000_0000 + (1 << 41) + (3 << 25));
        assert_eq!(descriptors_offset(2), 2 * 4096 * 24);
    }

    #[test]
    fn parameters_are_told_in_sectors() {
        let parameters = Parameters {
            attributes: attribute::FUA,
            sector_len: 4096,
            request_len_max: 1 << 18,
            len: 1 << 30,
            discard: false,
        };
        let bytes = parameters.encode();
        assert_eq!(bytes[..8], [60, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[8..24], [8, 0, 0, 0, 12, 12, 18, 12, 0, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..32], (1u64 << 21).to_ne_bytes());
        assert!(bytes[40..].iter().all(|&byte| byte == 0));
        let with = Parameters { discard: true, ..parameters }.encode();
        assert_eq!((with[4], with[45], with[56]), (3, 16, 1));
    }

    #[test]
    fn a_request_is_read() {
        let mut bytes = [0; DESCRIPTOR_LEN];
        put(&mut bytes, 0, &(1 << 13 | 1u32).to_ne_bytes());
        put(&mut bytes, 4, &8u32.to_ne_bytes());
        put(&mut bytes, 8, &100u64.to_ne_bytes());
        let expected = Descriptor { operation: operation::WRITE, fua: true, offset: 51_200, len: 4096 };
        assert_eq!(Descriptor::parse(&bytes), expected);
    }
}
