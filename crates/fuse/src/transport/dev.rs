//! Requests through `/dev/fuse`, one `readv` and one `writev` each.
//!
//! The first part of the `readv` is exactly as long as what precedes a write's
//! payload, so that the payload lands page-aligned in a buffer of its own. All
//! other requests that are longer are put together by a copy of what is, as a
//! rule, a name.
//!
//! Where it pays, a worker looks for the next request before it sleeps
//! (`docs/pacing.md#busy-polling`).

use super::lead::{Lead, Looked, goes_on};
use super::turn::Turn;
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
use std::time::{Duration, Instant};
use strongroom_engine::Buffer;

/// Path of the device.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// Bytes before a write's payload.
const HEAD_LEN: usize = REQUEST_HEADER_LEN + WRITE_ARGUMENTS_LEN;

/// How long requests gather beside rings: with 14,000 files removed in a
/// second, fourteen at a time, and no program notices an interrupt that comes
/// so late.
const GATHERING: Duration = Duration::from_millis(1);

/// Pauses of the CPU between two looks: a third of a microsecond, so that
/// whoever queues a request finds the queue's lock free.
const PAUSES: usize = 8;

/// A worker's end of `/dev/fuse`.
#[derive(Debug)]
pub struct Device {
    file: Arc<OwnedFd>,
    message: Vec<u8>,
    payload: Buffer,
    transfer_max: usize,
    lead: Lead,
    is_nonblocking: bool,
    /// How long to let requests gather that come one soon after the other and
    /// that nobody waits for.
    gathering: Option<Duration>,
}

/// A descriptor of the device, not yet of any connection.
pub(crate) fn open() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

impl Device {
    /// On a descriptor of a connection, for transfers of `transfer_max` bytes.
    #[must_use]
    pub fn new(file: Arc<OwnedFd>, transfer_max: usize) -> Device {
        Device::with_lead(file, transfer_max, Lead::new(Arc::default()))
    }

    fn with_lead(file: Arc<OwnedFd>, transfer_max: usize, lead: Lead) -> Device {
        let message = Vec::with_capacity(4 * HEAD_LEN);
        let payload = Buffer::new(transfer_max);
        Device { file, message, payload, transfer_max, lead, is_nonblocking: false, gathering: None }
    }

    /// A further end for another worker: with a queue of its own where the
    /// user may open the device, else sharing this one's.
    #[must_use]
    pub fn another(&mut self) -> Device {
        let own = open().and_then(|fresh| {
            sys::clone_connection(&fresh, &self.file)?;
            Ok(fresh)
        });
        let mut another = Device::with_lead(Arc::clone(&self.file), self.transfer_max, self.lead.another());
        match own {
            Ok(own) => another.file = Arc::new(own),
            Err(_) => {
                // Whether reading waits would be a matter of both.
                another.never_look();
                self.never_look();
            }
        }
        another
    }

    /// Has this worker sleep for every request.
    fn never_look(&mut self) {
        self.lead.never();
    }

    /// Has this worker serve what still comes to the device beside rings: FORGET
    /// and INTERRUPT, upon which no program waits. So none is looked for, and
    /// what comes soon after another is taken with those that come meanwhile:
    /// the kernel makes one request of as many FORGETs as are there.
    pub(crate) fn stand_beside_rings(&mut self) {
        self.never_look();
        self.gathering = Some(GATHERING);
    }

    /// Who waits at the device, and whether anybody may look.
    pub(crate) fn turn(&self) -> &Arc<Turn> {
        self.lead.turn()
    }

    /// The descriptor.
    #[must_use]
    pub fn file(&self) -> &Arc<OwnedFd> {
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
        let found = if self.lead.next() { self.look() } else { Looked::InVain };
        let len = match found {
            Looked::Found(len) => len,
            Looked::InVain => self.wait()?,
        };
        self.lead.received(&self.message[..len.min(HEAD_LEN)], found == Looked::InVain);
        Ok(len)
    }

    /// Looks for a request for a moment. Errors are left to whoever waits.
    fn look(&mut self) -> Looked {
        self.set_nonblocking(true);
        let began = Instant::now();
        let mut looked = Looked::InVain;
        while self.is_nonblocking {
            match self.try_read() {
                Ok(len) => looked = Looked::Found(len),
                Err(System::AGAIN) if goes_on(began) => {
                    (0..PAUSES).for_each(|_| std::hint::spin_loop());
                    continue;
                }
                Err(_) => {}
            }
            break;
        }
        self.lead.looked(looked);
        looked
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
        let mut cut_short = false;
        loop {
            let Device { lead, message, payload, file, .. } = self;
            let mut parts = [IoSliceMut::new(message), IoSliceMut::new(payload)];
            match lead.turn().waiting(|| rustix::io::readv(file, &mut parts)) {
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

impl Drop for Device {
    fn drop(&mut self) {
        // Whatever it ended by, nobody is to wait for it.
        self.lead.turn().end();
    }
}

impl Transport for Device {
    fn receive(&mut self) -> Result<Received<'_>, ReceiveError> {
        if let Some(gathering) = self.gathering {
            std::thread::sleep(gathering);
        }
        let len = self.read_request().inspect_err(|_| self.lead.turn().end())?;
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
        self.lead.replies();
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
