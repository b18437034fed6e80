//! Listings: entries packed into the memory of the reply, until it is full.

use super::reply::{ENTRY_LEN, entry_bytes};
use crate::node::NodeId;
use crate::node::{Entry, TimedAttributes};
use std::time::Duration;

/// One name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// The name, `.` and `..` included.
    pub name: &'a [u8],
    /// Inode number for the user; not 0, which readers skip.
    pub inode: u64,
    /// Where the listing goes on *behind* this entry; not 0.
    pub next_offset: u64,
    /// `st_mode`, of which the type counts.
    pub mode: u32,
}

const FIXED_LEN: usize = 24;
const ALIGNMENT: usize = 8;

fn encode(entry: &DirectoryEntry<'_>, bytes: &mut [u8]) {
    let (fixed, rest) = bytes.split_at_mut(FIXED_LEN);
    // The room was computed from the name's length, which a page bounds.
    let name_len = entry.name.len() as u32;
    let kind = (entry.mode >> 12) & 0xf;
    fixed[..8].copy_from_slice(&entry.inode.to_ne_bytes());
    fixed[8..16].copy_from_slice(&entry.next_offset.to_ne_bytes());
    fixed[16..20].copy_from_slice(&name_len.to_ne_bytes());
    fixed[20..].copy_from_slice(&kind.to_ne_bytes());
    let (name, padding) = rest.split_at_mut(entry.name.len());
    name.copy_from_slice(entry.name);
    padding.fill(0);
}

/// A listing of names.
#[derive(Debug)]
pub struct DirectoryEntries<'a> {
    bytes: &'a mut [u8],
    used: usize,
}

impl<'a> DirectoryEntries<'a> {
    /// An empty listing in `bytes`.
    pub fn new(bytes: &'a mut [u8]) -> DirectoryEntries<'a> {
        DirectoryEntries { bytes, used: 0 }
    }

    /// Appends an entry; false, with nothing appended, when it does not fit:
    /// stop, the kernel will come back for it.
    #[must_use]
    pub fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        match self.room(FIXED_LEN + entry.name.len()) {
            Some(room) => {
                encode(entry, room);
                true
            }
            None => false,
        }
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        let start = self.used;
        let end = start + len.next_multiple_of(ALIGNMENT);
        let room = self.bytes.get_mut(start..end)?;
        self.used = end;
        Some(room)
    }
}

/// A listing of names with their nodes.
#[derive(Debug)]
pub struct DirectoryEntriesPlus<'a> {
    entries: DirectoryEntries<'a>,
}

impl<'a> DirectoryEntriesPlus<'a> {
    /// An empty listing in `bytes`.
    pub fn new(bytes: &'a mut [u8]) -> DirectoryEntriesPlus<'a> {
        DirectoryEntriesPlus { entries: DirectoryEntries::new(bytes) }
    }

    /// True when an entry of this name would fit, so that a file system need
    /// not count a lookup that it would have to take back.
    #[must_use]
    pub fn fits(&self, name: &[u8]) -> bool {
        let len = (ENTRY_LEN + FIXED_LEN + name.len()).next_multiple_of(ALIGNMENT);
        self.entries.used + len <= self.entries.bytes.len()
    }

    /// Appends an entry with its node, which counts as a lookup; false, with
    /// nothing appended and no lookup counted, when it does not fit.
    #[must_use]
    pub fn push(&mut self, entry: &DirectoryEntry<'_>, node: &Entry) -> bool {
        match self.entries.room(ENTRY_LEN + FIXED_LEN + entry.name.len()) {
            Some(room) => {
                let (node_room, entry_room) = room.split_at_mut(ENTRY_LEN);
                node_room.copy_from_slice(&entry_bytes(node));
                encode(entry, entry_room);
                true
            }
            None => false,
        }
    }

    /// Appends a name alone, which counts no lookup: `.`, `..`, and nodes
    /// whose attributes are not at hand.
    #[must_use]
    pub fn push_name(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        let nothing = Entry {
            node: NodeId(0),
            generation: 0,
            entry_timeout: Duration::ZERO,
            attributes: TimedAttributes::default(),
        };
        self.push(entry, &nothing)
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.entries.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: DirectoryEntry<'static> =
        DirectoryEntry { name: b"name", inode: 3, next_offset: 5, mode: 0o100_644 };

    #[test]
    fn entries_are_padded_and_stop_at_the_end() {
        let mut bytes = [0xff; 70];
        let mut entries = DirectoryEntries::new(&mut bytes);
        assert!(entries.push(&ENTRY));
        assert!(entries.push(&ENTRY));
        assert!(!entries.push(&ENTRY));
        assert_eq!(entries.used(), 64);
        let expected = [
            &3u64.to_ne_bytes()[..],
            &5u64.to_ne_bytes(),
            &4u32.to_ne_bytes(),
            &8u32.to_ne_bytes(),
            b"name\0\0\0\0",
        ]
        .concat();
        assert_eq!(bytes[..32], expected);
        assert_eq!(bytes[64..], [0xff; 6]);
    }

    #[test]
    fn entries_with_nodes_say_beforehand_whether_they_fit() {
        let mut bytes = [0; 160 + 159];
        let mut entries = DirectoryEntriesPlus::new(&mut bytes);
        assert!(entries.fits(ENTRY.name));
        assert!(entries.push_name(&ENTRY));
        assert!(!entries.fits(ENTRY.name));
        assert!(!entries.push_name(&ENTRY));
        assert_eq!(entries.used(), 160);
        assert_eq!(bytes[128..136], 3u64.to_ne_bytes());
    }
}
