//! The entries of one stored directory.

use std::collections::HashSet;

use strongroom_format::vault::DirectoryId;
use strongroom_format::vault::names::long_name_of;
use strongroom_store::NodeRef;

use super::{Folder, Named, Sort, Survey};
use crate::error::{Damage, Error, Result};
use crate::namespace::names::{Found, is_hidden};
use crate::namespace::{PRIVATE, sidefile};

/// An entry that is not the vault's own.
#[derive(Clone)]
pub struct Item {
    /// Stored name.
    pub stored: Vec<u8>,
    /// The inode.
    pub node: NodeRef,
    /// Plain name.
    pub name: Named,
    /// The id of the directory under which its name opens.
    pub directory: Option<DirectoryId>,
    /// What it is.
    pub sort: Sort,
}

/// An entry that is listed and not looked at yet: a directory may have more of
/// them than there may be open descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Stored name.
    pub stored: Vec<u8>,
    /// Plain name.
    pub name: Named,
    /// The id of the directory under which it opens.
    pub directory: Option<DirectoryId>,
}

/// What stands in a stored directory.
#[derive(Default)]
pub struct Listing {
    /// The entries, in the store's order.
    pub entries: Vec<Listed>,
    /// Stored names of side files whose entry is gone.
    pub orphans: Vec<Vec<u8>>,
    /// Stored names of entries whose name the store does not let read.
    pub failed: Vec<(Vec<u8>, Error)>,
}

/// A mark as it may stand in a plain name: whoever has the store chooses its
/// bytes. It grows no longer.
fn printed(mark: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(mark.len());
    for chunk in mark.utf8_chunks() {
        text.extend(chunk.valid().chars().map(|c| if c.is_control() { '_' } else { c }));
        text.extend(chunk.invalid().iter().map(|_| '_'));
    }
    text.into_bytes()
}

impl Survey<'_> {
    /// Lists a stored directory. [`Survey::look`] gives the inode of an entry,
    /// so that a walk holds no descriptor for each of a million.
    ///
    /// # Errors
    /// What the store reports of the directory itself.
    pub fn list(&self, folder: &Folder) -> Result<Listing> {
        let entries = folder.node.entries()?;
        let are_long = entries.iter().any(|entry| long_name_of(&entry.name).is_some());
        let known: HashSet<&[u8]> = match are_long {
            true => entries.iter().map(|entry| &entry.name[..]).collect(),
            false => HashSet::new(),
        };
        let mut listing = Listing::default();
        for entry in &entries {
            if folder.stored.is_empty() && entry.name == PRIVATE {
                continue;
            }
            if is_hidden(&entry.name) {
                if let Some(long) = long_name_of(&entry.name)
                    && !known.contains(long)
                {
                    listing.orphans.push(entry.name.clone());
                }
                continue;
            }
            match self.named(folder, &entry.name) {
                Ok((name, directory)) => {
                    listing.entries.push(Listed { stored: entry.name.clone(), name, directory });
                }
                Err(error) => listing.failed.push((entry.name.clone(), error)),
            }
        }
        Ok(listing)
    }

    /// Looks at an entry that was listed; none when it was removed since.
    ///
    /// # Errors
    /// What the store reports.
    pub fn look(&self, folder: &Folder, listed: Listed) -> Result<Option<Item>> {
        match folder.node.lookup(&listed.stored) {
            Ok(node) => self.item(node, listed).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The entry of a plain name.
    ///
    /// # Errors
    /// `ENOENT`, damage of the directory's record, or what the store reports.
    pub fn find(&self, folder: &Folder, name: &[u8]) -> Result<Item> {
        let id = folder.id.ok_or(Error::Damaged(Damage::Name("a directory has lost its record")))?;
        let stored = self.namespace.names.seal(id, name).main;
        let node = folder.node.lookup(&stored)?;
        let (name, directory) = self.named(folder, &stored)?;
        self.item(node, Listed { stored, name, directory })
    }

    /// An entry with its inode.
    ///
    /// # Errors
    /// What the store reports.
    pub fn item(&self, node: NodeRef, listed: Listed) -> Result<Item> {
        let Listed { stored, name, directory } = listed;
        let sort = self.sort(directory, &name, &node)?;
        Ok(Item { stored, node, name, directory, sort })
    }

    fn named(&self, folder: &Folder, stored: &[u8]) -> Result<(Named, Option<DirectoryId>)> {
        let Some(id) = folder.id else {
            return Ok((Named::Lost("the record of its directory is lost"), None));
        };
        match self.open_entry(&folder.node, stored, id) {
            Ok(name) => Ok((Named::Plain(name), Some(id))),
            Err(Error::Damaged(Damage::Name(what))) => {
                for &other in &folder.others {
                    if let Ok(name) = self.open_entry(&folder.node, stored, other) {
                        return Ok((Named::Plain(name), Some(other)));
                    }
                }
                if let Some(conflict) = self.conflict(folder, id, stored) {
                    return Ok((conflict, Some(id)));
                }
                let spelled = self.namespace.names.is_spelled(stored);
                Ok((if spelled { Named::Lost(what) } else { Named::Foreign(what) }, None))
            }
            Err(error) => Err(error),
        }
    }

    /// A name that begins with a stored name which opens, and goes on with
    /// something else. Programs differ in what they put there, and AES-SIV lets
    /// nothing pass for a stored name that is none.
    fn conflict(&self, folder: &Folder, id: DirectoryId, stored: &[u8]) -> Option<Named> {
        let is_mark = |byte: u8| !byte.is_ascii_alphanumeric();
        let ends = (1..stored.len()).filter(|&at| is_mark(stored[at]));
        for at in ends {
            let (name, mark) = stored.split_at(at);
            if self.namespace.names.is_spelled(name)
                && let Ok(of) = self.open_entry(&folder.node, name, id)
            {
                return Some(Named::Conflict { of, mark: printed(mark) });
            }
        }
        None
    }

    /// Opens a stored name under the id of a directory.
    pub(super) fn open_entry(&self, directory: &NodeRef, stored: &[u8], id: DirectoryId) -> Result<Vec<u8>> {
        let names = &self.namespace.names;
        match names.find(id, stored)? {
            Found::Name(name) => Ok(name),
            Found::Hidden => Err(Error::Damaged(Damage::Name("a stored name is the vault's own"))),
            Found::Long { side } => match sidefile::read(&**directory, &side) {
                Ok(sealed) => names.open_long(id, stored, &sealed),
                Err(error) if error.is_not_found() => {
                    Err(Error::Damaged(Damage::Name("a long name has lost its side file")))
                }
                Err(error) => Err(error),
            },
        }
    }
}
