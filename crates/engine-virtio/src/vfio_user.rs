//! A function in another process, by the vfio-user protocol (version 0.1, as
//! libvfio-user documents it): a header of 16 bytes before each message, and
//! files beside it.
//!
//! Invariants: nothing here waits longer than [`LIMIT`]; an answer that is not
//! the awaited one, of any kind, ends the connection for good, since what comes
//! behind it cannot be told apart any more.

use std::fs::File;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::Bus;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(2);
/// Message, command, length of all, flags, error.
const HEADER_LEN: usize = 16;
/// Bytes of an answer, at most.
const ANSWER_MAX: usize = 64 << 10;
/// Files of a message, at most.
const FILES_MAX: usize = 16;

/// The commands that are used.
#[derive(Clone, Copy)]
#[repr(u16)]
enum Command {
    Version = 1,
    DmaMap = 2,
    DeviceInfo = 4,
    SetInterrupts = 8,
    Read = 9,
    Write = 10,
}

/// Flags of a header.
const REPLY: u32 = 1;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;
/// The device is one of PCI.
const IS_PCI: u32 = 1 << 1;
/// The region of configuration space; that of a BAR has its number.
const CONFIG_REGION: u32 = 7;
/// Vectors of MSI-X among the interrupts of PCI.
const MSIX: u32 = 2;
/// An eventfd for each vector, signalled by the device.
const EVENTFD_TRIGGER: u32 = 1 << 2 | 1 << 5;
/// The device reads and writes.
const READ_WRITE: u32 = 3;

/// See the module.
pub struct VfioUser(Mutex<Connection>);

struct Connection {
    socket: UnixStream,
    next: u16,
    is_over: bool,
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    crate::spec::word(bytes, at)
}

/// Little-endian words, one behind the other.
fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

impl VfioUser {
    /// Connects to a function's socket.
    ///
    /// # Errors
    /// Nobody serves there, or something else than a function of PCI.
    pub fn connect(socket: &Path) -> io::Result<VfioUser> {
        let socket = UnixStream::connect(socket)?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.set_write_timeout(Some(LIMIT))?;
        let mut connection = Connection { socket, next: 0, is_over: false };
        let mut version = vec![0, 0, 1, 0];
        version.extend(br#"{"capabilities":{"max_msg_fds":16}}"#);
        version.push(0);
        let version = connection.ask(Command::Version, &[&version], &[])?;
        if version.len() < 4 || version[..2] != [0, 0] {
            return Err(malformed("it speaks another version of vfio-user"));
        }
        let info = connection.ask(Command::DeviceInfo, &[&words([16, 0, 0, 0])], &[])?;
        if info.len() < 16 || word(&info, 4) & IS_PCI == 0 {
            return Err(malformed("it is no device of PCI"));
        }
        Ok(VfioUser(Mutex::new(connection)))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Connection) -> io::Result<T>) -> io::Result<T> {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Connection {
    /// Sends a message; the number that its answer has.
    fn send(
        &mut self,
        command: Command,
        flags: u32,
        parts: &[&[u8]],
        files: &[BorrowedFd<'_>],
    ) -> io::Result<u16> {
        if self.is_over {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let message = self.next;
        self.next = message.wrapping_add(1);
        let len = HEADER_LEN + parts.iter().map(|part| part.len()).sum::<usize>();
        let mut header = [message.to_le_bytes(), (command as u16).to_le_bytes()].concat();
        header.extend(words([len as u32, flags, 0]));
        let all: Vec<IoSlice<'_>> =
            std::iter::once(&header[..]).chain(parts.iter().copied()).map(IoSlice::new).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(malformed("there are too many files for one message"));
        }
        let sent = loop {
            match sendmsg(&self.socket, &all, &mut beside, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other,
            }
        };
        match sent {
            Ok(sent) if sent == len => Ok(message),
            Ok(_) => {
                self.is_over = true;
                Err(io::ErrorKind::WriteZero.into())
            }
            Err(errno) => {
                self.is_over = true;
                Err(errno.into())
            }
        }
    }

    /// The body of the answer to a message.
    fn answer(&mut self, message: u16, command: Command) -> io::Result<Vec<u8>> {
        let mut header = [0; HEADER_LEN];
        self.socket.read_exact(&mut header)?;
        let [first, second] = [0, 2].map(|at| u16::from_le_bytes([header[at], header[at + 1]]));
        let len = (word(&header, 4) as usize).checked_sub(HEADER_LEN);
        let flags = word(&header, 8);
        if (first, second) != (message, command as u16) || flags & 0xf != REPLY {
            return Err(malformed("its answer belongs to another message"));
        }
        let mut body = match len {
            Some(len) if len <= ANSWER_MAX => vec![0; len],
            _ => return Err(malformed("its answer has an impossible length")),
        };
        self.socket.read_exact(&mut body)?;
        if flags & ERROR != 0 {
            return Err(io::Error::other(format!("it refuses, with error {}", word(&header, 12))));
        }
        Ok(body)
    }

    fn ask(&mut self, command: Command, parts: &[&[u8]], files: &[BorrowedFd<'_>]) -> io::Result<Vec<u8>> {
        let message = self.send(command, 0, parts, files)?;
        let answer = self.answer(message, command);
        self.is_over |= answer.is_err();
        answer
    }

    fn read(&mut self, region: u32, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let place = region_access(region, offset, bytes);
        let body = self.ask(Command::Read, &[&place], &[])?;
        match body.split_at_checked(16) {
            Some((_, read)) if read.len() == bytes.len() => {
                bytes.copy_from_slice(read);
                Ok(())
            }
            _ => {
                self.is_over = true;
                Err(malformed("it reads too little or too much"))
            }
        }
    }
}

fn region_access(region: u32, offset: u64, bytes: &[u8]) -> Vec<u8> {
    [&offset.to_le_bytes()[..], &words([region, bytes.len() as u32])].concat()
}

impl Bus for VfioUser {
    fn read_config(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.with(|connection| connection.read(CONFIG_REGION, offset, bytes))
    }

    fn read(&self, bar: u8, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.with(|connection| connection.read(bar.into(), offset, bytes))
    }

    fn write(&self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let place = region_access(bar.into(), offset, bytes);
        self.with(|connection| connection.ask(Command::Write, &[&place, bytes], &[])).map(drop)
    }

    fn post(&self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let place = region_access(bar.into(), offset, bytes);
        self.with(|connection| connection.send(Command::Write, NO_REPLY, &[&place, bytes], &[])).map(drop)
    }

    fn map(&self, memory: &File, address: u64, len: u64) -> io::Result<()> {
        let mut map = words([32, READ_WRITE]);
        map.extend([0, address, len].into_iter().flat_map(u64::to_le_bytes));
        self.with(|connection| connection.ask(Command::DmaMap, &[&map], &[memory.as_fd()])).map(drop)
    }

    fn interrupts(&self, events: &[OwnedFd]) -> io::Result<()> {
        let set = words([20, EVENTFD_TRIGGER, MSIX, 0, events.len() as u32]);
        let files: Vec<BorrowedFd<'_>> = events.iter().map(AsFd::as_fd).collect();
        self.with(|connection| connection.ask(Command::SetInterrupts, &[&set], &files)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Serves one connection with these answers, each told apart by what it is
    /// to have wrong, and says how connecting ended.
    fn connect_to(answers: &[&dyn Fn(u16, u16) -> Vec<u8>]) -> io::Result<VfioUser> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).expect("bound");
        std::thread::scope(|scope| {
            let connecting = scope.spawn(|| VfioUser::connect(&path));
            let (mut stream, _) = listener.accept().expect("it connects");
            for answer in answers {
                let mut header = [0; HEADER_LEN];
                stream.read_exact(&mut header).expect("a message");
                let mut body = vec![0; word(&header, 4) as usize - HEADER_LEN];
                stream.read_exact(&mut body).expect("its body");
                let [message, command] = [0, 2].map(|at| u16::from_le_bytes([header[at], header[at + 1]]));
                stream.write_all(&answer(message, command)).expect("answered");
            }
            drop(stream);
            connecting.join().expect("no panic")
        })
    }

    fn reply(message: u16, command: u16, flags: u32, body: &[u8]) -> Vec<u8> {
        let mut reply = [message.to_le_bytes(), command.to_le_bytes()].concat();
        reply.extend(words([(HEADER_LEN + body.len()) as u32, flags, 22]));
        reply.extend(body);
        reply
    }

    #[test]
    fn answers_that_are_not_what_was_asked_for_are_errors() {
        let version = |message, command| reply(message, command, REPLY, &[0, 0, 1, 0]);
        let pci = |message, command| reply(message, command, REPLY, &words([16, IS_PCI, 9, 5]));
        assert!(connect_to(&[&version, &pci]).is_ok());
        let kind =
            |answers: &[&dyn Fn(u16, u16) -> Vec<u8>]| connect_to(answers).err().map(|error| error.kind());
        let other = |message: u16, command| reply(message ^ 1, command, REPLY, &[0, 0, 1, 0]);
        assert_eq!(kind(&[&other]), Some(io::ErrorKind::InvalidData));
        let major = |message, command| reply(message, command, REPLY, &[1, 0, 1, 0]);
        assert_eq!(kind(&[&major]), Some(io::ErrorKind::InvalidData));
        let refuses = |message, command| reply(message, command, REPLY | ERROR, &[]);
        assert_eq!(kind(&[&refuses]), Some(io::ErrorKind::Other));
        let ends = |message, command| reply(message, command, REPLY, &[0; 8])[..20].to_vec();
        assert_eq!(kind(&[&ends]), Some(io::ErrorKind::UnexpectedEof));
        for len in [3u32, u32::MAX] {
            let impossible = move |message, command| {
                let mut reply = reply(message, command, REPLY, &[]);
                reply[4..8].copy_from_slice(&len.to_le_bytes());
                reply
            };
            assert_eq!(kind(&[&impossible]), Some(io::ErrorKind::InvalidData));
        }
        let platform = |message, command| reply(message, command, REPLY, &words([16, 0, 9, 5]));
        assert_eq!(kind(&[&version, &platform]), Some(io::ErrorKind::InvalidData));
    }
}
