//! Getting at stored inodes whose own mode keeps the vault's process out.
//!
//! Stored inodes carry the plain mode. A process that is not root can then
//! not open a file of mode 0400 for writing, though its owner has it open, or
//! look into a directory of mode 0 that is to be removed. Such an inode is
//! given the owner's bits for as long as the operation takes. Whether the
//! caller may do what it asked for, the kernel has checked before.

use strongroom_store::NodeRef;

use super::Namespace;
use super::inode::{Inode, lock};
use crate::error::{Error, Result, errno};

/// The owner's bits for reading and writing a file.
pub(super) const FILE_BITS: u32 = 0o600;
/// The owner's bits for changing a directory.
pub(super) const DIRECTORY_BITS: u32 = 0o700;

impl Namespace {
    /// Runs `operation` on an inode, with its mode widened by `bits` when it
    /// fails with `EACCES` without.
    pub(super) fn granted<T>(
        &self,
        inode: &Inode,
        bits: u32,
        mut operation: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        match operation() {
            Err(error) if self.may_grant(&error) => {
                let _metadata = lock(&inode.metadata);
                widened(&inode.node, bits, operation, error)
            }
            other => other,
        }
    }

    /// As [`Namespace::granted`], for callers who hold the inode's `metadata`
    /// or alone know the inode.
    pub(super) fn granted_alone<T>(
        &self,
        node: &NodeRef,
        bits: u32,
        mut operation: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        match operation() {
            Err(error) if self.may_grant(&error) => widened(node, bits, operation, error),
            other => other,
        }
    }

    fn may_grant(&self, error: &Error) -> bool {
        let refused = matches!(error, Error::Store(error) if error.errno() == errno::EACCES);
        refused && !self.options.read_only && !self.options.owners
    }
}

/// Runs `operation` with the mode widened; `error` is what it gave before.
fn widened<T>(
    node: &NodeRef,
    bits: u32,
    mut operation: impl FnMut() -> Result<T>,
    error: Error,
) -> Result<T> {
    let mode = node.attributes()?.mode;
    if mode & bits == bits || node.set_mode(mode | bits).is_err() {
        return Err(error);
    }
    let result = operation();
    let restored = node.set_mode(mode);
    let value = result?;
    restored?;
    Ok(value)
}
