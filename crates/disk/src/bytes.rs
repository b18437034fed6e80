//! Requests that do not end at sectors, for exports that cannot refuse them.

use std::sync::{PoisonError, RwLock};

use strongroom_engine::Buffer;

use crate::device::Device;
use crate::error::{Error, Result};

/// A device by bytes: what is not whole sectors is read, changed and written
/// back, while nothing else is written.
pub struct Bytes<D: ?Sized> {
    /// Shared by writes of whole sectors, held alone by the others: a sector
    /// that is being changed must not be written meanwhile.
    writing: RwLock<()>,
    device: std::sync::Arc<D>,
}

impl<D: Device + ?Sized> Bytes<D> {
    /// Serves `device` by bytes.
    #[must_use]
    pub fn new(device: std::sync::Arc<D>) -> Bytes<D> {
        Bytes { writing: RwLock::new(()), device }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The whole sectors around a range: their first byte and their bytes.
    fn around(&self, offset: u64, len: usize) -> Result<(u64, usize)> {
        let sector = u64::from(self.device.sector_len());
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.device.len());
        let end = end.ok_or(Error::Range)?.next_multiple_of(sector);
        let start = offset - offset % sector;
        Ok((start, (end - start) as usize))
    }

    /// Reads a range to the beginning of `buffer`, which has room for it.
    ///
    /// # Errors
    /// As [`Device::read`].
    pub fn read(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<()> {
        let (start, whole) = self.around(offset, len)?;
        if (start, whole) == (offset, len) {
            return self.device.read_one(offset, len, buffer);
        }
        let mut sectors = Buffer::new(whole);
        self.device.read_one(start, whole, &mut sectors)?;
        buffer[..len].copy_from_slice(&sectors[(offset - start) as usize..][..len]);
        Ok(())
    }

    /// Writes a range from the beginning of `buffer`, whose bytes are then
    /// anything.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub fn write(&self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<()> {
        let (start, whole) = self.around(offset, len)?;
        if (start, whole) == (offset, len) {
            let _shared = self.writing.read().unwrap_or_else(PoisonError::into_inner);
            return self.device.write_one(offset, len, buffer);
        }
        let _alone = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let mut sectors = Buffer::new(whole);
        self.device.read_one(start, whole, &mut sectors)?;
        sectors[(offset - start) as usize..][..len].copy_from_slice(&buffer[..len]);
        self.device.write_one(start, whole, &mut sectors)
    }

    /// Writes zeros.
    ///
    /// # Errors
    /// As writing.
    pub fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        const AT_ONCE: u64 = 256 << 10;
        let mut done = 0;
        let mut zeros = Buffer::new(len.min(AT_ONCE) as usize);
        while done < len {
            // To a multiple, so that all but the ends are whole sectors.
            let now = (len - done).min(AT_ONCE - (offset + done) % AT_ONCE) as usize;
            zeros.fill(0);
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
