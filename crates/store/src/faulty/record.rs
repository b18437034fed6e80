//! The log of a recorded store, and the tree that is durable at each of its
//! barriers. The model stands in the documentation of the parent module.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::memory::{Barrier, DataChange, Delta, FileBody, Observer, PAGE, Page, Tree};

use super::{Event, FileSync, SECTOR};

/// Sectors of a page.
pub(super) const SECTORS: usize = PAGE / SECTOR;

/// A page as it was after one change.
pub(super) struct PageVersion {
    pub(super) page: u64,
    /// The sectors that the change touched, the lowest bit first.
    pub(super) mask: u8,
    pub(super) content: Arc<Page>,
}

/// One change of one file's content.
pub(super) struct DataRecord {
    pub(super) inode: u64,
    pub(super) change: DataChange,
    /// The pages it wrote to, ascending.
    pub(super) versions: Vec<PageVersion>,
    /// The bytes that a cut or a punch made zero.
    pub(super) cut: Option<Range<u64>>,
    pub(super) old_len: u64,
    pub(super) len: u64,
}

/// One entry of the log.
pub(super) enum Record {
    Namespace {
        operation: &'static str,
        deltas: Vec<Delta>,
    },
    Data(DataRecord),
    Barrier(Barrier),
    /// A barrier on this file failed and its changes are lost.
    Lost {
        inode: u64,
    },
}

/// What is durable from a position of the log on, until the next base.
pub(super) struct Base {
    pub(super) position: usize,
    pub(super) tree: Tree,
    /// Earlier entries that no barrier has covered, ascending.
    pub(super) carried: Arc<[usize]>,
}

/// Up to where the journal must be durable for one inode to be.
#[derive(Clone, Copy, Default)]
struct Touched {
    /// Its creation and its changes of length or allocation.
    data: usize,
    /// Any change of it.
    any: usize,
}

/// Records a store.
pub(super) struct Recorder {
    file_sync: FileSync,
    log: Vec<Record>,
    bases: Vec<Base>,
    durable: Tree,
    pending: Vec<usize>,
    touched: HashMap<u64, Touched>,
}

impl Recorder {
    /// Begins with `tree`, all of it durable.
    pub(super) fn new(tree: Tree, file_sync: FileSync) -> Recorder {
        let base = Base { position: 0, tree: tree.clone(), carried: Arc::from([]) };
        Recorder {
            file_sync,
            log: Vec::new(),
            bases: vec![base],
            durable: tree,
            pending: Vec::new(),
            touched: HashMap::new(),
        }
    }

    /// Length of the log.
    pub(super) fn position(&self) -> usize {
        self.log.len()
    }

    /// The entry at `position`.
    pub(super) fn record(&self, position: usize) -> &Record {
        &self.log[position]
    }

    /// The last base at or before `cut`.
    pub(super) fn base(&self, cut: usize) -> &Base {
        let after = self.bases.partition_point(|base| base.position <= cut);
        &self.bases[after - 1]
    }

    /// The positions just behind each barrier.
    pub(super) fn barriers(&self) -> Vec<usize> {
        let behind = |(at, record): (usize, &Record)| matches!(record, Record::Barrier(_)).then_some(at + 1);
        self.log.iter().enumerate().filter_map(behind).collect()
    }

    /// The log in a form to read.
    pub(super) fn events(&self, range: Range<usize>) -> Vec<Event> {
        self.log[range].iter().map(event).collect()
    }

    /// Makes the directory and metadata operations before `position` durable.
    fn flush_journal(&mut self, position: usize) {
        let (log, durable) = (&self.log, &mut self.durable);
        self.pending.retain(|&at| match &log[at] {
            Record::Namespace { deltas, .. } if at < position => {
                deltas.iter().for_each(|delta| durable.apply(delta));
                false
            }
            _ => true,
        });
    }

    /// The inodes that operations not yet durable change.
    fn pending_inodes(&self) -> HashSet<u64> {
        let deltas = self.pending.iter().flat_map(|&at| match &self.log[at] {
            Record::Namespace { deltas, .. } => deltas.as_slice(),
            _ => &[],
        });
        deltas.map(Delta::touches).collect()
    }

    /// The files whose content is not durable.
    pub(super) fn unwritten(&self) -> HashSet<u64> {
        let data = self.pending.iter().filter_map(|&at| match &self.log[at] {
            Record::Data(data) => Some(data.inode),
            _ => None,
        });
        data.collect()
    }

    /// Makes the content of `inode` durable.
    fn flush_file(&mut self, inode: u64, tree: &Tree) {
        let log = &self.log;
        self.pending.retain(|&at| !matches!(&log[at], Record::Data(data) if data.inode == inode));
        if let (Some(durable), Some(current)) = (self.durable.file_mut(inode), tree.file(inode)) {
            *durable = current.clone();
        }
    }

    /// Makes the times of `inode` durable.
    fn flush_times(&mut self, inode: u64, tree: &Tree) {
        if let (Some(durable), Some(current)) = (self.durable.inode_mut(inode), tree.inode(inode)) {
            durable.meta.accessed = current.meta.accessed;
            durable.meta.modified = current.meta.modified;
            durable.meta.changed = current.meta.changed;
        }
    }

    /// Notes what is durable from here on.
    fn add_base(&mut self) {
        let carried = Arc::from(self.pending.as_slice());
        self.bases.push(Base { position: self.log.len(), tree: self.durable.clone(), carried });
    }
}

impl Observer for Recorder {
    fn namespace(&mut self, operation: &'static str, deltas: Vec<Delta>) {
        let behind = self.log.len() + 1;
        for delta in &deltas {
            let touched = self.touched.entry(delta.touches()).or_default();
            touched.any = behind;
            if matches!(delta, Delta::Insert { .. }) {
                touched.data = behind;
            }
        }
        self.pending.push(self.log.len());
        self.log.push(Record::Namespace { operation, deltas });
    }

    fn data(&mut self, inode: u64, change: DataChange, old_len: u64, body: &FileBody) {
        let behind = self.log.len() + 1;
        let touched = self.touched.entry(inode).or_default();
        touched.any = behind;
        if body.len() != old_len || !matches!(change, DataChange::Write { .. }) {
            touched.data = behind;
        }
        let (written, cut) = match change {
            DataChange::Write { offset, len } => ([offset..offset + len, 0..0], None),
            DataChange::SetLen { len } if len < old_len => {
                ([len..len.next_multiple_of(SECTOR as u64), 0..0], Some(len..u64::MAX))
            }
            DataChange::Punch { offset, len } => {
                let end = offset + len;
                let head = offset..offset.next_multiple_of(SECTOR as u64).min(end);
                let tail = (end - end % SECTOR as u64).max(offset)..end;
                ([head, tail], Some(offset..end))
            }
            DataChange::SetLen { .. } | DataChange::Reserve { .. } => ([0..0, 0..0], None),
        };
        let versions = written.iter().flat_map(|range| versions_of(range, body)).collect();
        self.pending.push(self.log.len());
        self.log.push(Record::Data(DataRecord { inode, change, versions, cut, old_len, len: body.len() }));
    }

    fn barrier(&mut self, barrier: Barrier, tree: &Tree) {
        let touched = |inode| self.touched.get(&inode).copied().unwrap_or_default();
        let everything = self.log.len();
        match barrier {
            Barrier::Store => {
                self.durable = tree.clone();
                self.pending.clear();
            }
            Barrier::Directory(_) => self.flush_journal(everything),
            Barrier::Data(inode) | Barrier::File(inode) => {
                let position = match (self.file_sync, barrier) {
                    (FileSync::WholeJournal, _) => everything,
                    (FileSync::OwnChanges, Barrier::File(_)) => touched(inode).any,
                    (FileSync::OwnChanges, _) => touched(inode).data,
                };
                self.flush_journal(position);
                self.flush_file(inode, tree);
                if matches!(barrier, Barrier::File(_)) {
                    self.flush_times(inode, tree);
                }
            }
        }
        // An operation that is not durable yet may give a nameless inode a
        // name, even one that is gone by now.
        let named = self.pending_inodes();
        self.durable.prune(|number| tree.inode(number).is_some() || named.contains(&number));
        self.log.push(Record::Barrier(barrier));
        self.add_base();
    }

    fn lose_unsynced(&mut self, inode: u64) -> Option<FileBody> {
        let log = &self.log;
        self.pending.retain(|&at| !matches!(&log[at], Record::Data(data) if data.inode == inode));
        self.log.push(Record::Lost { inode });
        self.add_base();
        self.durable.file(inode).cloned()
    }
}

/// The pages of `body` under a range of bytes, with the sectors touched.
fn versions_of(range: &Range<u64>, body: &FileBody) -> Vec<PageVersion> {
    let mut versions = Vec::new();
    if range.is_empty() {
        return versions;
    }
    for page in range.start / PAGE as u64..range.end.div_ceil(PAGE as u64) {
        // Zeroing a hole writes nothing.
        let Some(content) = body.pages().page(page) else { continue };
        let start = page * PAGE as u64;
        let from = range.start.saturating_sub(start) as usize / SECTOR;
        let to = ((range.end - start).min(PAGE as u64) as usize).div_ceil(SECTOR);
        let mask = (from..to).fold(0u8, |mask, sector| mask | 1 << sector);
        versions.push(PageVersion { page, mask, content: Arc::clone(content) });
    }
    versions
}

fn event(record: &Record) -> Event {
    match record {
        Record::Namespace { operation, .. } => Event::Directory { operation },
        Record::Lost { inode } => Event::Lost { inode: *inode },
        Record::Data(DataRecord { inode, change, .. }) => match *change {
            DataChange::Write { offset, len } => Event::Write { inode: *inode, offset, len },
            DataChange::SetLen { len } => Event::SetLen { inode: *inode, len },
            DataChange::Punch { offset, len } => Event::Punch { inode: *inode, offset, len },
            DataChange::Reserve { offset, len, .. } => Event::Reserve { inode: *inode, offset, len },
        },
        Record::Barrier(Barrier::Data(inode)) => Event::SyncData { inode: *inode },
        Record::Barrier(Barrier::File(inode)) => Event::SyncAll { inode: *inode },
        Record::Barrier(Barrier::Directory(inode)) => Event::SyncDirectory { inode: *inode },
        Record::Barrier(Barrier::Store) => Event::SyncStore,
    }
}
