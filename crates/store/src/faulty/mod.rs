//! A store in memory that records what is done to it, builds the images that
//! a power cut could leave, and fails on demand.
//!
//! # The model of a power cut
//! The store is one that journals metadata and reorders data, such as ext4,
//! XFS or btrfs, and no stronger than any of them. `image(cut, seed)` is a
//! state in which the disk may be when the power fails just before the log's
//! entry `cut`; the seed chooses among them.
//!
//! **Operations.** *Directory operations* are all changes of names and of
//! metadata: create, mkdir, mknod, symlink, link, unlink, rmdir, rename,
//! chmod, chown, set times, set and remove xattr. *Changes of content* are
//! write, truncate, punch and allocate.
//!
//! 1. Directory operations reach the disk in their order: an image holds all
//!    that are durable and a prefix of the others. Each is atomic, a rename
//!    over another file included.
//! 2. Changes of content of different files, and those of one file among
//!    each other, are not ordered, nor are they against directory operations;
//!    but the content of a file that is not there is not there.
//! 3. Within a file, each 512-byte sector holds, by its own choice, the
//!    durable version or the one after any un-synced write that touched it.
//!    A version is the whole sector as a reader saw it after that write.
//! 4. The length is the durable one, one that the file had since its last
//!    barrier, or one that a growing write passed through (at multiples of
//!    4 KiB). Data need not be there where the length covers it: it reads as
//!    zeros or as its older version. Data behind the length is not there.
//! 5. Cuts (shrinking and punching) of one file happen in order, together
//!    with the lengths: those before the chosen length have happened, later
//!    ones have not. Sectors wholly cut are zero when the cut has happened,
//!    and what was written there after a cut that has not happened is not on
//!    the disk. The sector that a cut divides is written like any other.
//! 6. Allocation is kept or not with the lengths. No image is ever short of
//!    space.
//!
//! **Barriers.** A barrier covers everything that returned before it began.
//!
//! * `sync_data` and `sync_all` of a file: its content and length. Of the
//!   directory operations, under [`FileSync::OwnChanges`] (the default),
//!   `sync_all` makes durable all up to and including the last one on this
//!   inode or the last change of its content, whichever is later; `sync_data`
//!   all up to and including the inode's creation or the last change of its
//!   length, cut or allocation. The reason is that ext4 commits its journal
//!   at `fdatasync` only if the inode needs it: a rename followed by
//!   `fdatasync` of a preallocated file may be lost. Under
//!   [`FileSync::WholeJournal`] both make all directory operations durable.
//! * `sync` of a directory: all directory operations, of any directory; no
//!   content.
//! * `sync_all` of the store: everything.
//! * A barrier that fails makes nothing durable.
//!
//! What is there when recording begins is durable. Inodes without names are
//! not in an image. Times of files whose content changed may be older than
//! in any real crash; nothing should rest on them.
//!
//! # Seeds
//! The seeds 0 to 15 draw the 16 patterns of a cut once, further ones repeat
//! them with other details: nothing, everything, lengths without data, data
//! without lengths, all but one change, one change alone, the same with that
//! change torn or short of one sector, a prefix and a suffix in time with a
//! torn change between, the last change of each file alone, whole files, any
//! changes, any sectors.
//!
//! # Cost
//! Images share pages with the recorded store and start from the last
//! barrier, so an image costs what the changes since then cost. The log keeps
//! every page version; it is never shortened.

mod choice;
mod file;
mod image;
mod inject;
mod node;
mod record;

pub use inject::{Call, Effect, Plan};

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::memory::{self, Barrier, DataChange, Delta, FileBody, MemoryStore, Observer, Tree};
use crate::{Limits, NodeRef, Result, Space, Store};
use inject::{Faults, Verdict};
use node::FaultyNode;
use record::Recorder;

/// Bytes that the disk writes whole.
pub const SECTOR: usize = 512;

/// The seed of the image that holds what is durable and nothing else.
pub const NOTHING: u64 = 0;

/// The seed of the image that holds everything that was done.
pub const EVERYTHING: u64 = 1;

/// Which directory operations a barrier on a file makes durable; the module's
/// documentation says it exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileSync {
    /// Those that the file itself needs, and those before them.
    #[default]
    OwnChanges,
    /// All.
    WholeJournal,
}

/// One entry of the log. Inodes are numbers of the recorded store, lengths
/// and offsets bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the calls")]
pub enum Event {
    /// A change of names or metadata, by its system call.
    Directory { operation: &'static str },
    /// A write.
    Write { inode: u64, offset: u64, len: u64 },
    /// A cut or an extension.
    SetLen { inode: u64, len: u64 },
    /// A hole made.
    Punch { inode: u64, offset: u64, len: u64 },
    /// Space reserved.
    Reserve { inode: u64, offset: u64, len: u64 },
    /// A barrier on a file.
    SyncData { inode: u64 },
    /// A barrier on a file with all metadata.
    SyncAll { inode: u64 },
    /// A barrier on a directory.
    SyncDirectory { inode: u64 },
    /// A barrier on everything.
    SyncStore,
    /// A barrier on a file failed and lost what it should have covered.
    Lost { inode: u64 },
}

/// What all nodes of one faulty store share.
struct Shared {
    faults: Mutex<Faults>,
    /// What a barrier of the store has lost of files, which the next barrier of the
    /// file tells of, too, as Linux does.
    owed: Mutex<HashMap<u64, crate::Error>>,
    /// An open file stays what it was until it is refreshed.
    is_distant: bool,
}

impl Shared {
    /// Counts a call and decides what happens to it.
    fn enter(&self, call: Call, operation: &'static str) -> Result<Verdict> {
        let verdict = self.faults().enter(call, operation)?;
        if let Verdict::Late(by) = verdict {
            std::thread::sleep(by);
            return Ok(Verdict::Pass);
        }
        Ok(verdict)
    }

    /// The same for calls that either fail or pass.
    fn pass(&self, call: Call, operation: &'static str) -> Result<()> {
        self.enter(call, operation).map(|_| ())
    }

    fn owed(&self) -> MutexGuard<'_, HashMap<u64, crate::Error>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The recorder, reached from the recorded store and from here.
#[derive(Clone)]
struct SharedRecorder(Arc<Mutex<Recorder>>);

impl SharedRecorder {
    fn lock(&self) -> MutexGuard<'_, Recorder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for SharedRecorder {
    fn namespace(&mut self, operation: &'static str, deltas: Vec<Delta>) {
        self.lock().namespace(operation, deltas);
    }

    fn data(&mut self, inode: u64, change: DataChange, old_len: u64, body: &FileBody) {
        self.lock().data(inode, change, old_len, body);
    }

    fn barrier(&mut self, barrier: Barrier, tree: &Tree) {
        self.lock().barrier(barrier, tree);
    }

    fn lose_unsynced(&mut self, inode: u64) -> Option<FileBody> {
        self.lock().lose_unsynced(inode)
    }
}

/// A store in memory that records, and fails on demand.
#[derive(Clone)]
pub struct FaultyStore {
    memory: MemoryStore,
    recorder: Option<SharedRecorder>,
    shared: Arc<Shared>,
}

impl FaultyStore {
    /// Records what is done to `memory` from now on, through the new store or
    /// directly; what is there is durable.
    #[must_use]
    pub fn new(memory: MemoryStore) -> FaultyStore {
        FaultyStore::with_model(memory, FileSync::default())
    }

    /// The same with a chosen meaning of barriers on files.
    #[must_use]
    pub fn with_model(memory: MemoryStore, file_sync: FileSync) -> FaultyStore {
        let mut state = memory.shared().lock();
        let recorder = Recorder::new(state.tree().clone(), file_sync);
        let recorder = SharedRecorder(Arc::new(Mutex::new(recorder)));
        state.set_observer(Box::new(recorder.clone()));
        drop(state);
        FaultyStore { recorder: Some(recorder), ..FaultyStore::injecting(memory) }
    }

    /// Fails on demand, but records nothing: for long runs.
    #[must_use]
    pub fn injecting(memory: MemoryStore) -> FaultyStore {
        FaultyStore::sharing(memory, false)
    }

    /// The same as a machine sees it that reads what others write to `memory`:
    /// names and attributes are the present ones; an open file is read as it
    /// was when it was opened or last refreshed ([`crate::File::refresh`]), as
    /// stores with close-to-open consistency may give it.
    #[must_use]
    pub fn distant(memory: MemoryStore) -> FaultyStore {
        FaultyStore::sharing(memory, true)
    }

    fn sharing(memory: MemoryStore, is_distant: bool) -> FaultyStore {
        let shared =
            Arc::new(Shared { faults: Mutex::new(Faults::new()), owed: Mutex::default(), is_distant });
        FaultyStore { memory, recorder: None, shared }
    }

    /// The store underneath, which never fails.
    #[must_use]
    pub fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    /// Length of the log: the cut that holds all that was done so far; 0
    /// when nothing is recorded.
    #[must_use]
    pub fn position(&self) -> usize {
        self.recorder.as_ref().map_or(0, |recorder| recorder.lock().position())
    }

    /// The positions just behind each barrier.
    #[must_use]
    pub fn barriers(&self) -> Vec<usize> {
        self.recorder.as_ref().map_or_else(Vec::new, |recorder| recorder.lock().barriers())
    }

    /// A part of the log.
    ///
    /// # Panics
    /// If the range does not lie in the log.
    #[must_use]
    pub fn events(&self, range: Range<usize>) -> Vec<Event> {
        self.recorder.as_ref().map_or_else(Vec::new, |recorder| recorder.lock().events(range))
    }

    /// A state that a power cut just before the log's entry `cut` could leave.
    /// Equal arguments on equal histories give equal images.
    ///
    /// # Panics
    /// If `cut` lies behind the log's end, or nothing is recorded.
    #[must_use]
    pub fn image(&self, cut: usize, seed: u64) -> MemoryStore {
        let recorder = self.recorder.as_ref().expect("images need a recorded history").lock();
        assert!(cut <= recorder.position(), "the cut lies in the log");
        MemoryStore::from_tree(image::build(&recorder, cut, seed))
    }

    /// Lets calls fail; plans add up, and of several the oldest wins.
    pub fn fail(&self, plan: Plan) {
        self.shared.faults().add(plan);
    }

    /// Drops all plans: the store works again.
    pub fn heal(&self) {
        self.shared.faults().clear();
    }

    /// How many calls have been affected so far.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.shared.faults().fired()
    }

    /// How many calls were made so far, of one kind or of all.
    #[must_use]
    pub fn calls(&self, call: Option<Call>) -> u64 {
        self.shared.faults().count(call)
    }
}

impl Store for FaultyStore {
    fn root(&self) -> NodeRef {
        let root: &Arc<memory::MemoryNode> = self.memory.root_node();
        Arc::new(FaultyNode::new(Arc::clone(&self.shared), Arc::clone(root)))
    }

    fn sync_all(&self) -> Result<()> {
        match self.shared.enter(Call::SyncStore, "syncfs")? {
            Verdict::Lose(error) => {
                // No file's barrier comes between what is lost and what it is to be told.
                let mut owed = self.shared.owed();
                let lost =
                    self.recorder.as_ref().map(|recorder| recorder.lock().unwritten()).unwrap_or_default();
                self.memory.lose_unsynced(&lost);
                owed.extend(lost.into_iter().map(|inode| (inode, error)));
                Err(error)
            }
            _ => self.memory.sync_all(),
        }
    }

    fn space(&self) -> Result<Space> {
        self.shared.pass(Call::Space, "statvfs")?;
        self.memory.space()
    }

    fn limits(&self) -> Limits {
        self.memory.limits()
    }
}
