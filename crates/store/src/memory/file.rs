//! Open files of a store in memory.

use std::io::{IoSlice, IoSliceMut};

use rustix::io::Errno;

use super::node::{attributes_of, change_times};
use super::observer::{Barrier, DataChange};
use super::tree::Body;
use super::{FileBody, Handle};
use crate::{Access, AllocateMode, Attributes, Error, File, Result, SetTime};

/// An open regular file of a store in memory.
pub(crate) struct MemoryFile {
    handle: Handle,
    access: Access,
}

impl MemoryFile {
    pub(super) fn new(handle: Handle, access: Access) -> MemoryFile {
        MemoryFile { handle, access }
    }

    fn change(&self, change: DataChange, data: &[u8], refusal: Errno) -> Result<()> {
        if self.access == Access::Read {
            return Err(Error::new(refusal.raw_os_error(), change.operation()));
        }
        self.handle.shared.lock().change_data(self.handle.inode, change, data)
    }

    /// The content as it is now.
    pub(crate) fn body(&self) -> Result<FileBody> {
        let state = self.handle.shared.lock();
        match &state.inode(self.handle.inode, "pread")?.body {
            Body::File(body) => Ok(body.clone()),
            _ => Err(Error::new(Errno::INVAL.raw_os_error(), "pread")),
        }
    }

    pub(crate) fn inode(&self) -> u64 {
        self.handle.inode
    }

    /// As [`File::sync_data`] that fails: what was not synced is lost, in
    /// memory too.
    pub(crate) fn lose_unsynced(&self) {
        self.handle.shared.lock().lose_unsynced(self.handle.inode);
    }
}

impl File for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let state = self.handle.shared.lock();
        match &state.inode(self.handle.inode, "pread")?.body {
            Body::File(body) => Ok(body.read(buffer, offset)),
            _ => Err(Error::new(Errno::INVAL.raw_os_error(), "pread")),
        }
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let mut total = 0;
        for buffer in buffers {
            let count = self.read_at(buffer, offset + total as u64)?;
            total += count;
            if count < buffer.len() {
                break;
            }
        }
        Ok(total)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.change(DataChange::Write { offset, len: data.len() as u64 }, data, Errno::BADF)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()> {
        match slices {
            [single] => self.write_at(single, offset),
            _ => self.write_at(
                &slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<u8>>(),
                offset,
            ),
        }
    }

    fn sync_data(&self) -> Result<()> {
        self.handle.shared.lock().barrier(Barrier::Data(self.handle.inode));
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        self.handle.shared.lock().barrier(Barrier::File(self.handle.inode));
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.attributes()?.len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.change(DataChange::SetLen { len }, &[], Errno::INVAL)
    }

    fn allocate(&self, mode: AllocateMode, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Err(Error::new(Errno::INVAL.raw_os_error(), "fallocate"));
        }
        let change = match mode {
            AllocateMode::KeepLength => DataChange::Reserve { offset, len, extend: false },
            AllocateMode::Extend => DataChange::Reserve { offset, len, extend: true },
            AllocateMode::Punch => DataChange::Punch { offset, len },
        };
        self.change(change, &[], Errno::BADF)
    }

    fn attributes(&self) -> Result<Attributes> {
        let state = self.handle.shared.lock();
        Ok(attributes_of(self.handle.inode, state.inode(self.handle.inode, "fstat")?))
    }

    fn set_times(&self, accessed: SetTime, modified: SetTime) -> Result<()> {
        change_times(&mut self.handle.shared.lock(), self.handle.inode, accessed, modified)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
