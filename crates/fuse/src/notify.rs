//! Telling the kernel that what it caches has changed.

use crate::abi::notification;
use crate::errno::Errno;
use crate::filesystem::NodeId;
use crate::transport::Device;
use rustix::fd::OwnedFd;
use std::io::IoSlice;
use std::sync::{Arc, Weak};

/// Drops cached things from the kernel. It does not keep the connection alive.
///
/// Not for a thread that answers a request: the kernel may wait for that
/// request's locks.
#[derive(Clone, Debug)]
pub struct Notifier {
    file: Weak<OwnedFd>,
}

impl Notifier {
    pub(crate) fn new(device: &Device) -> Notifier {
        Notifier { file: Arc::downgrade(device.file()) }
    }

    /// Drops a node's cached attributes, and cached data of `len` bytes from
    /// `offset`: a negative offset leaves the data, a length of 0 goes to the
    /// end.
    ///
    /// # Errors
    /// `NOENT` when the kernel does not have the node, `NOTCONN` when the
    /// session has ended.
    pub fn invalidate_inode(&self, node: NodeId, offset: i64, len: i64) -> Result<(), Errno> {
        self.send(&notification::invalidate_inode(node, offset, len))
    }

    /// Drops the cached entry of a name.
    ///
    /// # Errors
    /// As above; `NAMETOOLONG` for a name that no entry has.
    pub fn invalidate_entry(&self, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        self.send(&notification::invalidate_entry(parent, name).ok_or(Errno::NAMETOOLONG)?)
    }

    /// Drops nodes and their cached entries, as far as they are not in use.
    /// For kernels of minor version 45 and above.
    ///
    /// # Errors
    /// `INVAL` from older kernels, `NOTCONN` when the session has ended.
    pub fn prune(&self, nodes: &[NodeId]) -> Result<(), Errno> {
        self.send(&notification::prune(nodes))
    }

    fn send(&self, message: &[u8]) -> Result<(), Errno> {
        let file = self.file.upgrade().ok_or(Errno::NOTCONN)?;
        crate::transport::send(&*file, &[IoSlice::new(message)])
    }
}
