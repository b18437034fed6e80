//! The freshness file: what was durable in the vault last, kept outside of it
//! (`docs/format/freshness.md`), so that a file, directory or vault that was
//! put back as a whole is noticed.
//!
//! [`Freshness`] is told of changes by the namespace and the commits, and
//! asked by whatever looks something up. `table` is what is recorded, `log`
//! the file; `crate::walk` compares a whole tree with it.
//!
//! Invariants: a version is in the table only when it is durable in the vault;
//! before the first change of a directory's entries the file durably calls
//! the directory unsettled; while a mount for writing lasts, the table's
//! entries are those of the tree, whose gates order the changes of both.
//!
//! Locks: `log` before `table`; both are leaves to everything else.

mod log;
mod table;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashSet};
use std::sync::PoisonError;

use strongroom_format::freshness::{FileHeader, Object, Operation};
use strongroom_format::vault::header::Header;
use strongroom_format::vault::{DirectoryId, FileId};

use strongroom_store::NodeRef;

use self::log::{Found, Log};
use self::table::Table;
pub(crate) use self::table::{Moment, Version};
use crate::error::{Damage, Error, Result, Staleness};
use crate::sealer::Sealer;

/// Where a freshness file is, and what it is for.
#[derive(Clone)]
pub struct Trusted {
    /// The directory that it is in, which is outside of the vault.
    pub directory: NodeRef,
    /// Its name there.
    pub name: Vec<u8>,
    /// What is to be done where the vault differs.
    pub trust: Trust,
}

/// Whether the record or the vault is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The record: what differs is an error, and so is a file that is missing
    /// where the vault had one.
    Record,
    /// The record, and where it is missing, the vault: it is recorded as it is.
    Begin,
    /// The vault, in what [`crate::Vault::accept`] will be asked to accept.
    /// With `whole`, also when the vault as a whole is older than the record.
    Vault {
        /// Everything is going to be accepted.
        whole: bool,
    },
}

impl Trust {
    /// Whether a file that is missing is a beginning.
    fn begins(self, header: &Header) -> bool {
        match self {
            Trust::Begin | Trust::Vault { whole: true } => true,
            Trust::Record | Trust::Vault { whole: false } => !header.has_freshness,
        }
    }
}

/// A vault's freshness file in use.
pub(crate) struct Freshness {
    sealer: Sealer,
    log: Mutex<Log>,
    table: Mutex<Table>,
    /// What differs is an error.
    enforcing: AtomicBool,
    writable: bool,
    /// There was no file.
    pub(crate) is_new: bool,
    /// The vault has been written to since, without this file.
    pub(crate) was_bypassed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stale(what: Staleness) -> Error {
    Error::Damaged(Damage::Stale(what))
}

/// Entries of a directory are being changed; the directory is not settled
/// before this is dropped.
pub(crate) struct Change<'a> {
    freshness: &'a Freshness,
    key: DirectoryId,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        lock(&self.freshness.table).end(self.key);
    }
}

impl Freshness {
    /// Reads the file and compares the vault as a whole with it.
    ///
    /// # Errors
    /// [`Staleness::Vault`]; [`Damage::Record`] for a file of another vault or
    /// one that is not authentic; where nothing may be written, also for one
    /// that is missing.
    pub(crate) fn open(
        trusted: &Trusted,
        sealer: Sealer,
        header: &Header,
        writable: bool,
    ) -> Result<Freshness> {
        let expected = FileHeader {
            suite: header.suite,
            generation: header.generation,
            vault: header.vault,
            record: [0; 16],
        };
        let (log, found) = Log::open(trusted, &sealer, expected, writable)?;
        let (table, is_new) = match found {
            Found::Operations(operations) => (Table::of(operations), false),
            Found::Nothing if writable && trusted.trust.begins(header) => (Table::default(), true),
            Found::Nothing => return Err(Error::Damaged(Damage::RecordMissing)),
        };
        if header.sequence < table.header() && trusted.trust != (Trust::Vault { whole: true }) {
            return Err(stale(Staleness::Vault));
        }
        Ok(Freshness {
            sealer,
            was_bypassed: !is_new && header.sequence > table.header(),
            log: Mutex::new(log),
            table: Mutex::new(table),
            enforcing: AtomicBool::new(!is_new && matches!(trusted.trust, Trust::Record | Trust::Begin)),
            writable,
            is_new,
        })
    }

    fn is_enforcing(&self) -> bool {
        self.enforcing.load(Ordering::Acquire)
    }

    /// Whether what differs is an error from now on; gives whether it was.
    pub(crate) fn enforce(&self, enforcing: bool) -> bool {
        self.enforcing.swap(enforcing, Ordering::AcqRel)
    }

    /// Compares a file's header page, as it was read, with its version.
    ///
    /// # Errors
    /// [`Staleness::RolledBack`].
    pub(crate) fn check_version(&self, file: FileId, found: Version) -> Result<()> {
        if !self.is_enforcing() {
            return Ok(());
        }
        match lock(&self.table).version(file) {
            Some(known) if found.sequence < known.sequence => Err(stale(Staleness::RolledBack)),
            Some(known) if found.sequence == known.sequence && found.tag != known.tag => {
                Err(stale(Staleness::RolledBack))
            }
            _ => Ok(()),
        }
    }

    /// Compares what an entry was found to lead to with what is recorded.
    ///
    /// # Errors
    /// [`Staleness::Unrecorded`] or [`Staleness::Exchanged`].
    pub(crate) fn check_entry(&self, directory: DirectoryId, name: &[u8], found: Object) -> Result<()> {
        if !self.is_enforcing() {
            return Ok(());
        }
        let table = lock(&self.table);
        if table.is_lenient(directory) {
            return Ok(());
        }
        match table.entry(directory, name) {
            Some(known) if known == found => Ok(()),
            Some(Object::Unknown) => Ok(()),
            // A file that was never durable may have become another one.
            Some(Object::File(known)) if table.version(known).is_none() => match found {
                Object::File(_) => Ok(()),
                _ => Err(stale(Staleness::Exchanged)),
            },
            Some(_) => Err(stale(Staleness::Exchanged)),
            None => Err(stale(Staleness::Unrecorded)),
        }
    }

    /// A crash may have left the file of an entry unfinished.
    ///
    /// # Errors
    /// [`Staleness::RolledBack`] when a version of it is recorded: it was
    /// durable.
    pub(crate) fn check_unfinished(&self, directory: DirectoryId, name: &[u8]) -> Result<()> {
        if self.is_enforcing() && self.has_version(directory, name) {
            return Err(stale(Staleness::RolledBack));
        }
        Ok(())
    }

    /// Whether the file that is recorded for an entry was durable.
    fn has_version(&self, directory: DirectoryId, name: &[u8]) -> bool {
        let table = lock(&self.table);
        match table.entry(directory, name) {
            Some(Object::File(known)) => table.version(known).is_some(),
            _ => false,
        }
    }

    /// Whether an entry may be recorded and not be there: a crash takes files
    /// that were never durable.
    pub(crate) fn may_be_gone(&self, directory: DirectoryId, name: &[u8], entry: Object) -> bool {
        matches!(entry, Object::File(_)) && !self.has_version(directory, name)
    }

    /// An entry was not found.
    ///
    /// # Errors
    /// [`Staleness::Missing`] when it is recorded, and no crash explains it.
    pub(crate) fn check_absent(&self, directory: DirectoryId, name: &[u8]) -> Result<()> {
        let entry = {
            let table = lock(&self.table);
            table.entry(directory, name).filter(|_| self.is_enforcing() && !table.is_lenient(directory))
        };
        match entry {
            Some(entry) if !self.may_be_gone(directory, name, entry) => Err(stale(Staleness::Missing)),
            _ => Ok(()),
        }
    }

    /// Entries of `directory` are about to change. The caller holds its gate
    /// to write, and tells of the change before it lets go of it.
    ///
    /// # Errors
    /// What the freshness file's store reported: the change must not be made.
    pub(crate) fn change(&self, directory: DirectoryId) -> Result<Change<'_>> {
        loop {
            let (key, is_news) = lock(&self.table).unsettling(directory);
            if is_news {
                self.tell_unsettled(key)?;
                continue;
            }
            let mut table = lock(&self.table);
            // A barrier may have settled it meanwhile.
            if table.unsettling(directory) == (key, false) {
                table.begin(key);
                return Ok(Change { freshness: self, key });
            }
        }
    }

    fn tell_unsettled(&self, key: DirectoryId) -> Result<()> {
        let mut log = lock(&self.log);
        if log.is_behind() {
            self.flush_to(&mut log)?;
        }
        let mut operations = lock(&self.table).take_pending();
        operations.push(Operation::Unsettle(key));
        log.append(&operations, &self.sealer)?;
        let mut table = lock(&self.table);
        table.begin(key);
        table.end(key);
        Ok(())
    }

    /// An entry leads to `object` now.
    pub(crate) fn set_entry(&self, directory: DirectoryId, name: &[u8], object: Object) {
        lock(&self.table).set_entry(directory, name, object);
    }

    /// An entry is gone.
    pub(crate) fn clear_entry(&self, directory: DirectoryId, name: &[u8]) {
        lock(&self.table).clear_entry(directory, name);
    }

    /// An entry has moved, and replaced what was there. One that was not
    /// recorded stays so.
    pub(crate) fn move_entry(&self, from: (DirectoryId, &[u8]), to: (DirectoryId, &[u8])) {
        let mut table = lock(&self.table);
        let moved = table.entry(from.0, from.1);
        table.clear_entry(from.0, from.1);
        match moved {
            Some(object) => table.set_entry(to.0, to.1, object),
            None => table.clear_entry(to.0, to.1),
        }
    }

    /// Two entries have been exchanged.
    pub(crate) fn exchange_entries(&self, one: (DirectoryId, &[u8]), other: (DirectoryId, &[u8])) {
        let mut table = lock(&self.table);
        let objects = [table.entry(one.0, one.1), table.entry(other.0, other.1)];
        for (place, object) in [(other, objects[0]), (one, objects[1])] {
            match object {
                Some(object) => table.set_entry(place.0, place.1, object),
                None => table.clear_entry(place.0, place.1),
            }
        }
    }

    pub(crate) fn entries(&self, directory: DirectoryId) -> BTreeMap<Box<[u8]>, Object> {
        lock(&self.table).entries(directory)
    }

    pub(crate) fn is_lenient(&self, directory: DirectoryId) -> bool {
        lock(&self.table).is_lenient(directory)
    }

    /// Whether a crash has left entries that are to be taken as they are.
    pub(crate) fn has_lenient(&self) -> bool {
        lock(&self.table).has_lenient()
    }

    /// They have been taken.
    pub(crate) fn end_lenience(&self) {
        lock(&self.table).end_lenience();
    }

    /// A file's header page is durable.
    pub(crate) fn note_version(&self, file: FileId, version: Version) {
        lock(&self.table).note_version(file, version);
    }

    /// A file's header page has been written, and the next barrier of the
    /// store will make it durable.
    pub(crate) fn await_version(&self, file: FileId, version: Version) {
        lock(&self.table).await_version(file, version);
    }

    /// Takes a file as it was found, whatever was recorded. True when that was
    /// a newer version.
    pub(crate) fn take_version(&self, file: FileId, version: Version) -> bool {
        let mut log = lock(&self.log);
        let mut table = lock(&self.table);
        let is_older =
            table.version(file).is_some_and(|known| known.sequence >= version.sequence && known != version);
        if is_older {
            // The log knows no way back.
            log.set_behind();
            table.accept_version(file, version);
        } else {
            table.note_version(file, version);
        }
        is_older
    }

    /// Forgets the entries of directories that are not among these.
    pub(crate) fn retain_directories(&self, known: &HashSet<DirectoryId>) {
        let mut log = lock(&self.log);
        if lock(&self.table).retain_directories(known) {
            log.set_behind();
        }
    }

    /// Whether an entry is recorded otherwise.
    pub(crate) fn entries_differ(&self, directory: DirectoryId, name: &[u8], found: Object) -> bool {
        lock(&self.table).entry(directory, name) != Some(found)
    }

    /// A vault header with this sequence number is durable.
    pub(crate) fn note_header(&self, sequence: u64) {
        lock(&self.table).set_header(sequence);
    }

    /// Opens another write session.
    pub(crate) fn renew(&self) -> Result<()> {
        self.sealer.renew()
    }

    /// To be asked before a barrier of the whole store.
    pub(crate) fn now(&self) -> Moment {
        lock(&self.table).now()
    }

    /// A barrier of the store has failed: versions that waited for one may be lost,
    /// and become durable with their file's next commit at the earliest.
    pub(crate) fn barrier_failed(&self) {
        lock(&self.table).barrier_failed();
    }

    /// The barrier that began after `moment` has succeeded.
    pub(crate) fn barrier_passed(&self, moment: Moment) {
        lock(&self.table).barrier_passed(moment);
    }

    /// Brings what has been told so far into the file, durably.
    ///
    /// # Errors
    /// What the freshness file's store reported. The next call tries again.
    pub(crate) fn flush(&self) -> Result<()> {
        if !self.writable {
            return Ok(());
        }
        self.flush_to(&mut lock(&self.log))
    }

    fn flush_to(&self, log: &mut Log) -> Result<()> {
        if log.is_behind() {
            return log.rewrite(&self.everything(), &self.sealer);
        }
        let operations = lock(&self.table).take_pending();
        log.append(&operations, &self.sealer)?;
        if log.is_long() && log.rewrite(&self.everything(), &self.sealer).is_err() {
            log.put_up_with_length();
        }
        Ok(())
    }

    /// All that is recorded, with what was pending.
    fn everything(&self) -> Vec<Operation> {
        let mut table = lock(&self.table);
        table.take_pending();
        table.operations()
    }
}
