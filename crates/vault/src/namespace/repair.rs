//! Putting entries back in order in a vault that nobody has mounted: what
//! `docs/repair.md` says, step by step.
//!
//! Every step is one rename of something complete, with a barrier behind it,
//! so that a repair may be cut anywhere and done again. No session is listed
//! meanwhile, and so no file's contents are touched; files that have been
//! moved are bound to their new names afterwards, through the journal, by
//! [`Namespace::rebind`]. Until then they are damage like before, under a name
//! that a next repair knows.

use std::sync::Arc;

use strongroom_format::vault::{DirectoryId, names::is_long_name};
use strongroom_keys::VaultKeys;
use strongroom_store::{Kind, NodeRef, RenameMode, Store};

use super::inode::lock;
use super::names::{Names, RECORD, StoredName};
use super::shape::Shape;
use super::{Namespace, PRIVATE, TEMPORARY, sidefile};
use crate::error::{Error, Result, errno};
use crate::header_file::{own_directory, private};

/// The directory at the top of the tree that gets what has no place.
pub const LOST_FOUND: &str = "lost+found";

/// What names in `.strongroom/aside` begin with of what was not the vault's.
pub const FOREIGN: &str = "foreign.";

/// In the vault's own directory: what was taken out of the tree and kept.
const ASIDE: &[u8] = b"aside";
/// Room in a name for a dot and a number.
const NUMBER_ROOM: usize = 21;

/// Carries out a repair on the stored tree itself.
pub struct Repairer {
    store: Arc<dyn Store>,
    names: Names,
}

/// The directory for what has no place.
#[derive(Clone)]
pub struct LostFound {
    /// Its inode.
    pub node: NodeRef,
    /// Its id.
    pub id: DirectoryId,
    /// Its plain name at the top of the tree.
    pub name: Vec<u8>,
}

impl Repairer {
    /// For the vault in `store`, which nobody has mounted.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, keys: &VaultKeys, folding: bool) -> Repairer {
        Repairer { store, names: Names::new(keys, folding) }
    }

    /// Gives a directory a record with this id and home, in place of what it
    /// says else.
    ///
    /// # Errors
    /// What the store reports.
    pub fn restore_record(&self, directory: &NodeRef, id: DirectoryId, home: [u8; 16]) -> Result<()> {
        match directory.lookup(RECORD) {
            Ok(record) if record.kind() == Kind::Directory => {
                let record = self.names.add_home(&**directory, id, home, true)?;
                return self.forget_others(&record, &self.names.record_name(id, home));
            }
            Ok(_) => drop(self.set_foreign_aside(directory, RECORD)?),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let temporary = self.temporary()?;
        let passing = self.names.random_name()?;
        let made = temporary.make_directory(&passing, 0o700)?;
        made.create(&self.names.record_name(id, home), 0o600)?;
        made.sync()?;
        directory_rename(&temporary, &passing, directory, RECORD, RenameMode::Replace)
    }

    /// Removes what a record says else, and moves aside what it never said.
    fn forget_others(&self, record: &NodeRef, kept: &[u8]) -> Result<()> {
        for entry in record.entries()?.iter().filter(|entry| entry.name != kept) {
            if self.names.is_record_name(&entry.name) {
                record.remove(&entry.name)?;
            } else {
                self.set_foreign_aside(record, &entry.name)?;
            }
        }
        Ok(record.sync()?)
    }

    /// Gives a directory in which nothing stands a new id.
    ///
    /// # Errors
    /// `ENOTEMPTY`, or what the store reports.
    pub fn renew_record(&self, directory: &NodeRef, home: [u8; 16]) -> Result<()> {
        if !super::remove::is_empty(&**directory)? {
            return Err(Error::Refused(errno::ENOTEMPTY));
        }
        self.restore_record(directory, self.names.new_directory()?, home)
    }

    /// Writes the side file of an entry with a long name.
    ///
    /// # Errors
    /// What the store reports.
    pub fn restore_side(&self, directory: &NodeRef, id: DirectoryId, name: &[u8]) -> Result<()> {
        self.write_side(directory, &self.names.seal(id, name))?;
        Ok(directory.sync()?)
    }

    /// The plain name that the side file `side` of a directory holds, and the
    /// stored name of its entry, if it was sealed in the directory `id`.
    #[must_use]
    pub fn name_in_side(&self, directory: &NodeRef, side: &[u8], id: DirectoryId) -> Option<Vec<u8>> {
        let sealed = sidefile::read(&**directory, side).ok()?;
        self.names.open_long(id, side.strip_prefix(b".n")?, &sealed).ok()
    }

    /// Finds the directory for what has no place, or makes it, with mode 0700.
    /// Where a file has its name, it gets a number behind it.
    ///
    /// # Errors
    /// What the store reports.
    pub fn lost_found(&self) -> Result<LostFound> {
        let top = self.store.root();
        let top_id = self.names.root_directory();
        for attempt in 0.. {
            let name = numbered(LOST_FOUND.as_bytes(), attempt);
            let stored = self.names.seal(top_id, &name);
            match top.lookup(&stored.main) {
                Ok(node) if node.kind() == Kind::Directory => {
                    if let Ok(record) = self.names.record_of(&*node) {
                        return Ok(LostFound { node, id: record.id, name });
                    }
                }
                Ok(_) => {}
                Err(error) if error.is_not_found() => return self.make_lost_found(&top, name, &stored),
                Err(error) => return Err(error.into()),
            }
        }
        unreachable!("some number is free")
    }

    fn make_lost_found(&self, top: &NodeRef, name: Vec<u8>, stored: &StoredName) -> Result<LostFound> {
        let temporary = self.temporary()?;
        let passing = self.names.random_name()?;
        let id = self.names.new_directory()?;
        let node = temporary.make_directory(&passing, 0o700)?;
        node.set_mode(0o700)?;
        self.names.put_record(&*node, id, self.names.directory_home(self.names.root_directory(), &name))?;
        node.sync()?;
        directory_rename(&temporary, &passing, top, &stored.main, RenameMode::Replace)?;
        Ok(LostFound { node, id, name })
    }

    /// Moves an entry, whatever it is, into a directory, under a plain name,
    /// which gets a number behind it where it is taken and `number` allows it.
    /// Gives the name.
    ///
    /// # Errors
    /// `EEXIST`, or what the store reports.
    pub fn move_entry(
        &self,
        from: &NodeRef,
        stored: &[u8],
        to: (&NodeRef, DirectoryId),
        name: &[u8],
        number: bool,
    ) -> Result<Vec<u8>> {
        let (directory, id) = to;
        for attempt in 0.. {
            let name = numbered(name, attempt);
            let to_stored = self.names.seal(id, &name);
            match directory.lookup(&to_stored.main) {
                Ok(_) if number => continue,
                Ok(_) => break,
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
            self.write_side(directory, &to_stored)?;
            self.bind_directory(from, stored, (id, &name))?;
            directory_rename(from, stored, directory, &to_stored.main, RenameMode::Replace)?;
            // The name file of the old name has served.
            let side = [b".n", stored].concat();
            let is_other = directory.id() != from.id() || to_stored.main != stored;
            if is_long_name(stored) && is_other {
                let _ = from.remove(&side);
            }
            return Ok(name);
        }
        Err(Error::Refused(errno::EEXIST))
    }

    /// Lets an entry that is a directory stand under the name that it is about
    /// to get. The home that it had goes with its next rename.
    fn bind_directory(&self, from: &NodeRef, stored: &[u8], to: (DirectoryId, &[u8])) -> Result<()> {
        let node = from.lookup(stored)?;
        if node.kind() != Kind::Directory {
            return Ok(());
        }
        match self.names.record_of(&*node) {
            Ok(record) => {
                let home = self.names.directory_home(to.0, to.1);
                self.names.add_home(&*node, record.id, home, true).map(drop)
            }
            // It has none that could be bound.
            Err(Error::Damaged(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Exchanges two entries.
    ///
    /// # Errors
    /// What the store reports.
    pub fn exchange(&self, one: (&NodeRef, &[u8]), other: (&NodeRef, &[u8])) -> Result<()> {
        directory_rename(one.0, one.1, other.0, other.1, RenameMode::Exchange)
    }

    /// Moves an entry that is none of the vault's from `directory` to
    /// `.strongroom/aside`. Gives its stored path there.
    ///
    /// # Errors
    /// What the store reports.
    pub fn set_foreign_aside(&self, directory: &NodeRef, stored: &[u8]) -> Result<Vec<u8>> {
        let aside = self.private(ASIDE)?;
        let mut name = [FOREIGN.as_bytes(), stored].concat();
        let room = self.store.limits().name_max.saturating_sub(NUMBER_ROOM);
        name.truncate(room);
        for number in 1.. {
            let numbered = match number {
                1 => name.clone(),
                number => [&name, format!(".{number}").as_bytes()].concat(),
            };
            match aside.lookup(&numbered) {
                Err(error) if error.is_not_found() => {
                    directory_rename(directory, stored, &aside, &numbered, RenameMode::NoReplace)?;
                    return Ok([PRIVATE, b"/", ASIDE, b"/", &numbered].concat());
                }
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        unreachable!("some number is free")
    }

    fn write_side(&self, directory: &NodeRef, stored: &StoredName) -> Result<()> {
        match &stored.side {
            Some(side) => sidefile::write(&**directory, &side.name, &side.sealed, true),
            None => Ok(()),
        }
    }

    fn temporary(&self) -> Result<NodeRef> {
        self.private(TEMPORARY)
    }

    /// A directory of the vault's own, made where it is missing.
    fn private(&self, name: &[u8]) -> Result<NodeRef> {
        let private = private(&*self.store)?;
        match private.lookup(name) {
            Err(error) if error.is_not_found() => Ok(private.make_directory(name, 0o700)?),
            found => own_directory(found?, name),
        }
    }
}

/// Renames durably: the new place first, so that a store without order loses
/// no entry.
fn directory_rename(
    from: &NodeRef,
    name: &[u8],
    to: &NodeRef,
    to_name: &[u8],
    mode: RenameMode,
) -> Result<()> {
    from.rename(name, &**to, to_name, mode)?;
    to.sync()?;
    Ok(from.sync()?)
}

fn numbered(name: &[u8], attempt: u32) -> Vec<u8> {
    match attempt {
        0 => name.to_vec(),
        _ => {
            let suffix = format!(".{attempt}");
            let kept = name.len().min(super::NAME_MAX - suffix.len());
            [&name[..kept], suffix.as_bytes()].concat()
        }
    }
}

impl Namespace {
    /// Binds a file to the name under which it was last looked up, and makes
    /// that durable: for files that a repair has moved.
    ///
    /// # Errors
    /// `EROFS`, damage of the file, or what the store reports.
    pub fn rebind(&self, number: u64) -> Result<()> {
        self.writable()?;
        let inode = self.table.inode(number)?;
        let place = lock(&inode.place).clone();
        let place = place.ok_or(Error::Refused(errno::ENOENT))?;
        let home = self.names.home(place.directory, &place.name);
        match &inode.shape {
            Shape::File => {}
            Shape::Broken(_) => return self.rebind_special(&inode, home),
            Shape::Special(_) | Shape::Directory => return Ok(()),
        }
        let content = self.using_unbound(&inode)?;
        if content.belongs(home) {
            return Ok(());
        }
        content.bind(home)?;
        content.sync()
    }
}
