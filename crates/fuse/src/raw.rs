//! An open disk as one file in one directory, for `losetup` and for programs
//! that take a file.
//!
//! Nothing is kept here: what the kernel writes goes to the disk at once, so
//! that a daemon that is killed takes nothing with it that a sync covered. The
//! file has a fixed length and cannot be removed or renamed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use strongroom_disk::{Bytes, Device, Error};
use strongroom_engine::Buffer;

use crate::abi::directory::{DirectoryEntries, DirectoryEntriesPlus, DirectoryEntry};
use crate::errno::Errno;
use crate::filesystem::{
    Allocate, Context, Filesystem, Handle, NodeId, OpenFlags, Read, Seek, SetAttributes, Write,
};
use crate::node::{Attributes, Entry, Opened, Space, TimedAttributes, Timestamp};

/// Nothing changes but by requests: the kernel need not ask again.
const TIMEOUT: Duration = Duration::from_secs(3600);
const FILE: NodeId = NodeId(2);
const DIRECTORY_TYPE: u32 = 0o040_000;
const FILE_TYPE: u32 = 0o100_000;

/// `FALLOC_FL_*` (fallocate(2)).
mod mode {
    pub(super) const KEEP_SIZE: u32 = 1;
    pub(super) const ZERO_RANGE: u32 = 0x10;
}

/// The file system with the one file.
pub struct RawFile<D: Device> {
    name: Vec<u8>,
    bytes: Bytes<D>,
    owner: (u32, u32),
    opened: Timestamp,
}

impl<D: Device> RawFile<D> {
    /// Shows a disk as a file of this name.
    #[must_use]
    pub fn new(name: &str, bytes: Bytes<D>) -> RawFile<D> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let opened = Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() };
        RawFile { name: name.as_bytes().to_vec(), bytes, owner, opened }
    }

    fn attributes(&self, node: NodeId) -> Result<TimedAttributes, Errno> {
        let device = self.bytes.device();
        let (size, mode, nlink) = match node {
            NodeId::ROOT => (0, DIRECTORY_TYPE | 0o700, 2),
            FILE if device.is_read_only() => (device.len(), FILE_TYPE | 0o400, 1),
            FILE => (device.len(), FILE_TYPE | 0o600, 1),
            _ => return Err(Errno::STALE),
        };
        let attributes = Attributes {
            inode: node.0,
            size,
            blocks: size / 512,
            atime: self.opened,
            mtime: self.opened,
            ctime: self.opened,
            mode,
            nlink,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            block_size: device.sector_len().max(4096),
        };
        Ok(TimedAttributes::new(attributes, TIMEOUT))
    }

    fn file(&self) -> Result<Entry, Errno> {
        let attributes = self.attributes(FILE)?;
        Ok(Entry { node: FILE, generation: 0, entry_timeout: TIMEOUT, attributes })
    }

    /// What is in the directory, from `offset` on.
    fn listing(&self, offset: u64) -> impl Iterator<Item = DirectoryEntry<'_>> {
        let all: [(&[u8], u64, u32); 3] =
            [(b".", 1, DIRECTORY_TYPE), (b"..", 1, DIRECTORY_TYPE), (&self.name, FILE.0, FILE_TYPE)];
        let entry = |(index, (name, inode, mode))| DirectoryEntry {
            name,
            inode,
            next_offset: index as u64 + 1,
            mode,
        };
        all.into_iter().enumerate().skip(usize::try_from(offset).unwrap_or(usize::MAX)).map(entry)
    }
}

fn errno(error: &Error) -> Errno {
    match error {
        Error::Range => Errno::INVAL,
        other => Errno::from(rustix::io::Errno::from_raw_os_error(other.errno())),
    }
}

impl<D: Device> Filesystem for RawFile<D> {
    fn lookup(&self, _: &Context, parent: NodeId, name: &[u8]) -> Result<Entry, Errno> {
        if parent != NodeId::ROOT || name != self.name {
            return Ok(Entry::absent(TIMEOUT));
        }
        self.file()
    }

    fn getattr(&self, _: &Context, node: NodeId, _: Option<Handle>) -> Result<TimedAttributes, Errno> {
        self.attributes(node)
    }

    /// Times and owners are accepted and forgotten; the length is the disk's.
    fn setattr(&self, _: &Context, node: NodeId, change: &SetAttributes) -> Result<TimedAttributes, Errno> {
        let attributes = self.attributes(node)?;
        match change.size {
            Some(size) if size != attributes.attributes.size => Err(Errno::PERM),
            _ => Ok(attributes),
        }
    }

    fn open(&self, _: &Context, node: NodeId, _: OpenFlags) -> Result<Opened, Errno> {
        self.attributes(node).map(|_| Opened { handle: Handle(0), flags: 0 })
    }

    fn read(&self, _: &Context, node: NodeId, read: &Read, buffer: &mut Buffer) -> Result<usize, Errno> {
        let len = self.bytes.device().len();
        let left = usize::try_from(len.saturating_sub(read.offset)).unwrap_or(usize::MAX);
        let size = read.size.min(left);
        if node != FILE {
            return Err(Errno::ISDIR);
        }
        if size == 0 {
            return Ok(0);
        }
        self.bytes.read(read.offset, size, buffer).map_err(|error| errno(&error))?;
        Ok(size)
    }

    fn write(&self, _: &Context, node: NodeId, write: &Write, buffer: &mut Buffer) -> Result<usize, Errno> {
        let len = self.bytes.device().len();
        if node != FILE {
            return Err(Errno::ISDIR);
        }
        let left = usize::try_from(len.saturating_sub(write.offset)).unwrap_or(usize::MAX);
        if left == 0 && write.len > 0 {
            return Err(Errno::NOSPC);
        }
        let size = write.len.min(left);
        self.bytes.write(write.offset, size, buffer).map_err(|error| errno(&error))?;
        Ok(size)
    }

    fn flush(&self, _: &Context, _: NodeId, _: Handle) -> Result<(), Errno> {
        Ok(())
    }

    fn fsync(&self, _: &Context, _: NodeId, _: Handle, _: bool) -> Result<(), Errno> {
        self.bytes.device().flush().map_err(|error| errno(&error))
    }

    fn readdir(
        &self,
        _: &Context,
        _: NodeId,
        _: Handle,
        offset: u64,
        entries: &mut DirectoryEntries<'_>,
    ) -> Result<(), Errno> {
        for listed in self.listing(offset) {
            if !entries.push(&listed) {
                break;
            }
        }
        Ok(())
    }

    fn readdirplus(
        &self,
        _: &Context,
        _: NodeId,
        _: Handle,
        offset: u64,
        entries: &mut DirectoryEntriesPlus<'_>,
    ) -> Result<(), Errno> {
        let file = self.file()?;
        for listed in self.listing(offset) {
            let pushed = match listed.inode == FILE.0 {
                true => entries.push(&listed, &file),
                false => entries.push_name(&listed),
            };
            if !pushed {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self, _: &Context, _: NodeId) -> Result<Space, Errno> {
        let blocks = self.bytes.device().len() / 4096;
        Ok(Space {
            blocks,
            files: 1,
            block_size: 4096,
            fragment_size: 4096,
            name_max: 255,
            ..Space::default()
        })
    }

    /// Zeroing writes zeros. Punching a hole is refused: who punches expects
    /// zeros there, a hole in the image is none, and zeros written instead fill
    /// a sparse image. Discards of a loop device come as the same call as its
    /// zeroing, so that they cannot be passed on: refused, the first does
    /// nothing and of the second the kernel writes the zeros itself.
    fn fallocate(&self, _: &Context, node: NodeId, allocate: &Allocate) -> Result<(), Errno> {
        let zeroes = match allocate.mode & !mode::KEEP_SIZE {
            0 => false,
            mode::ZERO_RANGE => true,
            _ => return Err(Errno::OPNOTSUPP),
        };
        let end = allocate.offset.checked_add(allocate.len).filter(|end| *end <= self.bytes.device().len());
        if node != FILE || end.is_none() {
            return Err(Errno::FBIG);
        }
        if !zeroes {
            return Ok(());
        }
        let written = self.bytes.write_zeroes(allocate.offset, allocate.len);
        written.map_err(|error| errno(&error))
    }

    /// All of it is data: a hole in the image does not read as zeros.
    fn lseek(&self, _: &Context, _: NodeId, seek: &Seek) -> Result<u64, Errno> {
        const SEEK_DATA: u32 = 3;
        let len = self.bytes.device().len();
        if seek.offset >= len {
            return Err(Errno::NXIO);
        }
        Ok(if seek.whence == SEEK_DATA { seek.offset } else { len })
    }
}
