//! Further names for inodes, and first names for files that have none.

use strongroom_store::Kind;

use super::inode::{Inode, Using, lock, write};
use super::shape::Shape;
use super::{Entry, Namespace};
use crate::content::Home;
use crate::error::{Error, Result, errno};
use crate::reader_rules::ReaderRule;
use crate::rules::Rule;

/// What stores say that have not made a link for certain.
const REFUSALS: [i32; 7] = [
    errno::EPERM,
    errno::EACCES,
    errno::EXDEV,
    errno::EMLINK,
    errno::ENAMETOOLONG,
    errno::ENOSPC,
    errno::EOPNOTSUPP,
];

impl Namespace {
    /// Gives the inode `number` the name `name` in the directory `parent`. A
    /// file that had none is made durable first; one that had another is no
    /// longer bound to one.
    ///
    /// # Errors
    /// `EEXIST`, `EPERM` for directories, `EMLINK`, `EROFS`, damage of the
    /// file, or what the store reports.
    pub fn link(&self, number: u64, parent: u64, name: &[u8]) -> Result<Entry> {
        self.writable()?;
        let inode = self.table.inode(number)?;
        if inode.kind == Kind::Directory {
            return Err(Error::Refused(errno::EPERM));
        }
        let _belonging = self.check_linkable(&inode)?;
        let parent = self.directory(parent)?;
        let stored = self.stored_name(&parent, name)?;
        let place = self.place(&parent, name, &stored)?;
        let gate = write(&parent.gate);
        if gate.removed {
            return Err(Error::Refused(errno::ENOENT));
        }
        match parent.node.lookup(&stored.main) {
            Ok(_) => return Err(Error::Refused(errno::EEXIST)),
            Err(error) if error.is_not_found() => (),
            Err(error) => return Err(error.into()),
        }
        // So that of two first names given at a time one is the second.
        let _linking = lock(&inode.linking);
        if inode.is_unlinked() {
            return Err(Error::Refused(errno::ENOENT));
        }
        let _change = self.change(place.directory)?;
        let is_bound = !self.is_linked(&inode)?;
        // Last before the link itself: what was unbound stays so in the
        // store's past.
        let made = self.with_side(&parent, &stored, || {
            match &inode.shape {
                Shape::File => self.bind_link(&inode, self.names.home(place.directory, name))?,
                Shape::Special(record) => self.unbind_special(&inode, record)?,
                Shape::Directory => return Err(Error::Refused(errno::EPERM)),
                Shape::Broken(damage) => return Err(Error::Damaged(damage.clone())),
            }
            Ok(parent.node.link(&*inode.node, &stored.main)?)
        });
        if let Err(Error::Store(error)) = &made
            && is_bound
            && REFUSALS.contains(&error.errno())
            && inode.node.attributes().is_ok_and(|attributes| attributes.links == 1)
        {
            // What the caller is told is why there is no link.
            let _ = self.stays_bound(&inode);
        }
        made?;
        self.record(place.directory, name, || self.object_of(&inode.node));
        let entry = self.entered(inode.node.clone(), self.look(&*inode.node)?, place)?;
        if let Some(content) = inode.live(&self.contents) {
            self.hint_path(&inode, &content);
        }
        Ok(entry)
    }

    /// Whether the inode has had several names, and is bound to none.
    fn is_linked(&self, inode: &Inode) -> Result<bool> {
        match &inode.shape {
            Shape::File => Ok(self.using_unbound(inode)?.is_linked()),
            Shape::Special(record) => Ok(record.is_linked()),
            Shape::Directory | Shape::Broken(_) => Ok(false),
        }
    }

    /// The store has refused a second name: the first stays the only one.
    fn stays_bound(&self, inode: &Inode) -> Result<()> {
        match &inode.shape {
            Shape::File => self.using_unbound(inode)?.stays_bound(),
            Shape::Special(record) => self.rebind_linked(inode, record),
            Shape::Directory | Shape::Broken(_) => Ok(()),
        }
    }

    /// A further name makes a file belong under any: one that does not belong
    /// where it stands gets none. Keeps it open. No gate is held.
    fn check_linkable<'a>(&self, inode: &'a Inode) -> Result<Option<Using<'a>>> {
        let is_bound = matches!(inode.shape, Shape::File) && ReaderRule::HomeOfSource.is_kept();
        is_bound.then(|| self.using(inode)).transpose()
    }

    /// Prepares a file for a name more.
    fn bind_link(&self, inode: &Inode, home: Home) -> Result<()> {
        let content = self.using_unbound(inode)?;
        if inode.node.attributes()?.links == 0 {
            content.bind(home)?;
            if self.contents.keeps(Rule::UnnamedBeforeLink) { content.sync() } else { Ok(()) }
        } else {
            content.linked()?;
            content.vouch()
        }
    }
}
