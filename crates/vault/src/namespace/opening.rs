//! Opening files by node number.

use std::sync::Arc;

use strongroom_format::freshness::Object;
use strongroom_store::{Kind, SetTime, has_no_name};

use super::access::FILE_BITS;
use super::inode::{Inode, Using, lock, read};
use super::shape::Shape;
use super::{Namespace, Opening};
use crate::content::Content;
use crate::error::{Damage, Error, Result, errno};

impl Namespace {
    /// Opens a regular file, and checks that it belongs under the name by
    /// which it was last found. [`Namespace::release`] gives the handle back.
    ///
    /// # Errors
    /// `EISDIR`, `ENXIO` for other inodes, `EROFS`, damage of the file, or
    /// what the store reports.
    pub fn open(&self, number: u64, opening: Opening) -> Result<Arc<Content>> {
        if opening.write || opening.truncate {
            self.writable()?;
        }
        let inode = self.table.inode(number)?;
        if let Shape::Broken(damage) = &inode.shape {
            return Err(Error::Damaged(damage.clone()));
        }
        match inode.kind {
            Kind::File => self.open_inode(&inode, opening),
            Kind::Directory => Err(Error::Refused(errno::EISDIR)),
            Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::BlockDevice | Kind::CharacterDevice => {
                Err(Error::Refused(errno::ENXIO))
            }
        }
    }

    /// Gives back a handle that [`Namespace::open`], [`Namespace::create`] or
    /// [`Namespace::create_unnamed`] gave for `number`.
    pub fn release(&self, number: u64) {
        if let Ok(inode) = self.table.inode(number) {
            inode.close();
        }
    }

    pub(super) fn open_inode(&self, inode: &Inode, opening: Opening) -> Result<Arc<Content>> {
        // Closes the handle again when what follows fails.
        let handle = self.using(inode)?;
        if opening.write || opening.truncate {
            handle.check_writable()?;
        }
        if opening.truncate {
            handle.set_len(0)?;
            handle.set_times(SetTime::Omit, SetTime::Now)?;
            if opening.kill_suid_sgid {
                self.strip(inode)?;
            }
        }
        Ok(handle.keep())
    }

    /// A handle of a file's content for the length of a scope.
    pub(super) fn using<'a>(&self, inode: &'a Inode) -> Result<Using<'a>> {
        Ok(Using::new(inode, self.open_content(inode)?))
    }

    /// As [`Namespace::using`], for callers who hold the inode's `metadata`.
    /// Not bound to a name: this is for the file's id alone.
    pub(super) fn using_alone<'a>(&self, inode: &'a Inode) -> Result<Using<'a>> {
        let open = || inode.open(&self.contents, None);
        Ok(Using::new(inode, self.granted_alone(&inode.node, FILE_BITS, open)?))
    }

    /// As [`Namespace::using`], whatever name the file stands under.
    pub(super) fn using_unbound<'a>(&self, inode: &'a Inode) -> Result<Using<'a>> {
        let open = || inode.open(&self.contents, None);
        let opened = self.granted(inode, FILE_BITS, open).map_err(|error| gone(inode, error))?;
        Ok(Using::new(inode, opened))
    }

    /// Opens the content by the name it stands under. No gate is held.
    fn open_content(&self, inode: &Inode) -> Result<Arc<Content>> {
        let content = match self.open_placed(inode) {
            Err(Error::Damaged(Damage::Home)) if self.has_left(inode) => {
                return Err(Error::Refused(errno::ESTALE));
            }
            Err(Error::Damaged(Damage::Home)) => self.open_settled(inode)?,
            other => other.map_err(|error| gone(inode, error))?,
        };
        if let Err(error) = self.check_recorded(inode, Object::File(content.id())) {
            inode.close();
            return Err(error);
        }
        self.hint_path(inode, &content);
        Ok(content)
    }

    fn open_placed(&self, inode: &Inode) -> Result<Arc<Content>> {
        let home = self.home(inode);
        self.granted(inode, FILE_BITS, || inode.open(&self.contents, home))
    }

    /// The file does not belong under its name, which is damage unless it is
    /// being renamed: asked again when no rename can be under way.
    fn open_settled(&self, inode: &Inode) -> Result<Arc<Content>> {
        loop {
            let place = lock(&inode.place).clone();
            let parent = place.as_ref().and_then(|place| self.table.inode(place.parent).ok());
            let _gate = parent.as_ref().map(|parent| read(&parent.gate));
            if *lock(&inode.place) == place {
                return self.open_placed(inode);
            }
        }
    }
}

/// What an error of opening a file means: one whose last name was removed may
/// never have been written out.
fn gone(inode: &Inode, error: Error) -> Error {
    match &error {
        Error::Damaged(_) if has_no_name(&inode.node.attributes()) => Error::Refused(errno::ESTALE),
        _ => error,
    }
}
