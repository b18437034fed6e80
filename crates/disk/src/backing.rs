//! Where encrypted sectors lie: a file or a block device.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::Errno;
use strongroom_store::mapped::{MappedFile, SharedBytes};

use crate::claim::{self, HeaderLock};

pub use crate::claim::OpenError;

/// Bytes at offsets. Threads share it.
pub trait Backing: Send + Sync + fmt::Debug {
    /// Bytes.
    ///
    /// # Errors
    /// The system's.
    fn len(&self) -> io::Result<u64>;

    /// True when there are no bytes.
    ///
    /// # Errors
    /// The system's.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` when there are fewer.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// The system's.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Returns when everything written before is durable.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;

    /// Gives the range's space back, after which it reads as anything.
    ///
    /// # Errors
    /// The system's; `Unsupported` where there is no such thing.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;

    /// How many bytes from `offset` on, at most `len`, are alike allocated, and
    /// whether they are. `len` is not 0.
    ///
    /// # Errors
    /// The system's.
    fn allocated(&self, offset: u64, len: u64) -> io::Result<(u64, bool)>;

    /// Calls `work` with the range's bytes where the kernel keeps them, if that
    /// is to be had, as [`MappedFile::read_with`]: after false, reading by the
    /// call above has to do all of it.
    fn read_mapped(&self, _offset: u64, _len: usize, _work: &mut dyn FnMut(SharedBytes<'_>) -> bool) -> bool {
        false
    }
}

/// A file or block device.
#[derive(Debug)]
pub struct FileBacking {
    file: File,
    is_device: bool,
    mapped: OnceLock<MappedFile>,
    /// What is the same image, and stays open so that others are kept out.
    _claimed: Vec<File>,
}

impl FileBacking {
    /// Opens `path`. For writing, nobody else may have it open through this
    /// program, and a block device must not be mounted or otherwise claimed;
    /// for reading, nobody may have it for writing. A file and a loop device
    /// that lies on it are one image here.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path, writable: bool) -> Result<FileBacking, OpenError> {
        let mut backing = FileBacking::open_shared(path, writable)?;
        backing._claimed = claim::take(&backing.file, writable)?;
        Ok(backing)
    }

    /// Takes the lock under which cryptsetup reads a header, or `exclusive` the
    /// one under which it changes it. It waits for a few seconds.
    ///
    /// # Errors
    /// [`OpenError::HeaderInUse`], and the system's.
    pub fn lock_header(&self, exclusive: bool) -> Result<HeaderLock, OpenError> {
        HeaderLock::take(&self.file, exclusive)
    }

    /// Whether both are one file or device.
    ///
    /// # Errors
    /// The system's.
    pub fn is_same(&self, other: &FileBacking) -> io::Result<bool> {
        let place = |backing: &FileBacking| {
            let found = backing.file.metadata()?;
            let device = if backing.is_device { (found.rdev(), 0) } else { (found.dev(), found.ino()) };
            let target = strongroom_store::claims::loop_target(&backing.file);
            io::Result::Ok(target.map_or(device, |target| (target.device, target.inode)))
        };
        Ok(place(self)? == place(other)?)
    }

    /// Opens `path` for a look, whoever has it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_shared(path: &Path, writable: bool) -> Result<FileBacking, OpenError> {
        let kind = std::fs::metadata(path).map_err(OpenError::Io)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(OpenError::Kind);
        }
        // What stands there by now may be a FIFO, whose opening waits.
        let mut flags = if writable { OFlags::RDWR } else { OFlags::RDONLY };
        flags |= OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        if kind.is_block_device() && writable {
            // Claims a device: refused while it is mounted.
            flags |= OFlags::EXCL;
        }
        let file = match rustix::fs::open(path, flags, rustix::fs::Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::BUSY) => return Err(OpenError::InUse),
            Err(errno) => return Err(OpenError::Io(errno.into())),
        };
        if file.metadata().map_err(OpenError::Io)?.file_type() != kind {
            return Err(OpenError::Kind);
        }
        Ok(FileBacking::of(file, kind.is_block_device()))
    }

    /// Takes a file that is open already.
    #[must_use]
    pub fn from_file(file: File) -> FileBacking {
        FileBacking::of(file, false)
    }

    fn of(file: File, is_device: bool) -> FileBacking {
        FileBacking { file, is_device, mapped: OnceLock::new(), _claimed: Vec::new() }
    }

    /// Has large reads take their bytes from the page cache itself from now on, where the file system is one that allows it. Not for a disk that
    /// backs swap: a page fault may have to allocate a page table.
    ///
    /// # Errors
    /// The system's; everything goes on as before.
    pub fn map(&self) -> io::Result<()> {
        if let Some(mapped) = MappedFile::new(&self.file)? {
            let _ = self.mapped.set(mapped);
        }
        Ok(())
    }

    /// Whether it is a block device, whose length cannot be changed.
    #[must_use]
    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// Changes a file's length, durably.
    ///
    /// # Errors
    /// The system's.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.file.sync_all()
    }
}

impl Backing for FileBacking {
    fn len(&self) -> io::Result<u64> {
        if !self.is_device {
            return Ok(self.file.metadata()?.len());
        }
        // Nothing else here uses the position.
        Ok(rustix::fs::seek(&self.file, SeekFrom::End(0))?)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, flags, offset, len)?)
    }

    fn allocated(&self, offset: u64, len: u64) -> io::Result<(u64, bool)> {
        if self.is_device {
            return Ok((len, true));
        }
        let data = match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok((len, false)),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok((len, true)),
            Err(errno) => return Err(errno.into()),
        };
        if data > offset {
            return Ok((len.min(data - offset), false));
        }
        let hole = rustix::fs::seek(&self.file, SeekFrom::Hole(offset))?;
        Ok((len.min(hole.saturating_sub(offset)).max(1), true))
    }

    fn read_mapped(&self, offset: u64, len: usize, work: &mut dyn FnMut(SharedBytes<'_>) -> bool) -> bool {
        self.mapped.get().is_some_and(|mapped| mapped.read_with(offset, len, work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_keeps_others_out() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let writer = FileBacking::open(file.path(), true).expect("nobody else");
        assert!(matches!(FileBacking::open(file.path(), true), Err(OpenError::InUse)));
        assert!(matches!(FileBacking::open(file.path(), false), Err(OpenError::InUse)));
        drop(writer);
        let reader = FileBacking::open(file.path(), false).expect("nobody else");
        assert!(FileBacking::open(file.path(), false).is_ok());
        drop(reader);
        assert!(matches!(FileBacking::open(Path::new("/dev"), false), Err(OpenError::Kind)));
    }

    #[test]
    fn others_can_look_at_the_header_of_an_open_image() {
        use rustix::fs::{FlockOperation, flock};
        let file = tempfile::NamedTempFile::new().expect("a file");
        let writer = FileBacking::open(file.path(), true).expect("nobody else");
        let other = File::open(file.path()).expect("open");
        let lock = |operation| flock(&other, operation).is_ok();
        assert!(lock(FlockOperation::NonBlockingLockExclusive), "as cryptsetup changes it");
        assert!(lock(FlockOperation::Unlock));
        let reading = writer.lock_header(false).expect("nobody changes it");
        assert!(lock(FlockOperation::NonBlockingLockShared), "as cryptsetup reads it");
        assert!(!lock(FlockOperation::NonBlockingLockExclusive));
        drop(reading);
        assert!(lock(FlockOperation::NonBlockingLockExclusive));
        assert!(matches!(writer.lock_header(false), Err(OpenError::HeaderInUse)));
        assert!(writer.is_same(&FileBacking::open_shared(file.path(), false).expect("open")).expect("told"));
    }

    #[test]
    fn holes_are_told_from_data() {
        let backing = FileBacking::from_file(tempfile::tempfile().expect("a file"));
        backing.set_len(1 << 20).expect("sparse");
        backing.write_at(&[1; 4096], 256 << 10).expect("written");
        assert_eq!(backing.allocated(0, 1 << 20).expect("told"), (256 << 10, false));
        let (len, allocated) = backing.allocated(256 << 10, 1 << 20).expect("told");
        assert!(allocated && (4096..=128 << 10).contains(&len));
        assert_eq!(backing.allocated(900 << 10, 1000).expect("told"), (1000, false));
        assert!(backing.read_at(&mut [0; 2], (1 << 20) - 1).is_err(), "short");
    }
}
