//! Finding out what a stored inode is, and making it known.

use strongroom_format::vault::special::is_special_len;
use strongroom_store::{Kind, NodeRef};

use super::access::FILE_BITS;
use super::inode::{Inode, Pin};
use super::shape::{FOREIGN_KIND, Shape};
use super::special::{NoRecord, Record, is_unwritten, read_whole};
use super::{Namespace, sidefile};
use crate::content::Home;
use crate::error::{Damage, Error, Result};

impl Namespace {
    /// The inode of a stored one, whose stored length is `len`, with one more
    /// lookup. With `home`, a special record is shown as broken that does not
    /// belong there.
    ///
    /// # Errors
    /// Damage for a stored inode that is nobody's, or what the store reports.
    pub(super) fn pin(&self, node: NodeRef, len: u64, home: Option<Home>) -> Result<Pin<'_>> {
        if let Some(pin) = self.table.pin_known(node.id())
            && self.is_current(&pin, len, home)
        {
            return Ok(pin);
        }
        let shape = self.shape_of(&node, len, home)?;
        Ok(self.table.pin(node, shape))
    }

    /// As [`Namespace::pin`], whatever name the inode stands under.
    pub(super) fn pin_unbound(&self, node: NodeRef) -> Result<Pin<'_>> {
        let len = node.attributes()?.len;
        self.pin(node, len, None)
    }

    /// Whether an inode that is known still is what it was found to be.
    fn is_current(&self, inode: &Inode, len: u64, home: Option<Home>) -> bool {
        match &inode.shape {
            Shape::Directory => true,
            Shape::File => !is_special_len(len) || inode.live(&self.contents).is_some(),
            Shape::Broken(_) => false,
            Shape::Special(record) => is_special_len(len) && home.is_none_or(|home| record.belongs(home)),
        }
    }

    fn shape_of(&self, node: &NodeRef, len: u64, home: Option<Home>) -> Result<Shape> {
        match node.kind() {
            Kind::Directory => Ok(Shape::Directory),
            Kind::File if !is_special_len(len) => Ok(Shape::File),
            Kind::File => self.special_shape(node, home),
            Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::BlockDevice | Kind::CharacterDevice => {
                Err(Error::Damaged(Damage::Name(FOREIGN_KIND)))
            }
        }
    }

    /// What a stored file is that is as long as a special record.
    pub(super) fn special_shape(&self, node: &NodeRef, home: Option<Home>) -> Result<Shape> {
        let Some(stored) = self.granted_alone(node, FILE_BITS, || read_whole(node))? else {
            return Ok(Shape::File);
        };
        if stored.is_empty() {
            return Ok(Shape::File);
        }
        match self.names.open_special(&stored) {
            Ok(record) if home.is_some_and(|home| !record.belongs(home)) => Ok(Shape::Broken(Damage::Home)),
            Ok(record) => {
                let shape = self.completed(node, record)?;
                if matches!(shape, Shape::Special(_)) {
                    self.contents.trust(node.id());
                }
                Ok(shape)
            }
            Err(NoRecord { damage, birth }) => {
                let explained = birth.is_some() || is_unwritten(&stored);
                let unfinished = explained && self.contents.may_be_unfinished(node.id(), birth);
                if unfinished {
                    self.contents.note_unfinished(node.id());
                    return Ok(Shape::Broken(Damage::Unfinished));
                }
                Ok(Shape::Broken(damage))
            }
        }
    }

    /// After a crash a record may be there whose target, in a file of its own,
    /// is not.
    fn completed(&self, node: &NodeRef, record: Record) -> Result<Shape> {
        let may_lack =
            record.side().is_some() && self.contents.may_be_unfinished(node.id(), Some(record.birth()));
        if !may_lack {
            return Ok(Shape::Special(record));
        }
        match self.side_target(&record) {
            Err(Error::Damaged(_)) => {
                self.contents.note_unfinished(node.id());
                Ok(Shape::Broken(Damage::Unfinished))
            }
            Err(error) => Err(error),
            Ok(_) => Ok(Shape::Special(record)),
        }
    }

    /// The target of a symlink that stands in a file of its own.
    pub(super) fn side_target(&self, record: &Record) -> Result<Box<[u8]>> {
        let side = record.side().ok_or(Error::Damaged(Damage::Name("a symlink has no target")))?;
        let sealed = match sidefile::read(&**self.links()?, &side) {
            Err(error) if error.is_not_found() => {
                return Err(Error::Damaged(Damage::Name("a long symlink has lost its target")));
            }
            sealed => sealed?,
        };
        self.names.open_side_body(record, &sealed)
    }
}
