//! Binding special records to their names: what a slot says is durable before
//! the entry moves, and before the inode gets a further name.

use strongroom_store::{Access, SetTime};

use super::Namespace;
use super::access::FILE_BITS;
use super::inode::{Inode, lock};
use super::shape::Shape;
use super::special::{Record, SlotWrite};
use crate::content::Home;
use crate::error::{Error, Result};
use crate::rules::Rule;

impl Namespace {
    /// The record, which stands under `from`, belongs under `to` too. The caller
    /// holds the gates of both, or alone knows the inode.
    ///
    /// # Errors
    /// What the store reports.
    pub(super) fn bind_special(&self, inode: &Inode, record: &Record, from: Home, to: Home) -> Result<()> {
        match self.names.rebound(record, from, to, false) {
            Some(slot) => self.write_slot(inode, record, &slot),
            None => Ok(()),
        }
    }

    /// The record is about to get a further name,
    /// and belongs under any from now on.
    ///
    /// # Errors
    /// What the store reports.
    pub(super) fn unbind_special(&self, inode: &Inode, record: &Record) -> Result<()> {
        let home = self.home(inode).unwrap_or_else(|| record.home());
        match self.names.rebound(record, home, home, true) {
            Some(slot) => self.write_slot(inode, record, &slot),
            None => Ok(()),
        }
    }

    /// The record has got no further name after all.
    ///
    /// # Errors
    /// What the store reports.
    pub(super) fn rebind_linked(&self, inode: &Inode, record: &Record) -> Result<()> {
        let home = self.home(inode).unwrap_or_else(|| record.home());
        match self.names.rebound_alone(record, home) {
            Some(slot) => self.write_slot(inode, record, &slot),
            None => Ok(()),
        }
    }

    /// Binds a special record to the name under which it stands and to which
    /// it does not belong: for what a repair has moved.
    ///
    /// # Errors
    /// Damage when it does not open, or what the store reports.
    pub(super) fn rebind_special(&self, inode: &Inode, home: Home) -> Result<()> {
        match self.special_shape(&inode.node, None)? {
            Shape::Special(record) => self.bind_special(inode, &record, record.home(), home),
            Shape::Broken(damage) => Err(Error::Damaged(damage)),
            Shape::File | Shape::Directory => Ok(()),
        }
    }

    fn write_slot(&self, inode: &Inode, record: &Record, slot: &SlotWrite) -> Result<()> {
        if slot.forgets {
            self.contents.await_special_move(inode.node.id())?;
        }
        let _metadata = lock(&inode.metadata);
        let file =
            self.granted_alone(&inode.node, FILE_BITS, || Ok(inode.node.open(Access::ReadWrite)?))?;
        let before = inode.node.attributes()?;
        slot.begin(record);
        file.write_at(&slot.sealed, slot.offset)?;
        // A rename is no modification.
        inode.node.set_times(SetTime::Omit, SetTime::To(before.modified))?;
        if self.contents.keeps(Rule::SlotBeforeName) {
            file.sync_data()?;
            self.contents.note_special_durable(inode.node.id());
        }
        slot.end(record);
        Ok(())
    }
}
