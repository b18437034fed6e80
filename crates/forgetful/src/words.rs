//! The store's plain data in the words of the wire, and back.

use std::time::Duration;

use strongroom_fuse as fuse;
use strongroom_fuse::{Attributes, Entry, Errno, NodeId, TimedAttributes};
use strongroom_store::{self as store, Kind, RenameMode, SetTime};

/// How long the kernel believes what it is told: nobody else changes it.
const TIMEOUT: Duration = Duration::from_secs(60);
const TYPE: u32 = 0o170_000;

pub(crate) fn errno(error: store::Error) -> Errno {
    Errno::from_raw(error.errno())
}

/// The type bits of a mode.
pub(crate) fn type_bits(kind: Kind) -> u32 {
    match kind {
        Kind::File => 0o100_000,
        Kind::Directory => 0o040_000,
        Kind::Symlink => 0o120_000,
        Kind::Fifo => 0o010_000,
        Kind::Socket => 0o140_000,
        Kind::BlockDevice => 0o060_000,
        Kind::CharacterDevice => 0o020_000,
    }
}

/// What a node to be made is; only what has no type of its own or is a file,
/// pipe or socket, which is all that is ever asked for below a vault.
pub(crate) fn kind_to_make(mode: u32) -> Result<Kind, Errno> {
    match mode & TYPE {
        0 | 0o100_000 => Ok(Kind::File),
        0o010_000 => Ok(Kind::Fifo),
        0o140_000 => Ok(Kind::Socket),
        _ => Err(Errno::PERM),
    }
}

fn timestamp(time: store::Timestamp) -> fuse::Timestamp {
    fuse::Timestamp { seconds: time.seconds, nanoseconds: time.nanoseconds }
}

pub(crate) fn attributes(found: &store::Attributes) -> TimedAttributes {
    let attributes = Attributes {
        inode: found.id.inode,
        size: found.len,
        blocks: found.blocks,
        atime: timestamp(found.accessed),
        mtime: timestamp(found.modified),
        ctime: timestamp(found.changed),
        mode: found.mode | type_bits(found.kind),
        nlink: found.links,
        uid: found.uid,
        gid: found.gid,
        rdev: 0,
        block_size: 4096,
    };
    TimedAttributes::new(attributes, TIMEOUT)
}

pub(crate) fn entry(node: NodeId, found: &store::Attributes) -> Entry {
    Entry { node, generation: 0, entry_timeout: TIMEOUT, attributes: attributes(found) }
}

pub(crate) fn set_time(time: Option<fuse::SetTime>) -> SetTime {
    match time {
        None => SetTime::Omit,
        Some(fuse::SetTime::Now) => SetTime::Now,
        Some(fuse::SetTime::At(at)) => {
            SetTime::To(store::Timestamp { seconds: at.seconds, nanoseconds: at.nanoseconds })
        }
    }
}

pub(crate) fn rename_mode(flags: u32) -> Result<RenameMode, Errno> {
    match flags {
        0 => Ok(RenameMode::Replace),
        1 => Ok(RenameMode::NoReplace),
        2 => Ok(RenameMode::Exchange),
        _ => Err(Errno::INVAL),
    }
}

pub(crate) fn space(found: &store::Space) -> fuse::Space {
    fuse::Space {
        blocks: found.total,
        blocks_free: found.free,
        blocks_available: found.available,
        files: found.files,
        files_free: found.files_free,
        block_size: 4096,
        fragment_size: 4096,
        name_max: 255,
    }
}
