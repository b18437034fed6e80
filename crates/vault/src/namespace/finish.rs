//! What a crash has left unfinished, or a barrier of the store that failed: files
//! that were never durable are taken out of the tree when somebody comes by, and by
//! the sweep after a crash. Everything else is as it was.

use strongroom_format::vault::special::is_special_len;
use strongroom_store::{Kind, NodeRef};

use super::inode::{Inode, lock, write};
use super::shape::Shape;
use super::{Entry, Namespace, Opening};
use crate::content::Home;
use crate::error::{Damage, Error, Result, errno};

impl Namespace {
    /// An entry that was found in `parent` as `stored`, with its file finished
    /// before anybody hears of its length. The caller holds no gate.
    ///
    /// # Errors
    /// `ENOENT` when the file was never durable, and has been lost.
    pub(super) fn finished(&self, parent: &Inode, stored: &[u8], mut entry: Entry) -> Result<Entry> {
        let is_file = entry.attributes.kind == Kind::File;
        let may_be_lost = || {
            let known = self.table.inode(entry.number);
            known.is_ok_and(|inode| self.contents.is_doubted(inode.node.id()))
        };
        if !is_file || self.contents.follows() || !(self.contents.is_recovering() || may_be_lost()) {
            return Ok(entry);
        }
        match self.open(entry.number, Opening::default()) {
            Ok(_) => {
                let attributes = self.attributes(entry.number);
                self.release(entry.number);
                entry.attributes = attributes.unwrap_or(entry.attributes);
                Ok(entry)
            }
            Err(error) if error.is_unfinished() => {
                let taken = self.take_unfinished(parent, stored, entry.number);
                self.forget(entry.number, 1);
                taken?;
                Err(Error::Refused(errno::ENOENT))
            }
            // Whoever opens it is told.
            Err(_) => Ok(entry),
        }
    }

    fn take_unfinished(&self, parent: &Inode, stored: &[u8], number: u64) -> Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        let inode = self.table.inode(number)?;
        let _gate = write(&parent.gate);
        // Asked again now that nobody can be renaming or replacing it.
        let node = match parent.node.lookup(stored) {
            Err(error) if error.is_not_found() => return Ok(()),
            found => found?,
        };
        let place = lock(&inode.place).clone();
        let Some(place) = place.filter(|place| place.parent == parent.number && *place.stored == *stored)
        else {
            return Ok(());
        };
        let home = Some(self.names.home(place.directory, &place.name));
        if !self.is_unfinished(&node, home)? {
            return Ok(());
        }
        // What is recorded was durable: no crash takes it.
        if let Some(freshness) = self.contents.freshness() {
            freshness.check_unfinished(place.directory, &place.name)?;
        }
        let _change = self.change(place.directory)?;
        self.contents.put_aside(&*parent.node, stored, &node)?;
        self.unrecord(place.directory, &place.name);
        if self.contents.is_doubted(node.id()) {
            self.contents.note_lost_file(node.id());
        }
        inode.displaced(parent.number, &place.name);
        Ok(())
    }

    /// Whether a stored file, which stands under `home`, was never durable and is lost.
    fn is_unfinished(&self, node: &NodeRef, home: Option<Home>) -> Result<bool> {
        if is_special_len(node.attributes()?.len)
            && let Shape::Broken(damage) = self.special_shape(node, home)?
        {
            return Ok(damage == Damage::Unfinished);
        }
        match self.contents.open(node, home) {
            Ok(content) => {
                content.released();
                Ok(false)
            }
            Err(error) if error.is_unfinished() => Ok(true),
            Err(error) => Err(error),
        }
    }
}
