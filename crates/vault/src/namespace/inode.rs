//! The inodes that the kernel knows: numbers, lookup counts, and what is kept
//! per inode while it is known.
//!
//! Invariants: a store inode is in the table at most once, but for one that was
//! something else before, which stays known by its number; numbers are never
//! used again while the table lives, so their generation is always the same;
//! an entry holds its store node, so that the store cannot give its identity
//! to another inode meanwhile.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Bound, Deref};
use std::sync::{Arc, OnceLock, TryLockError};

use strongroom_format::vault::DirectoryId;
use strongroom_store::{InodeId, Kind, NodeRef};

use super::crowd::Crowd;
use super::decoded::DecodedNames;
pub(super) use super::locks::{lock, read, write};
use super::shape::Shape;
use crate::content::{Content, Contents, Home};
use crate::error::{Error, Result, errno};
use crate::waiting::StaleHome;

/// The number of the top directory.
pub const ROOT: u64 = 1;

/// The generation of every number.
pub const GENERATION: u64 = 0;

/// The name by which an inode was last found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the directory.
    pub(super) parent: u64,
    /// Its id.
    pub(super) directory: DirectoryId,
    /// The plain name in it.
    pub(super) name: Arc<[u8]>,
    /// The stored name of the entry.
    pub(super) stored: Arc<[u8]>,
}

/// A directory on its way from one home to another.
pub(super) struct Leaving {
    /// What is to be removed when it has moved.
    pub(super) stale: StaleHome,
    /// The name of its new home, to be removed when it has not.
    pub(super) new: Vec<u8>,
    pub(super) from: [u8; 16],
    pub(super) to: [u8; 16],
}

/// What a directory's gate guards: whether it may still be given entries.
#[derive(Debug, Default)]
pub(super) struct Gate {
    pub(super) removed: bool,
}

#[derive(Default)]
struct Opens {
    count: u64,
    content: Option<Arc<Content>>,
}

/// One inode that the kernel knows.
pub(super) struct Inode {
    pub(super) number: u64,
    pub(super) node: NodeRef,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    lookups: AtomicU64,
    /// Asked for since the clock hand last passed.
    used: AtomicBool,
    /// Of a directory: held to read by lookups, to write by whatever changes
    /// its entries.
    pub(super) gate: RwLock<Gate>,
    /// Held while a file is given a further name.
    pub(super) linking: Mutex<()>,
    /// Held while mode and owner change, so that a mode widened for a moment
    /// is restored to what it was.
    pub(super) metadata: Mutex<()>,
    pub(super) place: Mutex<Option<Place>>,
    pub(super) directory_id: OnceLock<DirectoryId>,
    /// Of a directory whose id is known: under which it may stand.
    pub(super) homes: Mutex<BTreeSet<[u8; 16]>>,
    /// Of a directory that is being renamed: the home that it leaves.
    pub(super) leaving: Mutex<Option<Leaving>>,
    pub(super) target: OnceLock<Box<[u8]>>,
    pub(super) decoded: Mutex<Option<Arc<DecodedNames>>>,
    file_id: OnceLock<[u8; 16]>,
    /// It was made by this mount, and has not been given a sealed extended
    /// attribute since.
    bare: AtomicBool,
    /// Of no directory: its last name has been removed, whatever the store counts.
    unlinked: AtomicBool,
    opens: Mutex<Opens>,
}

impl Inode {
    fn new(number: u64, node: NodeRef, shape: Shape, lookups: u64) -> Inode {
        Inode {
            number,
            kind: shape.kind(),
            shape,
            node,
            lookups: AtomicU64::new(lookups),
            used: AtomicBool::new(true),
            gate: RwLock::default(),
            linking: Mutex::default(),
            metadata: Mutex::default(),
            place: Mutex::default(),
            directory_id: OnceLock::new(),
            homes: Mutex::default(),
            leaving: Mutex::default(),
            target: OnceLock::new(),
            decoded: Mutex::default(),
            file_id: OnceLock::new(),
            bare: AtomicBool::new(false),
            unlinked: AtomicBool::new(false),
            opens: Mutex::default(),
        }
    }

    /// Opens the content, or counts a further handle of it.
    pub(super) fn open(&self, contents: &Arc<Contents>, home: Option<Home>) -> Result<Arc<Content>> {
        let mut opens = lock(&self.opens);
        let content = match &opens.content {
            Some(content) if content.renew(home)? => {
                content.check_live(home)?;
                Arc::clone(content)
            }
            _ => contents.open(&self.node, home)?,
        };
        self.count_open(&mut opens, &content);
        Ok(content)
    }

    /// Counts the first handle of a file that has just been created.
    pub(super) fn adopted(&self, content: &Arc<Content>) {
        self.count_open(&mut lock(&self.opens), content);
    }

    fn count_open(&self, opens: &mut Opens, content: &Arc<Content>) {
        opens.count += 1;
        opens.content = Some(Arc::clone(content));
        // The id of what a crash has emptied is none that anything is bound to.
        if content.has_attributes() {
            self.file_id.get_or_init(|| content.id().0);
        }
    }

    /// Gives a handle back; the last one releases the content.
    pub(super) fn close(&self) {
        let mut opens = lock(&self.opens);
        opens.count = opens.count.saturating_sub(1);
        if opens.count == 0
            && let Some(content) = opens.content.take()
        {
            content.released();
        }
    }

    /// The content, if it is live.
    pub(super) fn live(&self, contents: &Arc<Contents>) -> Option<Arc<Content>> {
        let opened = lock(&self.opens).content.clone();
        opened.or_else(|| contents.live(self.node.id()))
    }

    /// The file's id, if the file has ever been opened.
    pub(super) fn file_id(&self) -> Option<[u8; 16]> {
        self.file_id.get().copied()
    }

    /// True when it is known to have no sealed extended attribute: the store
    /// need not be asked.
    pub(super) fn is_bare(&self) -> bool {
        self.bare.load(Ordering::Acquire)
    }

    /// It has just been made, without any. Nobody else can name it yet.
    pub(super) fn set_bare(&self) {
        self.bare.store(true, Ordering::Release);
    }

    /// It is about to be given one.
    pub(super) fn clothe(&self) {
        self.bare.store(false, Ordering::Release);
    }

    /// Notes that the inode is in use.
    fn touch(&self) {
        // Read first: a line that many processors share is seldom written.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the inode was asked for since this was last called.
    pub(super) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// True while a handle is open, or somebody opens or closes one.
    pub(super) fn is_open(&self) -> bool {
        match self.opens.try_lock() {
            Ok(opens) => opens.count > 0,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().count > 0,
            Err(TryLockError::WouldBlock) => true,
        }
    }

    /// True for a directory that has been removed, or that somebody is
    /// removing: what else holds the gate has read the record before.
    pub(super) fn is_removed(&self) -> bool {
        match self.gate.try_read() {
            Ok(gate) => gate.removed,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().removed,
            Err(TryLockError::WouldBlock) => true,
        }
    }

    /// Sets the name by which the inode is known.
    pub(super) fn placed(&self, place: Place) {
        *lock(&self.place) = Some(place);
        self.unlinked.store(false, Ordering::Release);
    }

    /// Its last name has been removed, by this mount.
    pub(super) fn set_unlinked(&self) {
        self.unlinked.store(true, Ordering::Release);
    }

    /// True once its last name has been removed, by this mount.
    pub(super) fn is_unlinked(&self) -> bool {
        self.unlinked.load(Ordering::Acquire)
    }

    /// Forgets the name, if it is this one.
    pub(super) fn displaced(&self, parent: u64, name: &[u8]) {
        let mut place = lock(&self.place);
        if place.as_ref().is_some_and(|place| place.parent == parent && *place.name == *name) {
            *place = None;
        }
    }
}

#[derive(Default)]
struct Maps {
    /// In order, for the clock hand to go through.
    by_number: BTreeMap<u64, Arc<Inode>>,
    by_id: HashMap<InodeId, Arc<Inode>>,
}

/// All inodes that the kernel knows.
pub(super) struct Table {
    maps: RwLock<Maps>,
    next: AtomicU64,
    /// Who is told when there are many.
    pub(super) crowd: Crowd,
}

impl Table {
    /// A table that knows the top directory, and never forgets it.
    pub(super) fn new(root: NodeRef) -> Table {
        let mut maps = Maps::default();
        let id = root.id();
        let inode = Arc::new(Inode::new(ROOT, root, Shape::Directory, 1));
        maps.by_number.insert(ROOT, Arc::clone(&inode));
        maps.by_id.insert(id, inode);
        Table { maps: RwLock::new(maps), next: AtomicU64::new(ROOT + 1), crowd: Crowd::default() }
    }

    /// The inode of a number.
    pub(super) fn inode(&self, number: u64) -> Result<Arc<Inode>> {
        let maps = read(&self.maps);
        let inode = maps.by_number.get(&number).ok_or(Error::Refused(errno::ESTALE))?;
        inode.touch();
        Ok(Arc::clone(inode))
    }

    /// The inode of a store inode, if it is known.
    pub(super) fn known(&self, id: InodeId) -> Option<Arc<Inode>> {
        read(&self.maps).by_id.get(&id).cloned()
    }

    /// Counts a lookup of a store inode that is known.
    fn looked_up_known(&self, id: InodeId) -> Option<Arc<Inode>> {
        let maps = read(&self.maps);
        let inode = maps.by_id.get(&id)?;
        inode.lookups.fetch_add(1, Ordering::Relaxed);
        inode.touch();
        Some(Arc::clone(inode))
    }

    /// Counts a lookup of a store inode, which becomes known by it. One that
    /// was something else when it became known gets another number.
    fn looked_up(&self, node: NodeRef, shape: Shape) -> Arc<Inode> {
        let id = node.id();
        let mut maps = write(&self.maps);
        if let Some(inode) = maps.by_id.get(&id).filter(|inode| inode.shape.is_as(&shape)) {
            inode.lookups.fetch_add(1, Ordering::Relaxed);
            inode.touch();
            return Arc::clone(inode);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let inode = Arc::new(Inode::new(number, node, shape, 1));
        maps.by_number.insert(number, Arc::clone(&inode));
        maps.by_id.insert(id, Arc::clone(&inode));
        let known = maps.by_number.len();
        drop(maps);
        self.crowd.grown_to(known);
        inode
    }

    /// Takes back `count` lookups; an inode without any is no longer known.
    pub(super) fn forget(&self, number: u64, count: u64) -> Option<InodeId> {
        if number == ROOT {
            return None;
        }
        let uncount = |inode: &Arc<Inode>| {
            let left = |lookups: u64| Some(lookups.saturating_sub(count));
            let before = inode.lookups.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
            before.is_ok_and(|before| before <= count)
        };
        if !read(&self.maps).by_number.get(&number).is_some_and(uncount) {
            return None;
        }
        // Counting up takes the lock too, so that none comes in between here.
        let mut maps = write(&self.maps);
        let unknown = maps.by_number.get(&number).filter(|inode| inode.lookups.load(Ordering::Relaxed) == 0);
        if let Some(id) = unknown.map(|inode| inode.node.id()) {
            let is_it = maps.by_id.get(&id).is_some_and(|inode| inode.number == number);
            let by_id = if is_it { maps.by_id.remove(&id) } else { None };
            let dropped = (maps.by_number.remove(&number), by_id);
            drop(maps);
            // Closing a descriptor is not for others to wait for.
            drop(dropped);
            return is_it.then_some(id);
        }
        None
    }

    /// Up to `count` inodes whose numbers are above `after`, in their order.
    pub(super) fn above(&self, after: u64, count: usize) -> Vec<Arc<Inode>> {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        read(&self.maps).by_number.range(range).take(count).map(|(_, inode)| Arc::clone(inode)).collect()
    }

    /// How many inodes are known.
    pub(super) fn len(&self) -> usize {
        read(&self.maps).by_number.len()
    }

    /// An inode that stays known for as long as the pin lives.
    pub(super) fn pin(&self, node: NodeRef, shape: Shape) -> Pin<'_> {
        Pin { table: self, inode: self.looked_up(node, shape), kept: false }
    }

    /// The same of one that is known.
    pub(super) fn pin_known(&self, id: InodeId) -> Option<Pin<'_>> {
        self.looked_up_known(id).map(|inode| Pin { table: self, inode, kept: false })
    }
}

/// A lookup that is taken back when it goes out of scope.
pub(super) struct Pin<'a> {
    table: &'a Table,
    inode: Arc<Inode>,
    kept: bool,
}

impl Pin<'_> {
    /// Leaves the lookup to whoever will forget the inode; its number.
    pub(super) fn keep(mut self) -> u64 {
        self.kept = true;
        self.inode.number
    }
}

impl Deref for Pin<'_> {
    type Target = Arc<Inode>;

    fn deref(&self) -> &Arc<Inode> {
        &self.inode
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.table.forget(self.inode.number, 1);
        }
    }
}

/// A handle of a content that is given back when it goes out of scope.
pub(super) struct Using<'a> {
    inode: &'a Inode,
    content: Arc<Content>,
    kept: bool,
}

impl<'a> Using<'a> {
    /// Takes over a handle that [`Inode::open`] has counted.
    pub(super) fn new(inode: &'a Inode, content: Arc<Content>) -> Using<'a> {
        Using { inode, content, kept: false }
    }

    /// Leaves the handle to whoever will close the inode.
    pub(super) fn keep(mut self) -> Arc<Content> {
        self.kept = true;
        Arc::clone(&self.content)
    }
}

impl Deref for Using<'_> {
    type Target = Content;

    fn deref(&self) -> &Content {
        &self.content
    }
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.inode.close();
        }
    }
}
