//! A request in the memory that the device sees: header and IV, associated
//! data, the answer's status, then the data, in place (5.9.7).

use crate::spec::{REQUEST_LEN, Request, TAG_LEN, opcode, service};
use crate::{Error, Memory};

/// Descriptors of one request, at most.
pub(crate) const CHAIN: u16 = 5;
/// Bytes before the data.
pub(crate) const HEAD_LEN: usize = 256;
const IV_AT: usize = REQUEST_LEN;
const AD_AT: usize = IV_AT + 16;
const STATUS_AT: usize = HEAD_LEN - 1;
const _: () = assert!(AD_AT + strongroom_engine::limits::ASSOCIATED_DATA_MAX <= STATUS_AT);
/// What stands where the device writes a status, until it does.
const NO_STATUS: u8 = 0xff;

/// Bytes of memory for a request of so much data.
pub(crate) fn len(data: usize) -> usize {
    HEAD_LEN + data + TAG_LEN
}

/// What is asked.
pub(crate) struct Piece<'a> {
    pub(crate) service: u32,
    pub(crate) encrypts: bool,
    pub(crate) session: u64,
    pub(crate) iv: &'a [u8],
    pub(crate) ad: &'a [u8],
    pub(crate) data: &'a [u8],
    /// To be checked, by an AEAD that opens.
    pub(crate) tag: &'a [u8; TAG_LEN],
}

/// A part of a chain: its place, its bytes, and whether the device writes it.
pub(crate) type Link = (usize, usize, bool);

/// Writes a request; the chain that describes it.
pub(crate) fn lay(memory: &Memory, at: usize, piece: &Piece<'_>) -> Result<[Link; CHAIN as usize], Error> {
    let direction = if piece.encrypts { opcode::ENCRYPT } else { opcode::DECRYPT };
    let (mut source, mut target) = (piece.data.len(), piece.data.len());
    let data_at = at + HEAD_LEN;
    memory.write(data_at, piece.data)?;
    if piece.service == service::AEAD && piece.encrypts {
        target += TAG_LEN;
    } else if piece.service == service::AEAD {
        memory.write(data_at + source, piece.tag)?;
        source += TAG_LEN;
    }
    let request = Request {
        opcode: piece.service << 8 | direction,
        session: piece.session,
        iv_len: piece.iv.len() as u32,
        ad_len: piece.ad.len() as u32,
        source_len: source as u32,
        target_len: target as u32,
    };
    memory.write(at, &request.encode())?;
    memory.write(at + IV_AT, piece.iv)?;
    memory.write(at + AD_AT, piece.ad)?;
    memory.write(at + STATUS_AT, &[NO_STATUS])?;
    Ok([
        (at, REQUEST_LEN + piece.iv.len(), false),
        (data_at, source, false),
        (at + AD_AT, piece.ad.len(), false),
        (data_at, target, true),
        (at + STATUS_AT, 1, true),
    ])
}

/// How a request ended; none of [`answer`](crate::spec::answer) when the device
/// has not said so.
pub(crate) fn status(memory: &Memory, at: usize) -> Result<u8, Error> {
    let mut status = [0];
    memory.read(at + STATUS_AT, &mut status)?;
    Ok(status[0])
}
