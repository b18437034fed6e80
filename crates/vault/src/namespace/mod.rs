//! The namespace of a vault: names, directories, attributes, special records,
//! extended attributes and access control lists, by node number, with the
//! semantics of the low-level FUSE interface (lookup counts and `forget`).
//!
//! Not done here: permission checks (the kernel makes them from the attributes
//! given), file contents ([`crate::content`]), and speaking to the kernel.
//!
//! # Locks
//! In this order; one may be skipped, none may be taken after a later one:
//!
//! 0. claims of inodes that are being renamed, each taken with all others that
//!    the rename needs.
//! 1. `tree`, one for the vault: taken by whatever holds more than one gate
//!    (renames between directories or of directories, removal of directories).
//! 2. gates, one per directory: read by lookups, written by changes of the
//!    directory's entries. Without `tree` at most one is held. A removed
//!    directory's gate says so, and lets no entry be made.
//! 3. `linking`, one per inode: while it gets a further name.
//! 4. `metadata`, one per inode: while mode, owner or lists change.
//! 5. an inode's handle count, under which its content is opened and released.
//! 6. leaves: an inode's place, its decoded names, the table of inodes.
//!
//! An inode is used after its number was looked up only through an `Arc`, so
//! that a `forget` at the same time does no harm.

mod access;
pub mod acl;
mod adopt;
mod attributes;
mod belonging;
mod claims;
mod create;
mod crowd;
mod decoded;
pub mod directory;
mod finish;
mod forgetting;
mod inode;
mod link;
mod locks;
mod names;
mod opening;
mod pinning;
mod rebind;
mod record;
mod recorded;
mod remove;
mod rename;
pub mod repair;
mod shape;
mod sidefile;
mod special;
pub mod survey;
mod symlink;
mod xattr;

use crate::sync::Mutex;
use crate::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use strongroom_format::vault::DirectoryId;
use strongroom_keys::VaultKeys;
use strongroom_store::{Attributes, Kind, NodeRef, SetTime, Space, Store};

use self::access::DIRECTORY_BITS;
use self::attributes::Seen;
use self::claims::Claims;
pub use self::forgetting::Candidate;
pub use self::inode::{GENERATION, ROOT};
use self::inode::{Inode, Pin, Place, Table, lock, read};
pub(crate) use self::names::RECORD;
use self::names::{Names, StoredName};
use crate::content::{Content, Contents, Home};
use crate::error::{Damage, Error, Result, errno};
use crate::header_file::{self, own_directory};

/// Longest plain name in bytes.
pub const NAME_MAX: usize = 255;

/// The directory of the vault that holds what is the vault's own.
const PRIVATE: &[u8] = b".strongroom";
/// In it: directories on their way into or out of the tree.
const TEMPORARY: &[u8] = b"temporary";
/// In it: symlink targets too long for the store.
const LINKS: &[u8] = b"links";

/// How a namespace behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Refuse every change with `EROFS`.
    pub read_only: bool,
    /// Stored names are base32, since the store folds case.
    pub folding: bool,
    /// Keep POSIX access control lists, and apply default lists.
    pub acl: bool,
    /// Give what is created to whoever created it: the process may change
    /// owners (it runs as root).
    pub owners: bool,
}

/// Who creates an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// How an inode is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Permission bits (07777), not masked.
    pub mode: u32,
    /// Bits that are cleared unless the directory has a default list.
    pub umask: u32,
    /// Who creates it.
    pub owner: Owner,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// For writing too.
    pub write: bool,
    /// Cut to nothing (`O_TRUNC`).
    pub truncate: bool,
    /// Where it is created, it must not exist (`O_EXCL`).
    pub exclusive: bool,
    /// Truncation takes set-user-id and set-group-id away.
    pub kill_suid_sgid: bool,
}

/// What `setattr` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Permission bits (07777).
    pub mode: Option<u32>,
    /// User.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Plain length in bytes, of regular files.
    pub len: Option<u64>,
    /// Time of the last access.
    pub accessed: SetTime,
    /// Time of the last modification.
    pub modified: SetTime,
    /// Take set-user-id and set-group-id away.
    pub kill_suid_sgid: bool,
}

impl Changes {
    /// No change.
    pub const NONE: Changes = Changes {
        mode: None,
        uid: None,
        gid: None,
        len: None,
        accessed: SetTime::Omit,
        modified: SetTime::Omit,
        kill_suid_sgid: false,
    };
}

/// An inode as a lookup finds it. It counts one lookup, which
/// [`Namespace::forget`] takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Node number.
    pub number: u64,
    /// Tells apart inodes that had one number at different times.
    pub generation: u64,
    /// Attributes, with the plain length.
    pub attributes: Attributes,
}

/// Is told of damage that is not the answer to any request.
pub trait Observer: Send + Sync {
    /// Something in or at the node `number` is damaged; the operation went on.
    fn damaged(&self, number: u64, error: &Error);
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn damaged(&self, _number: u64, _error: &Error) {}
}

/// The namespace of one mounted vault.
pub struct Namespace {
    store: Arc<dyn Store>,
    contents: Arc<Contents>,
    names: Names,
    options: Options,
    observer: Arc<dyn Observer>,
    table: Table,
    /// How often a directory has been moved.
    tree: Mutex<u64>,
    renaming: Claims,
    temporary: OnceLock<NodeRef>,
    links: OnceLock<NodeRef>,
    /// Names held decoded in all directories together.
    decoded: Arc<AtomicUsize>,
}

impl Drop for Namespace {
    /// Nobody can open a file any more. What is live holds the context, which
    /// holds what is live, and with it the keys.
    fn drop(&mut self) {
        self.contents.end();
    }
}

impl Namespace {
    /// The namespace of the vault in `store`, whose contents are `contents`.
    pub fn new(
        store: Arc<dyn Store>,
        contents: Arc<Contents>,
        keys: &VaultKeys,
        options: Options,
        observer: Arc<dyn Observer>,
    ) -> Namespace {
        let names = Names::new(keys, options.folding);
        let table = Table::new(store.root());
        Namespace {
            store,
            contents,
            names,
            options,
            observer,
            table,
            tree: Mutex::default(),
            renaming: Claims::default(),
            temporary: OnceLock::new(),
            links: OnceLock::new(),
            decoded: Arc::default(),
        }
    }

    /// How often a directory has been moved; none is being moved meanwhile.
    /// Who walks the tree has seen it all when this is what it was before.
    pub(crate) fn directory_moves(&self) -> u64 {
        *lock(&self.tree)
    }

    /// Finds `name` in the directory `parent`, and counts a lookup of it.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`, damage of the directory's record,
    /// or what the store reports.
    pub fn lookup(&self, parent: u64, name: &[u8]) -> Result<Entry> {
        self.make_way();
        let parent = self.directory(parent)?;
        let stored = self.stored_name(&parent, name)?;
        let entry = {
            let _gate = read(&parent.gate);
            let found = self.granted(&parent, DIRECTORY_BITS, || self.find(&parent, &stored.main));
            let (node, seen) = match found {
                Err(error) if error.is_not_found() => {
                    self.check_absent(&parent, name)?;
                    return Err(error);
                }
                found => found?,
            };
            self.entered(node, seen, self.place(&parent, name, &stored)?)?
        };
        self.finished(&parent, &stored.main, entry)
    }

    /// Takes back `count` lookups of `number`.
    pub fn forget(&self, number: u64, count: u64) {
        if let Some(inode) = self.table.forget(number, count) {
            self.contents.forget(inode);
        }
    }

    /// How many inodes are known.
    #[must_use]
    pub fn known(&self) -> usize {
        self.table.len()
    }

    /// Space of the store.
    ///
    /// # Errors
    /// What the store reports.
    pub fn space(&self) -> Result<Space> {
        Ok(self.store.space()?)
    }

    /// The plain path of a node from the mount, for messages: as it was last
    /// found, without a leading slash; `None` when it has no known name.
    #[must_use]
    pub fn path(&self, number: u64) -> Option<Vec<u8>> {
        self.path_by(number, |place| place.name)
    }

    fn path_by(&self, number: u64, name: impl Fn(Place) -> Arc<[u8]>) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        let mut number = number;
        while number != ROOT {
            // Stale names might form a ring; no path is this deep.
            if names.len() > 4096 {
                return None;
            }
            let inode = self.table.inode(number).ok()?;
            let place = lock(&inode.place).clone()?;
            number = place.parent;
            names.push(name(place));
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// Removes what an earlier mount left in `.strongroom/temporary`:
    /// directories that never came into the tree, or that had left it. What
    /// the vault has not made, and what cannot be removed, is left there.
    ///
    /// Only the process that holds the vault for writing may do this, and
    /// before it creates anything.
    ///
    /// # Errors
    /// Damage when there is no such directory, or what the store reports of it.
    pub fn sweep(&self) -> Result<()> {
        self.writable()?;
        let temporary = self.temporary()?;
        for entry in temporary.entries()? {
            // It is in nobody's way: `check` names what is left.
            let _ = self.sweep_entry(temporary, &entry.name);
        }
        Ok(())
    }

    fn sweep_entry(&self, temporary: &NodeRef, name: &[u8]) -> Result<()> {
        let node = temporary.lookup(name)?;
        if node.kind() != Kind::Directory {
            return Ok(temporary.remove(name)?);
        }
        self.granted_alone(&node, DIRECTORY_BITS, || {
            if remove::is_discardable(&*node)? { remove::discard(&node, temporary, name) } else { Ok(()) }
        })
    }

    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// What the store reports.
    pub fn sync_directory(&self, number: u64) -> Result<()> {
        let inode = self.directory(number)?;
        // A crash takes away what was never durable, and its name with it.
        if !self.options.read_only {
            self.contents.finish_files_of(self.directory_id(&inode)?)?;
        }
        Ok(inode.node.sync()?)
    }

    /// Refuses changes of a read-only namespace, and of one that another
    /// machine has taken over.
    fn writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::Refused(errno::EROFS));
        }
        self.contents.context.fenced.check_lately()
    }

    /// The inode of a number that must be a directory.
    fn directory(&self, number: u64) -> Result<Arc<Inode>> {
        let inode = self.table.inode(number)?;
        if inode.kind == Kind::Directory { Ok(inode) } else { Err(Error::Refused(errno::ENOTDIR)) }
    }

    /// Counts a lookup of `node`, found at `place` and seen there. On an error
    /// none is counted.
    fn entered(&self, node: NodeRef, seen: Seen, place: Place) -> Result<Entry> {
        let home = self.names.home(place.directory, &place.name);
        let pin = self.pin(node, seen.stored_len(), Some(home))?;
        self.settle(pin, seen, place)
    }

    /// As [`Namespace::entered`], of an inode that is known.
    fn settle(&self, pin: Pin<'_>, seen: Seen, place: Place) -> Result<Entry> {
        self.check_belongs(&pin, &place)?;
        self.check_entry(&pin, &place, seen.has_several_names())?;
        pin.placed(place);
        let attributes = self.plain(&pin, seen)?;
        Ok(Entry { number: pin.keep(), generation: GENERATION, attributes })
    }

    fn place(&self, parent: &Inode, name: &[u8], stored: &StoredName) -> Result<Place> {
        let directory = self.directory_id(parent)?;
        let stored = stored.main.as_slice().into();
        Ok(Place { parent: parent.number, directory, name: name.into(), stored })
    }

    /// Tells a content where its file stands, so that a recovery need not
    /// search for it.
    fn hint_path(&self, inode: &Inode, content: &Content) {
        if let Some(path) = self.path_by(inode.number, |place| place.stored) {
            content.set_path_hint(path);
        }
    }

    fn directory_id(&self, directory: &Inode) -> Result<DirectoryId> {
        match self.granted(directory, DIRECTORY_BITS, || self.directory_id_alone(directory)) {
            Err(Error::Damaged(_)) if self.has_left(directory) => Err(Error::Refused(errno::ESTALE)),
            other => other,
        }
    }

    /// Whether a writer beside us has renamed or removed an inode since it was
    /// last found: what is missing there then is no damage.
    fn has_left(&self, inode: &Inode) -> bool {
        let place = lock(&inode.place).clone();
        let Some(place) = place.filter(|_| self.contents.follows()) else { return false };
        let parent = self.table.inode(place.parent);
        let now = parent.and_then(|parent| Ok(parent.node.lookup(&place.stored)?));
        !now.is_ok_and(|now| now.id() == inode.node.id())
    }

    /// The home that the place of an inode stands for.
    fn home(&self, inode: &Inode) -> Option<Home> {
        lock(&inode.place).as_ref().map(|place| self.names.home(place.directory, &place.name))
    }

    /// Checks a plain name and seals it for the directory `parent`.
    fn stored_name(&self, parent: &Inode, name: &[u8]) -> Result<StoredName> {
        if name.len() > NAME_MAX {
            return Err(Error::Refused(errno::ENAMETOOLONG));
        }
        let reserved = name.is_empty() || name == b"." || name == b"..";
        if reserved || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
            return Err(Error::Refused(errno::EINVAL));
        }
        Ok(self.names.seal(self.directory_id(parent)?, name))
    }

    fn temporary(&self) -> Result<&NodeRef> {
        self.private(&self.temporary, TEMPORARY)
    }

    fn links(&self) -> Result<&NodeRef> {
        self.private(&self.links, LINKS)
    }

    /// A directory of the vault's own, made where it is missing.
    ///
    /// # Errors
    /// Damage when something else is there, or nothing may be made.
    fn private<'a>(&self, cell: &'a OnceLock<NodeRef>, name: &[u8]) -> Result<&'a NodeRef> {
        if let Some(node) = cell.get() {
            return Ok(node);
        }
        let top = header_file::private(&*self.store)?;
        let node = match top.lookup(name) {
            Err(error) if error.is_not_found() && self.options.read_only => {
                return Err(Error::Damaged(Damage::Name("a directory of the vault's own is missing")));
            }
            Err(error) if error.is_not_found() => match top.make_directory(name, 0o700) {
                Err(error) if error.is_exists() => top.lookup(name)?,
                made => made?,
            },
            found => found?,
        };
        let node = own_directory(node, name)?;
        Ok(cell.get_or_init(|| node))
    }
}
