//! What the namespace tells the freshness file, and asks it.
//!
//! All changes of a directory's entries stand between [`Namespace::change`]
//! and the end of what it gives, with the directory's gate held to write, so
//! that record and directory agree whenever the gate is free.

use strongroom_format::freshness::{Object, Special};
use strongroom_format::vault::DirectoryId;
use strongroom_format::vault::special::Special as format;
use strongroom_store::{NodeRef, RenameMode};

use super::Namespace;
use super::inode::{Inode, Place, lock, read};
use super::shape::Shape;
use super::special::Record;
use crate::error::{Error, Result, errno};
use crate::freshness::Change;

impl Namespace {
    /// Entries of a directory are about to change.
    ///
    /// # Errors
    /// When the freshness file cannot be told: nothing may be changed then.
    pub(super) fn change(&self, directory: DirectoryId) -> Result<Option<Change<'_>>> {
        self.contents.freshness().map(|freshness| freshness.change(directory)).transpose()
    }

    /// An entry leads to `object` now. One that cannot be told is recorded as
    /// unknown.
    pub(super) fn record(
        &self,
        directory: DirectoryId,
        name: &[u8],
        object: impl FnOnce() -> Result<Object>,
    ) {
        if let Some(freshness) = self.contents.freshness() {
            freshness.set_entry(directory, name, object().unwrap_or(Object::Unknown));
        }
    }

    /// An entry is gone.
    pub(super) fn unrecord(&self, directory: DirectoryId, name: &[u8]) {
        if let Some(freshness) = self.contents.freshness() {
            freshness.clear_entry(directory, name);
        }
    }

    /// An entry has been renamed or exchanged.
    pub(super) fn record_renamed(
        &self,
        from: (DirectoryId, &[u8]),
        to: (DirectoryId, &[u8]),
        mode: RenameMode,
    ) {
        if let Some(freshness) = self.contents.freshness() {
            match mode {
                RenameMode::Exchange => freshness.exchange_entries(from, to),
                _ => freshness.move_entry(from, to),
            }
        }
    }

    /// What an inode is to a freshness file.
    pub(super) fn object_of(&self, node: &NodeRef) -> Result<Object> {
        let inode = self.pin_unbound(NodeRef::clone(node))?;
        Ok(match &inode.shape {
            Shape::File => Object::File(self.using_unbound(&inode)?.id()),
            Shape::Directory => Object::Directory(self.directory_id(&inode)?),
            Shape::Special(record) => self.object_of_record(record),
            Shape::Broken(damage) => return Err(Error::Damaged(damage.clone())),
        })
    }

    /// What a special record is to a freshness file.
    pub(super) fn object_of_record(&self, record: &Record) -> Object {
        match record.special() {
            format::Symlink { .. } => Object::Symlink(self.names.mark(record)),
            format::Fifo => Object::Special(Special::Fifo),
            format::Socket => Object::Special(Special::Socket),
            format::BlockDevice(_) => Object::Special(Special::BlockDevice),
            format::CharacterDevice(_) => Object::Special(Special::CharacterDevice),
        }
    }

    /// What the special record `number` is to a freshness file.
    pub(crate) fn special_object(&self, number: u64) -> Result<Object> {
        match &self.table.inode(number)?.shape {
            Shape::Special(record) => Ok(self.object_of_record(record)),
            _ => Err(Error::Refused(errno::EINVAL)),
        }
    }

    /// The id of a directory.
    ///
    /// # Errors
    /// `ENOTDIR`, damage of its record, or what the store reports.
    pub(crate) fn directory_record(&self, number: u64) -> Result<DirectoryId> {
        self.directory_id(&*self.directory(number)?)
    }

    /// A name was not found in `parent`, whose gate the caller holds.
    ///
    /// # Errors
    /// Damage when it is recorded.
    pub(super) fn check_absent(&self, parent: &Inode, name: &[u8]) -> Result<()> {
        match self.contents.freshness() {
            Some(freshness) => freshness.check_absent(self.directory_id(parent)?, name),
            None => Ok(()),
        }
    }

    /// Compares what was found at `place` with the record, but for files with
    /// one name, which are compared when they are opened: of one with several,
    /// an opening does not say by which. The caller holds the gate of the
    /// directory that it is in. What is damaged is told to whoever opens or
    /// enters it.
    ///
    /// # Errors
    /// Damage when another one is recorded, or none.
    pub(super) fn check_entry(&self, inode: &Inode, place: &Place, has_several_names: bool) -> Result<()> {
        let Some(freshness) = self.contents.freshness() else { return Ok(()) };
        let found = match &inode.shape {
            Shape::Broken(_) => return Ok(()),
            Shape::File if !has_several_names => return Ok(()),
            Shape::File => match self.using_unbound(inode) {
                Ok(content) => Object::File(content.id()),
                Err(Error::Damaged(_)) => return Ok(()),
                Err(error) => return Err(error),
            },
            Shape::Special(record) => self.object_of_record(record),
            Shape::Directory => match self.directory_id(inode) {
                Ok(id) => Object::Directory(id),
                Err(Error::Damaged(_)) => return Ok(()),
                Err(error) => return Err(error),
            },
        };
        freshness.check_entry(place.directory, &place.name, found)
    }

    /// Compares what an inode was found to be with what is recorded under the
    /// name by which it was last found. The caller holds no gate. What differs
    /// may be being renamed: it is compared again when no rename can be under
    /// way.
    ///
    /// # Errors
    /// Damage when something else is recorded, or nothing.
    pub(super) fn check_recorded(&self, inode: &Inode, found: Object) -> Result<()> {
        let Some(freshness) = self.contents.freshness() else { return Ok(()) };
        let mut place = lock(&inode.place).clone();
        let check = |place: &Place| freshness.check_entry(place.directory, &place.name, found);
        if place.as_ref().is_none_or(|place| check(place).is_ok()) {
            return Ok(());
        }
        while let Some(known) = place {
            let parent = self.table.inode(known.parent).ok();
            let _gate = parent.as_ref().map(|parent| read(&parent.gate));
            place = lock(&inode.place).clone();
            if place.as_ref() == Some(&known) {
                return check(&known);
            }
        }
        Ok(())
    }
}
