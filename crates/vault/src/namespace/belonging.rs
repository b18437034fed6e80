//! Whether a directory belongs where it stands: its record names its parent and
//! its plain name, so that no two are exchanged unnoticed.
//!
//! The record is read when the id is needed first, and again when the directory
//! is found under a name that is not known to be its.

use strongroom_format::vault::DirectoryId;

use super::Namespace;
use super::access::DIRECTORY_BITS;
use super::inode::{Inode, Leaving, Place, ROOT, lock};
use super::names::RECORD;
use super::record::{LOST, Record};
use super::rename::End;
use crate::error::{Damage, Error, Result, errno};
use crate::reader_rules::ReaderRule;
use crate::rules::Rule;
use crate::waiting::StaleHome;

impl Namespace {
    /// The id of a directory, for callers who hold its metadata, or whose
    /// process may read it.
    pub(super) fn directory_id_alone(&self, inode: &Inode) -> Result<DirectoryId> {
        if let Some(id) = inode.directory_id.get() {
            return Ok(*id);
        }
        if inode.number == ROOT {
            return Ok(*inode.directory_id.get_or_init(|| self.names.root_directory()));
        }
        let place = lock(&inode.place).clone();
        let record = self.read_record(inode)?;
        // Without a place it is not held against a name, and read again.
        let Some(place) = place else { return Ok(record.id) };
        self.check_homes(&record, &place)?;
        // Only the first keeps what it has read: a rename may begin then.
        if inode.directory_id.set(record.id).is_ok() {
            self.forget_homes(inode, &record, &place);
            *lock(&inode.homes) = record.homes;
        }
        Ok(record.id)
    }

    /// A crash may have left a home that the directory had before a rename.
    fn forget_homes(&self, inode: &Inode, record: &Record, place: &Place) {
        let home = self.names.directory_home(place.directory, &place.name);
        let left = record.homes.iter().filter(|left| **left != home);
        if self.options.read_only {
            return;
        }
        if let Ok(node) = inode.node.lookup(RECORD) {
            left.for_each(|left| {
                let name = self.names.record_name(record.id, *left);
                let directory = inode.node.id();
                self.contents.note_stale_home(StaleHome { directory, record: node.clone(), name });
            });
        }
    }

    fn read_record(&self, inode: &Inode) -> Result<Record> {
        match self.names.record_of(&*inode.node) {
            Err(error) if error == LOST && inode.is_removed() => Err(Error::Refused(errno::ENOENT)),
            other => other,
        }
    }

    fn check_homes(&self, record: &Record, place: &Place) -> Result<()> {
        let home = self.names.directory_home(place.directory, &place.name);
        if record.belongs(home) { Ok(()) } else { Err(Error::Damaged(Damage::Home)) }
    }

    /// A directory was found at `place`. One whose record was never read is not
    /// asked now, but when it is entered.
    ///
    /// # Errors
    /// [`Damage::Home`] when it belongs elsewhere.
    pub(super) fn check_belongs(&self, inode: &Inode, place: &Place) -> Result<()> {
        let Some(id) = inode.directory_id.get().filter(|_| inode.number != ROOT) else { return Ok(()) };
        let home = self.names.directory_home(place.directory, &place.name);
        if lock(&inode.homes).contains(&home) {
            return Ok(());
        }
        let record = self.read_record(inode)?;
        if record.id != *id {
            return Err(Error::Damaged(Damage::Home));
        }
        self.check_homes(&record, place)?;
        lock(&inode.homes).extend(record.homes);
        Ok(())
    }

    /// A directory that nobody has looked up has not been held against the name
    /// that it leaves.
    fn check_leaves(&self, inode: &Inode, place: &Place) -> Result<()> {
        let home = self.names.directory_home(place.directory, &place.name);
        if lock(&inode.homes).contains(&home) || !ReaderRule::HomeOfSource.is_kept() {
            return Ok(());
        }
        let record = self.granted(inode, DIRECTORY_BITS, || self.read_record(inode))?;
        self.check_homes(&record, place)
    }

    /// Lets a directory that is going to be renamed stand under its new name
    /// too, durably. One that is damaged is moved as it is.
    ///
    /// # Errors
    /// What the store reports.
    pub(super) fn bind_directory(&self, inode: &Inode, from: &End<'_>, to: &End<'_>) -> Result<()> {
        let id = self.directory_id(inode).and_then(|id| self.check_leaves(inode, &from.place).map(|()| id));
        let id = match id {
            Err(Error::Damaged(_)) => return Ok(()),
            id => id?,
        };
        let home = |end: &End<'_>| self.names.directory_home(end.place.directory, end.name);
        let (from, to) = (home(from), home(to));
        let [old, new] = [from, to].map(|home| self.names.record_name(id, home));
        // It may be waiting to be removed, as the home before an earlier rename.
        self.contents.keep_home(inode.node.id(), &new);
        let first = self.contents.keeps(Rule::RecordBeforeMove);
        let add = || self.names.add_home(&*inode.node, id, if first { to } else { from }, first);
        let record = self.granted(inode, DIRECTORY_BITS, add)?;
        if !self.contents.keeps(Rule::MoveBeforeRecordGone) {
            record.remove(&old)?;
        }
        lock(&inode.homes).insert(to);
        let directory = inode.node.id();
        *lock(&inode.leaving) =
            Some(Leaving { stale: StaleHome { directory, record, name: old }, new, from, to });
        Ok(())
    }

    /// A directory has been renamed: its home before is removed once that is
    /// durable.
    pub(super) fn directory_moved(&self, inode: &Inode) {
        if let Some(Leaving { stale, new, from, .. }) = lock(&inode.leaving).take() {
            lock(&inode.homes).remove(&from);
            if !self.contents.keeps(Rule::RecordBeforeMove) {
                let _ = stale.record.create(&new, 0o600);
            }
            self.contents.note_stale_home(stale);
        }
    }

    /// A directory has not been renamed after all.
    pub(super) fn directory_stayed(&self, inode: &Inode) {
        if let Some(Leaving { stale, new, to, .. }) = lock(&inode.leaving).take() {
            lock(&inode.homes).remove(&to);
            let _ = stale.record.remove(&new);
        }
    }
}
