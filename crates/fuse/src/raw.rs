//! An open disk as one file in one directory, for `losetup` and for programs
//! that take a file.
//!
//! Nothing is kept here: what the kernel writes goes to the disk at once, so
//! that a daemon that is killed takes nothing with it that a sync covered. The
//! file has a fixed length and cannot be removed or renamed.

use std::time::SystemTime;

use strongroom_disk::{Device, Error};
use strongroom_engine::Buffer;

use crate::errno::Errno;
use crate::filesystem::Allocate;
use crate::single::{Bytes, SingleFile};

/// `FALLOC_FL_*` (fallocate(2)).
mod mode {
    pub(super) const KEEP_SIZE: u32 = 1;
    pub(super) const ZERO_RANGE: u32 = 0x10;
}

/// The file system with the one file.
pub type RawFile<D> = SingleFile<Volume<D>>;

/// A disk that a file holds.
pub struct Volume<D: Device>(strongroom_disk::Bytes<D>);

/// Shows a disk as a file of this name.
#[must_use]
pub fn file<D: Device>(name: &str, bytes: strongroom_disk::Bytes<D>) -> RawFile<D> {
    SingleFile::new(name.as_bytes(), Volume(bytes), SystemTime::now())
}

fn errno(error: &Error) -> Errno {
    match error {
        Error::Range => Errno::INVAL,
        other => Errno::from(rustix::io::Errno::from_raw_os_error(other.errno())),
    }
}

impl<D: Device> Bytes for Volume<D> {
    fn len(&self) -> u64 {
        self.0.device().len()
    }

    fn modes(&self) -> (u32, u32) {
        (0o700, if self.0.device().is_read_only() { 0o400 } else { 0o600 })
    }

    fn block_size(&self) -> u32 {
        self.0.device().sector_len().max(4096)
    }

    fn keeps(&self) -> bool {
        false
    }

    fn read(&self, offset: u64, size: usize, buffer: &mut Buffer) -> Result<(), Errno> {
        self.0.read(offset, size, buffer).map_err(|error| errno(&error))
    }

    fn write(&self, offset: u64, size: usize, buffer: &mut Buffer) -> Result<(), Errno> {
        self.0.write(offset, size, buffer).map_err(|error| errno(&error))
    }

    fn sync(&self) -> Result<(), Errno> {
        self.0.device().flush().map_err(|error| errno(&error))
    }

    /// Zeroing writes zeros. Punching a hole is refused: who punches expects
    /// zeros there, a hole in the image is none, and zeros written instead fill
    /// a sparse image. Discards of a loop device come as the same call as its
    /// zeroing, so that they cannot be passed on: refused, the first does
    /// nothing and of the second the kernel writes the zeros itself.
    fn allocate(&self, allocate: &Allocate) -> Result<(), Errno> {
        let zeroes = match allocate.mode & !mode::KEEP_SIZE {
            0 => false,
            mode::ZERO_RANGE => true,
            _ => return Err(Errno::OPNOTSUPP),
        };
        if allocate.offset.checked_add(allocate.len).is_none_or(|end| end > self.len()) {
            return Err(Errno::FBIG);
        }
        if !zeroes {
            return Ok(());
        }
        self.0.write_zeroes(allocate.offset, allocate.len).map_err(|error| errno(&error))
    }
}
