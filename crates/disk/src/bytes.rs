//! Requests that do not end at sectors, for exports that cannot refuse them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use strongroom_engine::Buffer;

use crate::device::{Device, Piece};
use crate::error::{Error, Result};

/// Zeros that are written at once.
const ZEROES_LEN: usize = 256 << 10;

/// A device by bytes: what is not whole sectors is read, changed and written
/// back, while nothing else is written. Nothing is allocated once it is made.
pub struct Bytes<D: ?Sized> {
    /// Shared by writes of whole sectors, held alone by the others: a sector
    /// that is being changed must not be written meanwhile.
    writing: RwLock<()>,
    /// Room for one sector of which a part is asked for.
    sector: Mutex<Buffer>,
    /// What is written as zeros; anything once it was.
    zeroes: Mutex<Buffer>,
    device: Arc<D>,
}

/// A request's part of one sector, or its whole sectors.
enum Part {
    /// The sector's first byte, the first byte in it that is meant, and how
    /// many are.
    OfSector(u64, usize, usize),
    Whole(usize),
}

fn locked(buffer: &Mutex<Buffer>) -> MutexGuard<'_, Buffer> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Device + ?Sized> Bytes<D> {
    /// Serves `device` by bytes.
    #[must_use]
    pub fn new(device: Arc<D>) -> Bytes<D> {
        let sector = Mutex::new(Buffer::new(device.sector_len() as usize));
        let zeroes = Mutex::new(Buffer::new(ZEROES_LEN));
        Bytes { writing: RwLock::new(()), sector, zeroes, device }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Whether a range is of whole sectors.
    ///
    /// # Errors
    /// [`Error::Range`] beyond the end.
    fn is_whole(&self, offset: u64, len: usize) -> Result<bool> {
        let sector = u64::from(self.device.sector_len());
        let end =
            offset.checked_add(len as u64).filter(|end| *end <= self.device.len()).ok_or(Error::Range)?;
        Ok(offset.is_multiple_of(sector) && end.is_multiple_of(sector))
    }

    /// The part that a range begins with.
    fn first_part(&self, offset: u64, len: usize) -> Part {
        let sector = self.device.sector_len() as usize;
        let within = (offset % sector as u64) as usize;
        if within == 0 && len >= sector {
            return Part::Whole(len / sector * sector);
        }
        Part::OfSector(offset - within as u64, within, len.min(sector - within))
    }

    /// Reads a range to the beginning of `buffer`, which has room for it.
    ///
    /// # Errors
    /// As [`Device::read`].
    pub fn read(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<()> {
        if self.is_whole(offset, len)? {
            return self.device.read_one(offset, len, buffer);
        }
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            done += match self.first_part(at, len - done) {
                Part::Whole(len) => {
                    let mut outcome = [Ok(())];
                    self.device.read(&[Piece { offset: at, start: done, len }], buffer, &mut outcome);
                    let [outcome] = outcome;
                    outcome.map(|()| len)?
                }
                Part::OfSector(start, within, len) => {
                    let mut sector = locked(&self.sector);
                    self.device.read_one(start, self.device.sector_len() as usize, &mut sector)?;
                    buffer[done..done + len].copy_from_slice(&sector[within..within + len]);
                    len
                }
            };
        }
        Ok(())
    }

    /// Writes a range from the beginning of `buffer`, whose bytes are then
    /// anything.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub fn write(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<()> {
        if self.is_whole(offset, len)? {
            let _shared = self.writing.read().unwrap_or_else(PoisonError::into_inner);
            return self.device.write_one(offset, len, buffer);
        }
        let _alone = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            done += match self.first_part(at, len - done) {
                Part::Whole(len) => {
                    let mut outcome = [Ok(())];
                    self.device.write(&[Piece { offset: at, start: done, len }], buffer, &mut outcome);
                    let [outcome] = outcome;
                    outcome.map(|()| len)?
                }
                Part::OfSector(start, within, len) => {
                    let mut sector = locked(&self.sector);
                    let sector_len = self.device.sector_len() as usize;
                    self.device.read_one(start, sector_len, &mut sector)?;
                    sector[within..within + len].copy_from_slice(&buffer[done..done + len]);
                    self.device.write_one(start, sector_len, &mut sector)?;
                    len
                }
            };
        }
        Ok(())
    }

    /// Writes zeros.
    ///
    /// # Errors
    /// As writing.
    pub fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        const AT_ONCE: u64 = ZEROES_LEN as u64;
        let mut done = 0;
        let mut zeros = locked(&self.zeroes);
        while done < len {
            // To a multiple, so that all but the ends are whole sectors.
            let now = (len - done).min(AT_ONCE - (offset + done) % AT_ONCE) as usize;
            zeros[..now].fill(0);
            self.write(offset + done, now, &mut zeros)?;
            done += now as u64;
        }
        Ok(())
    }

    /// Discards the whole sectors of a range.
    ///
    /// # Errors
    /// As [`Device::discard`].
    pub fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let sector = u64::from(self.device.sector_len());
        let end = offset.checked_add(len).filter(|end| *end <= self.device.len()).ok_or(Error::Range)?;
        let (start, end) = (offset.next_multiple_of(sector), end - end % sector);
        let _shared = self.writing.read().unwrap_or_else(PoisonError::into_inner);
        if start < end { self.device.discard(start, end - start) } else { Ok(()) }
    }
}
