//! Listing directories.
//!
//! A handle lists a snapshot, taken at its first read and again whenever it is
//! rewound. Offsets count entries, `.` and `..` first. What does not open is
//! left out and reported: one forged name must not hide all others.

use crate::sync::Mutex;
use crate::sync::atomic::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use strongroom_format::vault::DirectoryId;
use strongroom_format::vault::special::is_special_len;
use strongroom_store::{InodeId, Kind};

use super::access::DIRECTORY_BITS;
use super::decoded::DecodedNames;
use super::inode::{Inode, Place, lock, read};
use super::names::{Found, is_hidden, is_remains};
use super::shape::FOREIGN_KIND;
use super::{Entry, Namespace};
use crate::error::{Damage, Error, Result};

/// Decoded names kept in all directories together.
const DECODED_MAX: usize = 1 << 18;

/// How often a name that does not open is decoded again, beside a writer.
const DECODE_TRIES: usize = 3;

/// Entries of every directory that are not stored: `.` and `..`.
const DOTS: usize = 2;

/// An entry of a snapshot.
struct Listed {
    stored: Arc<[u8]>,
    name: Arc<[u8]>,
    inode: u64,
    kind: Option<Kind>,
}

/// An open directory.
pub struct Directory {
    inode: Arc<Inode>,
    snapshot: Mutex<Option<Arc<Vec<Listed>>>>,
}

/// An entry as it is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Plain name.
    pub name: &'a [u8],
    /// Inode number as attributes tell it.
    pub inode: u64,
    /// Kind, where the store tells it with the name.
    pub kind: Option<Kind>,
    /// The offset from which to read on behind this entry.
    pub next: u64,
}

impl Directory {
    /// The node number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.inode.number
    }
}

impl Namespace {
    /// Opens a directory for listing. Nothing is read yet.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub fn open_directory(&self, number: u64) -> Result<Directory> {
        Ok(Directory { inode: self.directory(number)?, snapshot: Mutex::default() })
    }

    /// Hands the entries from `offset` on to `sink` until it returns false,
    /// which means that it has not taken the last one. Offset 0 takes a new
    /// snapshot.
    ///
    /// # Errors
    /// Damage of the directory's record, or what the store reports.
    pub fn read_directory(
        &self,
        directory: &Directory,
        offset: u64,
        sink: &mut dyn FnMut(Item<'_>) -> bool,
    ) -> Result<()> {
        let snapshot = self.snapshot(directory, offset)?;
        for index in usize::try_from(offset).unwrap_or(usize::MAX)..DOTS + snapshot.len() {
            let mut item = self.item(directory, &snapshot, index);
            if let Some(listed) = index.checked_sub(DOTS) {
                item.kind = self.kind_of(&directory.inode, &snapshot[listed]);
            }
            if !sink(item) {
                break;
            }
        }
        Ok(())
    }

    /// As [`Namespace::read_directory`], with each entry looked up. An entry
    /// that `sink` takes counts one lookup. `.` and `..`, entries that cannot
    /// be looked up, and all above the mark of [`Namespace::watch`], come
    /// without one.
    ///
    /// # Errors
    /// As [`Namespace::read_directory`].
    pub fn read_directory_plus(
        &self,
        directory: &Directory,
        offset: u64,
        sink: &mut dyn FnMut(Item<'_>, Option<&Entry>) -> bool,
    ) -> Result<()> {
        let snapshot = self.snapshot(directory, offset)?;
        for index in usize::try_from(offset).unwrap_or(usize::MAX)..DOTS + snapshot.len() {
            let mut item = self.item(directory, &snapshot, index);
            let entry = match index.checked_sub(DOTS) {
                Some(_) if self.is_crowded() => None,
                Some(listed) => match self.listed(&directory.inode, &snapshot[listed]) {
                    Err(error) if error.is_not_found() => continue,
                    found => found.ok(),
                },
                None => None,
            };
            if let Some(listed) = index.checked_sub(DOTS) {
                let known = entry.as_ref().map(|entry| entry.attributes.kind);
                item.kind = known.or_else(|| self.kind_of(&directory.inode, &snapshot[listed]));
            }
            if !sink(item, entry.as_ref()) {
                if let Some(entry) = entry {
                    self.forget(entry.number, 1);
                }
                break;
            }
        }
        Ok(())
    }

    fn item<'a>(&self, directory: &Directory, snapshot: &'a [Listed], index: usize) -> Item<'a> {
        let next = index as u64 + 1;
        let own = directory.inode.node.id().inode;
        match index {
            0 => Item { name: b".", inode: own, kind: Some(Kind::Directory), next },
            1 => {
                let place = lock(&directory.inode.place).clone();
                let above = place.and_then(|place| self.table.inode(place.parent).ok());
                let inode = above.map_or(own, |above| above.node.id().inode);
                Item { name: b"..", inode, kind: Some(Kind::Directory), next }
            }
            _ => {
                let listed = &snapshot[index - DOTS];
                Item { name: &listed.name, inode: listed.inode, kind: listed.kind, next }
            }
        }
    }

    /// The kind of an entry. The store tells it of directories alone: a stored
    /// file may be a special record, which its length tells.
    fn kind_of(&self, parent: &Inode, listed: &Listed) -> Option<Kind> {
        if listed.kind != Some(Kind::File) {
            return listed.kind;
        }
        let id = InodeId { device: parent.node.id().device, inode: listed.inode };
        if let Some(known) = self.table.known(id) {
            return Some(known.kind);
        }
        let attributes = parent.node.entry_attributes(&listed.stored).ok()?;
        if !is_special_len(attributes.len) {
            return Some(attributes.kind);
        }
        let entry = self.listed(parent, listed).ok()?;
        self.forget(entry.number, 1);
        Some(entry.attributes.kind)
    }

    /// Looks up an entry by its stored name.
    fn listed(&self, parent: &Inode, listed: &Listed) -> Result<Entry> {
        let entry = {
            let _gate = read(&parent.gate);
            let (node, seen) = self.find(parent, &listed.stored)?;
            let directory = self.directory_id(parent)?;
            let (name, stored) = (Arc::clone(&listed.name), Arc::clone(&listed.stored));
            self.entered(node, seen, Place { parent: parent.number, directory, name, stored })?
        };
        self.finished(parent, &listed.stored, entry)
    }

    fn snapshot(&self, directory: &Directory, offset: u64) -> Result<Arc<Vec<Listed>>> {
        let mut kept = lock(&directory.snapshot);
        match &*kept {
            Some(snapshot) if offset != 0 => Ok(Arc::clone(snapshot)),
            _ => {
                let mut listing = self.listing(&directory.inode)?;
                // What has been lost is not listed.
                listing.retain(|listed| self.is_whole(&directory.inode, listed));
                let snapshot = Arc::new(listing);
                *kept = Some(Arc::clone(&snapshot));
                Ok(snapshot)
            }
        }
    }

    /// Whether an entry is not one that a crash or a barrier which failed has taken.
    fn is_whole(&self, parent: &Inode, listed: &Listed) -> bool {
        let id = InodeId { device: parent.node.id().device, inode: listed.inode };
        let may_be_lost = self.contents.is_recovering() || self.contents.is_doubted(id);
        !may_be_lost || self.is_there(parent, listed)
    }

    fn is_there(&self, parent: &Inode, listed: &Listed) -> bool {
        match self.listed(parent, listed) {
            Ok(entry) => {
                self.forget(entry.number, 1);
                true
            }
            Err(error) => !error.is_not_found(),
        }
    }

    fn listing(&self, inode: &Inode) -> Result<Vec<Listed>> {
        let entries = {
            let gate = read(&inode.gate);
            if gate.removed {
                return Ok(Vec::new());
            }
            self.granted(inode, DIRECTORY_BITS, || Ok(inode.node.entries()?))?
        };
        let id = self.directory_id(inode)?;
        let before = lock(&inode.decoded).clone();
        let known = |stored: &[u8]| before.as_ref().and_then(|names| names.names.get_key_value(stored));
        let mut listing = Vec::with_capacity(entries.len());
        for entry in entries.into_iter().filter(|entry| !is_remains(entry)) {
            let is_foreign = entry.kind.is_some_and(|kind| !matches!(kind, Kind::File | Kind::Directory));
            if is_foreign && !is_hidden(&entry.name) {
                let damage = Damage::Name(FOREIGN_KIND);
                self.observer.damaged(inode.number, &Error::Damaged(damage));
                continue;
            }
            let (stored, name) = match known(&entry.name) {
                Some((stored, name)) => (Arc::clone(stored), Arc::clone(name)),
                None => match self.decode_now(inode, id, &entry.name) {
                    Ok(Some(name)) => (entry.name.as_slice().into(), name.as_slice().into()),
                    Ok(None) => continue,
                    // That says nothing of the entry.
                    Err(error) if error.is_passing() => return Err(error),
                    Err(error) => {
                        self.observer.damaged(inode.number, &error);
                        continue;
                    }
                },
            };
            listing.push(Listed { stored, name, inode: entry.inode, kind: entry.kind });
        }
        drop(before);
        self.keep_decoded(inode, &listing);
        Ok(listing)
    }

    /// As [`Namespace::decode`]. Beside a writer, an entry with a long name may
    /// be removed and made again in between.
    fn decode_now(&self, inode: &Inode, id: DirectoryId, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        let again = if self.contents.follows() { DECODE_TRIES } else { 0 };
        let mut decoded = self.decode(inode, id, stored);
        for _ in 0..again {
            if decoded.is_ok() {
                break;
            }
            decoded = self.decode(inode, id, stored);
        }
        decoded
    }

    /// The plain name of a stored one; `None` for what is the vault's own.
    fn decode(&self, inode: &Inode, id: DirectoryId, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.names.find(id, stored)? {
            Found::Hidden => Ok(None),
            Found::Name(name) => Ok(Some(name)),
            Found::Long { side } => {
                let sealed = match super::sidefile::read(&*inode.node, &side) {
                    // The entry was removed since the directory was read.
                    Err(error) if error.is_not_found() && inode.node.lookup(stored).is_err() => {
                        return Ok(None);
                    }
                    Err(error) if error.is_not_found() => {
                        return Err(Error::Damaged(Damage::Name("a long name has lost its side file")));
                    }
                    other => other?,
                };
                self.names.open_long(id, stored, &sealed).map(Some)
            }
        }
    }

    /// Keeps the names of a listing for the next, as far as there is room.
    fn keep_decoded(&self, inode: &Inode, listing: &[Listed]) {
        let mut kept = lock(&inode.decoded);
        *kept = None;
        let held = self.decoded.fetch_add(listing.len(), Ordering::Relaxed);
        if held + listing.len() > DECODED_MAX {
            self.decoded.fetch_sub(listing.len(), Ordering::Relaxed);
            return;
        }
        let names: HashMap<_, _> =
            listing.iter().map(|listed| (Arc::clone(&listed.stored), Arc::clone(&listed.name))).collect();
        // A store lists no name twice, but the count must hold if one does.
        self.decoded.fetch_sub(listing.len() - names.len(), Ordering::Relaxed);
        *kept = Some(Arc::new(DecodedNames { names, held: Arc::clone(&self.decoded) }));
    }
}
