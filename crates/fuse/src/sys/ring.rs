//! One entry of a queue of FUSE over io_uring, and the ring that brings it:
//! the memory that the kernel writes a request into and reads the answer from
//! (`include/uapi/linux/fuse.h`, `Documentation/filesystems/fuse-io-uring.rst`).
//!
//! Invariant: the memory is the kernel's from the moment an entry is submitted
//! until its completion was taken, and ours at any other time. What the kernel
//! knows by address is never freed while it is the kernel's.

use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use strongroom_engine::Buffer;

/// Bytes of the headers of one entry: 128 for the common header, 128 for the
/// operation's own, 32 for what concerns the ring.
pub(crate) const HEADERS_LEN: usize = 288;

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// Where `len` stands in a submission, which for a registration is the number
/// of memory parts.
const LEN_OFFSET: usize = 24;

/// Submissions that a ring has room for: one is under way at most.
const SUBMISSIONS: u32 = 2;

/// A part of memory, as `struct iovec`.
#[repr(C)]
struct Part {
    base: usize,
    len: usize,
}

/// Whose the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Ours; the kernel does not know it yet.
    Fresh,
    /// The kernel's.
    Kernel,
    /// Ours: it holds a request.
    Request,
    /// Ours again for good: the kernel has let go of it.
    Ended,
}

/// An entry with its ring.
pub(crate) struct Entry {
    ring: IoUring<Entry128, cqueue::Entry>,
    device: Arc<OwnedFd>,
    queue: u16,
    /// Page-aligned, so that neither part shares a page with anything else.
    headers: Buffer,
    payload: Buffer,
    /// Headers and payload, as they were registered.
    parts: Box<[Part; 2]>,
    state: State,
}

/// Whether this process may make a ring of the kind that is needed.
pub(crate) fn probe() -> io::Result<()> {
    ring().map(drop)
}

fn ring() -> io::Result<IoUring<Entry128, cqueue::Entry>> {
    IoUring::builder().setup_coop_taskrun().setup_single_issuer().build(SUBMISSIONS)
}

impl Entry {
    /// An entry for `queue` of the connection of `device`. Only the thread
    /// that calls this may use it.
    pub(crate) fn new(device: Arc<OwnedFd>, queue: u16, payload_len: usize) -> io::Result<Entry> {
        let (mut headers, mut payload) = (Buffer::new(HEADERS_LEN), Buffer::new(payload_len));
        let part =
            |buffer: &mut Buffer| Part { base: buffer.as_mut_ptr().expose_provenance(), len: buffer.len() };
        let parts = Box::new([part(&mut headers), part(&mut payload)]);
        Ok(Entry { ring: ring()?, device, queue, headers, payload, parts, state: State::Fresh })
    }

    /// Headers and payload of a request, or of its answer.
    pub(crate) fn parts(&mut self) -> (&mut [u8], &mut Buffer) {
        (&mut self.headers, &mut self.payload)
    }

    /// Hands the memory to the kernel and waits for a request in it: at first
    /// for any, later as the answer to the request `answered`.
    ///
    /// # Errors
    /// What the kernel says: `NOTCONN` when the mount is gone. `INVAL`, with
    /// nothing handed over, when the payload is not the memory that was
    /// registered. No entry can be used after an error.
    pub(crate) fn fetch(&mut self, answered: Option<u64>) -> rustix::io::Result<()> {
        let submission = match (self.state, answered) {
            (State::Fresh, None) => self.registration(),
            (State::Request, Some(id)) if self.is_whole() => self.command(COMMIT_AND_FETCH, id),
            _ => return Err(Errno::INVAL),
        };
        // SAFETY: the submission names the device, which `self` keeps open, and
        // for a registration the address of `parts`, which names the memory of
        // `headers` and `payload`. All of it lives until `self` is dropped, and
        // `drop` leaves it allocated while it is the kernel's. `is_whole` has
        // checked that the payload is still the memory that was registered, and
        // `headers` never leaves `self`. Until the completion below this
        // function holds `self` exclusively, so nobody else reaches the memory.
        unsafe { self.ring.submission().push(&submission) }.map_err(|_| Errno::BUSY)?;
        self.state = State::Kernel;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                    Some(errno) => return Err(errno),
                    None => return Err(Errno::IO),
                },
            }
            if let Some(completion) = self.ring.completion().next() {
                let result = completion.result();
                self.state = if result < 0 { State::Ended } else { State::Request };
                return if result < 0 { Err(Errno::from_raw_os_error(-result)) } else { Ok(()) };
            }
        }
    }

    /// True while the payload is the memory that the kernel knows.
    fn is_whole(&self) -> bool {
        let known = &self.parts[1];
        self.payload.as_ptr().addr() == known.base && self.payload.len() == known.len
    }

    fn registration(&self) -> Entry128 {
        let mut entry = self.command(REGISTER, 0);
        // SAFETY: `Entry128` is `repr(C)` over the kernel's 128 bytes of a
        // submission, whose bytes 24 to 27 are `len`, a plain number; the write
        // stays within the value and needs no alignment.
        unsafe {
            let len = (&raw mut entry).cast::<u8>().add(LEN_OFFSET).cast::<u32>();
            len.write_unaligned(self.parts.len() as u32);
        }
        entry
    }

    /// A command with what `struct fuse_uring_cmd_req` holds.
    fn command(&self, operation: u32, id: u64) -> Entry128 {
        let mut bytes = [0; 80];
        bytes[8..16].copy_from_slice(&id.to_ne_bytes());
        bytes[16..18].copy_from_slice(&self.queue.to_ne_bytes());
        let address = (operation == REGISTER).then(|| self.parts.as_ptr().expose_provenance() as u64);
        opcode::UringCmd80::new(types::Fd(self.device.as_raw_fd()), operation)
            .cmd(bytes)
            .addr(address)
            .build()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.state == State::Kernel {
            // It may still write there, and closing the ring does not wait.
            std::mem::forget(self.headers.take());
            std::mem::forget(self.payload.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        Entry::new(Arc::new(file), 3, 8192).unwrap()
    }

    fn bytes(submission: &Entry128) -> Vec<u8> {
        let start: *const Entry128 = submission;
        // SAFETY: the value has 128 bytes, all of them plain numbers.
        unsafe { std::slice::from_raw_parts(start.cast::<u8>(), 128) }.to_vec()
    }

    #[test]
    fn fields_stand_where_the_kernel_looks() {
        let entry = entry();
        let registration = bytes(&entry.registration());
        assert_eq!(registration[16..24], (entry.parts.as_ptr().addr() as u64).to_ne_bytes());
        assert_eq!(registration[24..28], 2u32.to_ne_bytes());
        assert_eq!(registration[8..12], REGISTER.to_ne_bytes());
        let commit = bytes(&entry.command(COMMIT_AND_FETCH, 77));
        assert_eq!(commit[8..12], COMMIT_AND_FETCH.to_ne_bytes());
        assert_eq!(commit[48..72], [0u64.to_ne_bytes(), 77u64.to_ne_bytes(), 3u64.to_ne_bytes()].concat());
    }

    #[test]
    fn memory_that_is_not_the_registered_one_is_not_handed_over() {
        let mut entry = entry();
        assert!(entry.is_whole());
        let own = entry.payload.take();
        assert!(!entry.is_whole());
        entry.payload = Buffer::new(8192);
        entry.state = State::Request;
        assert_eq!(entry.fetch(Some(1)), Err(Errno::INVAL));
        assert_eq!(entry.state, State::Request);
        entry.payload = own;
        assert!(entry.is_whole());
    }

    #[test]
    fn a_file_that_is_no_fuse_device_is_refused() {
        let mut entry = entry();
        assert!(entry.fetch(Some(1)).is_err());
        assert!(entry.fetch(None).is_err());
        assert_eq!(entry.state, State::Ended);
        assert_eq!(entry.fetch(None), Err(Errno::INVAL));
    }
}
