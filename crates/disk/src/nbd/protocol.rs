//! Numbers and messages of the NBD protocol, which are all big-endian.
//!
//! Source: the NBD project's `proto.md`; its section "Values".

use crate::error::Error;

/// Begins the handshake.
pub const INIT_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// Follows it in newstyle, and begins each option.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Begins each answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags.
pub mod handshake {
    /// Fixed newstyle.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No 124 zeros behind `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 2;
}

/// Options.
pub mod option {
    /// Choose an export and begin.
    pub const EXPORT_NAME: u32 = 1;
    /// End.
    pub const ABORT: u32 = 2;
    /// List exports.
    pub const LIST: u32 = 3;
    /// Tell of an export.
    pub const INFO: u32 = 6;
    /// Tell of an export and begin.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Answers to options.
pub mod reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export's name.
    pub const SERVER: u32 = 2;
    /// A piece of information.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = 1 << 31 | 1;
    /// The option is malformed.
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
}

/// Kinds of information about an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Block sizes.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags.
pub mod transmission {
    /// There are flags.
    pub const HAS_FLAGS: u16 = 1;
    /// No writing.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `FLUSH` is served.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// `FUA` is obeyed.
    pub const SEND_FUA: u16 = 1 << 3;
    /// `TRIM` is served.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` is served.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// A flush on one connection covers all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Requests.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write.
    pub const WRITE: u16 = 1;
    /// Disconnect.
    pub const DISC: u16 = 2;
    /// Make durable.
    pub const FLUSH: u16 = 3;
    /// Discard.
    pub const TRIM: u16 = 4;
    /// Write zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// Tell of a range without reading it.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub mod flag {
    /// Durable before the answer.
    pub const FUA: u16 = 1;
    /// Zeros are to take space.
    pub const NO_HOLE: u16 = 1 << 1;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 1 << 3;
}

/// Chunks of structured replies.
pub mod chunk {
    /// In `flags`: the last of its reply.
    pub const DONE: u16 = 1;
    /// Nothing.
    pub const NONE: u16 = 0;
    /// An offset and its data.
    pub const OFFSET_DATA: u16 = 1;
    /// A context and its extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error.
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// States of `base:allocation`.
pub mod state {
    /// Takes no space.
    pub const HOLE: u32 = 1;
    /// Reads as zeros.
    pub const ZERO: u32 = 2;
}

/// The one metadata context.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Its number.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Most bytes of an option.
pub const OPTION_LEN_MAX: u32 = 64 << 10;
/// Most bytes of a request's payload.
pub const PAYLOAD_MAX: u32 = 32 << 20;
/// Bytes of a request without its payload.
pub const REQUEST_LEN: usize = 28;

/// An error as the protocol spells it.
#[must_use]
pub fn error_number(error: &Error) -> u32 {
    use rustix::io::Errno;
    match Errno::from_raw_os_error(error.errno()) {
        Errno::ROFS | Errno::PERM | Errno::ACCESS => 1,
        Errno::NOMEM => 12,
        Errno::INVAL => 22,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => 28,
        _ => 5,
    }
}

/// A request's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bits of [`flag`].
    pub flags: u16,
    /// One of [`command`].
    pub command: u16,
    /// What its reply is known by.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

impl Request {
    /// Reads a request; none without its magic.
    #[must_use]
    pub fn parse(bytes: &[u8; REQUEST_LEN]) -> Option<Request> {
        let u16_at = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        (u32_at(0) == REQUEST_MAGIC).then(|| Request {
            flags: u16_at(4),
            command: u16_at(6),
            cookie: u64_at(8),
            offset: u64_at(16),
            len: u32_at(24),
        })
    }

    /// Bytes that follow the request.
    #[must_use]
    pub fn payload(&self) -> usize {
        if self.command == command::WRITE { self.len as usize } else { 0 }
    }
}

/// A simple reply's bytes, before its data.
#[must_use]
pub fn simple_reply(error: u32, cookie: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// A structured reply chunk's bytes, before its payload of `len`.
#[must_use]
pub fn chunk_head(flags: u16, kind: u16, cookie: u64, len: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&len.to_be_bytes());
    bytes
}
