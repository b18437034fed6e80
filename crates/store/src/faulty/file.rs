//! Open files of a faulty store.

use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, PoisonError};

use super::inject::Verdict;
use super::{Call, Shared};
use crate::memory::{FileBody, MemoryFile};
use crate::{AllocateMode, Attributes, Error, File, Result, SetTime};

/// An open regular file of a faulty store.
pub(super) struct FaultyFile {
    shared: Arc<Shared>,
    file: MemoryFile,
    /// On a distant store: what it was when it was opened or refreshed.
    kept: Option<Mutex<FileBody>>,
}

impl FaultyFile {
    pub(super) fn new(shared: Arc<Shared>, file: MemoryFile) -> Result<FaultyFile> {
        let kept = match shared.is_distant {
            true => Some(Mutex::new(file.body()?)),
            false => None,
        };
        Ok(FaultyFile { shared, file, kept })
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        match &self.kept {
            Some(kept) => Ok(kept.lock().unwrap_or_else(PoisonError::into_inner).read(buffer, offset)),
            None => self.file.read_at(buffer, offset),
        }
    }

    /// Writes the first `bytes` of the slices in turn, then gives `error`.
    fn write_part(&self, slices: &[&[u8]], offset: u64, bytes: usize, error: Error) -> Result<()> {
        let all = slices.concat();
        self.file.write_at(&all[..bytes.min(all.len())], offset)?;
        Err(error)
    }

    /// A barrier, or a failure that loses what it should have covered.
    fn sync(&self, call: Call, operation: &'static str, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.shared.enter(call, operation)? {
            Verdict::Lose(error) => {
                self.file.lose_unsynced();
                Err(error)
            }
            _ => {
                let mut owed = self.shared.owed();
                match owed.remove(&self.file.inode()) {
                    Some(error) => Err(error),
                    None => sync(),
                }
            }
        }
    }
}

impl File for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let wanted = match self.shared.enter(Call::Read, "pread")? {
            Verdict::Short(bytes) => bytes.min(buffer.len()),
            _ => buffer.len(),
        };
        self.read(&mut buffer[..wanted], offset)
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let bytes = match self.shared.enter(Call::Read, "preadv")? {
            Verdict::Short(bytes) => bytes,
            _ => usize::MAX,
        };
        let mut total = 0;
        for buffer in buffers {
            let wanted = buffer.len().min(bytes - total);
            total += self.read(&mut buffer[..wanted], offset + total as u64)?;
        }
        Ok(total)
    }

    fn refresh(&self) -> Result<()> {
        self.shared.pass(Call::Open, "openat")?;
        if let Some(kept) = &self.kept {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = self.file.body()?;
        }
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        match self.shared.enter(Call::Write, "pwrite")? {
            Verdict::Partial(bytes, error) => self.write_part(&[data], offset, bytes, error),
            _ => self.file.write_at(data, offset),
        }
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()> {
        match self.shared.enter(Call::Write, "pwritev")? {
            Verdict::Partial(bytes, error) => {
                let slices: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
                self.write_part(&slices, offset, bytes, error)
            }
            _ => self.file.write_vectored_at(slices, offset),
        }
    }

    fn sync_data(&self) -> Result<()> {
        self.sync(Call::SyncData, "fdatasync", || self.file.sync_data())
    }

    fn sync_all(&self) -> Result<()> {
        self.sync(Call::SyncAll, "fsync", || self.file.sync_all())
    }

    fn len(&self) -> Result<u64> {
        self.shared.pass(Call::Len, "fstat")?;
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.shared.pass(Call::SetLen, "ftruncate")?;
        self.file.set_len(len)
    }

    fn allocate(&self, mode: AllocateMode, offset: u64, len: u64) -> Result<()> {
        self.shared.pass(Call::Allocate, "fallocate")?;
        self.file.allocate(mode, offset, len)
    }

    fn attributes(&self) -> Result<Attributes> {
        self.shared.pass(Call::Attributes, "fstat")?;
        self.file.attributes()
    }

    fn set_times(&self, accessed: SetTime, modified: SetTime) -> Result<()> {
        self.shared.pass(Call::SetTimes, "futimens")?;
        self.file.set_times(accessed, modified)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
