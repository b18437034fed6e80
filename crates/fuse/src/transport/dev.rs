//! Requests through `/dev/fuse`, one `readv` and one `writev` each.
//!
//! The first part of the `readv` is exactly as long as what precedes a write's
//! payload, so that the payload lands page-aligned in a buffer of its own. All
//! other requests that are longer are put together by a copy of what is, as a
//! rule, a name.

use super::{ReceiveError, Received, Reply, Transport};
use crate::abi::request::Header;
use crate::abi::{Opcode, REQUEST_HEADER_LEN, WRITE_ARGUMENTS_LEN, reply};
use crate::errno::Errno;
use crate::sys;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno as System;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use strongroom_engine::Buffer;

/// Path of the device.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// Bytes before a write's payload.
const HEAD_LEN: usize = REQUEST_HEADER_LEN + WRITE_ARGUMENTS_LEN;

/// A worker's end of `/dev/fuse`.
#[derive(Debug)]
pub struct Device {
    file: Arc<OwnedFd>,
    message: Vec<u8>,
    payload: Buffer,
    transfer_max: usize,
}

/// A descriptor of the device, not yet of any connection.
pub(crate) fn open() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

impl Device {
    /// On a descriptor of a connection, for transfers of `transfer_max` bytes.
    #[must_use]
    pub fn new(file: Arc<OwnedFd>, transfer_max: usize) -> Device {
        let message = Vec::with_capacity(4 * HEAD_LEN);
        Device { file, message, payload: Buffer::new(transfer_max), transfer_max }
    }

    /// A further end for another worker: with a queue of its own where the
    /// user may open the device, else sharing this one's.
    #[must_use]
    pub fn another(&self) -> Device {
        let own = open().and_then(|fresh| {
            sys::clone_connection(&fresh, &self.file)?;
            Ok(fresh)
        });
        let file = own.map_or_else(|_| Arc::clone(&self.file), Arc::new);
        Device::new(file, self.transfer_max)
    }

    /// The descriptor.
    #[must_use]
    pub fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Reads one request and says how many bytes it has.
    fn read_request(&mut self) -> Result<usize, ReceiveError> {
        if self.payload.len() != self.transfer_max {
            // A handler failed while the buffer was elsewhere.
            self.payload = Buffer::new(self.transfer_max);
        }
        self.message.resize(HEAD_LEN, 0);
        let mut cut_short = false;
        loop {
            let mut parts = [IoSliceMut::new(&mut self.message), IoSliceMut::new(&mut self.payload)];
            match rustix::io::readv(&self.file, &mut parts) {
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
        send(&self.file, &[IoSlice::new(&header), IoSlice::new(body)])
    }
}

/// Writes a reply or notification, which the kernel takes whole or not at all.
pub(crate) fn send(file: impl AsFd, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| rustix::io::writev(&file, parts))?;
    Ok(())
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
        Device::new(Arc::new(file.into()), 8192)
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
