//! The rings through which the kernel is spoken to, and the descriptors that
//! it shows.
//!
//! Invariants: memory that a control command names belongs to the kernel until
//! its completion was taken, and is given up for good when that is not to be
//! had; commands of a queue name no memory.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::NonNull;

use io_uring::squeue::{Entry, Entry128};
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::fd::AsRawFd as _;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::abi::{self, CONTROL_LEN, DESCRIPTOR_LEN, Descriptor};

/// `/dev/ublk-control`.
pub(crate) struct Control {
    ring: IoUring<Entry128, cqueue::Entry>,
    file: File,
}

impl Control {
    /// # Errors
    /// The system's.
    pub(crate) fn new(file: File) -> io::Result<Control> {
        Ok(Control { ring: IoUring::builder().build(2)?, file })
    }

    /// Carries out a command on `device`; the kernel reads `buffer`, writes
    /// it, or both.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn command(
        &mut self,
        command: u32,
        device: u32,
        mut buffer: Vec<u8>,
        data: u64,
    ) -> io::Result<Vec<u8>> {
        let address = buffer.as_mut_ptr().expose_provenance() as u64;
        let mut bytes = [0; 80];
        let address = if buffer.is_empty() { 0 } else { address };
        bytes[..CONTROL_LEN].copy_from_slice(&abi::control(device, address, buffer.len() as u16, data));
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), command).cmd(bytes).build();
        // SAFETY: the entry names an open file of `self` and the memory of
        // `buffer` with its length, which nobody else reaches: it is owned
        // here until the completion below has been taken, and otherwise never
        // freed.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::Error::from(Errno::BUSY))?;
        let result = loop {
            let waited = self.ring.submit_and_wait(1);
            if let Some(completion) = self.ring.completion().next() {
                break completion.result();
            }
            match waited {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // The kernel may still have it.
                    std::mem::forget(buffer);
                    return Err(error);
                }
            }
        };
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(buffer) }
    }
}

/// The requests of one queue, where the kernel shows them.
pub(crate) struct Descriptors {
    start: NonNull<c_void>,
    len: usize,
    count: usize,
}

impl Descriptors {
    /// # Errors
    /// The system's.
    pub(crate) fn map(device: &File, queue: u16, depth: u16) -> io::Result<Descriptors> {
        let count = usize::from(depth);
        let len = (count * DESCRIPTOR_LEN).next_multiple_of(rustix::param::page_size());
        let offset = abi::descriptors_offset(queue);
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches
        // no memory of ours.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, ProtFlags::READ, flags, device, offset) }?;
        let start = NonNull::new(start).ok_or(io::Error::from(Errno::NOMEM))?;
        Ok(Descriptors { start, len, count })
    }

    /// The request that was fetched as `tag`; none where there is no such.
    pub(crate) fn read(&self, tag: u16) -> Option<Descriptor> {
        let index = usize::from(tag);
        if index >= self.count {
            return None;
        }
        let mut bytes = [0; DESCRIPTOR_LEN];
        for (at, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: the index is below the count, so the byte lies in the
            // mapping, which lives as long as `self`. The kernel writes a
            // descriptor before it completes the fetch and not again before
            // the answer; volatile, since it is the kernel who writes.
            *byte = unsafe { self.start.cast::<u8>().add(index * DESCRIPTOR_LEN + at).read_volatile() };
        }
        Some(Descriptor::parse(&bytes))
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and nothing
        // refers into it.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.len) };
    }
}

/// The ring of one queue; of the thread alone that made it.
pub(crate) struct QueueRing {
    ring: IoUring<Entry, cqueue::Entry>,
    device: File,
    queue: u16,
}

impl QueueRing {
    /// # Errors
    /// The system's.
    pub(crate) fn new(device: File, queue: u16, depth: u16) -> io::Result<QueueRing> {
        let ring = IoUring::builder().setup_coop_taskrun().build(u32::from(depth))?;
        Ok(QueueRing { ring, device, queue })
    }

    /// The character device.
    pub(crate) fn device(&self) -> &File {
        &self.device
    }

    /// Puts a command for `tag` into the ring; [`QueueRing::wait`] submits it.
    ///
    /// # Errors
    /// When the ring is full, which it is not with one command for each tag.
    pub(crate) fn push(&mut self, command: u32, tag: u16, result: i32) -> io::Result<()> {
        let entry = opcode::UringCmd16::new(types::Fd(self.device.as_raw_fd()), command)
            .cmd(abi::io_command(self.queue, tag, result))
            .build()
            .user_data(u64::from(tag));
        // SAFETY: the entry names an open file of `self` and no memory.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::Error::from(Errno::BUSY))
    }

    /// Submits what was pushed, without waiting.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.ring.submit().map(drop)
    }

    /// Submits what was pushed, and waits until something has come; `take`
    /// gets the tag and the kernel's result of each.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn wait(&mut self, mut take: impl FnMut(u16, i32)) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        for completion in self.ring.completion() {
            take(completion.user_data() as u16, completion.result());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_ublk_device_is_refused() {
        let file = tempfile_in_memory;
        let Ok(mut control) = Control::new(file()) else { return };
        assert!(control.command(abi::control::ADD, u32::MAX, vec![0; 64], 0).is_err());
        let mut ring = QueueRing::new(file(), 0, 4).expect("a ring of the other kind was to be had");
        ring.push(abi::io::FETCH, 3, 0).expect("room");
        let mut seen = Vec::new();
        ring.wait(|tag, result| seen.push((tag, result))).expect("submitted");
        assert!(matches!(seen[..], [(3, result)] if result < 0), "{seen:?}");
    }

    #[test]
    fn descriptors_are_read_from_a_mapping() {
        use std::os::unix::fs::FileExt as _;
        let file = tempfile_in_memory();
        file.set_len(4096).expect("long");
        file.write_all_at(&[1, 32, 0, 0, 8, 0, 0, 0, 2], 24).expect("written");
        let descriptors = Descriptors::map(&file, 0, 2).expect("mapped");
        let found = descriptors.read(1).expect("there");
        assert_eq!((found.operation, found.fua, found.offset, found.len), (1, true, 1024, 4096));
        assert_eq!(descriptors.read(2), None);
    }

    fn tempfile_in_memory() -> File {
        let fd = rustix::fs::memfd_create("descriptors", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        File::from(fd)
    }
}
