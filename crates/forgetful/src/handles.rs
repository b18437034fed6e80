//! What the kernel refers to: nodes by their lookups, open files by handle.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use strongroom_fuse::{Errno, Handle, NodeId};
use strongroom_store::{FileRef, NodeRef};

#[derive(Default)]
struct Tables {
    nodes: HashMap<u64, (NodeRef, u64)>,
    files: HashMap<u64, Open>,
    /// Inodes that have lost what was written, and fail for as long as anybody has them open to write.
    lost: HashSet<u64>,
    /// Open files that have lost what was written, and whose next barrier or closing says so, once.
    untold: HashSet<u64>,
    last: u64,
}

struct Open {
    file: FileRef,
    inode: u64,
    writes: bool,
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

    pub(crate) fn opened(&self, file: FileRef, node: NodeId, writes: bool) -> Handle {
        let mut tables = self.tables();
        tables.last += 1;
        let handle = tables.last;
        tables.files.insert(handle, Open { file, inode: node.0, writes });
        Handle(handle)
    }

    /// For reading.
    pub(crate) fn file(&self, handle: Handle) -> Result<FileRef, Errno> {
        self.tables().files.get(&handle.0).map(|open| FileRef::clone(&open.file)).ok_or(Errno::BADF)
    }

    /// For barriers, and when the file is closed: the loss that is told once.
    pub(crate) fn told(&self, handle: Handle) -> Result<(), Errno> {
        if self.tables().untold.remove(&handle.0) { Err(Errno::IO) } else { Ok(()) }
    }

    /// For changes and barriers.
    pub(crate) fn whole(&self, handle: Handle) -> Result<FileRef, Errno> {
        let tables = self.tables();
        let open = tables.files.get(&handle.0).ok_or(Errno::BADF)?;
        if open.writes && tables.lost.contains(&open.inode) {
            return Err(Errno::IO);
        }
        Ok(FileRef::clone(&open.file))
    }

    pub(crate) fn closed(&self, handle: Handle) {
        let mut tables = self.tables();
        tables.untold.remove(&handle.0);
        let Some(closed) = tables.files.remove(&handle.0) else { return };
        if !tables.files.values().any(|open| open.inode == closed.inode && open.writes) {
            tables.lost.remove(&closed.inode);
        }
    }

    /// Those that are open to write and from which `lose` takes something, as it says, fail from now on, or say so
    /// once.
    pub(crate) fn lose(&self, is_told_always: bool, lose: impl Fn(&FileRef) -> bool) {
        let Tables { files, lost, untold, .. } = &mut *self.tables();
        for (handle, open) in files.iter().filter(|(_, open)| open.writes && lose(&open.file)) {
            if is_told_always {
                lost.insert(open.inode)
            } else {
                untold.insert(*handle)
            };
        }
    }
}
