//! What files hold: pages, blocks, and the order in which they reach the store.
//!
//! A [`Content`] is one stored file, shared by all who have it open.
//! `range` is arithmetic; `state`, with its parts `life`, `pending`, `journaled`
//! and `images`, is bookkeeping; `read`, `write`, with `place` and `filled`,
//! `resize` and `settle` are what callers ask for; `emit`, `commit` and
//! `checkpoint` carry changes through the journal to their homes, and `rounds`
//! does that for all files.
//!
//! Lock order: `committing` of one content (of several: by `Content::order`),
//! then its `state`. Nothing waits for journal space while it holds either.

mod ahead;
pub(crate) mod aside;
mod checkpoint;
mod commit;
mod damaged;
mod emit;
mod examine;
mod filled;
mod follow;
mod images;
mod journaled;
mod load;
mod masked;
mod openings;
mod pages;
mod pending;
mod place;
mod range;
mod read;
mod rescue;
mod reserve;
mod resize;
mod rounds;
mod settle;
mod spare;
mod specials;
mod state;
mod table;
mod verify;
mod write;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::{Arc, PoisonError};

use strongroom_engine::Buffer;
use strongroom_format::vault::block::BlockContext;
use strongroom_format::vault::{DirectoryId, FileId, Geometry};
use strongroom_store::{FileRef, InodeId, NodeRef, SetTime};
use strongroom_units::PAGE_LEN;

use crate::context::Context;
use crate::error::Result;
use crate::freshness::Version;
use crate::journal::Promise;
use crate::masks::window::Windows;
use crate::rules::Rule;
use crate::sealer::Purpose;
pub(crate) use checkpoint::checkpoint_all;
pub(crate) use commit::{Extent, commit_all};
pub use examine::{BATCH, Examination, Examined, Loss};
use state::State;
pub use table::Contents;
use table::Table;
pub use verify::Verification;

/// Nodes that one file keeps in memory before clean ones are dropped: 16 MiB
/// of them, for 2 GiB of data in blocks of 4 KiB.
const NODES_IN_MEMORY: usize = 4096;

/// Slots for a commit of the header page alone, whose record has the longest
/// path hint.
const HEADER_SLOTS: u32 = 4;

/// A sync after at most this many fresh bytes makes the next small writes
/// journaled.
const SMALL_SYNC: u64 = 64 << 10;

/// What binds a file to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The MAC over directory id and plain name.
    pub mac: [u8; 16],
    /// The directory, by which its record can be made anew when it is lost.
    pub directory: DirectoryId,
}

impl Home {
    /// Of a file without a name.
    pub const UNBOUND: Home = Home { mac: [0; 16], directory: DirectoryId([0; DirectoryId::LEN]) };
}

/// How a range is reserved or cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Reserve space; extend the length unless `keep_len`.
    Reserve {
        /// Leave the length.
        keep_len: bool,
    },
    /// Make it a hole; the length stays.
    Punch,
    /// Make it read as zeros.
    Zero {
        /// Leave the length.
        keep_len: bool,
    },
}

/// The content of one file, shared by all who have it open.
pub struct Content {
    context: Arc<Context>,
    table: Arc<Table>,
    id: FileId,
    inode: InodeId,
    /// Of a file that somebody may be writing to: by this it is opened anew.
    node: Option<NodeRef>,
    file: FileRef,
    blocks: BlockContext,
    path_hint: Mutex<Vec<u8>>,
    handles: AtomicUsize,
    /// The header page is gone: nothing of group 0 can be read, and what the
    /// header fields say was guessed from the stored length.
    lost_header: bool,
    /// A writer beside us has created it and not committed it yet.
    emptied: bool,
    committing: Mutex<()>,
    /// Held by each barrier on the stored file.
    home_barrier: Mutex<()>,
    state: RwLock<State>,
    /// Masks for what will be read next.
    windows: Mutex<Windows>,
}

impl Content {
    /// The file's id.
    #[must_use]
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The generation of the keys that seal it, the same for the whole file.
    fn generation(&self) -> u32 {
        self.blocks.generation()
    }

    /// The directory of the file's home; zero when it has none. Not held
    /// against anything: a hint for finding a directory's lost id.
    #[must_use]
    pub fn directory(&self) -> DirectoryId {
        self.read_state().header.directory
    }

    /// The MAC of the file's home; zero when it has none.
    #[must_use]
    pub fn home(&self) -> [u8; 16] {
        self.read_state().header.home
    }

    /// Whether the file may stand under this home.
    #[must_use]
    pub fn belongs(&self, home: Home) -> bool {
        let state = self.read_state();
        let before = state.header.home_before == home.mac && home != Home::UNBOUND;
        state.header.linked || state.header.home == home.mac || before
    }

    /// Whether the file has had several names, and is bound to none.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        self.read_state().header.linked
    }

    /// Whether the header page was there; without it, group 0 is lost, and an
    /// examination says so.
    #[must_use]
    pub fn has_header(&self) -> bool {
        !self.lost_header
    }

    /// Whether the stored file's extended attributes are this file's: not when
    /// nobody has committed the id that they are bound to.
    #[must_use]
    pub fn has_attributes(&self) -> bool {
        !self.emptied
    }

    /// Its data will be read once: the store need not keep it in memory.
    pub fn read_once(&self) {
        self.file.read_once();
    }

    /// Whether the stored file may be changed, and not read alone.
    ///
    /// # Errors
    /// What the store reports of every change.
    pub fn check_writable(&self) -> Result<()> {
        Ok(self.file.check_writable()?)
    }

    /// Plain length in bytes.
    #[must_use]
    pub fn plain_len(&self) -> u64 {
        self.read_state().plain_len().0
    }

    /// Sets the stored times, between commits and checkpoints, which put back
    /// the times that they found. A record that is not home yet would bring
    /// older ones back after a crash: another is to follow it.
    ///
    /// # Errors
    /// What the journal or the store reported.
    pub fn set_times(&self, accessed: SetTime, modified: SetTime) -> Result<()> {
        let is_journaled = self.read_state().is_journaled();
        let mut promise = if is_journaled { self.promise_for_header()? } else { Promise::new(None, 0) };
        let _commit = self.lock_commit();
        let mut state = self.write_state();
        state.touched = None;
        self.set_stored_times(&state, accessed, modified)?;
        if state.journaled.committed().is_some() && self.context.writable {
            self.note_dirty(&mut state, &mut promise);
        }
        Ok(())
    }

    /// The file is about to be renamed, or was not after all: it belongs under
    /// its new home, and until the rename is durable under the old one too.
    ///
    /// # Errors
    /// `EROFS`, or what the journal or a barrier reported.
    pub fn bind(&self, home: Home) -> Result<()> {
        self.await_move(home)?;
        self.change_header(|state| {
            if state.header.home != home.mac {
                state.header.home_before = state.header.home;
                state.header.home = home.mac;
                state.moved = None;
            }
            state.header.directory = home.directory;
        })
    }

    /// The file is bound to another name, and nobody has moved it there: it
    /// belongs under the one where it stands alone.
    pub(crate) fn stays(&self, home: Home) -> Result<()> {
        self.change_header(|state| {
            state.header.home = home.mac;
            state.header.home_before = [0; 16];
            state.header.directory = home.directory;
            state.moved = None;
        })
    }

    /// A second rename forgets the home before the first, which has to be
    /// durable then.
    fn await_move(&self, home: Home) -> Result<()> {
        let state = self.read_state();
        let forgets = state.header.home_before != [0; 16] && state.header.home != home.mac;
        let moved = state.moved;
        drop(state);
        let is_durable = moved.is_some_and(|began| self.context.barriers.covers(began));
        if forgets && !is_durable { self.context.sync_store() } else { Ok(()) }
    }

    /// The file has been renamed to its home.
    pub fn has_moved(&self) {
        self.write_state().moved = Some(self.context.barriers.begun());
    }

    /// The file has got a further name, and is no longer bound to one.
    ///
    /// # Errors
    /// `EROFS`, or what the journal reported.
    pub fn linked(&self) -> Result<()> {
        self.change_header(|state| state.header.linked = true)
    }

    /// No further name was given after all: the file belongs under its home alone.
    pub(crate) fn stays_bound(&self) -> Result<()> {
        self.change_header(|state| state.header.linked = false)
    }

    /// Makes sure that a crash finds the name by which the header binds the
    /// file as soon as it finds the file under it (rule 6). What was never
    /// durable needs no barrier: its header page is written again in place.
    ///
    /// # Errors
    /// What the store reported.
    pub(crate) fn vouch(&self) -> Result<()> {
        if !self.context.rules.keeps(Rule::HomeBeforeName) {
            return Ok(());
        }
        if self.rewrite_in_place()? { Ok(()) } else { self.sync_pending() }
    }

    fn change_header(&self, change: impl FnOnce(&mut State)) -> Result<()> {
        self.context.check_writable()?;
        let mut promise = self.promise_for_header()?;
        let mut state = self.write_state();
        change(&mut state);
        self.note_dirty(&mut state, &mut promise);
        Ok(())
    }

    /// The file's last name has been removed: nothing more of it need become
    /// durable. What is committed stays so until the removal is durable too.
    pub fn unlinked(&self) {
        let mut state = self.write_state();
        state.naming.note_removed();
        if state.is_journaled() {
            self.context.waiting.note_removed();
        }
        self.context.release(state.pending.take_slots());
    }

    /// The header page that is durable, if nothing newer is on its way.
    pub(crate) fn durable_version(&self) -> Option<Version> {
        let state = self.read_state();
        let waits = state.is_dirty() || state.pending.is_under_way() || state.unsynced.is_some();
        state.version().filter(|_| state.birth.is_written() && !waits)
    }

    /// Where recovery looks for the file first: its stored path from the vault.
    pub fn set_path_hint(&self, path: Vec<u8>) {
        *self.path_hint.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }

    fn path_hint(&self) -> Vec<u8> {
        self.path_hint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The order in which several contents are locked.
    pub(crate) fn order(&self) -> InodeId {
        self.inode
    }

    /// All contents of the vault.
    fn contents(&self) -> Contents {
        Contents { context: Arc::clone(&self.context), table: Arc::clone(&self.table) }
    }

    /// The file may have something to commit from now on.
    fn note_pending(&self) {
        self.context.waiting.note_pending(self.inode);
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.context.geometry
    }

    pub(crate) fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_commit(&self) -> MutexGuard<'_, ()> {
        self.committing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Slots for a change of `len` bytes at `offset`: images of all blocks it
    /// touches, their pages and the maps, and the beginning of a commit. The
    /// file is listed as pending first, so that a rotation waits for it.
    pub(crate) fn promise_for(&self, offset: u64, len: u64) -> Result<Promise<'_>> {
        let size = self.geometry().block_size().bytes();
        let blocks = (offset % size + len).div_ceil(size) + 2;
        let images = blocks * (size / PAGE_LEN as u64);
        let pages = 3 * (blocks / strongroom_units::GROUP_BLOCKS + 3);
        self.note_pending();
        let slots = images + pages + images / 128 + 4;
        self.promise(u32::try_from(slots).unwrap_or(u32::MAX))
    }

    /// As [`Content::promise_for`], for a change of the header page alone.
    fn promise_for_header(&self) -> Result<Promise<'_>> {
        self.note_pending();
        self.promise(HEADER_SLOTS)
    }

    /// `len` zero bytes that suit the engine, for blocks of this file.
    fn block_buffer(&self, len: usize) -> Buffer {
        self.context.sealer.buffer(Purpose::Blocks(self.generation()), len)
    }

    /// How many hold this content open.
    pub(crate) fn handles(&self) -> usize {
        self.handles.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Content({})", self.id)
    }
}

/// The node of a stored file, with the file opened.
pub(crate) struct Opened {
    pub(crate) node: NodeRef,
    pub(crate) file: FileRef,
    /// It was never durable, and a barrier that failed may have taken parts of it.
    pub(crate) doubted: bool,
}
