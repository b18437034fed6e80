//! What an entry of the stored tree is, special records opened.

use std::sync::Arc;

use strongroom_format::vault::special::is_special_len;
use strongroom_format::vault::{DirectoryId, FileId};
use strongroom_store::{Attributes, Kind, NodeRef};

use super::{Named, Survey};
use crate::error::{Damage, Error, Result};
use crate::namespace::shape::Shape;
use crate::namespace::special::Record;

/// What an entry is.
#[derive(Clone)]
pub enum Sort {
    /// A file with contents, as far as its length tells.
    File,
    /// A directory.
    Directory,
    /// A symlink, FIFO, socket or device node.
    Special(SpecialItem),
    /// A stored file too short for one with contents, and no special record
    /// that opens.
    Broken(Damage),
    /// A stored inode that is neither a regular file nor a directory: nobody's,
    /// and never opened.
    Foreign,
}

/// A special record.
#[derive(Clone)]
pub struct SpecialItem {
    record: Arc<Record>,
    /// It does not belong under its name.
    pub is_misplaced: bool,
}

impl SpecialItem {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> FileId {
        self.record.id()
    }

    /// A symlink, FIFO, socket or device node.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.record.kind()
    }

    /// The MAC of the home that was written last.
    #[must_use]
    pub fn home(&self) -> [u8; 16] {
        self.record.home().mac
    }

    /// The directory of that home.
    #[must_use]
    pub fn directory(&self) -> DirectoryId {
        self.record.home().directory
    }

    /// Whether it has had several names, and is bound to none.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        self.record.is_linked()
    }

    /// The file in `.strongroom/links` that holds its target, if one does.
    #[must_use]
    pub fn long_target(&self) -> Option<Vec<u8>> {
        self.record.side()
    }

    /// The stored inode's attributes, with what the record says.
    #[must_use]
    pub fn plain(&self, stored: &Attributes) -> Attributes {
        Attributes {
            kind: self.kind(),
            device: self.record.device(),
            len: self.record.target_len(),
            ..*stored
        }
    }
}

impl Survey<'_> {
    /// What a stored inode is that stands under `name` in a directory.
    ///
    /// # Errors
    /// What the store reports.
    pub fn sort(&self, directory: Option<DirectoryId>, name: &Named, node: &NodeRef) -> Result<Sort> {
        match node.kind() {
            Kind::Directory => Ok(Sort::Directory),
            Kind::File if is_special_len(node.attributes()?.len) => {
                Ok(match self.namespace.special_shape(node, None)? {
                    Shape::Special(record) => {
                        let home = match (name.bound(), directory) {
                            (Some(name), Some(id)) => Some(self.home(id, name)),
                            _ => None,
                        };
                        let is_misplaced = home.is_some_and(|home| !record.belongs(home));
                        Sort::Special(SpecialItem { record: Arc::new(record), is_misplaced })
                    }
                    Shape::Broken(damage) => Sort::Broken(damage),
                    Shape::File | Shape::Directory => Sort::File,
                })
            }
            Kind::File => Ok(Sort::File),
            Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::BlockDevice | Kind::CharacterDevice => {
                Ok(Sort::Foreign)
            }
        }
    }

    /// The plain target of a symlink.
    ///
    /// # Errors
    /// Damage, also when the file is gone that holds a long target, or
    /// `EINVAL` for other inodes; or what the store reports.
    pub fn target(&self, special: &SpecialItem) -> Result<Vec<u8>> {
        match special.record.inline_target() {
            Some(target) => Ok(target.to_vec()),
            None if special.kind() == Kind::Symlink => {
                Ok(self.namespace.side_target(&special.record)?.into_vec())
            }
            None => Err(Error::Refused(crate::error::errno::EINVAL)),
        }
    }
}
