//! A worker: receives a request, has it answered, replies, until the mount is
//! gone. A handler that panics answers `EIO` and is counted; the worker goes
//! on.

use crate::abi::Opcode;
use crate::abi::reply::Body;
use crate::abi::request::{self, Header};
use crate::dispatch::{Answer, Exchange};
use crate::errno::Errno;
use crate::filesystem::Filesystem;
use crate::forgets::Backlog;
use crate::pacing::prefetch::{Prefetcher, Touch};
use crate::statistics::Counters;
use crate::tap::{Tap, Tapped};
use crate::transport::{ReceiveError, Received, Reply, Transport};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;
use strongroom_engine::Origin;

/// What a worker answers with.
pub(crate) struct Duty<'a, F: ?Sized> {
    pub(crate) filesystem: &'a F,
    pub(crate) counters: &'a Counters,
    /// Of all workers.
    pub(crate) backlog: &'a Backlog,
    /// With it, pages around those that programs miss are fetched.
    pub(crate) prefetcher: Option<Prefetcher<'a>>,
    /// Looks on.
    pub(crate) tap: Option<&'a dyn Tap>,
}

/// Serves until the transport ends, and says how.
pub(crate) fn serve<F: Filesystem + ?Sized>(
    transport: &mut dyn Transport,
    duty: &Duty<'_, F>,
) -> ReceiveError {
    let Duty { counters, prefetcher, .. } = duty;
    let mut body = Body::new();
    loop {
        let received = match transport.receive() {
            Ok(received) => received,
            Err(end) => return end,
        };
        let started = Instant::now();
        let Ok(header) = Header::parse(received.message) else {
            // There is nobody to tell.
            counters.malformed();
            continue;
        };
        let tap = duty.tap.filter(|tap| tap.is_on());
        let (answer, touch) = answer(duty, tap, received, &header, &mut body);
        let unique = header.context.unique;
        let reply = match answer {
            Ok(Answer::Silence) => None,
            Ok(Answer::Body) => {
                let withheld = prefetcher
                    .as_ref()
                    .is_some_and(|prefetcher| prefetcher.withholds(touch, unique, body.bytes()));
                (!withheld).then(|| Reply::Body(body.bytes()))
            }
            Ok(Answer::Payload(len)) => Some(Reply::Payload(len)),
            Err(_) if is_silent(header.opcode) => None,
            Err(errno) => Some(Reply::Error(errno)),
        };
        let sent = reply.map_or(Ok(()), |reply| transport.reply(unique, reply));
        if sent.is_err() {
            counters.unsent();
        }
        // That there is no attribute of a name is an answer like others.
        let failed = answer.is_err_and(|errno| errno != Errno::NODATA);
        let took = started.elapsed();
        counters.request(header.opcode, failed, took);
        if let Some(tap) = tap {
            tap.answered(took);
        }
        if let Some(prefetcher) = &prefetcher {
            prefetcher.answered(touch);
        }
        if duty.backlog.is_long() {
            forget_some(duty);
        }
    }
}

/// Does a part of what one thread alone does not keep up with.
fn forget_some<F: Filesystem + ?Sized>(duty: &Duty<'_, F>) {
    // As below: the file system's own state is behind its own locks.
    let forget = |node, lookups| duty.filesystem.forget(node, lookups);
    let forgotten = catch_unwind(AssertUnwindSafe(|| duty.backlog.forget_some(forget)));
    if forgotten.is_err() {
        duty.counters.panicked();
    }
}

fn answer<F: Filesystem + ?Sized>(
    duty: &Duty<'_, F>,
    tap: Option<&dyn Tap>,
    received: Received<'_>,
    header: &Header,
    body: &mut Body,
) -> (Result<Answer, Errno>, Touch) {
    let Duty { filesystem, counters, backlog, .. } = *duty;
    body.clear();
    let Ok(request) = request::parse(received.message) else {
        counters.malformed();
        return (Err(Errno::INVAL), Touch::Nothing);
    };
    Origin::serves(header.context.pid, received.payload_len as u64);
    if let Some(tap) = tap {
        tap.begins(Tapped::from(&request), header.node, header.context.pid);
    }
    let mut exchange = Exchange {
        filesystem,
        context: header.context,
        node: header.node,
        payload_len: received.payload_len,
        payload: received.payload,
        body,
        counters,
        backlog,
        touch: Touch::Nothing,
    };
    // What a panic may leave half done here is the body, which is not sent,
    // and the payload buffer, which is replaced when it is missing. The file
    // system's own state is behind its own locks, which poison.
    let answer = catch_unwind(AssertUnwindSafe(|| exchange.answer(&request))).unwrap_or_else(|_| {
        counters.panicked();
        Err(Errno::IO)
    });
    (answer, exchange.touch)
}

/// Requests that the kernel takes no reply to, not even an error.
fn is_silent(opcode: u32) -> bool {
    matches!(Opcode::from_raw(opcode), Some(Opcode::Forget | Opcode::BatchForget))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::directory::{DirectoryEntries, DirectoryEntriesPlus};
    use crate::filesystem::{Context, Handle, NodeId, OpenFlags, Read, Write};
    use crate::node::{Entry, Opened, TimedAttributes};
    use std::time::Duration;
    use strongroom_engine::Buffer;

    /// Answers as little as a file system can, and not well.
    struct Awkward;

    impl Filesystem for Awkward {
        fn lookup(&self, _: &Context, _: NodeId, _: &[u8]) -> Result<Entry, Errno> {
            Ok(Entry::absent(Duration::ZERO))
        }

        fn forget(&self, _: NodeId, _: u64) {
            panic!("forgetting panics");
        }

        fn getattr(&self, _: &Context, _: NodeId, _: Option<Handle>) -> Result<TimedAttributes, Errno> {
            Err(Errno::STALE)
        }

        fn open(&self, _: &Context, _: NodeId, _: OpenFlags) -> Result<Opened, Errno> {
            Err(Errno::STALE)
        }

        /// Loses the buffer at offset 1, and claims too much at offset 2.
        fn read(&self, _: &Context, _: NodeId, read: &Read, buffer: &mut Buffer) -> Result<usize, Errno> {
            match read.offset {
                1 => drop(buffer.take()),
                2 => return Ok(read.size + 1),
                _ => {}
            }
            Ok(read.size)
        }

        fn write(&self, _: &Context, _: NodeId, write: &Write, _: &mut Buffer) -> Result<usize, Errno> {
            Ok(write.len)
        }

        fn readdir(
            &self,
            _: &Context,
            _: NodeId,
            _: Handle,
            _: u64,
            _: &mut DirectoryEntries<'_>,
        ) -> Result<(), Errno> {
            Ok(())
        }

        fn readdirplus(
            &self,
            _: &Context,
            _: NodeId,
            _: Handle,
            _: u64,
            _: &mut DirectoryEntriesPlus<'_>,
        ) -> Result<(), Errno> {
            Ok(())
        }

        fn getxattr(&self, _: &Context, _: NodeId, _: &[u8], value: &mut Vec<u8>) -> Result<(), Errno> {
            value.extend_from_slice(b"value");
            Ok(())
        }
    }

    type Recorded = (u64, Result<Vec<u8>, Errno>);

    /// Brings messages, and writes down what is answered.
    struct Script {
        messages: std::vec::IntoIter<(Vec<u8>, usize)>,
        current: Vec<u8>,
        payload: Buffer,
        replies: Vec<Recorded>,
    }

    impl Transport for Script {
        fn receive(&mut self) -> Result<Received<'_>, ReceiveError> {
            let (message, payload_len) = self.messages.next().ok_or(ReceiveError::Unmounted)?;
            self.current = message;
            self.payload = Buffer::new(8192);
            Ok(Received { message: &self.current, payload: &mut self.payload, payload_len })
        }

        fn reply(&mut self, unique: u64, reply: Reply<'_>) -> Result<(), Errno> {
            let answer = match reply {
                Reply::Error(errno) => Err(errno),
                Reply::Body(body) => Ok(body.to_vec()),
                Reply::Payload(len) => Ok(self.payload[..len].to_vec()),
            };
            self.replies.push((unique, answer));
            Ok(())
        }
    }

    /// Serves one message with its payload's length, as request 9.
    fn serve_one(message: Vec<u8>, payload_len: usize) -> (Vec<Recorded>, Counters) {
        let counters = Counters::new();
        let mut script = Script {
            messages: vec![(message, payload_len)].into_iter(),
            current: Vec::new(),
            payload: Buffer::empty(),
            replies: Vec::new(),
        };
        let backlog = Backlog::default();
        let duty = Duty {
            filesystem: &Awkward,
            counters: &counters,
            backlog: &backlog,
            prefetcher: None,
            tap: None,
        };
        assert_eq!(serve(&mut script, &duty), ReceiveError::Unmounted);
        (script.replies, counters)
    }

    fn message(opcode: u32, arguments: &[u8]) -> Vec<u8> {
        let mut bytes = (40 + arguments.len() as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&opcode.to_ne_bytes());
        bytes.extend_from_slice(&9u64.to_ne_bytes());
        bytes.resize(40, 0);
        bytes.extend_from_slice(arguments);
        bytes
    }

    /// The answer to one request; there is exactly one.
    fn answer_to(opcode: Opcode, arguments: &[u8]) -> Result<Vec<u8>, Errno> {
        let (mut replies, _) = serve_one(message(opcode.raw(), arguments), 0);
        let (unique, answer) = replies.pop().unwrap();
        assert_eq!((unique, replies.len()), (9, 0));
        answer
    }

    #[test]
    fn what_has_no_reply_gets_none_whatever_happens() {
        let (replies, counters) = serve_one(message(Opcode::Forget.raw(), &1u64.to_ne_bytes()), 0);
        assert_eq!(replies, []);
        assert_eq!(crate::Statistics::sum([&counters].into_iter()).panics, 1);
        let (replies, _) = serve_one(message(Opcode::Forget.raw(), b""), 0);
        assert_eq!(replies, []);
        let (replies, counters) = serve_one(vec![0; 39], 0);
        assert_eq!(replies, []);
        assert_eq!(crate::Statistics::sum([&counters].into_iter()).malformed, 1);
    }

    #[test]
    fn what_is_unknown_or_malformed_gets_an_error() {
        let (replies, _) = serve_one(message(4711, b"anything"), 0);
        assert_eq!(replies, [(9, Err(Errno::NOSYS))]);
        assert_eq!(answer_to(Opcode::Lookup, b"no end"), Err(Errno::INVAL));
        assert_eq!(answer_to(Opcode::SymLink, b"name\0target\0"), Err(Errno::NOSYS));
        assert_eq!(answer_to(Opcode::Interrupt, &8u64.to_ne_bytes()), Err(Errno::NOSYS));
        assert_eq!(answer_to(Opcode::Ioctl, &[0; 32]), Err(Errno::NOTTY));
    }

    #[test]
    fn reads_are_held_to_their_size_and_buffer() {
        let read = |offset: u64, size: u32| {
            let mut arguments = [0; 40];
            arguments[8..16].copy_from_slice(&offset.to_ne_bytes());
            arguments[16..20].copy_from_slice(&size.to_ne_bytes());
            answer_to(Opcode::Read, &arguments)
        };
        assert_eq!(read(0, 5000), Ok(vec![0; 5000]));
        assert_eq!(read(0, 8193), Err(Errno::INVAL));
        assert_eq!(read(1, 100), Err(Errno::IO));
        assert_eq!(read(2, 100), Err(Errno::IO));
    }

    #[test]
    fn a_write_must_have_all_of_its_payload() {
        let mut bytes = message(Opcode::Write.raw(), &[0; 40]);
        bytes[..4].copy_from_slice(&180u32.to_ne_bytes());
        bytes[56..60].copy_from_slice(&100u32.to_ne_bytes());
        let (replies, _) = serve_one(bytes.clone(), 100);
        assert_eq!(replies, [(9, Ok([100u32.to_ne_bytes(), [0; 4]].concat()))]);
        let (replies, _) = serve_one(bytes, 99);
        assert_eq!(replies, [(9, Err(Errno::INVAL))]);
    }

    #[test]
    fn a_value_is_measured_given_or_too_long() {
        let getxattr = |size: u32| {
            let arguments = [&size.to_ne_bytes()[..], &[0; 4], b"user.a\0"].concat();
            answer_to(Opcode::GetXattr, &arguments)
        };
        assert_eq!(getxattr(0), Ok([5u32.to_ne_bytes(), [0; 4]].concat()));
        assert_eq!(getxattr(5), Ok(b"value".to_vec()));
        assert_eq!(getxattr(4), Err(Errno::RANGE));
    }
}
