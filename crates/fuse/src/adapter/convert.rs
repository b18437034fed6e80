//! The vault's plain data in the words of the wire, and back.

use std::time::Duration;

use strongroom_store as store;
use strongroom_vault::namespace::{self, Changes, Creation, Owner};

use super::Timeouts;
use crate::abi::flags::rename;
use crate::errno::Errno;
use crate::filesystem::{Context, CreateMode, NodeId, SetAttributes, SetTime};
use crate::node::{Attributes, Entry, Space, TimedAttributes, Timestamp};

const TYPE_MASK: u32 = 0o170_000;
const PERMISSIONS: u32 = 0o7777;

/// The file type bits of a mode.
pub(super) fn type_bits(kind: store::Kind) -> u32 {
    match kind {
        store::Kind::File => 0o100_000,
        store::Kind::Directory => 0o040_000,
        store::Kind::Symlink => 0o120_000,
        store::Kind::Fifo => 0o010_000,
        store::Kind::Socket => 0o140_000,
        store::Kind::BlockDevice => 0o060_000,
        store::Kind::CharacterDevice => 0o020_000,
    }
}

/// What `mknod` is to make; a mode without a type means a regular file.
///
/// # Errors
/// `INVAL` for directories, symlinks and types that there are not.
pub(super) fn kind_to_make(mode: u32) -> Result<store::Kind, Errno> {
    match mode & TYPE_MASK {
        0 | 0o100_000 => Ok(store::Kind::File),
        0o010_000 => Ok(store::Kind::Fifo),
        0o140_000 => Ok(store::Kind::Socket),
        0o060_000 => Ok(store::Kind::BlockDevice),
        0o020_000 => Ok(store::Kind::CharacterDevice),
        _ => Err(Errno::INVAL),
    }
}

/// A device number as the wire has it (12 bits of major amid 20 of minor),
/// from the C library's.
fn device_to_wire(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// As [`device_to_wire`], back.
pub(super) fn device_from_wire(rdev: u32) -> u64 {
    rustix::fs::makedev((rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xfff00))
}

fn timestamp(time: store::Timestamp) -> Timestamp {
    Timestamp { seconds: time.seconds, nanoseconds: time.nanoseconds }
}

/// Attributes; `block_size` is the preferred size of a transfer.
pub(super) fn attributes(found: &store::Attributes, block_size: u32) -> Attributes {
    Attributes {
        inode: found.id.inode,
        size: found.len,
        blocks: found.blocks,
        atime: timestamp(found.accessed),
        mtime: timestamp(found.modified),
        ctime: timestamp(found.changed),
        mode: found.mode & PERMISSIONS | type_bits(found.kind),
        nlink: found.links,
        uid: found.uid,
        gid: found.gid,
        rdev: device_to_wire(found.device),
        block_size,
    }
}

/// An entry that counts a lookup.
pub(super) fn entry(found: &namespace::Entry, timeouts: &Timeouts, block_size: u32) -> Entry {
    Entry {
        node: NodeId(found.number),
        generation: found.generation,
        entry_timeout: timeouts.entry,
        attributes: timed(&found.attributes, timeouts.attributes, block_size),
    }
}

/// Attributes that hold for `timeout`.
pub(super) fn timed(found: &store::Attributes, timeout: Duration, block_size: u32) -> TimedAttributes {
    TimedAttributes::new(attributes(found, block_size), timeout)
}

/// How something is created.
pub(super) fn creation(context: &Context, mode: &CreateMode) -> Creation {
    Creation {
        mode: mode.mode & PERMISSIONS,
        umask: mode.umask & 0o777,
        owner: Owner { uid: context.uid, gid: context.gid },
    }
}

fn set_time(time: Option<SetTime>) -> store::SetTime {
    match time {
        None => store::SetTime::Omit,
        Some(SetTime::Now) => store::SetTime::Now,
        Some(SetTime::At(at)) => {
            store::SetTime::To(store::Timestamp { seconds: at.seconds, nanoseconds: at.nanoseconds })
        }
    }
}

/// What `setattr` changes. The time of the last change of attributes is the
/// store's own and cannot be set.
pub(super) fn changes(change: &SetAttributes) -> Changes {
    Changes {
        mode: change.mode.map(|mode| mode & PERMISSIONS),
        uid: change.uid,
        gid: change.gid,
        len: change.size,
        accessed: set_time(change.atime),
        modified: set_time(change.mtime),
        kill_suid_sgid: change.kill_suid_sgid,
    }
}

/// The mode of a rename, and whether it leaves a whiteout.
///
/// # Errors
/// `INVAL` for flags that exclude each other or are not known.
pub(super) fn rename_mode(flags: u32) -> Result<(store::RenameMode, bool), Errno> {
    let mode = match flags & !rename::WHITEOUT {
        0 => store::RenameMode::Replace,
        rename::NO_REPLACE => store::RenameMode::NoReplace,
        rename::EXCHANGE if flags == rename::EXCHANGE => store::RenameMode::Exchange,
        _ => return Err(Errno::INVAL),
    };
    Ok((mode, flags & rename::WHITEOUT != 0))
}

/// Refuses the name of an extended attribute that is a prefix and nothing
/// behind it, as other file systems do; the kernel leaves that to FUSE.
///
/// # Errors
/// `INVAL`.
pub(super) fn check_attribute_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        b"user." | b"trusted." | b"security." | b"system." => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

/// What `statfs` shows: the store's space, since the overhead is about a
/// hundredth.
pub(super) fn space(found: &store::Space, block_size: u32) -> Space {
    let fragment = u32::try_from(found.fragment).unwrap_or(block_size).max(1);
    Space {
        blocks: found.total,
        blocks_free: found.free,
        blocks_available: found.available,
        files: found.files,
        files_free: found.files_free,
        block_size: fragment,
        fragment_size: fragment,
        // NAME_MAX of Linux, which fits.
        name_max: namespace::NAME_MAX as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_come_back() {
        for (major, minor) in [(0, 0), (8, 1), (4095, 0xfffff), (1, 256), (259, 4096)] {
            let device = rustix::fs::makedev(major, minor);
            assert_eq!(device_from_wire(device_to_wire(device)), device);
        }
        // The kernel's own encoding of 8:1 and of 1:256.
        assert_eq!((device_to_wire(rustix::fs::makedev(8, 1))), 0x801);
        assert_eq!((device_to_wire(rustix::fs::makedev(1, 256))), 0x10_0100);
    }

    #[test]
    fn flags_of_a_rename_exclude_each_other() {
        assert_eq!(rename_mode(1), Ok((store::RenameMode::NoReplace, false)));
        assert_eq!(rename_mode(2), Ok((store::RenameMode::Exchange, false)));
        assert_eq!(rename_mode(4), Ok((store::RenameMode::Replace, true)));
        assert_eq!(rename_mode(5), Ok((store::RenameMode::NoReplace, true)));
        for flags in [3, 6, 7, 8, 12, u32::MAX] {
            assert_eq!(rename_mode(flags), Err(Errno::INVAL));
        }
    }

    #[test]
    fn a_prefix_is_no_name_of_an_attribute() {
        assert_eq!(check_attribute_name(b"user."), Err(Errno::INVAL));
        for name in [b"user.a".as_slice(), b"user..", b"security.capability", b"other."] {
            assert_eq!(check_attribute_name(name), Ok(()));
        }
    }

    #[test]
    fn a_node_is_made_by_its_type() {
        assert_eq!(kind_to_make(0o644), Ok(store::Kind::File));
        assert_eq!(kind_to_make(0o140_644), Ok(store::Kind::Socket));
        for mode in [0o040_755, 0o120_777, 0o170_000] {
            assert_eq!(kind_to_make(mode), Err(Errno::INVAL));
        }
    }
}
