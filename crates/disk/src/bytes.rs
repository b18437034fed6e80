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

/// Which way data go.
#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
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

    /// Reads or writes a range by its whole sectors and its parts of sectors.
    /// Of the latter the rest is kept.
    fn by_parts(&self, direction: Direction, offset: u64, len: usize, buffer: &mut Buffer) -> Result<()> {
        let sector_len = self.device.sector_len() as usize;
        let mut done = 0;
        while done < len {
            let (at, left) = (offset + done as u64, len - done);
            let within = (at % sector_len as u64) as usize;
            if within == 0 && left >= sector_len {
                let whole = left / sector_len * sector_len;
                let pieces = [Piece { offset: at, start: done, len: whole }];
                let mut outcomes = [Ok(())];
                match direction {
                    Direction::Read => self.device.read(&pieces, buffer, &mut outcomes),
                    Direction::Write => self.device.write(&pieces, buffer, &mut outcomes),
                }
                let [outcome] = outcomes;
                outcome?;
                done += whole;
                continue;
            }
            let (start, part) = (at - within as u64, left.min(sector_len - within));
            let mut sector = locked(&self.sector);
            self.device.read_one(start, sector_len, &mut sector)?;
            let (kept, given) = (&mut sector[within..within + part], &mut buffer[done..done + part]);
            match direction {
                Direction::Read => given.copy_from_slice(kept),
                Direction::Write => {
                    kept.copy_from_slice(given);
                    self.device.write_one(start, sector_len, &mut sector)?;
                }
            }
            done += part;
        }
        Ok(())
    }

    /// Reads a range to the beginning of `buffer`, which has room for it.
    ///
    /// # Errors
    /// As [`Device::read`].
    pub fn read(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<()> {
        match self.is_whole(offset, len)? {
            true => self.device.read_one(offset, len, buffer),
            false => self.by_parts(Direction::Read, offset, len, buffer),
        }
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
        self.by_parts(Direction::Write, offset, len, buffer)
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
