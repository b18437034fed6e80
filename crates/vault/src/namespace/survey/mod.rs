//! The stored tree as it is, damage and all, for `check`, repair and
//! `salvage`: every stored entry, with its plain name where that can be had,
//! and with what can be read of it.
//!
//! The stored tree is walked, and not the plain one, so that what does not
//! open is seen too. Nothing is looked up by number, nothing is kept, and
//! nothing is changed. The vault is open for reading alone.
//!
//! What has no readable name has a *placeholder* in paths: `#` and the hex
//! digits of its file id or directory id, or of its inode number.

mod attributes;
mod evidence;
mod listing;
mod named;
mod special;

use std::sync::Arc;

use strongroom_format::vault::DirectoryId;
use strongroom_store::{Kind, NodeRef};

pub use self::attributes::SurveyedAttribute;
pub use self::listing::{Item, Listed, Listing};
pub use self::named::Named;
pub use self::special::{Sort, SpecialItem};
use super::Namespace;
use super::remove::is_discardable;
pub use super::shape::FOREIGN_KIND;
use crate::content::{Content, Home};
use crate::error::{Damage, Error, Result};

/// Directories that may stand within one another for a walk to follow them:
/// as many as a path of the system's greatest length (`PATH_MAX`) can name. One
/// is open for each of those above it.
pub const DEPTH_MAX: usize = 2048;

/// Bytes of a stored path up to which a walk follows it. One is kept for each
/// directory on the way down: 128 MiB in all at most.
const STORED_PATH_MAX: usize = 128 << 10;

/// What is said of a directory that is deeper.
pub(crate) const TOO_DEEP: &str = "too many directories stand within one another here: not followed";

/// What is said of a directory that stands under a name that is not its home.
pub const NOT_ITS_PLACE: &str = "a directory stands where it does not belong";

/// What is said of a directory with the records of two.
pub(crate) const TWO_IN_ONE: &str =
    "two directories of this name, made by two machines, have been put into one";

/// What is said of a directory with the id of one that it stands in.
pub(crate) const IN_ITSELF: &str = "a copy of a directory stands within that directory: not followed";

/// A look at the stored tree of a vault that is open for reading.
#[derive(Clone, Copy)]
pub struct Survey<'a> {
    namespace: &'a Namespace,
}

/// A stored directory.
#[derive(Clone)]
pub struct Folder {
    /// Its inode.
    pub node: NodeRef,
    /// What its names are sealed under; `None` when nothing tells it.
    pub id: Option<DirectoryId>,
    /// What binds it to its parent and plain name; `None` where one of these is
    /// not known, and of the top directory.
    pub home: Option<[u8; 16]>,
    /// What is wrong with its record, although the id may be known.
    pub fault: Option<&'static str>,
    /// Ids of directories that were put into this one, whose names open too.
    pub others: Vec<DirectoryId>,
    /// Names in its record that are none of the vault's: any number, shared by
    /// all copies of this.
    pub foreign: Arc<[Vec<u8>]>,
    /// Stored path from the vault's top, without a leading slash.
    pub stored: Vec<u8>,
    /// Plain path from the top, with placeholders for names that are lost.
    pub plain: Vec<u8>,
}

impl Folder {
    /// Why a walk does not follow this directory, if it does not. `above` has
    /// the ids of those that it stands in.
    pub fn stops_walk(
        &self,
        mut above: impl ExactSizeIterator<Item = Option<DirectoryId>>,
    ) -> Option<&'static str> {
        if above.len() >= DEPTH_MAX || self.stored.len() > STORED_PATH_MAX {
            return Some(TOO_DEEP);
        }
        (self.id.is_some() && above.any(|id| id == self.id)).then_some(IN_ITSELF)
    }
}

/// A stored file as far as it can be opened.
pub struct Opened {
    /// What it holds.
    pub content: Arc<Content>,
    /// Why it cannot be opened as any file is.
    pub fault: Option<Error>,
    is_live: bool,
}

impl Opened {
    /// Ends its use.
    pub fn close(self) {
        if self.is_live {
            self.content.released();
        }
    }
}

impl Namespace {
    /// Looks at the stored tree itself. The vault is open for reading.
    #[must_use]
    pub fn survey(&self) -> Survey<'_> {
        Survey { namespace: self }
    }
}

impl Survey<'_> {
    /// The top directory.
    #[must_use]
    pub fn top(&self) -> Folder {
        let id = self.namespace.names.root_directory();
        let node = self.namespace.store.root();
        let (stored, plain, others, foreign) = (Vec::new(), Vec::new(), Vec::new(), Arc::default());
        Folder { node, id: Some(id), home: None, fault: None, others, foreign, stored, plain }
    }

    /// The directory that an entry of `folder` is.
    ///
    /// # Errors
    /// What the store reports. A record that is lost or damaged is no error:
    /// the id is then looked for in the files of the directory.
    pub fn enter(&self, folder: &Folder, item: &Item) -> Result<Folder> {
        let stored = joined(&folder.stored, &item.stored);
        let names = &self.namespace.names;
        let home = match (item.name.bound(), item.directory) {
            (Some(name), Some(parent)) => Some(names.directory_home(parent, name)),
            _ => None,
        };
        let (mut others, mut foreign) = (Vec::new(), Arc::default());
        let (id, fault) = match names.record_of(&*item.node) {
            Ok(record) => {
                let is_home = home.is_none_or(|home| record.belongs(home));
                others.extend(record.others);
                foreign = record.foreign.into();
                let fault = match (is_home, others.is_empty()) {
                    (false, _) => Some(NOT_ITS_PLACE),
                    (true, false) => Some(TWO_IN_ONE),
                    (true, true) => None,
                };
                (Some(record.id), fault)
            }
            Err(Error::Damaged(Damage::Name(what))) => (self.find_id(&item.node)?, Some(what)),
            Err(error) => return Err(error),
        };
        let name = match (&item.name, id) {
            (Named::Plain(name), _) => name.clone(),
            (Named::Conflict { .. }, _) => item.name.shown().expect("its name is known"),
            (_, Some(id)) => format!("#{id}").into_bytes(),
            (_, None) => placeholder(&item.node),
        };
        let (node, plain) = (Arc::clone(&item.node), joined(&folder.plain, &name));
        Ok(Folder { node, id, home, fault, others, foreign, stored, plain })
    }

    /// The plain name of a stored entry of `folder`, if it was sealed in the
    /// directory `id`.
    #[must_use]
    pub fn name_in(&self, folder: &Folder, stored: &[u8], id: DirectoryId) -> Option<Vec<u8>> {
        self.open_entry(&folder.node, stored, id).ok()
    }

    /// Whether the next mount for writing removes an entry of
    /// `.strongroom/temporary`: not what the vault has not made.
    #[must_use]
    pub fn is_swept(&self, entry: &NodeRef) -> bool {
        entry.kind() != Kind::Directory || is_discardable(&**entry).unwrap_or(false)
    }

    /// What binds a file to a name in a directory.
    #[must_use]
    pub fn home(&self, directory: DirectoryId, name: &[u8]) -> Home {
        self.namespace.names.home(directory, name)
    }

    /// Opens a stored file under its name, or, when that fails for damage, as
    /// far as it goes.
    ///
    /// # Errors
    /// Damage when nothing can be read of it, or what the store reports.
    pub fn open(&self, item: &Item) -> Result<Opened> {
        if let Sort::Broken(damage) = &item.sort {
            return Err(Error::Damaged(damage.clone()));
        }
        let home = match (item.name.bound(), item.directory) {
            (Some(name), Some(id)) => Some(self.home(id, name)),
            _ => None,
        };
        let strict = self.namespace.contents.open(&item.node, home).and_then(|content| {
            // A content that was live already was opened under another name.
            match home {
                Some(home) if !content.belongs(home) => {
                    content.released();
                    Err(Error::Damaged(Damage::Home))
                }
                _ => Ok(content),
            }
        });
        match strict {
            Ok(content) => Ok(Opened { content, fault: None, is_live: true }),
            Err(fault @ Error::Damaged(Damage::Home)) => {
                let content = self.namespace.contents.open(&item.node, None)?;
                Ok(Opened { content, fault: Some(fault), is_live: true })
            }
            Err(fault @ Error::Damaged(_)) => match self.namespace.contents.open_damaged(&item.node) {
                Ok(content) => Ok(Opened { content, fault: Some(fault), is_live: false }),
                Err(Error::Damaged(_)) => Err(fault),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        }
    }
}

/// The placeholder of an inode that has no id.
#[must_use]
pub fn placeholder(node: &NodeRef) -> Vec<u8> {
    let kind = match node.kind() {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::BlockDevice | Kind::CharacterDevice => "special",
    };
    format!("#{kind}-{:x}", node.id().inode).into_bytes()
}

/// Joins a path and a name.
#[must_use]
pub fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}
