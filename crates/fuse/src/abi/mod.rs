//! The wire format between the kernel and a FUSE server: version 7, minor up
//! to [`MINOR`], in the byte order of the machine.
//!
//! Decoding ([`request`]) is total: any bytes give a request or an error,
//! never a panic, and nothing outside of the bytes is believed. Encoding
//! ([`reply`]) writes behind what a buffer holds and allocates only when that
//! grows. Both go by offsets, not by overlaying structs, so there is no
//! unsafe code here.
//!
//! Source: the kernel's `include/uapi/linux/fuse.h`.

pub mod directory;
pub mod flags;
pub mod init;
pub mod notification;
pub mod opcode;
mod reader;
pub mod reply;
pub mod request;
pub mod statx;

pub use opcode::Opcode;

/// Major version of the protocol.
pub const MAJOR: u32 = 7;

/// Newest minor version spoken here (Linux 6.18).
pub const MINOR: u32 = 45;

/// Bytes of the header before every request.
pub const REQUEST_HEADER_LEN: usize = 40;

/// Bytes of the arguments of a write, before its payload.
pub const WRITE_ARGUMENTS_LEN: usize = 40;

/// Bytes of the header before every reply and notification.
pub const REPLY_HEADER_LEN: usize = 16;
