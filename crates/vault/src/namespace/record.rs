//! Directory records: what the directory `.id` in every stored directory holds,
//! one empty file for each home of the directory, whose name says everything
//! (`docs/format/vault.md`, section 5).
//!
//! A record is a name and no content, because the store orders names with other
//! names: a directory is made and given its record without a barrier.

use std::collections::BTreeSet;

use strongroom_format::vault::DirectoryId;
use strongroom_format::vault::names::DirectoryRecord;
use strongroom_keys::random::array as random;
use strongroom_store::{Kind, Node, NodeRef};

use super::names::{Names, RECORD, damaged, entropy};
use crate::error::{Damage, Error, Result, errno};
use crate::reader_rules::ReaderRule;

/// A directory without its record.
pub(super) const LOST: Error = Error::Damaged(Damage::Name("a directory has lost its record"));

/// What a directory's record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) id: DirectoryId,
    /// The homes under which the directory may stand: two while it is renamed.
    pub(super) homes: BTreeSet<[u8; 16]>,
    /// Further ids: of directories that other machines have made under this
    /// name, and that a synchronisation program has put into this one.
    pub(super) others: BTreeSet<DirectoryId>,
    /// Names in `.id` that are none of the vault's.
    pub(super) foreign: Vec<Vec<u8>>,
}

impl Record {
    /// Whether the directory may stand under this home.
    pub(super) fn belongs(&self, home: [u8; 16]) -> bool {
        self.homes.contains(&home) || !ReaderRule::DirectoryHome.is_kept()
    }
}

impl Names {
    /// A new directory's id.
    pub(super) fn new_directory(&self) -> Result<DirectoryId> {
        Ok(DirectoryId(random().map_err(entropy)?))
    }

    /// What binds a directory to its parent and plain name.
    pub(super) fn directory_home(&self, parent: DirectoryId, name: &[u8]) -> [u8; 16] {
        self.records.directory_home(parent, name)
    }

    /// The name in `.id` that stands for an id and a home.
    pub(super) fn record_name(&self, id: DirectoryId, home: [u8; 16]) -> Vec<u8> {
        self.records.directory(id, home).to_name(self.encoding).into_bytes()
    }

    /// Whether a name in `.id` is one of this vault's.
    pub(super) fn is_record_name(&self, name: &[u8]) -> bool {
        DirectoryRecord::parse(name, self.encoding).is_ok_and(|record| self.verifies(&record))
    }

    fn verifies(&self, record: &DirectoryRecord) -> bool {
        self.records.verifies(record) || !ReaderRule::RecordMac.is_kept()
    }

    /// Gives a directory that has none its record.
    pub(super) fn put_record(&self, directory: &dyn Node, id: DirectoryId, home: [u8; 16]) -> Result<()> {
        let record = directory.make_directory(RECORD, 0o700)?;
        record.create(&self.record_name(id, home), 0o600)?;
        Ok(())
    }

    /// Reads the record of a stored directory, which is not the top one.
    ///
    /// # Errors
    /// Damage when it is lost or does not verify, or what the store reports.
    pub(super) fn record_of(&self, directory: &dyn Node) -> Result<Record> {
        let record = match directory.lookup(RECORD) {
            Err(error) if error.is_not_found() => return Err(LOST),
            found => found?,
        };
        if record.kind() != Kind::Directory {
            return Err(damaged("a directory's record is something else"));
        }
        let mut verified: Vec<DirectoryRecord> = Vec::new();
        let mut foreign = Vec::new();
        for entry in record.entries()? {
            match DirectoryRecord::parse(&entry.name, self.encoding) {
                Ok(found) if self.verifies(&found) => verified.push(found),
                Ok(_) | Err(_) => foreign.push(entry.name),
            }
        }
        // Every machine has to choose the same.
        let Some(id) = verified.iter().map(|record| record.id).min() else {
            return Err(if foreign.is_empty() { LOST } else { damaged("a directory's record is forged") });
        };
        Ok(Record {
            id,
            homes: verified.iter().filter(|record| record.id == id).map(|record| record.home).collect(),
            others: verified.iter().map(|record| record.id).filter(|other| *other != id).collect(),
            foreign,
        })
    }

    /// Lets a directory stand under a home too, durably where that is asked
    /// for.
    pub(super) fn add_home(
        &self,
        directory: &dyn Node,
        id: DirectoryId,
        home: [u8; 16],
        durable: bool,
    ) -> Result<NodeRef> {
        let record = directory.lookup(RECORD)?;
        match record.create(&self.record_name(id, home), 0o600) {
            Err(error) if error.is_exists() => {}
            made => drop(made?),
        }
        if durable {
            record.sync()?;
        }
        Ok(record)
    }
}

/// Whether nothing keeps [`remove`] from removing a record: no directory in it
/// holds anything.
pub(super) fn is_removable(record: &dyn Node) -> Result<bool> {
    for entry in record.entries()? {
        let node = record.lookup(&entry.name)?;
        if node.kind() == Kind::Directory && !node.entries()?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes the record of a directory that is out of the tree.
pub(super) fn remove(directory: &dyn Node) -> Result<()> {
    let record = directory.lookup(RECORD)?;
    if record.kind() != Kind::Directory {
        return Ok(directory.remove(RECORD)?);
    }
    for entry in record.entries()? {
        match record.remove(&entry.name) {
            // A directory that a tool has put there.
            Err(error) if error.errno() == errno::EISDIR => record.remove_directory(&entry.name)?,
            removed => removed?,
        }
    }
    Ok(directory.remove_directory(RECORD)?)
}
