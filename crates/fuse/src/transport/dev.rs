//! Requests through `/dev/fuse`, one `readv` and one `writev` each.
//!
//! The first part of the `readv` is exactly as long as what precedes a write's
//! payload, so that the payload lands page-aligned in a buffer of its own. All
//! other requests that are longer are put together by a copy of what is, as a
//! rule, a name.
//!
//! Where it pays, a worker polls for the next request before it sleeps
//! ([`pacing`](crate::pacing)).

use super::{ReceiveError, Received, Reply, Transport};
use crate::abi::request::Header;
use crate::abi::{Opcode, REQUEST_HEADER_LEN, WRITE_ARGUMENTS_LEN, reply};
use crate::devfuse;
use crate::errno::Errno;
use crate::pacing::{Found, Pacer, Pacing};
use crate::sys;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno as System;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strongroom_engine::Buffer;

/// Bytes before a write's payload.
const HEAD_LEN: usize = REQUEST_HEADER_LEN + WRITE_ARGUMENTS_LEN;

/// How long requests gather beside rings: with 14,000 files removed in a
/// second, fourteen at a time, and no program notices an interrupt that comes
/// so late.
const GATHERING: Duration = Duration::from_millis(1);

/// Pauses of the CPU between two polls: a third of a microsecond, so that
/// whoever queues a request finds the queue's lock free.
const PAUSES: usize = 8;

/// A worker's end of `/dev/fuse`.
#[derive(Debug)]
pub(crate) struct Device {
    file: Arc<OwnedFd>,
    message: Vec<u8>,
    payload: Buffer,
    transfer_max: usize,
    pacer: Box<dyn Pacer>,
    pacing: Arc<Pacing>,
    is_nonblocking: bool,
    /// Nobody waits for its requests, which gather.
    is_beside_rings: bool,
}

impl Device {
    /// On a descriptor of a connection, for transfers of `transfer_max` bytes.
    pub(crate) fn new(file: Arc<OwnedFd>, transfer_max: usize, pacing: &Arc<Pacing>) -> Device {
        Device {
            file,
            message: Vec::with_capacity(4 * HEAD_LEN),
            payload: Buffer::new(transfer_max),
            transfer_max,
            pacer: pacing.device(),
            pacing: Arc::clone(pacing),
            is_nonblocking: false,
            is_beside_rings: false,
        }
    }

    /// A further end for another worker: with a queue of its own where the
    /// user may open the device, else sharing this one's.
    pub(crate) fn another(&self) -> Device {
        let own = devfuse::open().and_then(|fresh| {
            sys::clone_connection(&fresh, &self.file)?;
            Ok(Arc::new(fresh))
        });
        let file = own.unwrap_or_else(|_| {
            self.pacing.never_poll();
            Arc::clone(&self.file)
        });
        Device::new(file, self.transfer_max, &self.pacing)
    }

    /// Has this worker serve what still comes to the device beside rings: FORGET
    /// and INTERRUPT, upon which no program waits. So nobody polls for any, and
    /// what comes soon after another is taken with those that come meanwhile:
    /// the kernel makes one request of as many FORGETs as are there.
    pub(crate) fn stand_beside_rings(&mut self) {
        self.pacing.never_poll();
        self.is_beside_rings = true;
    }

    /// The descriptor.
    pub(crate) fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    fn try_read(&mut self) -> rustix::io::Result<usize> {
        let mut parts = [IoSliceMut::new(&mut self.message), IoSliceMut::new(&mut self.payload)];
        rustix::io::readv(&self.file, &mut parts)
    }

    /// Reads one request and says how many bytes it has.
    fn read_request(&mut self) -> Result<usize, ReceiveError> {
        if self.payload.len() != self.transfer_max {
            // A handler failed while the buffer was elsewhere.
            self.payload = Buffer::new(self.transfer_max);
        }
        self.message.resize(HEAD_LEN, 0);
        let polled = self.pacer.wants(Instant::now()).and_then(|until| self.poll(until));
        let (len, found) = match polled {
            Some(polled) => polled,
            None => (self.wait()?, Found::Asleep),
        };
        self.pacer.received(Instant::now(), &self.message[..len.min(HEAD_LEN)], found);
        Ok(len)
    }

    /// Polls for a request until a moment. Errors are left to whoever waits.
    fn poll(&mut self, until: Instant) -> Option<(usize, Found)> {
        self.set_nonblocking(true);
        let mut found = Found::Waiting;
        while self.is_nonblocking {
            match self.try_read() {
                Ok(len) => return Some((len, found)),
                Err(System::AGAIN) if Instant::now() < until => {
                    (0..PAUSES).for_each(|_| std::hint::spin_loop());
                    found = Found::Polled;
                }
                Err(_) => break,
            }
        }
        None
    }

    /// Makes reading wait, or not.
    fn set_nonblocking(&mut self, wanted: bool) {
        if self.is_nonblocking != wanted {
            let flags = if wanted { OFlags::NONBLOCK } else { OFlags::empty() };
            if rustix::fs::fcntl_setfl(&self.file, flags).is_ok() {
                self.is_nonblocking = wanted;
            }
        }
    }

    /// Waits for a request.
    fn wait(&mut self) -> Result<usize, ReceiveError> {
        self.set_nonblocking(false);
        self.pacer.sleeps(Instant::now());
        let mut cut_short = false;
        loop {
            match self.try_read() {
                Ok(len) => return Ok(len),
                // NOENT: the request was withdrawn while it was being read.
                Err(System::INTR | System::AGAIN | System::NOENT) => {}
                Err(System::NODEV) => return Err(ReceiveError::Unmounted),
                // A request that was being taken while the mount ended is cut short with this number
                // whatever ended it. Asked again, the device tells an abort from an unmount.
                Err(System::CONNABORTED) if !cut_short => cut_short = true,
                Err(System::CONNABORTED) => return Err(ReceiveError::Aborted),
                Err(error) => return Err(ReceiveError::Failed(error.into())),
            }
        }
    }
}

impl Transport for Device {
    fn receive(&mut self) -> Result<Received<'_>, ReceiveError> {
        if self.is_beside_rings {
            std::thread::sleep(GATHERING);
        }
        let len = self.read_request()?;
        let beyond = len.saturating_sub(HEAD_LEN);
        let write = Header::parse(&self.message).is_ok_and(|header| header.opcode == Opcode::Write.raw());
        let payload_len = if write {
            beyond
        } else {
            self.message.truncate(len);
            self.message.extend_from_slice(&self.payload[..beyond]);
            0
        };
        Ok(Received { message: &self.message, payload: &mut self.payload, payload_len })
    }

    fn reply(&mut self, unique: u64, reply: Reply<'_>) -> Result<(), Errno> {
        let (result, body) = match reply {
            Reply::Error(errno) => (Err(errno), &[][..]),
            Reply::Body(body) => (Ok(body.len()), body),
            Reply::Payload(len) => match self.payload.get(..len) {
                Some(data) => (Ok(len), data),
                None => (Err(Errno::IO), &[][..]),
            },
        };
        let header = reply::header(unique, result);
        self.pacer.replies();
        devfuse::send(&self.file, &[IoSlice::new(&header), IoSlice::new(body)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::request::{self, Operation};
    use std::io::Write as _;

    /// A file stands in for the device: what it holds is read as one request.
    fn device_with(bytes: &[u8]) -> Device {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        Device::new(Arc::new(file.into()), 8192, &Arc::new(Pacing::new()))
    }

    fn message(opcode: Opcode, arguments: &[u8]) -> Vec<u8> {
        let mut bytes = ((REQUEST_HEADER_LEN + arguments.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&opcode.raw().to_ne_bytes());
        bytes.resize(REQUEST_HEADER_LEN, 0);
        bytes.extend_from_slice(arguments);
        bytes
    }

    #[test]
    fn a_name_longer_than_the_first_part_is_put_together() {
        let mut name = vec![b'n'; 200];
        name.push(0);
        let mut device = device_with(&message(Opcode::Lookup, &name));
        let received = device.receive().unwrap();
        let parsed = request::parse(received.message).unwrap();
        assert_eq!(parsed.operation, Operation::Lookup { name: &name[..200] });
        assert_eq!(received.payload_len, 0);
    }

    #[test]
    fn the_payload_of_a_write_starts_the_aligned_buffer() {
        let mut arguments = [0; WRITE_ARGUMENTS_LEN].to_vec();
        arguments[16..20].copy_from_slice(&5000u32.to_ne_bytes());
        arguments.extend((0..5000).map(|i| i as u8));
        let mut device = device_with(&message(Opcode::Write, &arguments));
        // A buffer that was lost is replaced.
        drop(device.payload.take());
        let received = device.receive().unwrap();
        assert_eq!(received.payload_len, 5000);
        assert_eq!(received.payload.as_ptr().align_offset(4096), 0);
        assert!(received.payload[..5000].iter().enumerate().all(|(i, &byte)| byte == i as u8));
        assert!(matches!(request::parse(received.message).unwrap().operation,
            Operation::Write(write) if write.len == 5000));
    }
}
