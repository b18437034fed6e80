//! Telling the kernel what to cache, and what no more.

use crate::abi::notification;
use crate::devfuse;
use crate::errno::Errno;
use crate::filesystem::NodeId;
use rustix::fd::OwnedFd;
use std::io::IoSlice;
use std::sync::{Arc, Weak};

/// Changes what the kernel caches. It does not keep the connection alive.
///
/// Not for a thread that answers a request: the kernel may wait for that
/// request's locks.
#[derive(Clone, Debug)]
pub struct Notifier {
    file: Weak<OwnedFd>,
}

impl Notifier {
    /// By the descriptor of a connection.
    pub(crate) fn new(file: &Arc<OwnedFd>) -> Notifier {
        Notifier { file: Arc::downgrade(file) }
    }

    /// Drops a node's cached attributes, and cached data of `len` bytes from
    /// `offset`: a negative offset leaves the data, a length of 0 goes to the
    /// end.
    ///
    /// # Errors
    /// `NOENT` when the kernel does not have the node, `NOTCONN` when the
    /// session has ended.
    pub fn invalidate_inode(&self, node: NodeId, offset: i64, len: i64) -> Result<(), Errno> {
        self.send(&notification::invalidate_inode(node, offset, len), &[])
    }

    /// Makes `data` what the kernel caches of a node from `offset`, over
    /// whatever it holds there. Not to reach beyond the node's end, which it
    /// would move. Waits for reads of these pages that are being answered.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn store(&self, node: NodeId, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let len = u32::try_from(data.len()).map_err(|_| Errno::INVAL)?;
        self.send(&notification::store(node, offset, len), data)
    }

    /// Drops the cached entry of a name.
    ///
    /// # Errors
    /// As above; `NAMETOOLONG` for a name that no entry has.
    pub fn invalidate_entry(&self, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        self.send(&notification::invalidate_entry(parent, name).ok_or(Errno::NAMETOOLONG)?, &[])
    }

    /// Drops nodes and their cached entries, as far as they are not in use.
    /// For kernels of minor version 45 and above.
    ///
    /// # Errors
    /// `INVAL` from older kernels, `NOTCONN` when the session has ended.
    pub fn prune(&self, nodes: &[NodeId]) -> Result<(), Errno> {
        self.send(&notification::prune(nodes), &[])
    }

    fn send(&self, message: &[u8], data: &[u8]) -> Result<(), Errno> {
        let file = self.file.upgrade().ok_or(Errno::NOTCONN)?;
        devfuse::send(&*file, &[IoSlice::new(message), IoSlice::new(data)])
    }
}
