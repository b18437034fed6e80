//! Memory that a device reaches: a memfd, mapped here and there. Both sides
//! may write at any time, so it is only copied from and to.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Release};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
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
    /// New memory of `len` zeros, a multiple of a page, and the file to map
    /// elsewhere, whose length nobody can change.
    ///
    /// # Errors
    /// The system has no more.
    pub fn create(base: u64, len: usize) -> io::Result<(Memory, File)> {
        Memory::new(base, len, MapFlags::SHARED)
    }

    /// As [`Memory::create`], locked, so that it does not reach swap, where the
    /// system allows that.
    ///
    /// # Errors
    /// The system has no more.
    pub(crate) fn create_locked(base: u64, len: usize) -> io::Result<(Memory, File)> {
        let locked = Memory::new(base, len, MapFlags::SHARED | MapFlags::LOCKED);
        locked.or_else(|_| Memory::create(base, len))
    }

    fn new(base: u64, len: usize, flags: MapFlags) -> io::Result<(Memory, File)> {
        let created = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("strongroom-dma", created)?);
        file.set_len(len as u64)?;
        // A device that cut it short would end this process by a signal.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Memory::map_with(file.try_clone()?, 0, base, len, flags)?, file))
    }

    /// Maps `len` bytes of a file from `offset` on, both multiples of a page.
    ///
    /// # Errors
    /// The system's.
    pub fn map(file: File, offset: u64, base: u64, len: usize) -> io::Result<Memory> {
        Memory::map_with(file, offset, base, len, MapFlags::SHARED)
    }

    fn map_with(file: File, offset: u64, base: u64, len: usize, flags: MapFlags) -> io::Result<Memory> {
        let (prot, flags) = ((ProtFlags::READ | ProtFlags::WRITE).bits(), flags.bits());
        let file = Some(FileOffset::new(file, offset));
        let region = MmapRegion::build(file, len, prot.cast_signed(), flags.cast_signed());
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

    /// Where the first byte is in this process, for the kernel.
    pub(crate) fn address(&self) -> *mut u8 {
        self.region.as_ptr()
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
    /// [`OutOfBounds`], also where `at` is odd.
    pub fn load(&self, at: usize) -> Result<u16, OutOfBounds> {
        self.region.as_volatile_slice().load(at, Acquire).map_err(|_| OutOfBounds)
    }

    /// Sets an index of a ring, after all that was written before.
    ///
    /// # Errors
    /// [`OutOfBounds`], also where `at` is odd.
    pub fn store(&self, at: usize, index: u16) -> Result<(), OutOfBounds> {
        self.region.as_volatile_slice().store(index, at, Release).map_err(|_| OutOfBounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_is_refused_and_nobody_cuts_it_short() {
        let (memory, file) = Memory::create(1 << 32, 4096).expect("memory");
        assert_eq!(memory.write(4090, &[1; 6]), Ok(()));
        assert_eq!(memory.write(4091, &[1; 6]), Err(OutOfBounds));
        assert_eq!(memory.read(usize::MAX, &mut [0; 2]), Err(OutOfBounds));
        assert_eq!(memory.load(4095), Err(OutOfBounds));
        assert_eq!(memory.load(1), Err(OutOfBounds));
        assert_eq!(memory.place((1 << 32) + 4095), Ok(4095));
        assert_eq!(memory.place((1 << 32) + 4096), Err(OutOfBounds));
        assert_eq!(memory.place(0), Err(OutOfBounds));
        assert!(file.set_len(0).is_err() && file.set_len(8192).is_err());
        let there = Memory::map(file, 0, 0, 4096).expect("mapped");
        let mut seen = [0; 6];
        there.read(4090, &mut seen).expect("within");
        assert_eq!(seen, [1; 6]);
    }
}
