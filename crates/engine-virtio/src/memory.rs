//! Memory that a device reaches: a memfd, mapped here and there. Both sides
//! may write at any time, so it is only copied from and to.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Release};

use rustix::fs::MemfdFlags;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// A place outside of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds;

/// Memory that a device sees from `base` on.
pub struct Memory {
    region: MmapRegion,
    base: u64,
}

impl Memory {
    /// New memory of zeros, and the file to map elsewhere.
    ///
    /// # Errors
    /// The system has no more.
    pub fn create(base: u64, len: usize) -> io::Result<(Memory, File)> {
        let file = File::from(rustix::fs::memfd_create("strongroom-dma", MemfdFlags::CLOEXEC)?);
        file.set_len(len as u64)?;
        Ok((Memory::map(file.try_clone()?, 0, base, len)?, file))
    }

    /// Maps a part of a file.
    ///
    /// # Errors
    /// The system's.
    pub fn map(file: File, offset: u64, base: u64, len: usize) -> io::Result<Memory> {
        let region = MmapRegion::from_file(FileOffset::new(file, offset), len);
        Ok(Memory { region: region.map_err(io::Error::other)?, base })
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.region.size()
    }

    /// True when there are none, which a device cannot use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the device sees the first byte.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The place of what the device sees at `address`.
    ///
    /// # Errors
    /// It sees nothing there.
    pub fn place(&self, address: u64) -> Result<usize, OutOfBounds> {
        let place = address.checked_sub(self.base).and_then(|place| usize::try_from(place).ok());
        place.filter(|place| *place < self.len()).ok_or(OutOfBounds)
    }

    /// Copies from there.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    pub fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        let part = self.region.get_slice(at, bytes.len()).map_err(|_| OutOfBounds)?;
        part.copy_to(bytes);
        Ok(())
    }

    /// Copies to there.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        let part = self.region.get_slice(at, bytes.len()).map_err(|_| OutOfBounds)?;
        part.copy_from(bytes);
        Ok(())
    }

    /// An index of a ring, and all that was written before it.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    pub fn load(&self, at: usize) -> Result<u16, OutOfBounds> {
        self.region.as_volatile_slice().load(at, Acquire).map_err(|_| OutOfBounds)
    }

    /// Sets an index of a ring, after all that was written before.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    pub fn store(&self, at: usize, index: u16) -> Result<(), OutOfBounds> {
        self.region.as_volatile_slice().store(index, at, Release).map_err(|_| OutOfBounds)
    }
}
