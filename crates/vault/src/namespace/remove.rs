//! Removing entries.

use std::sync::Arc;

use strongroom_store::{Kind, Node, NodeRef, RenameMode, has_no_name};

use super::Namespace;
use super::access::DIRECTORY_BITS;
use super::inode::{lock, write};
use super::names::{Found, RECORD, is_hidden};
use super::record::{self, Record};
use crate::error::{Damage, Error, Result, errno};
use crate::rules::Rule;

/// True when a stored directory holds nothing but what the vault itself put
/// there. An entry that does not open counts: it may be somebody's.
pub(super) fn is_empty(node: &dyn Node) -> Result<bool> {
    Ok(node.entries()?.iter().all(|entry| is_hidden(&entry.name)))
}

/// True when a directory is one as the vault leaves them in
/// `.strongroom/temporary`: with its record and side files at most.
pub(super) fn is_discardable(node: &dyn Node) -> Result<bool> {
    for entry in node.entries()? {
        if !is_hidden(&entry.name) {
            return Ok(false);
        }
        let hidden = node.lookup(&entry.name)?;
        let is_own = match (hidden.kind(), entry.name == RECORD) {
            (Kind::Directory, true) => record::is_removable(&*hidden)?,
            (kind, _) => kind != Kind::Directory,
        };
        if !is_own {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes an empty directory `node` that stands in `.strongroom/temporary`.
pub(super) fn discard(node: &NodeRef, temporary: &NodeRef, name: &[u8]) -> Result<()> {
    for entry in node.entries()? {
        if entry.name == RECORD {
            record::remove(&**node)?;
        } else if is_hidden(&entry.name) {
            node.remove(&entry.name)?;
        }
    }
    Ok(temporary.remove_directory(name)?)
}

impl Namespace {
    /// Removes an entry that is no directory.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `EROFS`, or what the store reports.
    pub fn remove(&self, parent: u64, name: &[u8]) -> Result<()> {
        self.writable()?;
        let parent = self.directory(parent)?;
        let stored = self.stored_name(&parent, name)?;
        let _gate = write(&parent.gate);
        let node = self.node_of(&*parent.node, &stored.main)?;
        if node.kind() == Kind::Directory {
            return Err(Error::Refused(errno::EISDIR));
        }
        let target = self.long_target(&node);
        let directory = self.directory_id(&parent)?;
        let _change = self.change(directory)?;
        if !self.contents.keeps(Rule::EntryGoneBeforeSide) {
            self.remove_side(&parent, &stored);
        }
        parent.node.remove(&stored.main)?;
        self.unrecord(directory, name);
        self.remove_side(&parent, &stored);
        self.unnamed(&node, target, parent.number, name);
        Ok(())
    }

    /// The node of the entry `stored` of `parent`, whose gate the caller holds.
    /// One that is known is held already, and need not be opened again.
    fn node_of(&self, parent: &dyn Node, stored: &[u8]) -> Result<NodeRef> {
        match self.table.known(parent.identify(stored)?) {
            Some(inode) => Ok(Arc::clone(&inode.node)),
            None => Ok(parent.lookup(stored)?),
        }
    }

    /// Removes an empty directory. It leaves the tree in one step, and loses
    /// its record and itself out of sight.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EROFS`, or what the store reports.
    pub fn remove_directory(&self, parent: u64, name: &[u8]) -> Result<()> {
        self.writable()?;
        let parent = self.directory(parent)?;
        let stored = self.stored_name(&parent, name)?;
        let _tree = lock(&self.tree);
        let _gate = write(&parent.gate);
        let node = parent.node.lookup(&stored.main)?;
        if node.kind() != Kind::Directory {
            return Err(Error::Refused(errno::ENOTDIR));
        }
        let inode = self.table.known(node.id());
        let mut gate = inode.as_ref().map(|inode| write(&inode.gate));
        let directory = self.directory_id(&parent)?;
        let _change = self.change(directory)?;
        self.take_out(&node, &*parent.node, &stored.main).inspect_err(|error| {
            if error.errno() == errno::ENOTEMPTY && self.looks_empty(&node) {
                let obstacle =
                    Damage::Name("what is not the vault's keeps an empty directory from being removed");
                let number = inode.as_ref().map_or(parent.number, |inode| inode.number);
                self.observer.damaged(number, &Error::Damaged(obstacle));
            }
        })?;
        self.unrecord(directory, name);
        if let (Some(inode), Some(gate)) = (&inode, &mut gate) {
            gate.removed = true;
            inode.displaced(parent.number, name);
        }
        self.remove_side(&parent, &stored);
        Ok(())
    }

    /// Whether nothing of a directory would be listed.
    fn looks_empty(&self, node: &NodeRef) -> bool {
        let Ok(Record { id, .. }) = self.names.record_of(&**node) else { return false };
        let listed =
            |stored: &[u8]| self.names.find(id, stored).is_ok_and(|found| !matches!(found, Found::Hidden));
        node.entries().is_ok_and(|entries| !entries.iter().any(|entry| listed(&entry.name)))
    }

    /// Takes an empty directory out of the tree and discards it. The caller
    /// holds its gate, if it is known, and its parent's.
    pub(super) fn take_out(&self, node: &NodeRef, parent: &dyn Node, stored: &[u8]) -> Result<()> {
        let temporary = self.temporary()?;
        let passing = self.names.random_name()?;
        self.granted_alone(node, DIRECTORY_BITS, || {
            if !is_empty(&**node)? {
                return Err(Error::Refused(errno::ENOTEMPTY));
            }
            Ok(parent.rename(stored, &**temporary, &passing, RenameMode::Replace)?)
        })?;
        // It is out of the tree: what stays of it is swept at the next mount.
        let _ = self.granted_alone(node, DIRECTORY_BITS, || discard(node, temporary, &passing));
        Ok(())
    }

    /// An entry of `node` that is no directory has been removed. `target` is
    /// that of [`Namespace::long_target`] before.
    pub(super) fn unnamed(&self, node: &NodeRef, target: Option<Vec<u8>>, parent: u64, name: &[u8]) {
        let inode = self.table.known(node.id());
        if let Some(inode) = &inode {
            inode.displaced(parent, name);
        }
        // Asked after the removal: another name may have been given meanwhile,
        // but none is given any more to an inode that has none.
        if !has_no_name(&node.attributes()) {
            return;
        }
        if let Some(target) = target {
            self.remove_side_target(&target);
        }
        self.contents.note_special_durable(node.id());
        if node.kind() == Kind::File {
            self.contents.removed(node.id());
            let live = match &inode {
                Some(inode) => inode.live(&self.contents),
                None => self.contents.live(node.id()),
            };
            if let Some(content) = live {
                content.unlinked();
            }
        }
    }
}
