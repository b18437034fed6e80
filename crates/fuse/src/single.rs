//! One file that nobody can change, in one directory.
//!
//! What it holds is somebody else's ([`Bytes`]): here it only has a name, a
//! length and times. The kernel keeps what it has read, since it stays the
//! same for as long as the mount is there.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use strongroom_engine::Buffer;

use crate::abi::directory::{DirectoryEntries, DirectoryEntriesPlus, DirectoryEntry};
use crate::abi::flags::opened;
use crate::errno::Errno;
use crate::filesystem::{Context, Filesystem, Handle, NodeId, OpenFlags, Read, Seek};
use crate::node::{Attributes, Entry, Opened, Space, TimedAttributes, Timestamp};

/// Nothing changes: the kernel need not ask again.
const TIMEOUT: Duration = Duration::from_secs(3600);
const FILE: NodeId = NodeId(2);
const DIRECTORY_TYPE: u32 = 0o040_000;
const FILE_TYPE: u32 = 0o100_000;

/// What the file holds, read from several threads at once.
pub trait Bytes: Send + Sync {
    /// Bytes; always the same.
    fn len(&self) -> u64;

    /// True for a file of no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `into` with what stands from `offset` on, all of it within the
    /// length.
    ///
    /// # Errors
    /// What the reader is told; `into` is then of no use.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Errno>;
}

/// The file system with the one file.
pub struct SingleFile<B: Bytes> {
    name: Vec<u8>,
    bytes: B,
    owner: (u32, u32),
    modified: Timestamp,
}

impl<B: Bytes> SingleFile<B> {
    /// Shows `bytes` as a file of this name, last modified at `modified`.
    #[must_use]
    pub fn new(name: &[u8], bytes: B, modified: SystemTime) -> SingleFile<B> {
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let modified = Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() };
        SingleFile { name: name.to_vec(), bytes, owner, modified }
    }

    fn attributes(&self, node: NodeId) -> Result<TimedAttributes, Errno> {
        let (size, mode, nlink) = match node {
            NodeId::ROOT => (0, DIRECTORY_TYPE | 0o500, 2),
            FILE => (self.bytes.len(), FILE_TYPE | 0o400, 1),
            _ => return Err(Errno::STALE),
        };
        let attributes = Attributes {
            inode: node.0,
            size,
            blocks: size.div_ceil(512),
            atime: self.modified,
            mtime: self.modified,
            ctime: self.modified,
            mode,
            nlink,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            block_size: 64 << 10,
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

impl<B: Bytes> Filesystem for SingleFile<B> {
    fn lookup(&self, _: &Context, parent: NodeId, name: &[u8]) -> Result<Entry, Errno> {
        if parent != NodeId::ROOT || name != self.name {
            return Ok(Entry::absent(TIMEOUT));
        }
        self.file()
    }

    fn getattr(&self, _: &Context, node: NodeId, _: Option<Handle>) -> Result<TimedAttributes, Errno> {
        self.attributes(node)
    }

    fn open(&self, _: &Context, node: NodeId, _: OpenFlags) -> Result<Opened, Errno> {
        self.attributes(node).map(|_| Opened { handle: Handle(0), flags: opened::KEEP_CACHE })
    }

    fn read(&self, _: &Context, node: NodeId, read: &Read, buffer: &mut Buffer) -> Result<usize, Errno> {
        if node != FILE {
            return Err(Errno::ISDIR);
        }
        let left = usize::try_from(self.bytes.len().saturating_sub(read.offset)).unwrap_or(usize::MAX);
        let size = read.size.min(left);
        if size > 0 {
            self.bytes.read(read.offset, &mut buffer[..size])?;
        }
        Ok(size)
    }

    fn flush(&self, _: &Context, _: NodeId, _: Handle) -> Result<(), Errno> {
        Ok(())
    }

    fn readdir(
        &self,
        _: &Context,
        _: NodeId,
        _: Handle,
        offset: u64,
        entries: &mut DirectoryEntries<'_>,
    ) -> Result<(), Errno> {
        // Full or at the end: the kernel asks for the rest.
        let _ = self.listing(offset).all(|listed| entries.push(&listed));
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
        let _ = self.listing(offset).all(|listed| match listed.inode == FILE.0 {
            true => entries.push(&listed, &file),
            false => entries.push_name(&listed),
        });
        Ok(())
    }

    fn statfs(&self, _: &Context, _: NodeId) -> Result<Space, Errno> {
        Ok(Space {
            blocks: self.bytes.len().div_ceil(4096),
            files: 1,
            block_size: 4096,
            fragment_size: 4096,
            name_max: 255,
            ..Space::default()
        })
    }

    /// All of it is data.
    fn lseek(&self, _: &Context, _: NodeId, seek: &Seek) -> Result<u64, Errno> {
        const SEEK_DATA: u32 = 3;
        let len = self.bytes.len();
        if seek.offset >= len {
            return Err(Errno::NXIO);
        }
        Ok(if seek.whence == SEEK_DATA { seek.offset } else { len })
    }
}
