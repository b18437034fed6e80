//! Symlink targets, and the making of special records.
//!
//! A target is sealed into its record or, where that would be as long as a
//! page, into a file of its own under `.strongroom/links`. It never changes.

use strongroom_store::{FileRef, NodeRef};

use super::inode::Inode;
use super::shape::Shape;
use super::special::{NewRecord, NewSpecial, Record};
use super::{Namespace, Place, sidefile};
use crate::error::{Error, Result, errno};
use crate::rules::Rule;
use strongroom_format::vault::special::TARGET_MAX;

impl Namespace {
    /// The target of a symlink.
    ///
    /// # Errors
    /// `EINVAL` when it is none, damage, or what the store reports.
    pub fn read_link(&self, number: u64) -> Result<Vec<u8>> {
        let inode = self.table.inode(number)?;
        let record = match &inode.shape {
            Shape::Special(record) if record.target_len() > 0 => record,
            Shape::Broken(damage) => return Err(Error::Damaged(damage.clone())),
            Shape::Special(_) | Shape::File | Shape::Directory => return Err(Error::Refused(errno::EINVAL)),
        };
        self.check_recorded(&inode, self.object_of_record(record))?;
        Ok(self.target(&inode, record)?.to_vec())
    }

    fn target<'a>(&self, inode: &'a Inode, record: &'a Record) -> Result<&'a [u8]> {
        if let Some(target) = record.inline_target().or_else(|| inode.target.get().map(|target| &**target)) {
            return Ok(target);
        }
        let target = self.side_target(record)?;
        Ok(inode.target.get_or_init(|| target))
    }

    /// Refuses what no symlink may lead to.
    pub(super) fn check_target(target: &[u8]) -> Result<()> {
        if target.is_empty() {
            return Err(Error::Refused(errno::ENOENT));
        }
        if target.len() > TARGET_MAX {
            return Err(Error::Refused(errno::ENAMETOOLONG));
        }
        if target.contains(&0) {
            return Err(Error::Refused(errno::EINVAL));
        }
        Ok(())
    }

    /// Makes the special record at `place` of `parent`.
    pub(super) fn store_special(
        &self,
        parent: &Inode,
        place: &Place,
        new: &NewSpecial<'_>,
        mode: u32,
    ) -> Result<(NodeRef, Record)> {
        let home = self.names.home(place.directory, &place.name);
        let NewRecord { record, bytes, side } = self.names.new_special(new, home, self.contents.birth())?;
        if let Some((name, sealed)) = &side {
            sidefile::write(&**self.links()?, name, sealed, self.contents.keeps(Rule::SideBeforeEntry))?;
        }
        let node = self.write_record(parent, &place.stored, &bytes, mode).inspect_err(|_| {
            self.remove_long_target(&record);
        })?;
        self.contents.note_special(node.id(), place.directory);
        Ok((node, record))
    }

    fn write_record(&self, parent: &Inode, stored: &[u8], bytes: &[u8], mode: u32) -> Result<NodeRef> {
        let (node, file): (NodeRef, FileRef) = parent.node.create(stored, mode)?;
        if let Err(error) = file.write_at(bytes, 0) {
            // What stays is a file that is not whole; the caller is told.
            let _ = parent.node.remove(stored);
            return Err(error.into());
        }
        Ok(node)
    }

    /// The record of an entry that is going to lose a name, if it has a target
    /// in a file of its own.
    pub(super) fn long_target(&self, node: &NodeRef) -> Option<Vec<u8>> {
        let inode = self.pin_unbound(NodeRef::clone(node)).ok()?;
        match &inode.shape {
            Shape::Special(record) => record.side(),
            Shape::File | Shape::Directory | Shape::Broken(_) => None,
        }
    }

    /// Removes a target that no symlink names any more; one that stays is
    /// dead weight and no more.
    pub(super) fn remove_long_target(&self, record: &Record) {
        if let Some(side) = record.side() {
            self.remove_side_target(&side);
        }
    }

    /// The same by the name of the file that holds it.
    pub(super) fn remove_side_target(&self, side: &[u8]) {
        if let Ok(links) = self.links() {
            let _ = links.remove(side);
        }
    }
}
