//! Encodes replies. Every function appends a body; the header before it is
//! [`header`].

use super::init::{self, InitReply};
use super::statx::{self, Statx};
use crate::errno::Errno;
use crate::node::{Attributes, Entry, Opened, Space, TimedAttributes};
use std::time::Duration;

use super::REPLY_HEADER_LEN;

/// Bytes of an encoded entry.
pub const ENTRY_LEN: usize = 128;

/// The header of the reply to the request `unique`, before `body_len` bytes;
/// an error has no body.
#[must_use]
pub fn header(unique: u64, result: Result<usize, Errno>) -> [u8; REPLY_HEADER_LEN] {
    let (body_len, error) = match result {
        Ok(len) => (len, 0),
        Err(errno) => (0, -errno.raw()),
    };
    // No body is longer than a request may be, which is far below 4 GiB.
    let len = (REPLY_HEADER_LEN + body_len) as u32;
    let mut bytes = [0; REPLY_HEADER_LEN];
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes[4..8].copy_from_slice(&error.to_ne_bytes());
    bytes[8..].copy_from_slice(&unique.to_ne_bytes());
    bytes
}

/// The body of a reply, in memory that is used again for the next.
#[derive(Debug, Default)]
pub struct Body {
    bytes: Vec<u8>,
}

impl Body {
    /// An empty body with room for the usual reply.
    #[must_use]
    pub fn new() -> Body {
        Body { bytes: Vec::with_capacity(4096) }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// What it holds.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bare bytes, to be appended to.
    pub fn raw(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The answer to INIT.
    pub fn init(&mut self, reply: &InitReply) {
        init::encode(reply, &mut self.bytes);
    }

    /// The answer to an INIT of a newer major version.
    pub fn init_version(&mut self) {
        init::encode_version(&mut self.bytes);
    }

    /// A directory entry, as LOOKUP and all that make nodes answer.
    pub fn entry(&mut self, entry: &Entry) {
        self.bytes.extend_from_slice(&entry_bytes(entry));
    }

    /// Attributes, as GETATTR and SETATTR answer.
    pub fn attributes(&mut self, timed: &TimedAttributes) {
        let (seconds, nanoseconds) = split(timed.timeout);
        self.u64(seconds);
        self.u32(nanoseconds);
        self.u32(0);
        self.bytes.extend_from_slice(&attribute_bytes(&timed.attributes));
    }

    /// An opened file.
    pub fn opened(&mut self, opened: &Opened) {
        self.u64(opened.handle.0);
        self.u32(opened.flags);
        self.u32(0);
    }

    /// A count of bytes, as WRITE, GETXATTR and LISTXATTR answer.
    pub fn count(&mut self, count: u32) {
        self.u32(count);
        self.u32(0);
    }

    /// An offset or a long count, as LSEEK and the wide copy answer.
    pub fn offset(&mut self, offset: u64) {
        self.u64(offset);
    }

    /// Space and limits.
    pub fn space(&mut self, space: &Space) {
        for word in [space.blocks, space.blocks_free, space.blocks_available, space.files, space.files_free] {
            self.u64(word);
        }
        for word in [space.block_size, space.name_max, space.fragment_size] {
            self.u32(word);
        }
        self.bytes.extend_from_slice(&[0; 28]);
    }

    /// Attributes with the time of birth.
    pub fn statx(&mut self, statx: &Statx) {
        statx::encode(statx, &mut self.bytes);
    }

    /// The header of a control's answer, before its output, which was
    /// appended by [`raw`](Self::raw) behind [`ioctl_space`](Self::ioctl_space).
    pub fn ioctl_result(&mut self, result: i32) {
        if let Some(field) = self.bytes.first_chunk_mut() {
            *field = result.to_ne_bytes();
        }
    }

    /// Room for the header of a control's answer.
    pub fn ioctl_space(&mut self) {
        self.bytes.extend_from_slice(&[0; 16]);
    }

    fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
    }
}

/// Timeouts beyond what the field holds are the longest it holds.
fn split(timeout: Duration) -> (u64, u32) {
    (timeout.as_secs(), timeout.subsec_nanos())
}

/// Writes fields one after the other into an array of their exact length.
struct Fields<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Fields<N> {
    fn new() -> Fields<N> {
        Fields { bytes: [0; N], at: 0 }
    }

    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    fn done(self) -> [u8; N] {
        debug_assert_eq!(self.at, N);
        self.bytes
    }
}

pub(super) fn entry_bytes(entry: &Entry) -> [u8; ENTRY_LEN] {
    let mut fields = Fields::new();
    let (entry_seconds, entry_nanoseconds) = split(entry.entry_timeout);
    let (attributes_seconds, attributes_nanoseconds) = split(entry.attributes.timeout);
    for word in [entry.node.0, entry.generation, entry_seconds, attributes_seconds] {
        fields.put(&word.to_ne_bytes());
    }
    for word in [entry_nanoseconds, attributes_nanoseconds] {
        fields.put(&word.to_ne_bytes());
    }
    fields.put(&attribute_bytes(&entry.attributes.attributes));
    fields.done()
}

fn attribute_bytes(attributes: &Attributes) -> [u8; 88] {
    let Attributes { atime, mtime, ctime, .. } = attributes;
    let mut fields = Fields::new();
    for word in [attributes.inode, attributes.size, attributes.blocks] {
        fields.put(&word.to_ne_bytes());
    }
    for time in [atime, mtime, ctime] {
        fields.put(&time.seconds.to_ne_bytes());
    }
    for time in [atime, mtime, ctime] {
        fields.put(&time.nanoseconds.to_ne_bytes());
    }
    for word in [
        attributes.mode,
        attributes.nlink,
        attributes.uid,
        attributes.gid,
        attributes.rdev,
        attributes.block_size,
        0,
    ] {
        fields.put(&word.to_ne_bytes());
    }
    fields.done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Handle, NodeId, Timestamp};

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    fn u64_at(bytes: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn headers_count_themselves_and_negate_errors() {
        let ok = header(9, Ok(4));
        assert_eq!((u32_at(&ok, 0), u32_at(&ok, 4), u64_at(&ok, 8)), (20, 0, 9));
        let error = header(9, Err(Errno::NOENT));
        assert_eq!((u32_at(&error, 0), u32_at(&error, 4) as i32), (16, -2));
    }

    #[test]
    fn entries_stand_where_the_kernel_looks() {
        let attributes = Attributes {
            inode: 1,
            size: 2,
            blocks: 3,
            atime: Timestamp { seconds: -1, nanoseconds: 4 },
            mtime: Timestamp { seconds: 5, nanoseconds: 6 },
            ctime: Timestamp { seconds: 7, nanoseconds: 8 },
            mode: 9,
            nlink: 10,
            uid: 11,
            gid: 12,
            rdev: 13,
            block_size: 14,
        };
        let entry = Entry {
            node: NodeId(20),
            generation: 21,
            entry_timeout: Duration::new(22, 23),
            attributes: TimedAttributes::new(attributes, Duration::new(24, 25)),
        };
        let bytes = entry_bytes(&entry);
        assert_eq!([0, 8, 16, 24].map(|at| u64_at(&bytes, at)), [20, 21, 22, 24]);
        assert_eq!([32, 36].map(|at| u32_at(&bytes, at)), [23, 25]);
        assert_eq!([40, 48, 56, 64, 72, 80].map(|at| u64_at(&bytes, at)), [1, 2, 3, u64::MAX, 5, 7]);
        let words = [88, 92, 96, 100, 104, 108, 112, 116, 120, 124].map(|at| u32_at(&bytes, at));
        assert_eq!(words, [4, 6, 8, 9, 10, 11, 12, 13, 14, 0]);
    }

    #[test]
    fn bodies_have_the_lengths_of_the_protocol() {
        let mut body = Body::new();
        let mut len = |fill: &dyn Fn(&mut Body)| {
            body.clear();
            fill(&mut body);
            body.bytes().len()
        };
        assert_eq!(len(&|body| body.attributes(&TimedAttributes::default())), 104);
        assert_eq!(len(&|body| body.opened(&Opened { handle: Handle(1), flags: 2 })), 16);
        assert_eq!(len(&|body| body.count(1)), 8);
        assert_eq!(len(&|body| body.space(&Space::default())), 80);
        assert_eq!(len(&|body| body.statx(&Statx::default())), 288);
        assert_eq!(len(&Body::ioctl_space), 16);
    }
}
