//! What all nodes of a store in memory share: the tree, who refers to which
//! inode, the clock and the space; and the one way to change any of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use super::body::FileBody;
use super::observer::{Barrier, DataChange, Observer};
use super::pages::PAGE;
use super::tree::{Body, Delta, Directory, Inode, Meta, ROOT, Tree};
use crate::{Error, Kind, Result, Timestamp};

/// Seconds at which the clock of an empty store starts.
const EPOCH: i64 = 1_000_000_000;
/// Nanoseconds that every operation takes by the store's clock.
const TICK: u32 = 1_000_000;
/// Largest file (what the system's offsets can say).
const FILE_MAX: u64 = i64::MAX as u64;

/// The state of a store in memory.
pub(crate) struct State {
    tree: Tree,
    /// How many nodes and files refer to an inode; none are not listed.
    references: BTreeMap<u64, usize>,
    next_inode: u64,
    clock: Timestamp,
    /// In pages.
    capacity: Option<u64>,
    /// In pages.
    used: u64,
    observer: Option<Box<dyn Observer>>,
}

impl State {
    /// An empty store.
    pub(crate) fn empty(capacity: Option<u64>) -> State {
        let clock = Timestamp { seconds: EPOCH, nanoseconds: 0 };
        let mut tree = Tree::default();
        let mut meta = new_meta(Kind::Directory, 0o755, clock);
        meta.links = 2;
        let body = Body::Directory(Directory { parent: ROOT, entries: BTreeMap::new() });
        tree.apply(&Delta::Insert { inode: ROOT, content: Arc::new(Inode { meta, body }) });
        State::over(tree, capacity)
    }

    /// A store that holds `tree`.
    pub(crate) fn over(tree: Tree, capacity: Option<u64>) -> State {
        let latest = tree.numbers().filter_map(|number| tree.inode(number)).map(|inode| inode.meta.changed);
        let clock = latest.max().unwrap_or_default();
        let next_inode = tree.numbers().max().unwrap_or(ROOT) + 1;
        let used = match capacity {
            None => 0,
            Some(_) => tree.numbers().filter_map(|number| tree.file(number)).map(FileBody::charged).sum(),
        };
        State { tree, references: BTreeMap::new(), next_inode, clock, capacity, used, observer: None }
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn set_observer(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Size and free space in pages, for `statvfs`.
    pub(crate) fn space(&self) -> (u64, u64) {
        const UNBOUNDED: u64 = 1 << 40;
        let total = self.capacity.unwrap_or(UNBOUNDED);
        (total, total.saturating_sub(self.used))
    }

    pub(crate) fn set_capacity(&mut self, pages: Option<u64>) {
        self.capacity = pages;
        self.used = self.tree.numbers().filter_map(|n| self.tree.file(n)).map(FileBody::charged).sum();
    }

    /// The time of the operation at hand.
    pub(crate) fn now(&mut self) -> Timestamp {
        self.clock.nanoseconds += TICK;
        if self.clock.nanoseconds >= 1_000_000_000 {
            self.clock.nanoseconds -= 1_000_000_000;
            self.clock.seconds += 1;
        }
        self.clock
    }

    /// A number that no inode has.
    pub(crate) fn new_number(&mut self) -> u64 {
        self.next_inode += 1;
        self.next_inode - 1
    }

    /// Counts one more reference to an inode.
    pub(crate) fn refer(&mut self, inode: u64) {
        *self.references.entry(inode).or_insert(0) += 1;
    }

    /// Counts one reference less; the last one to a nameless inode frees it.
    pub(crate) fn release(&mut self, inode: u64) {
        if let Some(count) = self.references.get_mut(&inode) {
            *count -= 1;
            if *count == 0 {
                self.references.remove(&inode);
                self.free_if_unused(inode);
            }
        }
    }

    fn free_if_unused(&mut self, number: u64) {
        let nameless = self.tree.inode(number).is_some_and(|inode| inode.meta.links == 0);
        if nameless && !self.references.contains_key(&number) {
            if self.capacity.is_some() {
                let freed = self.tree.file(number).map_or(0, FileBody::charged);
                self.used = self.used.saturating_sub(freed);
            }
            self.tree.forget(number);
        }
    }

    /// The inode `number`; whoever has a node of it keeps it.
    pub(crate) fn inode(&self, number: u64, operation: &'static str) -> Result<&Arc<Inode>> {
        self.tree.inode(number).ok_or(Error::new(Errno::STALE.raw_os_error(), operation))
    }

    /// Does a directory or metadata operation, which has been checked.
    pub(crate) fn commit(&mut self, operation: &'static str, deltas: Vec<Delta>) {
        for delta in &deltas {
            self.tree.apply(delta);
        }
        for delta in &deltas {
            if let Delta::SetMeta { inode, .. } = delta {
                self.free_if_unused(*inode);
            }
        }
        if let Some(observer) = &mut self.observer {
            observer.namespace(operation, deltas);
        }
    }

    /// Changes the content of a file: checks length and space, does it, sets
    /// the times and tells the observer.
    pub(crate) fn change_data(&mut self, inode: u64, change: DataChange, data: &[u8]) -> Result<()> {
        let operation = change.operation();
        let fail = |errno: Errno| Err(Error::new(errno.raw_os_error(), operation));
        let Some(end) = change.end().filter(|&end| end <= FILE_MAX) else {
            return fail(change.refusal());
        };
        let Some(body) = self.tree.file(inode) else { return fail(Errno::STALE) };
        let range = match change {
            DataChange::Write { offset, .. } | DataChange::Reserve { offset, .. } => Some(offset..end),
            DataChange::SetLen { .. } | DataChange::Punch { .. } => None,
        };
        let before = self.capacity.map(|_| body.charged());
        if let (Some(capacity), Some(range)) = (self.capacity, range)
            && self.used + body.missing(&range) > capacity
        {
            return fail(Errno::NOSPC);
        }
        let now = self.now();
        let found = self.tree.inode_mut(inode).expect("found above");
        found.meta.modified = now;
        found.meta.changed = now;
        let Body::File(body) = &mut found.body else { return fail(Errno::INVAL) };
        let old_len = body.len();
        apply_change(body, change, data);
        if let Some(before) = before {
            self.used = (self.used + body.charged()).saturating_sub(before);
        }
        if let Some(observer) = &mut self.observer {
            observer.data(inode, change, old_len, body);
        }
        Ok(())
    }

    /// Passes a barrier on: in memory there is nothing to do.
    pub(crate) fn barrier(&mut self, barrier: Barrier) {
        if let Some(observer) = &mut self.observer {
            observer.barrier(barrier, &self.tree);
        }
    }

    /// Takes back all that no barrier covered of one file's content, as a
    /// page cache may after a failed write-back.
    pub(crate) fn lose_unsynced(&mut self, inode: u64) {
        let Some(observer) = &mut self.observer else { return };
        let durable = observer.lose_unsynced(inode).unwrap_or_default();
        if let Some(body) = self.tree.file_mut(inode) {
            let before = body.charged();
            *body = durable;
            if self.capacity.is_some() {
                self.used = (self.used + body.charged()).saturating_sub(before);
            }
        }
    }
}

/// Does what `change` says.
fn apply_change(body: &mut FileBody, change: DataChange, data: &[u8]) {
    match change {
        DataChange::Write { offset, .. } => body.write(data, offset),
        DataChange::SetLen { len } => body.set_len(len),
        DataChange::Punch { offset, len } => {
            let range: Range<u64> = offset..(offset + len).min(body.len().next_multiple_of(PAGE as u64));
            if range.start < range.end {
                body.punch(&range);
            }
        }
        DataChange::Reserve { offset, len, extend } => {
            body.reserve(&(offset..offset + len));
            if extend {
                body.set_len(body.len().max(offset + len));
            }
        }
    }
}

/// Metadata of an inode without names.
pub(crate) fn new_meta(kind: Kind, mode: u32, now: Timestamp) -> Meta {
    Meta {
        kind,
        mode: mode & 0o7777,
        links: 0,
        uid: 0,
        gid: 0,
        device: 0,
        accessed: now,
        modified: now,
        changed: now,
        xattrs: Arc::default(),
        linkable: false,
    }
}
