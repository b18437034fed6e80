//! Decodes requests.
//!
//! What comes out is bounded by the bytes that went in: names end inside
//! them, lists are as long as what is there, and lengths that promise more
//! are errors. Values are not judged; that is for the file system.

use super::init::{self, InitRequest};
use super::opcode::Opcode;
use super::reader::Reader;
use super::{REQUEST_HEADER_LEN, WRITE_ARGUMENTS_LEN, flags};
use crate::arguments::{
    Allocate, Context, CopyRange, CreateMode, Ioctl, OpenFlags, Read, Release, Rename, Seek, SetAttributes,
    SetTime, Write,
};
use crate::node::{Handle, NodeId, Timestamp};

pub use super::reader::ParseError;

/// The header before every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole request, this header and a payload included.
    pub len: u32,
    /// Number of the [`Opcode`], which may be unknown.
    pub opcode: u32,
    /// The node concerned.
    pub node: NodeId,
    /// Who asks, and the request's number.
    pub context: Context,
    /// Bytes of extensions behind the arguments.
    pub extensions_len: usize,
}

impl Header {
    /// Decodes the header alone.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] below 40 bytes.
    pub fn parse(message: &[u8]) -> Result<Header, ParseError> {
        let mut reader = Reader::new(message);
        let (len, opcode) = (reader.u32()?, reader.u32()?);
        let (unique, node) = (reader.u64()?, NodeId(reader.u64()?));
        let (uid, gid, pid) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let extensions_len = 8 * usize::from(reader.u16()?);
        reader.skip(2)?;
        Ok(Header { len, opcode, node, context: Context { unique, uid, gid, pid }, extensions_len })
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    /// Its header.
    pub header: Header,
    /// What is asked.
    pub operation: Operation<'a>,
}

/// What is asked of the header's node. The methods of
/// [`Filesystem`](crate::Filesystem) say what each means.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Operation<'a> {
    Init(InitRequest),
    Destroy,
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget(Forgets<'a>),
    GetAttr {
        handle: Option<Handle>,
    },
    SetAttr(SetAttributes),
    ReadLink,
    SymLink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MkNod {
        name: &'a [u8],
        mode: CreateMode,
    },
    MkDir {
        name: &'a [u8],
        mode: CreateMode,
    },
    Unlink {
        name: &'a [u8],
    },
    RmDir {
        name: &'a [u8],
    },
    Rename(Rename<'a>),
    Link {
        node: NodeId,
        new_name: &'a [u8],
    },
    Open(OpenFlags),
    Create {
        name: &'a [u8],
        mode: CreateMode,
        flags: OpenFlags,
    },
    TmpFile {
        mode: CreateMode,
        flags: OpenFlags,
    },
    Read(Read),
    Write(Write),
    Flush {
        handle: Handle,
    },
    Release(Release),
    Fsync {
        handle: Handle,
        data_only: bool,
    },
    OpenDir(OpenFlags),
    ReadDir(Read),
    ReadDirPlus(Read),
    ReleaseDir(Release),
    FsyncDir {
        handle: Handle,
        data_only: bool,
    },
    StatFs,
    SetXattr(SetXattr<'a>),
    GetXattr {
        name: &'a [u8],
        size: usize,
    },
    ListXattr {
        size: usize,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    Access {
        mask: u32,
    },
    Fallocate(Allocate),
    Lseek(Seek),
    CopyFileRange {
        range: CopyRange,
        wide: bool,
    },
    Ioctl(Ioctl<'a>),
    SyncFs,
    Statx {
        handle: Option<Handle>,
    },
    Interrupt {
        unique: u64,
    },
    /// Known or not, nothing that this server does.
    Unsupported,
}

/// An extended attribute to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetXattr<'a> {
    /// Its name, with its namespace.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// 0, `XATTR_CREATE` (1) or `XATTR_REPLACE` (2).
    pub flags: u32,
    /// Drop the set-group-id bit with the access control list.
    pub acl_kill_sgid: bool,
}

/// Nodes and how many of their lookups the kernel gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgets<'a> {
    pairs: &'a [[u8; 16]],
}

impl Iterator for Forgets<'_> {
    type Item = (NodeId, u64);

    fn next(&mut self) -> Option<(NodeId, u64)> {
        let (pair, rest) = self.pairs.split_first()?;
        self.pairs = rest;
        let (node, lookups) = pair.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        Some((NodeId(word(node)), word(lookups)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.pairs.len(), Some(self.pairs.len()))
    }
}

impl ExactSizeIterator for Forgets<'_> {}

/// Decodes a request.
///
/// `message` is the whole of it, but for the payload of a write, which may
/// lie elsewhere: of a write only the first 80 bytes are looked at.
///
/// # Errors
/// [`ParseError`]. The header may still be good: see [`Header::parse`].
pub fn parse(message: &[u8]) -> Result<Request<'_>, ParseError> {
    let header = Header::parse(message)?;
    let opcode = Opcode::from_raw(header.opcode);
    let total = usize::try_from(header.len).map_err(|_| ParseError::Length)?;
    let end = if opcode == Some(Opcode::Write) {
        REQUEST_HEADER_LEN + WRITE_ARGUMENTS_LEN
    } else if total == message.len() {
        total.checked_sub(header.extensions_len).ok_or(ParseError::Length)?
    } else {
        return Err(ParseError::Length);
    };
    let arguments = message.get(REQUEST_HEADER_LEN..end).ok_or(ParseError::Truncated)?;
    let operation = match opcode {
        Some(opcode) => operation(opcode, &header, Reader::new(arguments))?,
        None => Operation::Unsupported,
    };
    Ok(Request { header, operation })
}

fn operation<'a>(opcode: Opcode, header: &Header, mut r: Reader<'a>) -> Result<Operation<'a>, ParseError> {
    Ok(match opcode {
        Opcode::Init => Operation::Init(init::parse(&mut r)?),
        Opcode::Destroy => Operation::Destroy,
        Opcode::Lookup => Operation::Lookup { name: r.name()? },
        Opcode::Forget => Operation::Forget { lookups: r.u64()? },
        Opcode::BatchForget => Operation::BatchForget(forgets(&mut r)?),
        Opcode::GetAttr => Operation::GetAttr { handle: optional_handle(&mut r)? },
        Opcode::SetAttr => Operation::SetAttr(set_attributes(&mut r)?),
        Opcode::ReadLink => Operation::ReadLink,
        Opcode::SymLink => Operation::SymLink { name: r.name()?, target: r.string()? },
        Opcode::MkNod => mknod(&mut r)?,
        Opcode::MkDir => mkdir(&mut r)?,
        Opcode::Unlink => Operation::Unlink { name: r.name()? },
        Opcode::RmDir => Operation::RmDir { name: r.name()? },
        Opcode::Rename => Operation::Rename(rename(header.node, &mut r, false)?),
        Opcode::Rename2 => Operation::Rename(rename(header.node, &mut r, true)?),
        Opcode::Link => Operation::Link { node: NodeId(r.u64()?), new_name: r.name()? },
        Opcode::Open => Operation::Open(open_flags(&mut r)?),
        Opcode::OpenDir => Operation::OpenDir(open_flags(&mut r)?),
        Opcode::Create => {
            let (mode, flags) = create(&mut r)?;
            Operation::Create { name: r.name()?, mode, flags }
        }
        Opcode::TmpFile => {
            let (mode, flags) = create(&mut r)?;
            Operation::TmpFile { mode, flags }
        }
        Opcode::Read => Operation::Read(read(&mut r)?),
        Opcode::ReadDir => Operation::ReadDir(read(&mut r)?),
        Opcode::ReadDirPlus => Operation::ReadDirPlus(read(&mut r)?),
        Opcode::Write => Operation::Write(write(header, &mut r)?),
        Opcode::Flush => Operation::Flush { handle: Handle(r.u64()?) },
        Opcode::Release => Operation::Release(release(&mut r)?),
        Opcode::ReleaseDir => Operation::ReleaseDir(release(&mut r)?),
        Opcode::Fsync => {
            let (handle, data_only) = fsync(&mut r)?;
            Operation::Fsync { handle, data_only }
        }
        Opcode::FsyncDir => {
            let (handle, data_only) = fsync(&mut r)?;
            Operation::FsyncDir { handle, data_only }
        }
        Opcode::StatFs => Operation::StatFs,
        Opcode::SetXattr => Operation::SetXattr(set_xattr(&mut r)?),
        Opcode::GetXattr => {
            let size = xattr_size(&mut r)?;
            Operation::GetXattr { name: r.string()?, size }
        }
        Opcode::ListXattr => Operation::ListXattr { size: xattr_size(&mut r)? },
        Opcode::RemoveXattr => Operation::RemoveXattr { name: r.string()? },
        Opcode::Access => Operation::Access { mask: r.u32()? },
        Opcode::Fallocate => Operation::Fallocate(allocate(&mut r)?),
        Opcode::Lseek => {
            Operation::Lseek(Seek { handle: Handle(r.u64()?), offset: r.u64()?, whence: r.u32()? })
        }
        Opcode::CopyFileRange => Operation::CopyFileRange { range: copy_range(&mut r)?, wide: false },
        Opcode::CopyFileRange64 => Operation::CopyFileRange { range: copy_range(&mut r)?, wide: true },
        Opcode::Ioctl => Operation::Ioctl(ioctl(&mut r)?),
        Opcode::SyncFs => Operation::SyncFs,
        Opcode::Statx => Operation::Statx { handle: optional_handle(&mut r)? },
        Opcode::Interrupt => Operation::Interrupt { unique: r.u64()? },
        Opcode::GetLk
        | Opcode::SetLk
        | Opcode::SetLkW
        | Opcode::Bmap
        | Opcode::Poll
        | Opcode::NotifyReply
        | Opcode::SetupMapping
        | Opcode::RemoveMapping => Operation::Unsupported,
    })
}

fn forgets<'a>(r: &mut Reader<'a>) -> Result<Forgets<'a>, ParseError> {
    let count = r.u32()?;
    r.skip(4)?;
    let (pairs, _) = r.rest().as_chunks();
    let count = usize::try_from(count).map_err(|_| ParseError::Length)?;
    Ok(Forgets { pairs: pairs.get(..count).ok_or(ParseError::Length)? })
}

/// The start that GETATTR and STATX share.
fn optional_handle(r: &mut Reader<'_>) -> Result<Option<Handle>, ParseError> {
    let flags = r.u32()?;
    r.skip(4)?;
    let handle = Handle(r.u64()?);
    Ok((flags & flags::getattr::HANDLE != 0).then_some(handle))
}

fn set_attributes(r: &mut Reader<'_>) -> Result<SetAttributes, ParseError> {
    let valid = r.u32()?;
    r.skip(4)?;
    let (handle, size) = (r.u64()?, r.u64()?);
    r.skip(8)?; // the owner of locks, which the kernel keeps
    let seconds = [r.u64()?, r.u64()?, r.u64()?];
    let nanoseconds = [r.u32()?, r.u32()?, r.u32()?];
    let mode = r.u32()?;
    r.skip(4)?;
    let (uid, gid) = (r.u32()?, r.u32()?);
    let has = |bit: u32| valid & bit != 0;
    // Times before 1970 travel as two's complement.
    let time = |i: usize| Timestamp { seconds: seconds[i] as i64, nanoseconds: nanoseconds[i] };
    let set_time = |i: usize, set: u32, now: u32| match (has(set), has(now)) {
        (false, _) => None,
        (true, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::At(time(i))),
    };
    Ok(SetAttributes {
        handle: has(flags::setattr::HANDLE).then_some(Handle(handle)),
        mode: has(flags::setattr::MODE).then_some(mode),
        uid: has(flags::setattr::UID).then_some(uid),
        gid: has(flags::setattr::GID).then_some(gid),
        size: has(flags::setattr::SIZE).then_some(size),
        atime: set_time(0, flags::setattr::ATIME, flags::setattr::ATIME_NOW),
        mtime: set_time(1, flags::setattr::MTIME, flags::setattr::MTIME_NOW),
        ctime: has(flags::setattr::CTIME).then(|| time(2)),
        kill_suid_sgid: has(flags::setattr::KILL_SUIDGID),
    })
}

fn mknod<'a>(r: &mut Reader<'a>) -> Result<Operation<'a>, ParseError> {
    let (mode, rdev, umask) = (r.u32()?, r.u32()?, r.u32()?);
    r.skip(4)?;
    Ok(Operation::MkNod { name: r.name()?, mode: CreateMode { mode, umask, rdev } })
}

/// The type is not among the bits that the kernel sends here.
fn mkdir<'a>(r: &mut Reader<'a>) -> Result<Operation<'a>, ParseError> {
    const DIRECTORY: u32 = 0o040_000;
    let (mode, umask) = (r.u32()? & 0o7777 | DIRECTORY, r.u32()?);
    Ok(Operation::MkDir { name: r.name()?, mode: CreateMode { mode, umask, rdev: 0 } })
}

fn rename<'a>(parent: NodeId, r: &mut Reader<'a>, flagged: bool) -> Result<Rename<'a>, ParseError> {
    let new_parent = NodeId(r.u64()?);
    let mut flags = 0;
    if flagged {
        flags = r.u32()?;
        r.skip(4)?;
    }
    Ok(Rename { parent, name: r.name()?, new_parent, new_name: r.name()?, flags })
}

fn open_flags(r: &mut Reader<'_>) -> Result<OpenFlags, ParseError> {
    let (flags, open_flags) = (r.u32()?, r.u32()?);
    Ok(OpenFlags { flags, kill_suid_sgid: open_flags & flags::open::KILL_SUIDGID != 0 })
}

fn create(r: &mut Reader<'_>) -> Result<(CreateMode, OpenFlags), ParseError> {
    let (flags, mode, umask, open_flags) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
    let kill_suid_sgid = open_flags & flags::open::KILL_SUIDGID != 0;
    Ok((CreateMode { mode, umask, rdev: 0 }, OpenFlags { flags, kill_suid_sgid }))
}

fn read(r: &mut Reader<'_>) -> Result<Read, ParseError> {
    let (handle, offset, size) = (Handle(r.u64()?), r.u64()?, r.u32()?);
    r.skip(12)?; // flags and owner of locks
    let flags = r.u32()?;
    Ok(Read { handle, offset, size: usize::try_from(size).map_err(|_| ParseError::Length)?, flags })
}

fn write(header: &Header, r: &mut Reader<'_>) -> Result<Write, ParseError> {
    let (handle, offset, size, write_flags) = (Handle(r.u64()?), r.u64()?, r.u32()?, r.u32()?);
    r.skip(8)?; // owner of locks
    let flags = r.u32()?;
    let before = (REQUEST_HEADER_LEN + WRITE_ARGUMENTS_LEN) as u64;
    if before + u64::from(size) != u64::from(header.len) {
        return Err(ParseError::Length);
    }
    Ok(Write {
        handle,
        offset,
        len: usize::try_from(size).map_err(|_| ParseError::Length)?,
        flags,
        cached: write_flags & flags::write::CACHE != 0,
        kill_suid_sgid: write_flags & flags::write::KILL_SUIDGID != 0,
    })
}

fn release(r: &mut Reader<'_>) -> Result<Release, ParseError> {
    Ok(Release { handle: Handle(r.u64()?), flags: r.u32()? })
}

fn fsync(r: &mut Reader<'_>) -> Result<(Handle, bool), ParseError> {
    Ok((Handle(r.u64()?), r.u32()? & flags::fsync::DATA_ONLY != 0))
}

fn set_xattr<'a>(r: &mut Reader<'a>) -> Result<SetXattr<'a>, ParseError> {
    let (size, flags, setxattr_flags) = (r.u32()?, r.u32()?, r.u32()?);
    r.skip(4)?;
    let name = r.string()?;
    let value = r.take(usize::try_from(size).map_err(|_| ParseError::Length)?)?;
    Ok(SetXattr { name, value, flags, acl_kill_sgid: setxattr_flags & flags::setxattr::ACL_KILL_SGID != 0 })
}

/// The start that GETXATTR and LISTXATTR share: room for the answer, 0 to ask
/// how much it needs.
fn xattr_size(r: &mut Reader<'_>) -> Result<usize, ParseError> {
    let size = r.u32()?;
    r.skip(4)?;
    usize::try_from(size).map_err(|_| ParseError::Length)
}

fn allocate(r: &mut Reader<'_>) -> Result<Allocate, ParseError> {
    Ok(Allocate { handle: Handle(r.u64()?), offset: r.u64()?, len: r.u64()?, mode: r.u32()? })
}

fn copy_range(r: &mut Reader<'_>) -> Result<CopyRange, ParseError> {
    Ok(CopyRange {
        handle: Handle(r.u64()?),
        offset: r.u64()?,
        to_node: NodeId(r.u64()?),
        to_handle: Handle(r.u64()?),
        to_offset: r.u64()?,
        len: r.u64()?,
    })
}

fn ioctl<'a>(r: &mut Reader<'a>) -> Result<Ioctl<'a>, ParseError> {
    let (handle, flags, command, argument) = (Handle(r.u64()?), r.u32()?, r.u32()?, r.u64()?);
    let (input_len, output_len) = (r.u32()?, r.u32()?);
    let input = r.take(usize::try_from(input_len).map_err(|_| ParseError::Length)?)?;
    Ok(Ioctl { handle, flags, command, argument, input, output_len })
}
