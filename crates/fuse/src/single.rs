//! One file in one directory, whose name and owner stay.
//!
//! What it holds is somebody else's ([`Bytes`]): here it only has a name, a
//! length and times, and its directory a listing. Nothing changes but by
//! requests, so that the kernel need not ask again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use strongroom_engine::Buffer;

use crate::abi::directory::{DirectoryEntries, DirectoryEntriesPlus, DirectoryEntry};
use crate::abi::flags::opened;
use crate::errno::Errno;
use crate::filesystem::{
    Allocate, Context, Filesystem, Handle, NodeId, OpenFlags, Read, Seek, SetAttributes, Write,
};
use crate::node::{Attributes, Entry, Opened, Space, TimedAttributes, Timestamp};

const TIMEOUT: Duration = Duration::from_secs(3600);
const FILE: NodeId = NodeId(2);
const DIRECTORY_TYPE: u32 = 0o040_000;
const FILE_TYPE: u32 = 0o100_000;

/// What the file holds, used from several threads at once. Its length stays,
/// and so does all of it unless it says otherwise.
pub trait Bytes: Send + Sync {
    /// Bytes.
    fn len(&self) -> u64;

    /// True for a file of no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills the first `size` bytes of `buffer` with what stands from `offset`
    /// on, all of it within the length.
    ///
    /// # Errors
    /// What the reader is told; the buffer is then of no use.
    fn read(&self, offset: u64, size: usize, buffer: &mut Buffer) -> Result<(), Errno>;

    /// Permission bits of the directory and of the file.
    fn modes(&self) -> (u32, u32) {
        (0o500, 0o400)
    }

    /// Bytes that programs do well to take at once.
    fn block_size(&self) -> u32 {
        64 << 10
    }

    /// Whether the kernel may keep what it has read.
    fn keeps(&self) -> bool {
        true
    }

    /// Writes the first `size` bytes of `buffer`, all within the length.
    ///
    /// # Errors
    /// `NOSYS` where nothing can be changed.
    fn write(&self, _offset: u64, _size: usize, _buffer: &mut Buffer) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    /// As for writing.
    fn sync(&self) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Allocates or zeroes a range, which may reach beyond the end.
    ///
    /// # Errors
    /// As for writing, and `OPNOTSUPP` for what there is not.
    fn allocate(&self, _allocate: &Allocate) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }
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
        let (directory, file) = self.bytes.modes();
        let (size, mode, nlink) = match node {
            NodeId::ROOT => (0, DIRECTORY_TYPE | directory, 2),
            FILE => (self.bytes.len(), FILE_TYPE | file, 1),
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
            block_size: self.bytes.block_size(),
        };
        Ok(TimedAttributes::new(attributes, TIMEOUT))
    }

    fn file(&self) -> Result<Entry, Errno> {
        let attributes = self.attributes(FILE)?;
        Ok(Entry { node: FILE, generation: 0, entry_timeout: TIMEOUT, attributes })
    }

    /// How many of `size` bytes from `offset` on the file has.
    fn within(&self, node: NodeId, offset: u64, size: usize) -> Result<usize, Errno> {
        if node != FILE {
            return Err(Errno::ISDIR);
        }
        let left = self.bytes.len().saturating_sub(offset);
        Ok(size.min(usize::try_from(left).unwrap_or(usize::MAX)))
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

    /// Times and owners are accepted and forgotten; the length stays.
    fn setattr(&self, _: &Context, node: NodeId, change: &SetAttributes) -> Result<TimedAttributes, Errno> {
        let attributes = self.attributes(node)?;
        match change.size {
            Some(size) if size != attributes.attributes.size => Err(Errno::PERM),
            _ => Ok(attributes),
        }
    }

    fn open(&self, _: &Context, node: NodeId, _: OpenFlags) -> Result<Opened, Errno> {
        let flags = if self.bytes.keeps() { opened::KEEP_CACHE } else { 0 };
        self.attributes(node).map(|_| Opened { handle: Handle(0), flags })
    }

    fn read(&self, _: &Context, node: NodeId, read: &Read, buffer: &mut Buffer) -> Result<usize, Errno> {
        let size = self.within(node, read.offset, read.size)?;
        if size > 0 {
            self.bytes.read(read.offset, size, buffer)?;
        }
        Ok(size)
    }

    fn write(&self, _: &Context, node: NodeId, write: &Write, buffer: &mut Buffer) -> Result<usize, Errno> {
        let size = self.within(node, write.offset, write.len)?;
        if size == 0 && write.len > 0 {
            return Err(Errno::NOSPC);
        }
        self.bytes.write(write.offset, size, buffer)?;
        Ok(size)
    }

    fn flush(&self, _: &Context, _: NodeId, _: Handle) -> Result<(), Errno> {
        Ok(())
    }

    fn fsync(&self, _: &Context, _: NodeId, _: Handle, _: bool) -> Result<(), Errno> {
        self.bytes.sync()
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

    fn fallocate(&self, _: &Context, node: NodeId, allocate: &Allocate) -> Result<(), Errno> {
        if node != FILE {
            return Err(Errno::FBIG);
        }
        self.bytes.allocate(allocate)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Context;
    use std::sync::Mutex;

    /// A hundred bytes that can be changed, or not.
    struct Memory(Mutex<Vec<u8>>, bool);

    impl Bytes for Memory {
        fn len(&self) -> u64 {
            self.0.lock().unwrap().len() as u64
        }

        fn read(&self, offset: u64, size: usize, buffer: &mut Buffer) -> Result<(), Errno> {
            buffer[..size].copy_from_slice(&self.0.lock().unwrap()[offset as usize..][..size]);
            Ok(())
        }

        fn write(&self, offset: u64, size: usize, buffer: &mut Buffer) -> Result<(), Errno> {
            if !self.1 {
                return Err(Errno::ROFS);
            }
            self.0.lock().unwrap()[offset as usize..][..size].copy_from_slice(&buffer[..size]);
            Ok(())
        }
    }

    fn file(writable: bool) -> SingleFile<Memory> {
        SingleFile::new(b"name", Memory(Mutex::new((0..100).collect()), writable), UNIX_EPOCH)
    }

    fn read(file: &SingleFile<Memory>, node: NodeId, offset: u64) -> Result<Vec<u8>, Errno> {
        let (read, mut buffer) = (Read { handle: Handle(0), offset, size: 64, flags: 0 }, Buffer::new(64));
        let len = file.read(&Context::default(), node, &read, &mut buffer)?;
        Ok(buffer[..len].to_vec())
    }

    #[test]
    fn reading_and_writing_end_where_the_file_does() {
        let file = file(true);
        assert_eq!(read(&file, FILE, 90), Ok((90..100).collect()));
        assert_eq!((read(&file, FILE, 100), read(&file, FILE, u64::MAX)), (Ok(vec![]), Ok(vec![])));
        assert_eq!(read(&file, NodeId::ROOT, 0), Err(Errno::ISDIR));
        let write = |offset| {
            let write =
                Write { handle: Handle(0), offset, len: 64, flags: 0, cached: false, kill_suid_sgid: false };
            file.write(&Context::default(), FILE, &write, &mut Buffer::copy_of(&[7; 64]))
        };
        assert_eq!((write(98), write(100)), (Ok(2), Err(Errno::NOSPC)));
        assert_eq!(read(&file, FILE, 96), Ok(vec![96, 97, 7, 7]));
    }

    #[test]
    fn there_is_one_name_and_its_length_stays() {
        let file = file(false);
        let context = Context::default();
        assert_eq!(file.lookup(&context, NodeId::ROOT, b"name").unwrap().node, FILE);
        assert_eq!(file.lookup(&context, NodeId::ROOT, b"other").unwrap().node, NodeId(0));
        let resized = |size| {
            file.setattr(&context, FILE, &SetAttributes { size: Some(size), ..SetAttributes::default() })
        };
        assert!(resized(100).is_ok());
        assert_eq!(resized(99).err(), Some(Errno::PERM));
        let names: Vec<&[u8]> = file.listing(1).map(|listed| listed.name).collect();
        assert_eq!(names, [&b".."[..], b"name"]);
        let seek = |whence| file.lseek(&context, FILE, &Seek { handle: Handle(0), offset: 5, whence });
        assert_eq!((seek(3), seek(4)), (Ok(5), Ok(100)));
    }
}
