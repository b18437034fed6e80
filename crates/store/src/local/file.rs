//! Open files of a local store: positioned input and output that repeats
//! what the system cut short.

use std::any::Any;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Advice, FallocateFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use super::handle::Handle;
use super::node::{attributes_of, timestamps};
use super::refreshing::Refreshed;
use super::{OpenMode, Shared, error};
use crate::copying::copy_through_memory;
use crate::mapped::MappedFile;
use crate::{AllocateMode, Attributes, File, InodeId, Result, SetTime};

/// Most buffers that one call to the system takes (`IOV_MAX`).
const VECTORS_MAX: usize = 1024;

/// For 8 KiB it takes longer to look whether they are in the page cache than to
/// copy them once more, for this it does not.
const MAPPED_MIN: u64 = 32 << 10;

/// `RWF_DONTCACHE` of Linux 6.14: pages that a read brings into memory leave
/// it after the read; pages that were there before stay.
const RWF_DONTCACHE: u32 = 0x80;

/// An open regular file of a local store.
#[derive(Debug)]
pub(super) struct LocalFile {
    store: Arc<Shared>,
    handle: Arc<Handle>,
    id: InodeId,
    /// Why it may not be written, when it may be read alone.
    refusal: Option<Errno>,
    /// Reads ask the kernel to drop what they have brought into memory.
    uncached: AtomicBool,
    /// Made for the first that copies much from here; none where it cannot be.
    mapped: OnceLock<Option<Box<MappedFile>>>,
    refreshed: Refreshed,
}

impl LocalFile {
    pub(super) fn new(store: Arc<Shared>, handle: Handle, id: InodeId) -> LocalFile {
        LocalFile {
            store,
            handle: Arc::new(handle),
            id,
            refusal: None,
            uncached: AtomicBool::new(false),
            mapped: OnceLock::new(),
            refreshed: Refreshed::default(),
        }
    }

    /// The same, to be read alone: every change fails with `refusal`.
    pub(super) fn read_only(self, refusal: Errno) -> LocalFile {
        LocalFile { refusal: Some(refusal), ..self }
    }

    fn allow(&self, operation: &'static str) -> Result<()> {
        self.refusal.map_or(Ok(()), |errno| Err(error(operation)(errno)))
    }

    /// Changes the file, unless it may be read alone.
    fn change<T>(&self, operation: &'static str, change: impl FnOnce(&OwnedFd) -> Result<T>) -> Result<T> {
        self.allow(operation)?;
        let _change = self.store.unsynced.file(self.id, &self.handle);
        self.handle.change(change).inspect_err(|_| self.note_failed())
    }

    fn sync(
        &self,
        operation: &'static str,
        is_whole: bool,
        sync: impl Fn(&OwnedFd) -> rustix::io::Result<()>,
    ) -> Result<()> {
        let _timing = self.store.times.barriers.begin_rare();
        let synced = self.store.unsynced.sync_file(self.id, &self.handle, is_whole, sync);
        synced.map_err(error(operation)).inspect_err(|_| self.note_failed())
    }

    fn note_failed(&self) {
        self.store.unsynced.note_failed(self.id, &self.handle);
    }

    /// The file's bytes where the kernel keeps them.
    fn mapped(&self) -> Option<&MappedFile> {
        let map = || MappedFile::new(&self.handle.fd().try_clone()?.into());
        // Who cannot have it reads, and hears what is wrong.
        self.mapped.get_or_init(|| map().ok().flatten().map(Box::new)).as_deref()
    }

    /// Reads so that only what was in memory before stays there; `None` when
    /// the kernel or the file system cannot.
    fn read_uncached(&self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        let flags = ReadWriteFlags::from_bits_retain(RWF_DONTCACHE);
        let mut vector = [IoSliceMut::new(buffer)];
        match retry_on_intr(|| rustix::io::preadv2(self.handle.fd(), &mut vector, offset, flags)) {
            Ok(count) => Some(count),
            Err(_) => {
                self.uncached.store(false, Ordering::Relaxed);
                None
            }
        }
    }
}

/// Reads until `buffer` is full or the file ends.
fn read_full(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut buffer[done..];
        match retry_on_intr(|| rustix::io::pread(&fd, &mut *rest, offset + done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(errno) => return Err(error("pread")(errno)),
        }
    }
    Ok(done)
}

/// Writes all of `data`.
fn write_full(fd: impl AsFd, data: &[u8], offset: u64) -> Result<()> {
    let mut done = 0;
    while done < data.len() {
        match retry_on_intr(|| rustix::io::pwrite(&fd, &data[done..], offset + done as u64)) {
            // Nothing written and no reason given would repeat for ever.
            Ok(0) => return Err(error("pwrite")(Errno::IO)),
            Ok(count) => done += count,
            Err(errno) => return Err(error("pwrite")(errno)),
        }
    }
    Ok(())
}

/// Writes all of `slices`.
fn write_vectored_full(fd: impl AsFd, slices: &[IoSlice<'_>], offset: u64) -> Result<()> {
    let mut total = 0;
    let mut next = 0;
    while next < slices.len() {
        let end = slices.len().min(next + VECTORS_MAX);
        if slices[next..end].iter().all(|slice| slice.is_empty()) {
            next = end;
            continue;
        }
        let mut count = retry_on_intr(|| rustix::io::pwritev(&fd, &slices[next..end], offset + total))
            .map_err(error("pwritev"))?;
        if count == 0 {
            return Err(error("pwritev")(Errno::IO));
        }
        total += count as u64;
        while next < end && count >= slices[next].len() {
            count -= slices[next].len();
            next += 1;
        }
        if next < end {
            let rest = &slices[next][count..];
            write_full(&fd, rest, offset + total)?;
            total += rest.len() as u64;
            next += 1;
        }
    }
    Ok(())
}

impl File for LocalFile {
    fn abandon(&self) {
        self.store.unsynced.forget(self.id);
    }

    fn drop_cached(&self) {
        // A kernel that could not write a page has it in memory still, and takes it for written.
        let _ = rustix::fs::fadvise(self.handle.fd(), 0, None, Advice::DontNeed);
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let _timing = self.store.times.reads.begin();
        let mut done = 0;
        if self.uncached.load(Ordering::Relaxed) {
            // What is cut short here, by an error too, is asked for once more.
            done = self.read_uncached(buffer, offset).unwrap_or(0);
        }
        if done == buffer.len() {
            return Ok(done);
        }
        Ok(done + read_full(self.handle.fd(), &mut buffer[done..], offset + done as u64)?)
    }

    fn refresh(&self) -> Result<()> {
        // Who writes is alone, and knows what it has written.
        if !self.store.is_distant || self.store.mode == OpenMode::Writable {
            return Ok(());
        }
        let _timing = self.store.times.names.begin();
        self.refreshed.renew(self.handle.fd())
    }

    fn read_once(&self) {
        // Refused by some files, and only a wish.
        let _ = rustix::fs::fadvise(self.handle.fd(), 0, None, Advice::NoReuse);
        self.uncached.store(true, Ordering::Relaxed);
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let _timing = self.store.times.reads.begin();
        let mut total = 0;
        let mut next = 0;
        while next < buffers.len() {
            let end = buffers.len().min(next + VECTORS_MAX);
            let wanted: usize = buffers[next..end].iter().map(|buffer| buffer.len()).sum();
            let position = offset + total as u64;
            let mut count =
                retry_on_intr(|| rustix::io::preadv(self.handle.fd(), &mut buffers[next..end], position))
                    .map_err(error("preadv"))?;
            total += count;
            if count == 0 && wanted > 0 {
                break;
            }
            while next < end && count >= buffers[next].len() {
                count -= buffers[next].len();
                next += 1;
            }
            if next < end {
                // Cut short inside a buffer: this one is filled by itself.
                let rest = &mut buffers[next][count..];
                let more = read_full(self.handle.fd(), rest, offset + total as u64)?;
                total += more;
                if more < rest.len() {
                    break;
                }
                next += 1;
            }
        }
        Ok(total)
    }

    fn check_writable(&self) -> Result<()> {
        self.allow("openat")
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        let _timing = self.store.times.writes.begin();
        self.change("pwrite", |fd| write_full(fd, data, offset))
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let _timing = self.store.times.writes.begin();
        self.change("pwritev", |fd| write_vectored_full(fd, slices, offset))
    }

    /// Not by `copy_file_range(2)`: where the file system can it makes both
    /// files share what is stored, and takes away the space that was reserved
    /// for the one that is written.
    fn copy_from(&self, from: &dyn File, at: u64, offset: u64, len: u64) -> Result<u64> {
        self.allow("pwrite")?;
        let done = match from.as_any().downcast_ref::<LocalFile>() {
            Some(from) if len >= MAPPED_MIN => {
                let _timing = self.store.times.writes.begin();
                let mapped = from.mapped();
                self.change("pwrite", |fd| {
                    Ok(mapped.map_or(0, |mapped| mapped.write_to(at, len, fd, offset)))
                })?
            }
            _ => 0,
        };
        Ok(done + copy_through_memory(self, offset + done, (from, at + done), len - done)?)
    }

    fn sync_data(&self) -> Result<()> {
        self.sync("fdatasync", false, |fd| rustix::fs::fdatasync(fd))
    }

    fn sync_all(&self) -> Result<()> {
        self.sync("fsync", true, |fd| rustix::fs::fsync(fd))
    }

    fn len(&self) -> Result<u64> {
        let _timing = self.store.times.names.begin();
        let found = rustix::fs::fstat(self.handle.fd()).map_err(error("fstat"))?;
        u64::try_from(found.st_size).map_err(|_| error("fstat")(Errno::IO))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let _timing = self.store.times.names.begin();
        self.change("ftruncate", |fd| {
            retry_on_intr(|| rustix::fs::ftruncate(fd, len)).map_err(error("ftruncate"))
        })
    }

    fn allocate(&self, mode: AllocateMode, offset: u64, len: u64) -> Result<()> {
        let _timing = self.store.times.names.begin();
        let flags = match mode {
            AllocateMode::KeepLength => FallocateFlags::KEEP_SIZE,
            AllocateMode::Extend => FallocateFlags::empty(),
            AllocateMode::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        };
        self.change("fallocate", |fd| {
            retry_on_intr(|| rustix::fs::fallocate(fd, flags, offset, len)).map_err(error("fallocate"))
        })
    }

    fn attributes(&self) -> Result<Attributes> {
        let _timing = self.store.times.names.begin();
        attributes_of(self.handle.fd())
    }

    fn set_times(&self, accessed: SetTime, modified: SetTime) -> Result<()> {
        let _timing = self.store.times.names.begin();
        self.store.writable("futimens")?;
        let _change = self.store.unsynced.file(self.id, &self.handle);
        rustix::fs::futimens(self.handle.fd(), &timestamps(accessed, modified)).map_err(error("futimens"))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
