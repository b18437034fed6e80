//! The transmission phase of one connection.
//!
//! Workers take turns in reading requests ([`Inbox`]) and carry them out
//! beside each other. What one worker has taken goes through the device
//! together: one batch of reads, one of writes. Replies leave under a lock, in
//! any order.

use std::io::{self, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use strongroom_engine::Buffer;

use super::handshake::Agreed;
use super::protocol::{
    BASE_ALLOCATION_ID, PAYLOAD_MAX, REQUEST_LEN, Request, chunk, chunk_head, command, error_number, flag,
    simple_reply, state,
};
use crate::device::{Device, Piece, check};
use crate::error::{Error, Result};

/// Bytes that a worker has for data.
const BUFFER_LEN: usize = 1 << 20;
/// Most requests that a worker takes at once.
const TAKEN_MAX: usize = 16;
/// Bytes that are received at once where requests are small.
const INBOX_LEN: usize = 64 << 10;
/// Places of data in a worker's buffer begin at multiples of this.
const ALIGNMENT: usize = 4096;
/// Bytes that a worker has for zeros.
const ZEROS_LEN: usize = 64 << 10;
/// Most extents of one answer.
const EXTENTS_MAX: usize = 128;

/// One connection, shared by its workers.
pub(super) struct Connection<'a> {
    device: &'a dyn Device,
    agreed: Agreed,
    stream: &'a UnixStream,
    inbox: Mutex<Inbox>,
    outbox: Mutex<()>,
}

/// What was received and not taken yet.
struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The client has disconnected, or broken the protocol.
    closed: bool,
}

/// A request that a worker has taken, and where its data stands.
#[derive(Clone, Copy)]
struct Taken {
    request: Request,
    start: usize,
}

/// What one worker works with; allocated once.
pub(super) struct Worker {
    buffer: Buffer,
    /// Zeros to write.
    zeros: Buffer,
    taken: Vec<Taken>,
    pieces: Vec<Piece>,
    outcomes: Vec<Result<()>>,
    replies: Vec<u8>,
}

impl Worker {
    pub(super) fn new(device: &dyn Device) -> Worker {
        Worker {
            buffer: device.buffer(BUFFER_LEN),
            zeros: Buffer::new(ZEROS_LEN),
            taken: Vec::with_capacity(TAKEN_MAX),
            pieces: Vec::with_capacity(TAKEN_MAX),
            outcomes: Vec::with_capacity(TAKEN_MAX),
            replies: Vec::with_capacity(INBOX_LEN),
        }
    }
}

impl<'a> Connection<'a> {
    pub(super) fn new(device: &'a dyn Device, agreed: Agreed, stream: &'a UnixStream) -> Connection<'a> {
        let inbox = Inbox { bytes: vec![0; INBOX_LEN], start: 0, end: 0, closed: false };
        Connection { device, agreed, stream, inbox: Mutex::new(inbox), outbox: Mutex::new(()) }
    }

    /// What is served.
    pub(super) fn device(&self) -> &'a dyn Device {
        self.device
    }

    /// Serves until the connection ends.
    ///
    /// # Errors
    /// The socket's.
    pub(super) fn serve(&self, worker: &mut Worker) -> io::Result<()> {
        loop {
            worker.taken.clear();
            let large = {
                let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
                if inbox.closed {
                    return Ok(());
                }
                match inbox.take(self.stream, worker) {
                    Ok(Take::Small) => None,
                    Ok(Take::Large(request)) => {
                        // Its payload is read in pieces before anything else.
                        if request.command == command::WRITE {
                            self.large_write(&mut inbox, worker, &request)?;
                            continue;
                        }
                        Some(request)
                    }
                    Ok(Take::End) => {
                        inbox.closed = true;
                        None
                    }
                    Err(error) => {
                        inbox.closed = true;
                        return Err(error);
                    }
                }
            };
            match large {
                Some(request) => self.large_read(worker, &request)?,
                None => self.carry_out(worker)?,
            }
        }
    }

    /// Reads more than a worker's buffer holds, in pieces.
    fn large_read(&self, worker: &mut Worker, request: &Request) -> io::Result<()> {
        let len = request.len as usize;
        let mut out = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        let range = check(self.device.len(), self.device.sector_len(), request.offset, len as u64);
        if let Err(error) = range {
            worker.replies.clear();
            self.error_reply(&mut worker.replies, request.cookie, error_number(&error));
            return send(self.stream, &mut out, &mut [IoSlice::new(&worker.replies)]);
        }
        for at in (0..len).step_by(BUFFER_LEN) {
            let now = BUFFER_LEN.min(len - at);
            let offset = request.offset + at as u64;
            let read = self.device.read_one(offset, now, &mut worker.buffer);
            worker.replies.clear();
            match (read, self.agreed.structured) {
                (Ok(()), true) => {
                    let flags = if at + now == len { chunk::DONE } else { 0 };
                    let head = chunk_head(flags, chunk::OFFSET_DATA, request.cookie, now as u32 + 8);
                    worker.replies.extend_from_slice(&head);
                    worker.replies.extend_from_slice(&offset.to_be_bytes());
                }
                (Ok(()), false) if at == 0 => {
                    worker.replies.extend_from_slice(&simple_reply(0, request.cookie));
                }
                (Ok(()), false) => {}
                (Err(error), false) if at > 0 => {
                    // The reply has begun as a good one: it can only be broken
                    // off.
                    return Err(io::Error::other(error.to_string()));
                }
                (Err(error), _) => {
                    self.error_reply(&mut worker.replies, request.cookie, error_number(&error));
                    return send(self.stream, &mut out, &mut [IoSlice::new(&worker.replies)]);
                }
            }
            let parts = &mut [IoSlice::new(&worker.replies), IoSlice::new(&worker.buffer[..now])];
            send(self.stream, &mut out, parts)?;
        }
        Ok(())
    }

    /// Writes more than a worker's buffer holds, in pieces as they come.
    fn large_write(&self, inbox: &mut Inbox, worker: &mut Worker, request: &Request) -> io::Result<()> {
        let len = request.len as usize;
        let mut outcome = Ok(());
        for at in (0..len).step_by(BUFFER_LEN) {
            let now = BUFFER_LEN.min(len - at);
            inbox.payload(self.stream, &mut worker.buffer[..now])?;
            if outcome.is_ok() {
                outcome = match request.offset.checked_add(at as u64) {
                    Some(offset) => self.device.write_one(offset, now, &mut worker.buffer),
                    None => Err(Error::Range),
                };
            }
        }
        if outcome.is_ok() && request.flags & flag::FUA != 0 {
            outcome = self.device.flush();
        }
        worker.replies.clear();
        self.plain_reply(&mut worker.replies, request.cookie, &outcome);
        let mut out = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        send(self.stream, &mut out, &mut [IoSlice::new(&worker.replies)])
    }

    /// Carries out what was taken, and answers all of it at once.
    fn carry_out(&self, worker: &mut Worker) -> io::Result<()> {
        if worker.taken.is_empty() {
            return Ok(());
        }
        self.do_taken(worker);
        let Worker { buffer, taken, outcomes, replies, .. } = worker;
        replies.clear();
        // Where replies are cut to put data between: of each, the end of the
        // reply and the place of the data.
        let mut cuts = [(0, 0, 0); TAKEN_MAX];
        let mut count = 0;
        for (Taken { request, start }, outcome) in taken.iter().zip(outcomes.iter()) {
            if request.command == command::READ && outcome.is_ok() {
                self.data_reply(replies, request);
                cuts[count] = (replies.len(), *start, request.len as usize);
                count += 1;
            } else if request.command == command::BLOCK_STATUS && outcome.is_ok() {
                self.status_reply(replies, request);
            } else {
                self.plain_reply(replies, request.cookie, outcome);
            }
        }
        let mut parts = std::array::from_fn::<_, { 2 * TAKEN_MAX + 1 }, _>(|_| IoSlice::new(&[]));
        let mut at = 0;
        for (index, &(end, start, len)) in cuts[..count].iter().enumerate() {
            parts[2 * index] = IoSlice::new(&replies[at..end]);
            parts[2 * index + 1] = IoSlice::new(&buffer[start..start + len]);
            at = end;
        }
        parts[2 * count] = IoSlice::new(&replies[at..]);
        let mut out = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        send(self.stream, &mut out, &mut parts[..=2 * count])
    }

    /// Reads together, writes together, then the others, then what is to be
    /// durable.
    fn do_taken(&self, worker: &mut Worker) {
        let Worker { buffer, zeros, taken, pieces, outcomes, .. } = worker;
        taken.sort_unstable_by_key(|taken| match taken.request.command {
            command::READ => 0,
            command::WRITE => 1,
            _ => 2,
        });
        outcomes.clear();
        outcomes.resize_with(taken.len(), || Ok(()));
        let count = |command: u16| taken.iter().filter(|taken| taken.request.command == command).count();
        let (reads, writes) = (count(command::READ), count(command::WRITE));
        pieces.clear();
        pieces.extend(taken.iter().map(|Taken { request, start }| Piece {
            offset: request.offset,
            start: *start,
            len: request.len as usize,
        }));
        let ends = reads + writes;
        if writes > 0 {
            // Before the reads: an engine that loses the buffer then loses
            // nothing that is still to be written.
            self.device.write(&pieces[reads..ends], buffer, &mut outcomes[reads..ends]);
        }
        if reads > 0 {
            self.device.read(&pieces[..reads], buffer, &mut outcomes[..reads]);
        }
        for (Taken { request, .. }, outcome) in taken.iter().zip(&mut *outcomes).skip(ends) {
            *outcome = self.other(request, zeros);
        }
        let durable = |taken: &Taken| {
            let changes = [command::WRITE, command::TRIM, command::WRITE_ZEROES];
            taken.request.flags & flag::FUA != 0 && changes.contains(&taken.request.command)
        };
        if taken.iter().any(durable) && self.device.flush().is_err() {
            for (_, outcome) in taken.iter().zip(outcomes).filter(|(taken, _)| durable(taken)) {
                *outcome = Err(Error::FlushFailed);
            }
        }
    }

    fn other(&self, request: &Request, zeros: &mut Buffer) -> Result<()> {
        let (offset, len) = (request.offset, u64::from(request.len));
        match request.command {
            command::FLUSH => self.device.flush(),
            command::TRIM => self.device.discard(offset, len),
            command::WRITE_ZEROES if request.flags & !(flag::FUA | flag::NO_HOLE) == 0 => {
                self.device.write_zeroes(offset, len, zeros)
            }
            command::BLOCK_STATUS if self.agreed.allocation && len > 0 => {
                let end = offset.checked_add(len).filter(|end| *end <= self.device.len());
                end.map(drop).ok_or(Error::Range)
            }
            _ => Err(Error::Range),
        }
    }

    fn data_reply(&self, replies: &mut Vec<u8>, request: &Request) {
        if self.agreed.structured {
            let head = chunk_head(chunk::DONE, chunk::OFFSET_DATA, request.cookie, request.len + 8);
            replies.extend_from_slice(&head);
            replies.extend_from_slice(&request.offset.to_be_bytes());
        } else {
            replies.extend_from_slice(&simple_reply(0, request.cookie));
        }
    }

    fn plain_reply(&self, replies: &mut Vec<u8>, cookie: u64, outcome: &Result<()>) {
        match outcome {
            Err(error) => self.error_reply(replies, cookie, error_number(error)),
            Ok(()) if self.agreed.structured => {
                replies.extend_from_slice(&chunk_head(chunk::DONE, chunk::NONE, cookie, 0));
            }
            Ok(()) => replies.extend_from_slice(&simple_reply(0, cookie)),
        }
    }

    fn error_reply(&self, replies: &mut Vec<u8>, cookie: u64, error: u32) {
        if self.agreed.structured {
            replies.extend_from_slice(&chunk_head(chunk::DONE, chunk::ERROR, cookie, 6));
            replies.extend_from_slice(&error.to_be_bytes());
            replies.extend_from_slice(&0u16.to_be_bytes());
        } else {
            replies.extend_from_slice(&simple_reply(error, cookie));
        }
    }

    /// The extents of a range, as many as fit into one answer.
    fn status_reply(&self, replies: &mut Vec<u8>, request: &Request) {
        let most = if request.flags & flag::REQ_ONE != 0 { 1 } else { EXTENTS_MAX };
        let mut extents: [(u32, u32); EXTENTS_MAX] = [(0, 0); EXTENTS_MAX];
        let (mut count, mut done) = (0, 0);
        while done < request.len && count < most {
            let left = u64::from(request.len - done);
            let extent = match self.device.extent(request.offset + u64::from(done), left) {
                Ok(extent) => extent,
                Err(error) if count == 0 => {
                    return self.error_reply(replies, request.cookie, error_number(&error));
                }
                Err(_) => break,
            };
            let bytes = extent.len.min(left).max(1) as u32;
            let mut flags = if extent.allocated { 0 } else { state::HOLE };
            flags |= if extent.zero { state::ZERO } else { 0 };
            match extents[..count].last_mut() {
                Some(last) if last.1 == flags => last.0 += bytes,
                _ => {
                    extents[count] = (bytes, flags);
                    count += 1;
                }
            }
            done += bytes;
        }
        let len = 4 + 8 * count as u32;
        replies.extend_from_slice(&chunk_head(chunk::DONE, chunk::BLOCK_STATUS, request.cookie, len));
        replies.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
        for (bytes, flags) in &extents[..count] {
            replies.extend_from_slice(&bytes.to_be_bytes());
            replies.extend_from_slice(&flags.to_be_bytes());
        }
    }
}

/// What was found in the inbox.
enum Take {
    /// Requests that fit into the worker's buffer, and are in it.
    Small,
    /// One that does not; its payload is still to be read.
    Large(Request),
    /// The client has ended the connection.
    End,
}

impl Inbox {
    /// Waits for a request, and takes it and those that have come whole
    /// behind it.
    fn take(&mut self, stream: &UnixStream, worker: &mut Worker) -> io::Result<Take> {
        let mut place = 0;
        loop {
            let is_first = worker.taken.is_empty();
            let Some(request) = self.next(stream, is_first)? else {
                return Ok(if is_first { Take::End } else { Take::Small });
            };
            let moves_data = matches!(request.command, command::READ | command::WRITE);
            let len = if moves_data { request.len as usize } else { 0 };
            if request.command == command::DISC {
                return Ok(if is_first { Take::End } else { Take::Small });
            }
            if len > BUFFER_LEN && is_first {
                self.start += REQUEST_LEN;
                return Ok(Take::Large(request));
            }
            let there = self.end - self.start - REQUEST_LEN;
            if place + len > BUFFER_LEN || !is_first && request.payload() > there {
                return Ok(Take::Small);
            }
            self.start += REQUEST_LEN;
            self.payload(stream, &mut worker.buffer[place..place + request.payload()])?;
            worker.taken.push(Taken { request, start: place });
            place = (place + len).next_multiple_of(ALIGNMENT);
            if worker.taken.len() == TAKEN_MAX || self.end - self.start < REQUEST_LEN {
                return Ok(Take::Small);
            }
        }
    }

    /// The next request, left where it is; waits for it when `wait`.
    fn next(&mut self, stream: &UnixStream, wait: bool) -> io::Result<Option<Request>> {
        while self.end - self.start < REQUEST_LEN {
            if !wait {
                return Ok(None);
            }
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            match receive(stream, &mut self.bytes[self.end..])? {
                0 if self.end == 0 => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.end += count,
            }
        }
        let bytes = self.bytes[self.start..][..REQUEST_LEN].try_into().expect("as many bytes");
        let request = Request::parse(bytes).filter(|request| {
            let moves_data = matches!(request.command, command::READ | command::WRITE);
            !moves_data || request.len <= PAYLOAD_MAX
        });
        request.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "this is no request"))
    }

    /// Fills `bytes` with what follows, from here and then from the socket.
    fn payload(&mut self, stream: &UnixStream, bytes: &mut [u8]) -> io::Result<()> {
        let here = bytes.len().min(self.end - self.start);
        bytes[..here].copy_from_slice(&self.bytes[self.start..self.start + here]);
        self.start += here;
        (&mut &*stream).read_exact(&mut bytes[here..])
    }
}

fn receive(mut stream: &UnixStream, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Sends everything, holding the outbox.
fn send(mut stream: &UnixStream, _outbox: &mut (), mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match stream.write_vectored(parts) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut parts, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
