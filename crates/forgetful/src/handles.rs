//! What the kernel refers to: nodes by their lookups, open files by handle.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use strongroom_fuse::{Errno, Handle, NodeId};
use strongroom_store::{FileRef, NodeRef};

#[derive(Default)]
struct Tables {
    nodes: HashMap<u64, (NodeRef, u64)>,
    files: HashMap<u64, FileRef>,
    last: u64,
}

/// The nodes and open files of one mount.
pub(crate) struct Handles {
    root: NodeRef,
    tables: Mutex<Tables>,
}

impl Handles {
    pub(crate) fn new(root: NodeRef) -> Handles {
        Handles { root, tables: Mutex::default() }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node that the kernel knows by this number.
    pub(crate) fn node(&self, id: NodeId) -> Result<NodeRef, Errno> {
        if id == NodeId::ROOT {
            return Ok(NodeRef::clone(&self.root));
        }
        self.tables().nodes.get(&id.0).map(|(node, _)| NodeRef::clone(node)).ok_or(Errno::STALE)
    }

    /// Counts a lookup. Inodes are numbered from 1, the root, as nodes are.
    pub(crate) fn looked_up(&self, node: NodeRef) -> NodeId {
        let number = node.id().inode;
        self.tables().nodes.entry(number).or_insert((node, 0)).1 += 1;
        NodeId(number)
    }

    pub(crate) fn forget(&self, id: NodeId, lookups: u64) {
        let mut tables = self.tables();
        if let Some((_, count)) = tables.nodes.get_mut(&id.0) {
            *count = count.saturating_sub(lookups);
            if *count == 0 {
                tables.nodes.remove(&id.0);
            }
        }
    }

    pub(crate) fn opened(&self, file: FileRef) -> Handle {
        let mut tables = self.tables();
        tables.last += 1;
        let handle = tables.last;
        tables.files.insert(handle, file);
        Handle(handle)
    }

    pub(crate) fn file(&self, handle: Handle) -> Result<FileRef, Errno> {
        self.tables().files.get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    pub(crate) fn closed(&self, handle: Handle) {
        self.tables().files.remove(&handle.0);
    }
}
