//! INIT: the first request, in which both sides say what they can do.

use super::reader::{ParseError, Reader};
use super::{MAJOR, flags};

/// What the kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitRequest {
    /// Its major version.
    pub major: u32,
    /// Its minor version.
    pub minor: u32,
    /// Bytes it would read ahead.
    pub readahead_max: u32,
    /// Bits of [`flags::init`] that it has.
    pub flags: u64,
}

/// What the server answers. Sizes in bytes unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitReply {
    /// Minor version to speak.
    pub minor: u32,
    /// Bytes to read ahead at most.
    pub readahead_max: u32,
    /// Bits of [`flags::init`] to use.
    pub flags: u64,
    /// Requests that no caller waits for, at most.
    pub background_max: u16,
    /// So many of them count as congestion.
    pub congestion_threshold: u16,
    /// Longest write.
    pub write_max: u32,
    /// Granularity of times, in nanoseconds.
    pub time_granularity_ns: u32,
    /// Most pages of a request.
    pub pages_max: u16,
}

/// Bytes of the reply's body.
const REPLY_LEN: usize = 64;

pub(super) fn parse(reader: &mut Reader<'_>) -> Result<InitRequest, ParseError> {
    let (major, minor) = (reader.u32()?, reader.u32()?);
    if major != MAJOR {
        // Another major version may have laid out the rest differently.
        return Ok(InitRequest { major, minor, readahead_max: 0, flags: 0 });
    }
    let readahead_max = reader.u32()?;
    let low = u64::from(reader.u32()?);
    let high = if low & flags::init::INIT_EXT != 0 { u64::from(reader.u32()?) } else { 0 };
    Ok(InitRequest { major, minor, readahead_max, flags: low | high << 32 })
}

pub(super) fn encode(reply: &InitReply, body: &mut Vec<u8>) {
    let start = body.len();
    for word in [MAJOR, reply.minor, reply.readahead_max, reply.flags as u32] {
        body.extend_from_slice(&word.to_ne_bytes());
    }
    body.extend_from_slice(&reply.background_max.to_ne_bytes());
    body.extend_from_slice(&reply.congestion_threshold.to_ne_bytes());
    body.extend_from_slice(&reply.write_max.to_ne_bytes());
    body.extend_from_slice(&reply.time_granularity_ns.to_ne_bytes());
    body.extend_from_slice(&reply.pages_max.to_ne_bytes());
    body.extend_from_slice(&[0; 2]);
    body.extend_from_slice(&((reply.flags >> 32) as u32).to_ne_bytes());
    body.resize(start + REPLY_LEN, 0);
}

/// The whole body of the answer to a newer major version: ours, upon which the
/// kernel asks again.
pub(super) fn encode_version(body: &mut Vec<u8>) {
    body.extend_from_slice(&MAJOR.to_ne_bytes());
    body.resize(body.len() + REPLY_LEN - 4, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_kernel_looks() {
        let mut body = Vec::new();
        let flags = flags::init::OVER_IO_URING | flags::init::INIT_EXT | flags::init::ASYNC_READ;
        encode(
            &InitReply {
                minor: 31,
                readahead_max: 1,
                flags,
                background_max: 2,
                congestion_threshold: 3,
                write_max: 4,
                time_granularity_ns: 5,
                pages_max: 6,
            },
            &mut body,
        );
        assert_eq!(body.len(), 64);
        let words: Vec<u32> =
            body.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words[..4], [7, 31, 1, 0x4000_0001]);
        assert_eq!(body[16..20], [2u16.to_ne_bytes(), 3u16.to_ne_bytes()].concat());
        assert_eq!(words[5..7], [4, 5]);
        assert_eq!(body[28..30], 6u16.to_ne_bytes());
        assert_eq!(words[8], 1 << 9, "flags2");
        assert!(words[9..].iter().all(|&word| word == 0));
    }

    #[test]
    fn flags2_counts_only_where_it_is_announced() {
        let words = [7u32, 45, 131_072, 1, 1 << 9];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let parsed = parse(&mut Reader::new(&bytes)).unwrap();
        assert_eq!((parsed.readahead_max, parsed.flags), (131_072, 1));
        bytes[12..16].copy_from_slice(&(1u32 << 30).to_ne_bytes());
        let parsed = parse(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(parsed.flags, flags::init::OVER_IO_URING | flags::init::INIT_EXT);
        assert_eq!(parse(&mut Reader::new(&bytes[..16])), Err(ParseError::Truncated));
    }
}
