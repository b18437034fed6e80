//! A store in memory, for tests and simulation: it behaves as a local store
//! does, error numbers included, and is deterministic. Its clock advances by
//! a millisecond per operation, its directories list by name, its inode
//! numbers are counted.
//!
//! Not modelled: permission checks (everybody is root), the umask, access
//! times changed by reading, and the store's own use of space for anything
//! but file contents. A write that finds no space writes nothing.

mod body;
mod file;
mod names;
mod node;
mod observer;
mod pages;
mod state;
mod tree;

pub(crate) use body::FileBody;
pub(crate) use file::MemoryFile;
pub(crate) use node::MemoryNode;
pub(crate) use observer::{Barrier, DataChange, Observer};
pub(crate) use pages::{PAGE, Page};
pub(crate) use tree::{Delta, Tree};

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Limits, NodeRef, Result, Space, Store};
use state::State;
use tree::ROOT;

/// What all nodes of one store share.
pub(crate) struct Shared {
    state: Mutex<State>,
}

impl Shared {
    /// The state. A panic of another thread leaves it as it was between two
    /// operations or inside one; tests that panic have failed already.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A counted reference to an inode: while there is one, the inode outlives
/// its names.
pub(crate) struct Handle {
    shared: Arc<Shared>,
    inode: u64,
}

impl Handle {
    /// Takes over a reference that was counted under the lock.
    fn counted(shared: &Arc<Shared>, inode: u64) -> Handle {
        Handle { shared: Arc::clone(shared), inode }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.lock().release(self.inode);
    }
}

/// A store in memory.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    root: Arc<MemoryNode>,
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl MemoryStore {
    /// An empty store without bounds.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::from_state(State::empty(None))
    }

    /// An empty store in which file contents may take `bytes`, rounded down
    /// to pages of 4 KiB.
    #[must_use]
    pub fn with_capacity(bytes: u64) -> MemoryStore {
        MemoryStore::from_state(State::empty(Some(bytes / PAGE as u64)))
    }

    /// A store that holds `tree`.
    pub(crate) fn from_tree(tree: Tree) -> MemoryStore {
        MemoryStore::from_state(State::over(tree, None))
    }

    fn from_state(mut state: State) -> MemoryStore {
        state.refer(ROOT);
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let root = Arc::new(MemoryNode::new(Handle::counted(&shared, ROOT), crate::Kind::Directory));
        MemoryStore { shared, root }
    }

    /// Changes what file contents may take, `None` for no bound. What is
    /// there already stays.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.lock().set_capacity(bytes.map(|bytes| bytes / PAGE as u64));
    }

    /// A hash over all that can be read by name: kinds, modes, owners, device
    /// numbers, extended attributes, link structure, symlink targets, lengths
    /// and contents. Times, inode numbers and the allocation are left out, so
    /// that two stores of equal fingerprint read the same.
    #[must_use]
    pub fn fingerprint(&self) -> u128 {
        self.shared.lock().tree().fingerprint()
    }

    /// An independent copy, which shares memory until one of them changes.
    #[must_use]
    pub fn snapshot(&self) -> MemoryStore {
        let mut tree = self.shared.lock().tree().clone();
        tree.prune(|_| false);
        MemoryStore::from_tree(tree)
    }

    /// What was not synced of these files is lost.
    pub(crate) fn lose_unsynced(&self, inodes: &HashSet<u64>) {
        let mut state = self.shared.lock();
        inodes.iter().for_each(|&inode| state.lose_unsynced(inode));
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn root_node(&self) -> &Arc<MemoryNode> {
        &self.root
    }
}

impl Store for MemoryStore {
    fn root(&self) -> NodeRef {
        Arc::clone(&self.root) as NodeRef
    }

    fn sync_all(&self) -> Result<()> {
        self.shared.lock().barrier(Barrier::Store);
        Ok(())
    }

    fn space(&self) -> Result<Space> {
        const INODES: u64 = 1 << 32;
        let state = self.shared.lock();
        let (total, free) = state.space();
        let files_free = INODES - state.tree().numbers().count() as u64;
        Ok(Space { fragment: PAGE as u64, total, free, available: free, files: INODES, files_free })
    }

    fn limits(&self) -> Limits {
        Limits { name_max: names::NAME_MAX, symlink_max: names::SYMLINK_MAX }
    }
}
