//! What an export serves: sectors in plain.

use strongroom_engine::Buffer;

use crate::backing::Backing;
use crate::error::{Error, Result};

/// A range of a device and where its bytes stand in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte on the device.
    pub offset: u64,
    /// First byte in the buffer.
    pub start: usize,
    /// Bytes.
    pub len: usize,
}

/// What is known of a range without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes, from where it was asked for.
    pub len: u64,
    /// Whether they take space.
    pub allocated: bool,
    /// Whether they read as zeros.
    pub zero: bool,
}

/// Sectors in plain. Threads share it; requests in flight together may be
/// carried out in any order.
pub trait Device: Send + Sync {
    /// Bytes, a whole number of sectors.
    fn len(&self) -> u64;

    /// True when there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of a sector: 512 to 4096, a power of two. Requests are of whole
    /// sectors.
    fn sector_len(&self) -> u32;

    /// Whether nothing can be written.
    fn is_read_only(&self) -> bool;

    /// `len` zero bytes for requests: memory that suits what computes. Any other
    /// buffer may be used as well.
    fn buffer(&self, len: usize) -> Buffer;

    /// Whether [`Device::discard`] does anything.
    fn can_discard(&self) -> bool;

    /// Reads pieces into their places in `buffer`, and tells of each how it
    /// went. `outcomes` has a place for each piece. The buffer keeps its
    /// length; when an engine has lost it, it is a new one, of zeros.
    fn read(&self, pieces: &[Piece], buffer: &mut Buffer, outcomes: &mut [Result<()>]);

    /// Writes pieces from their places in `buffer`, whose bytes there are then
    /// anything, and tells of each how it went.
    fn write(&self, pieces: &[Piece], buffer: &mut Buffer, outcomes: &mut [Result<()>]);

    /// Returns when everything written before is durable.
    ///
    /// # Errors
    /// What failed; once a flush has failed, all later ones do.
    fn flush(&self) -> Result<()>;

    /// Says that the range is not needed any more. What it reads as then is
    /// anything.
    ///
    /// # Errors
    /// As writing.
    fn discard(&self, offset: u64, len: u64) -> Result<()>;

    /// What is known of the range from `offset`, at most `len` bytes and not
    /// 0.
    ///
    /// # Errors
    /// What the backing reports.
    fn extent(&self, offset: u64, len: u64) -> Result<Extent>;

    /// Reads one range to the beginning of `buffer`.
    ///
    /// # Errors
    /// As [`Device::read`].
    fn read_one(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<()> {
        let mut outcome = [Ok(())];
        self.read(&[Piece { offset, start: 0, len }], buffer, &mut outcome);
        let [outcome] = outcome;
        outcome
    }

    /// Writes one range from the beginning of `buffer`.
    ///
    /// # Errors
    /// As [`Device::write`].
    fn write_one(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<()> {
        let mut outcome = [Ok(())];
        self.write(&[Piece { offset, start: 0, len }], buffer, &mut outcome);
        let [outcome] = outcome;
        outcome
    }

    /// Writes zeros, with `scratch`, which has at least one sector.
    ///
    /// # Errors
    /// As writing.
    fn write_zeroes(&self, offset: u64, len: u64, scratch: &mut Buffer) -> Result<()> {
        check(self.len(), self.sector_len(), offset, len)?;
        let sector = self.sector_len() as usize;
        let most = scratch.len().min(ZEROES_MAX) / sector * sector;
        let mut done = 0;
        while done < len {
            let now = usize::try_from(len - done).unwrap_or(most).min(most);
            scratch[..now].fill(0);
            self.write_one(offset + done, now, scratch)?;
            done += now as u64;
        }
        Ok(())
    }
}

/// Zeros that are written at once.
const ZEROES_MAX: usize = 256 << 10;

/// Refuses ranges beyond the end and such that are not of whole sectors.
pub(crate) fn check(device_len: u64, sector_len: u32, offset: u64, len: u64) -> Result<()> {
    let inside = offset.checked_add(len).is_some_and(|end| end <= device_len);
    let whole = offset.is_multiple_of(sector_len.into()) && len.is_multiple_of(sector_len.into());
    if inside && whole { Ok(()) } else { Err(Error::Range) }
}

/// A backing as it is, in clear: what encrypted volumes are compared with.
#[derive(Debug)]
pub struct PlainDevice<B> {
    backing: B,
    len: u64,
}

impl<B: Backing> PlainDevice<B> {
    /// Serves `backing` in sectors of 512 bytes.
    ///
    /// # Errors
    /// What it reports of its length.
    pub fn new(backing: B) -> Result<PlainDevice<B>> {
        let len = backing.len().map_err(Error::io("asking for the length"))? / 512 * 512;
        Ok(PlainDevice { backing, len })
    }
}

impl<B: Backing> Device for PlainDevice<B> {
    fn len(&self) -> u64 {
        self.len
    }

    fn sector_len(&self) -> u32 {
        512
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn buffer(&self, len: usize) -> Buffer {
        Buffer::new(len)
    }

    fn can_discard(&self) -> bool {
        true
    }

    fn read(&self, pieces: &[Piece], buffer: &mut Buffer, outcomes: &mut [Result<()>]) {
        for (piece, outcome) in pieces.iter().zip(outcomes) {
            let bytes = &mut buffer[piece.start..][..piece.len];
            *outcome = check(self.len, 512, piece.offset, piece.len as u64)
                .and_then(|()| self.backing.read_at(bytes, piece.offset).map_err(Error::io("reading")));
        }
    }

    fn write(&self, pieces: &[Piece], buffer: &mut Buffer, outcomes: &mut [Result<()>]) {
        for (piece, outcome) in pieces.iter().zip(outcomes) {
            let bytes = &buffer[piece.start..][..piece.len];
            *outcome = check(self.len, 512, piece.offset, piece.len as u64)
                .and_then(|()| self.backing.write_at(bytes, piece.offset).map_err(Error::io("writing")));
        }
    }

    fn flush(&self) -> Result<()> {
        self.backing.sync().map_err(Error::io("flushing"))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.backing.punch(offset, len).map_err(Error::io("discarding"))
    }

    fn extent(&self, offset: u64, len: u64) -> Result<Extent> {
        let (len, allocated) = self.backing.allocated(offset, len).map_err(Error::io("looking for holes"))?;
        Ok(Extent { len, allocated, zero: !allocated })
    }
}
