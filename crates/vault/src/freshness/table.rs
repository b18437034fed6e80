//! What a freshness file records, in memory, with what has yet to reach the
//! file. No I/O.

use std::collections::{BTreeMap, HashMap, HashSet};

use strongroom_format::freshness::{Object, Operation};
use strongroom_format::vault::{DirectoryId, FileId};

/// Stands for the whole tree among unsettled directories.
pub(super) const WHOLE_TREE: DirectoryId = DirectoryId([0; 16]);

/// Unsettled directories that are named one by one.
pub(super) const UNSETTLED_MAX: usize = 16;

/// Which header page of a file was the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) sequence: u64,
    pub(crate) tag: [u8; 16],
}

/// A directory whose entries may differ from what the file says.
#[derive(Clone, Copy, Debug, Default)]
struct Unsettled {
    /// Changes under way.
    under_way: u32,
    /// When the last one began or ended, by the table's clock.
    changed: u64,
}

/// A moment by the table's clock: what was done before it is covered by a
/// barrier that began after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(u64);

/// The recorded state.
#[derive(Default)]
pub(super) struct Table {
    header: u64,
    entries: HashMap<DirectoryId, BTreeMap<Box<[u8]>, Object>>,
    versions: HashMap<FileId, Version>,
    unsettled: HashMap<DirectoryId, Unsettled>,
    /// Directories that the file called unsettled when it was read, and that
    /// are not enforced until they are settled.
    lenient: HashSet<DirectoryId>,
    /// Versions that a barrier has yet to cover.
    awaiting: Vec<(u64, FileId, Version)>,
    /// What has yet to be appended.
    pending: Vec<Operation>,
    clock: u64,
}

impl Table {
    /// The state after these operations.
    pub(super) fn of(operations: Vec<Operation>) -> Table {
        let mut table = Table::default();
        operations.into_iter().for_each(|operation| table.take(operation));
        table.lenient = table.unsettled.keys().copied().collect();
        table
    }

    fn take(&mut self, operation: Operation) {
        match operation {
            Operation::Header(sequence) => self.header = sequence,
            Operation::Unsettle(directory) => {
                self.unsettled.insert(directory, Unsettled::default());
            }
            Operation::Settle(directory) => {
                self.unsettled.remove(&directory);
            }
            Operation::Entry { directory, name, object } => {
                self.entries.entry(directory).or_default().insert(name.into(), object);
            }
            Operation::Removal { directory, name } => self.remove_entry(directory, &name),
            Operation::Version { file, sequence, tag } => {
                self.raise(file, Version { sequence, tag });
            }
        }
    }

    fn remove_entry(&mut self, directory: DirectoryId, name: &[u8]) {
        if let Some(entries) = self.entries.get_mut(&directory) {
            entries.remove(name);
            if entries.is_empty() {
                self.entries.remove(&directory);
            }
        }
    }

    /// True when the version is newer than what was recorded.
    fn raise(&mut self, file: FileId, version: Version) -> bool {
        let is_newer = self.versions.get(&file).is_none_or(|known| known.sequence < version.sequence);
        if is_newer {
            self.versions.insert(file, version);
        }
        is_newer
    }

    /// Everything, as a file written anew says it. Versions of files that no
    /// entry leads to are left out.
    pub(super) fn operations(&self) -> Vec<Operation> {
        let mut operations = vec![Operation::Header(self.header)];
        operations.extend(self.unsettled.keys().map(|&directory| Operation::Unsettle(directory)));
        let mut files = HashSet::new();
        for (&directory, entries) in &self.entries {
            for (name, &object) in entries {
                if let Object::File(id) = object
                    && let Some(version) = self.versions.get(&id)
                    && files.insert(id)
                {
                    let Version { sequence, tag } = *version;
                    operations.push(Operation::Version { file: id, sequence, tag });
                }
                operations.push(Operation::Entry { directory, name: name.to_vec(), object });
            }
        }
        operations
    }

    /// Takes what is to be appended.
    pub(super) fn take_pending(&mut self) -> Vec<Operation> {
        std::mem::take(&mut self.pending)
    }

    pub(super) fn header(&self) -> u64 {
        self.header
    }

    pub(super) fn set_header(&mut self, sequence: u64) {
        self.header = sequence;
        self.pending.push(Operation::Header(sequence));
    }

    pub(super) fn entry(&self, directory: DirectoryId, name: &[u8]) -> Option<Object> {
        self.entries.get(&directory)?.get(name).copied()
    }

    pub(super) fn entries(&self, directory: DirectoryId) -> BTreeMap<Box<[u8]>, Object> {
        self.entries.get(&directory).cloned().unwrap_or_default()
    }

    /// True when any directory was not among the known ones.
    pub(super) fn retain_directories(&mut self, known: &HashSet<DirectoryId>) -> bool {
        let before = self.entries.len();
        self.entries.retain(|directory, _| known.contains(directory));
        self.entries.len() != before
    }

    pub(super) fn version(&self, file: FileId) -> Option<Version> {
        self.versions.get(&file).copied()
    }

    pub(super) fn set_entry(&mut self, directory: DirectoryId, name: &[u8], object: Object) {
        if self.entry(directory, name) == Some(object) {
            return;
        }
        self.entries.entry(directory).or_default().insert(name.into(), object);
        self.pending.push(Operation::Entry { directory, name: name.to_vec(), object });
    }

    pub(super) fn clear_entry(&mut self, directory: DirectoryId, name: &[u8]) {
        if self.entry(directory, name).is_some() {
            self.remove_entry(directory, name);
            self.pending.push(Operation::Removal { directory, name: name.to_vec() });
        }
    }

    /// A version that is durable.
    pub(super) fn note_version(&mut self, file: FileId, version: Version) {
        if self.raise(file, version) {
            let Version { sequence, tag } = version;
            self.pending.push(Operation::Version { file, sequence, tag });
        }
    }

    /// A version that a later barrier of the store will make durable.
    pub(super) fn await_version(&mut self, file: FileId, version: Version) {
        self.clock += 1;
        self.awaiting.push((self.clock, file, version));
    }

    /// Sets a version, older than the recorded one perhaps: the file has to
    /// be written anew then.
    pub(super) fn accept_version(&mut self, file: FileId, version: Version) {
        self.versions.insert(file, version);
    }

    /// The key under which a directory is unsettled, or would be, and whether
    /// the file has to be told first.
    pub(super) fn unsettling(&self, directory: DirectoryId) -> (DirectoryId, bool) {
        if self.unsettled.contains_key(&directory) {
            (directory, false)
        } else if self.unsettled.len() < UNSETTLED_MAX {
            (directory, true)
        } else {
            (WHOLE_TREE, !self.unsettled.contains_key(&WHOLE_TREE))
        }
    }

    /// A change under the key has begun.
    pub(super) fn begin(&mut self, key: DirectoryId) {
        self.clock += 1;
        let unsettled = self.unsettled.entry(key).or_default();
        unsettled.under_way += 1;
        unsettled.changed = self.clock;
    }

    /// A change under the key has ended.
    pub(super) fn end(&mut self, key: DirectoryId) {
        self.clock += 1;
        if let Some(unsettled) = self.unsettled.get_mut(&key) {
            unsettled.under_way = unsettled.under_way.saturating_sub(1);
            unsettled.changed = self.clock;
        }
    }

    pub(super) fn now(&self) -> Moment {
        Moment(self.clock)
    }

    /// A barrier of the whole store has failed.
    pub(super) fn barrier_failed(&mut self) {
        self.awaiting.clear();
    }

    /// A barrier of the whole store that began after `moment` has succeeded.
    pub(super) fn barrier_passed(&mut self, moment: Moment) {
        let (durable, awaiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.awaiting).into_iter().partition(|(noted, ..)| *noted <= moment.0);
        self.awaiting = awaiting;
        for (_, file, version) in durable {
            self.note_version(file, version);
        }
        let is_settled = |unsettled: &Unsettled| unsettled.under_way == 0 && unsettled.changed <= moment.0;
        let settled: Vec<_> = self
            .unsettled
            .iter()
            .filter(|(_, unsettled)| is_settled(unsettled))
            .map(|(&key, _)| key)
            .collect();
        for key in settled {
            self.unsettled.remove(&key);
            self.pending.push(Operation::Settle(key));
        }
    }

    /// Whether a crash may explain that this directory's entries differ.
    pub(super) fn is_lenient(&self, directory: DirectoryId) -> bool {
        !self.lenient.is_empty() && (self.lenient.contains(&directory) || self.lenient.contains(&WHOLE_TREE))
    }

    /// Whether any directory was unsettled when the file was read.
    pub(super) fn has_lenient(&self) -> bool {
        !self.lenient.is_empty()
    }

    /// The entries of lenient directories are now as they were found.
    pub(super) fn end_lenience(&mut self) {
        self.lenient.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: DirectoryId = DirectoryId([1; 16]);
    const F: FileId = FileId([2; 16]);

    fn version(sequence: u64) -> Version {
        Version { sequence, tag: [sequence as u8; 16] }
    }

    #[test]
    fn a_directory_is_settled_by_a_barrier_that_began_after_its_last_change() {
        let mut table = Table::default();
        assert_eq!(table.unsettling(D), (D, true));
        table.begin(D);
        let during = table.now();
        table.end(D);
        table.barrier_passed(during);
        assert_eq!(table.unsettling(D), (D, false), "the change ended after the barrier had begun");
        let after = table.now();
        table.begin(D);
        table.barrier_passed(after);
        assert_eq!(table.unsettling(D), (D, false), "another change is under way");
        table.end(D);
        let after = table.now();
        table.barrier_passed(after);
        assert_eq!(table.unsettling(D), (D, true));
        assert_eq!(table.take_pending(), [Operation::Settle(D)]);
    }

    #[test]
    fn many_unsettled_directories_are_the_whole_tree() {
        let mut table = Table::default();
        for id in 1..=UNSETTLED_MAX as u8 {
            let (key, is_new) = table.unsettling(DirectoryId([id; 16]));
            assert!(is_new && key != WHOLE_TREE);
            table.begin(key);
        }
        let other = DirectoryId([0xff; 16]);
        assert_eq!(table.unsettling(other), (WHOLE_TREE, true));
        table.begin(WHOLE_TREE);
        assert_eq!(table.unsettling(other), (WHOLE_TREE, false));
        let again = Table::of(table.operations());
        assert!(again.is_lenient(other) && again.is_lenient(DirectoryId([3; 16])));
    }

    #[test]
    fn a_version_waits_for_its_barrier_and_never_falls() {
        let mut table = Table::default();
        let before = table.now();
        table.await_version(F, version(1));
        table.barrier_passed(before);
        assert_eq!(table.version(F), None);
        let after = table.now();
        table.note_version(F, version(2));
        table.barrier_passed(after);
        assert_eq!(table.version(F), Some(version(2)), "an older one comes late");
        table.await_version(F, version(3));
        table.barrier_failed();
        table.barrier_passed(table.now());
        assert_eq!(table.version(F), Some(version(2)), "the third may be lost");
        table.accept_version(F, version(1));
        assert_eq!(table.version(F), Some(version(1)));
    }

    #[test]
    fn what_is_written_anew_reads_the_same_without_versions_of_removed_files() {
        let mut table = Table::default();
        table.set_header(7);
        table.set_entry(D, b"a", Object::File(F));
        table.set_entry(D, b"b", Object::Directory(DirectoryId([5; 16])));
        table.note_version(F, version(3));
        table.note_version(FileId([9; 16]), version(3));
        table.clear_entry(D, b"b");
        let again = Table::of(table.operations());
        assert_eq!((again.header(), again.entries(D)), (7, table.entries(D)));
        assert_eq!(again.version(F), Some(version(3)));
        assert_eq!(again.version(FileId([9; 16])), None);
        let logged = Table::of(table.take_pending());
        assert_eq!((logged.header(), logged.entries(D)), (7, table.entries(D)));
        assert_eq!(table.take_pending(), []);
    }
}
