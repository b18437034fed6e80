//! From the first byte of a connection to its transmission phase.

use std::io::{self, Read, Write};

use super::protocol::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, INIT_MAGIC, OPTION_LEN_MAX, OPTION_MAGIC, OPTION_REPLY_MAGIC,
    PAYLOAD_MAX, handshake, info, option, reply, transmission,
};
use crate::device::Device;

/// What was agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreed {
    /// Structured replies.
    pub(super) structured: bool,
    /// `base:allocation` was chosen.
    pub(super) allocation: bool,
}

/// Preferred bytes of a request.
const PREFERRED: u32 = 128 << 10;

/// What transmission is begun with.
pub(super) fn transmission_flags(device: &dyn Device) -> u16 {
    let mut flags = transmission::HAS_FLAGS
        | transmission::SEND_FLUSH
        | transmission::SEND_FUA
        | transmission::CAN_MULTI_CONN;
    if device.is_read_only() {
        flags |= transmission::READ_ONLY;
    } else {
        flags |= transmission::SEND_WRITE_ZEROES;
    }
    if device.can_discard() {
        flags |= transmission::SEND_TRIM;
    }
    flags
}

/// Negotiates; none when the client leaves in good order.
///
/// # Errors
/// The socket's, and what a client must not do.
pub(super) fn run(stream: &mut (impl Read + Write), device: &dyn Device) -> io::Result<Option<Agreed>> {
    let mut greeting = [0; 18];
    greeting[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
    greeting[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    let offered = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
    greeting[16..].copy_from_slice(&offered.to_be_bytes());
    stream.write_all(&greeting)?;
    let flags = read_u32(stream)?;
    if flags & !u32::from(offered) != 0 || flags & u32::from(handshake::FIXED_NEWSTYLE) == 0 {
        return Err(violation("the client does not speak fixed newstyle"));
    }
    let no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
    let mut agreed = Agreed::default();
    loop {
        let (number, data) = read_option(stream)?;
        let mut answer = Answer { stream, option: number };
        match number {
            option::EXPORT_NAME => {
                if !data.is_empty() {
                    return Err(violation("there is no export of this name"));
                }
                let mut bytes = device.len().to_be_bytes().to_vec();
                bytes.extend_from_slice(&transmission_flags(device).to_be_bytes());
                bytes.resize(bytes.len() + if no_zeroes { 0 } else { 124 }, 0);
                stream.write_all(&bytes)?;
                return Ok(Some(agreed));
            }
            option::ABORT => {
                // The client may be gone before it hears of it.
                let _ = answer.send(reply::ACK, &[]);
                return Ok(None);
            }
            option::LIST if data.is_empty() => {
                answer.send(reply::SERVER, &0u32.to_be_bytes())?;
                answer.send(reply::ACK, &[])?;
            }
            option::INFO | option::GO => {
                if answer.information(&data, device)? && number == option::GO {
                    return Ok(Some(agreed));
                }
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                agreed.structured = true;
                answer.send(reply::ACK, &[])?;
            }
            option::SET_META_CONTEXT if !agreed.structured => answer.send(reply::ERR_INVALID, &[])?,
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                if let Some(chosen) = answer.contexts(&data)?
                    && number == option::SET_META_CONTEXT
                {
                    agreed.allocation = chosen;
                }
            }
            option::LIST | option::STRUCTURED_REPLY => answer.send(reply::ERR_INVALID, &[])?,
            _ => answer.send(reply::ERR_UNSUP, &[])?,
        }
    }
}

fn violation(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn read_u32(stream: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn read_option(stream: &mut impl Read) -> io::Result<(u32, Vec<u8>)> {
    let mut magic = [0; 8];
    stream.read_exact(&mut magic)?;
    if u64::from_be_bytes(magic) != OPTION_MAGIC {
        return Err(violation("no option begins here"));
    }
    let (number, len) = (read_u32(stream)?, read_u32(stream)?);
    if len > OPTION_LEN_MAX {
        return Err(violation("an option is too long"));
    }
    let mut data = vec![0; len as usize];
    stream.read_exact(&mut data)?;
    Ok((number, data))
}

/// Answers one option.
struct Answer<'a, S> {
    stream: &'a mut S,
    option: u32,
}

impl<S: Write> Answer<'_, S> {
    fn send(&mut self, kind: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.option.to_be_bytes());
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.stream.write_all(&bytes)
    }

    /// To `INFO` and `GO`: whether the export was there.
    fn information(&mut self, data: &[u8], device: &dyn Device) -> io::Result<bool> {
        let mut fields = Fields(data);
        let Some((name, requests)) = fields.text().zip(fields.u16()) else {
            self.send(reply::ERR_INVALID, &[])?;
            return Ok(false);
        };
        if fields.0.len() != 2 * usize::from(requests) {
            self.send(reply::ERR_INVALID, &[])?;
            return Ok(false);
        }
        if !name.is_empty() {
            self.send(reply::ERR_UNKNOWN, b"the only export has the empty name")?;
            return Ok(false);
        }
        let mut export = info::EXPORT.to_be_bytes().to_vec();
        export.extend_from_slice(&device.len().to_be_bytes());
        export.extend_from_slice(&transmission_flags(device).to_be_bytes());
        self.send(reply::INFO, &export)?;
        let mut sizes = info::BLOCK_SIZE.to_be_bytes().to_vec();
        for size in [device.sector_len(), PREFERRED, PAYLOAD_MAX] {
            sizes.extend_from_slice(&size.to_be_bytes());
        }
        self.send(reply::INFO, &sizes)?;
        self.send(reply::ACK, &[])?;
        Ok(true)
    }

    /// To `LIST_META_CONTEXT` and `SET_META_CONTEXT`: whether ours was asked
    /// for; none when it was malformed.
    fn contexts(&mut self, data: &[u8]) -> io::Result<Option<bool>> {
        let mut fields = Fields(data);
        let Some((name, count)) = fields.text().zip(fields.u32()) else {
            self.send(reply::ERR_INVALID, &[])?;
            return Ok(None);
        };
        if !name.is_empty() {
            self.send(reply::ERR_UNKNOWN, &[])?;
            return Ok(None);
        }
        let listing = self.option == option::LIST_META_CONTEXT;
        let mut asked = listing && count == 0;
        for _ in 0..count {
            let Some(query) = fields.text() else {
                self.send(reply::ERR_INVALID, &[])?;
                return Ok(None);
            };
            asked |= query == BASE_ALLOCATION.as_bytes() || listing && query == b"base:";
        }
        if asked {
            let id = if listing { 0 } else { BASE_ALLOCATION_ID };
            let mut context = id.to_be_bytes().to_vec();
            context.extend_from_slice(BASE_ALLOCATION.as_bytes());
            self.send(reply::META_CONTEXT, &context)?;
        }
        self.send(reply::ACK, &[])?;
        Ok(Some(asked))
    }
}

/// Fields of an option's data.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }
}
