//! Requests through FUSE over io_uring: one system call answers a request and
//! waits for the next.
//!
//! The kernel has a queue for each possible CPU, and a request goes to the
//! queue of the CPU that asks. A queue is served by several threads, each with
//! a ring and one entry of its own, so that a request that waits for the disk
//! does not hold up the others. FORGET and INTERRUPT still come by
//! `/dev/fuse`, where a [`Device`](super::Device) waits for them.

use super::{ReceiveError, Received, Reply, Transport};
use crate::abi::request::Header;
use crate::abi::{Opcode, REQUEST_HEADER_LEN, reply};
use crate::errno::Errno;
use crate::pacing::{Found, Pacer, Pacing};
use crate::sys::ring::{self, Entry};
use rustix::fd::OwnedFd;
use rustix::io::Errno as System;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Threads for each queue, each with one entry.
pub(crate) const DEPTH: usize = 2;
/// Most memory for entries of all queues, in bytes.
const MEMORY_MAX: usize = 256 << 20;
/// Shortest payload that the kernel accepts, in bytes.
const PAYLOAD_MIN: usize = 8192;

/// Where the operation's own header stands, in bytes.
const ARGUMENTS: Range<usize> = 128..256;
/// Where the request's number for the commit stands.
const COMMIT_ID: Range<usize> = 264..272;
/// Where the length of the payload stands.
const PAYLOAD_LEN: Range<usize> = 272..276;

/// How many queues there are, when all goes well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rings {
    pub(crate) queues: u16,
    pub(crate) payload_len: usize,
}

impl Rings {
    /// What is needed for transfers of `transfer_max` bytes.
    ///
    /// # Errors
    /// Why this cannot be, as a sentence without an end.
    pub(crate) fn plan(transfer_max: usize) -> Result<Rings, String> {
        let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")
            .map_err(|error| format!("the list of possible CPUs cannot be read: {error}"))?;
        let queues = possible(list.trim()).ok_or("the numbers of possible CPUs have gaps")?;
        let rings = Rings { queues, payload_len: transfer_max.max(PAYLOAD_MIN) };
        if rings.memory() > MEMORY_MAX {
            let (needed, most) = (rings.memory() >> 20, MEMORY_MAX >> 20);
            return Err(format!("{queues} possible CPUs need {needed} MiB, more than {most}"));
        }
        ring::probe().map_err(|error| format!("a ring cannot be made: {error}"))?;
        Ok(rings)
    }

    /// Bytes of all entries together: queues x depth x (payload + headers).
    pub(crate) fn memory(self) -> usize {
        const HEADERS_ROOM: usize = 4096;
        usize::from(self.queues) * DEPTH * (self.payload_len + HEADERS_ROOM)
    }

    /// Threads for all queues.
    pub(crate) fn threads(self) -> usize {
        usize::from(self.queues) * DEPTH
    }
}

/// The count of possible CPUs of a list like `0-7`; `None` when it has gaps.
fn possible(list: &str) -> Option<u16> {
    let last = match list.split_once('-') {
        Some(("0", last)) => last,
        None if list == "0" => "0",
        _ => return None,
    };
    last.parse::<u16>().ok()?.checked_add(1)
}

/// A thread's entry in a queue.
pub(crate) struct Ring {
    entry: Entry,
    pacer: Box<dyn Pacer>,
    message: Vec<u8>,
    /// The request at hand: its number, and the one it is committed by.
    request: Option<(u64, u64)>,
    /// What is to be committed with the next fetch.
    answered: Option<u64>,
}

impl Ring {
    /// In the thread that is to use it.
    pub(crate) fn new(
        device: Arc<OwnedFd>,
        queue: u16,
        payload_len: usize,
        pacing: &Pacing,
    ) -> Result<Ring, Errno> {
        let entry = Entry::new(device, queue, payload_len)?;
        let (pacer, message) = (pacing.ring(queue), Vec::with_capacity(512));
        Ok(Ring { entry, pacer, message, request: None, answered: None })
    }

    /// Puts the message together, as `/dev/fuse` would have brought it, and
    /// says how long a write's payload is.
    fn put_together(&mut self) -> Result<usize, Errno> {
        let (headers, payload) = self.entry.parts();
        let payload_len = word(headers, PAYLOAD_LEN);
        self.message.clear();
        self.message.extend_from_slice(&headers[..REQUEST_HEADER_LEN]);
        let header = Header::parse(&self.message).map_err(|_| Errno::PROTO)?;
        let commit_id = headers[COMMIT_ID].try_into().map(u64::from_ne_bytes).map_err(|_| Errno::PROTO)?;
        self.request = Some((header.context.unique, commit_id));
        let arguments = (header.len as usize)
            .checked_sub(REQUEST_HEADER_LEN + payload_len)
            .and_then(|len| headers[ARGUMENTS].get(..len))
            .ok_or(Errno::PROTO)?;
        self.message.extend_from_slice(arguments);
        let data = payload.get(..payload_len).ok_or(Errno::PROTO)?;
        if header.opcode == Opcode::Write.raw() {
            return Ok(payload_len);
        }
        self.message.extend_from_slice(data);
        Ok(0)
    }
}

fn word(headers: &[u8], at: Range<usize>) -> usize {
    let bytes = headers[at].try_into().expect("the range has four bytes");
    u32::from_ne_bytes(bytes) as usize
}

impl Transport for Ring {
    fn receive(&mut self) -> Result<Received<'_>, ReceiveError> {
        if let Some((unique, _)) = self.request {
            // Nothing was answered; the entry would be lost with its caller.
            self.reply(unique, Reply::Error(Errno::IO)).map_err(ReceiveError::Failed)?;
        }
        self.entry.fetch(self.answered.take()).map_err(|error| match error {
            // The rings end alike however the mount does; what ended it, the thread at the device hears.
            System::NOTCONN | System::NODEV | System::CONNABORTED => ReceiveError::Unmounted,
            error => ReceiveError::Failed(error.into()),
        })?;
        let payload_len = self.put_together().map_err(ReceiveError::Failed)?;
        self.pacer.received(Instant::now(), &self.message, Found::Asleep);
        let (_, payload) = self.entry.parts();
        Ok(Received { message: &self.message, payload, payload_len })
    }

    /// The answer leaves with the next [`receive`](Transport::receive).
    fn reply(&mut self, unique: u64, reply: Reply<'_>) -> Result<(), Errno> {
        let (_, commit_id) = self.request.take().filter(|(open, _)| *open == unique).ok_or(Errno::INVAL)?;
        let (headers, payload) = self.entry.parts();
        let result = match reply {
            Reply::Error(errno) => Err(errno),
            Reply::Body(body) => match payload.get_mut(..body.len()) {
                Some(room) => {
                    room.copy_from_slice(body);
                    Ok(body.len())
                }
                None => Err(Errno::IO),
            },
            Reply::Payload(len) if len <= payload.len() => Ok(len),
            Reply::Payload(_) => Err(Errno::IO),
        };
        let header = reply::header(unique, result);
        headers[..header.len()].copy_from_slice(&header);
        // The payload buffer is shorter than 4 GiB.
        let payload_len = result.unwrap_or(0) as u32;
        headers[PAYLOAD_LEN].copy_from_slice(&payload_len.to_ne_bytes());
        self.answered = Some(commit_id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::request::{self, Operation};

    fn ring_with(opcode: Opcode, arguments: &[u8], payload: &[u8]) -> Ring {
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        let mut ring = Ring::new(Arc::new(file), 0, 8192, &Pacing::new()).unwrap();
        let (headers, room) = ring.entry.parts();
        let len = (REQUEST_HEADER_LEN + arguments.len() + payload.len()) as u32;
        headers[..4].copy_from_slice(&len.to_ne_bytes());
        headers[4..8].copy_from_slice(&opcode.raw().to_ne_bytes());
        headers[8..16].copy_from_slice(&42u64.to_ne_bytes());
        headers[128..][..arguments.len()].copy_from_slice(arguments);
        headers[COMMIT_ID].copy_from_slice(&77u64.to_ne_bytes());
        headers[PAYLOAD_LEN].copy_from_slice(&(payload.len() as u32).to_ne_bytes());
        room[..payload.len()].copy_from_slice(payload);
        ring
    }

    #[test]
    fn a_name_is_put_behind_its_header() {
        let mut ring = ring_with(Opcode::Lookup, &[], b"name\0");
        assert_eq!(ring.put_together(), Ok(0));
        let parsed = request::parse(&ring.message).unwrap();
        assert_eq!(parsed.operation, Operation::Lookup { name: b"name" });
    }

    #[test]
    fn data_stay_where_they_are() {
        let mut arguments = [0; 40];
        arguments[16..20].copy_from_slice(&5000u32.to_ne_bytes());
        let mut ring = ring_with(Opcode::Write, &arguments, &[7; 5000]);
        assert_eq!(ring.put_together(), Ok(5000));
        let parsed = request::parse(&ring.message).unwrap();
        assert!(matches!(parsed.operation, Operation::Write(write) if write.len == 5000));
    }

    #[test]
    fn answers_stand_where_the_kernel_looks() {
        let mut ring = ring_with(Opcode::Lookup, &[], b"name\0");
        ring.put_together().unwrap();
        assert_eq!(ring.reply(41, Reply::Body(b"other")), Err(Errno::INVAL));
        ring.put_together().unwrap();
        ring.reply(42, Reply::Body(b"body")).unwrap();
        assert_eq!(ring.answered, Some(77));
        let (headers, payload) = ring.entry.parts();
        assert_eq!(headers[..16], [20u32.to_ne_bytes(), [0; 4], 42u32.to_ne_bytes(), [0; 4]].concat());
        assert_eq!((word(headers, PAYLOAD_LEN), &payload[..4]), (4, &b"body"[..]));
    }

    #[test]
    fn lengths_that_do_not_add_up_are_refused() {
        let mut ring = ring_with(Opcode::Lookup, &[], b"name\0");
        ring.entry.parts().0[..4].copy_from_slice(&41u32.to_ne_bytes());
        assert_eq!(ring.put_together(), Err(Errno::PROTO));
        let mut ring = ring_with(Opcode::Lookup, &[], b"name\0");
        ring.entry.parts().0[PAYLOAD_LEN].copy_from_slice(&9000u32.to_ne_bytes());
        ring.entry.parts().0[..4].copy_from_slice(&9040u32.to_ne_bytes());
        assert_eq!(ring.put_together(), Err(Errno::PROTO));
        let mut ring = ring_with(Opcode::Lookup, &[], &[]);
        ring.entry.parts().0[..4].copy_from_slice(&(40u32 + 129).to_ne_bytes());
        assert_eq!(ring.put_together(), Err(Errno::PROTO));
    }

    #[test]
    fn possible_cpus_are_counted() {
        assert_eq!((possible("0-7"), possible("0")), (Some(8), Some(1)));
        assert_eq!((possible("0-3,8-11"), possible("1-3"), possible("")), (None, None, None));
        let rings = Rings { queues: 4, payload_len: 1 << 20 };
        assert_eq!((rings.memory(), rings.threads()), (8 * ((1 << 20) + 4096), 8));
    }
}
