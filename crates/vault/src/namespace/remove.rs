//! Removing entries.

use std::sync::Arc;

use strongroom_store::{Kind, Node, NodeRef, RenameMode};

use super::Namespace;
use super::access::DIRECTORY_BITS;
use super::inode::{Inode, lock, write};
use super::names::{Found, RECORD, is_hidden, is_remains};
use super::record::{self, Record};
use crate::content::Content;
use crate::error::{Damage, Error, Result, errno};
use crate::rules::Rule;
use crate::sync::MutexGuard;

/// True when a stored directory holds nothing but what the vault itself put
/// there. An entry that does not open counts: it may be somebody's.
pub(super) fn is_empty(node: &dyn Node) -> Result<bool> {
    Ok(node.entries()?.iter().all(|entry| is_hidden(&entry.name) || is_remains(entry)))
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

/// An inode, no directory, of which a name is being removed. Nobody gives it a further one meanwhile.
pub(super) struct Unlinking<'a> {
    node: &'a NodeRef,
    inode: Option<&'a Arc<Inode>>,
    /// It has this name alone.
    is_last: bool,
    _linking: Option<MutexGuard<'a, ()>>,
}

impl Unlinking<'_> {
    /// Whether it has no name any more. There are stores that count one of their own for as long as somebody has it
    /// open, and such that do not know it at all any more. But these say so too of what has lost the name by which it
    /// was found, and has another.
    fn has_left(&self) -> bool {
        match self.node.attributes() {
            Ok(attributes) => attributes.links == 0 || self.is_last && attributes.links == 1,
            Err(error) => error.is_gone() && self.is_last,
        }
    }
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
        let known = self.table.known(node.id());
        let unlinking = self.unlinking(&node, known.as_ref());
        parent.node.remove(&stored.main)?;
        self.unrecord(directory, name);
        self.remove_side(&parent, &stored);
        self.unnamed(&unlinking, target, parent.number, name);
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

    /// A name of what was [`Unlinking`] has been removed. `target` is that of
    /// [`Namespace::long_target`] before.
    pub(super) fn unnamed(
        &self,
        unlinking: &Unlinking<'_>,
        target: Option<Vec<u8>>,
        parent: u64,
        name: &[u8],
    ) {
        let Unlinking { node, inode, .. } = unlinking;
        if let Some(inode) = inode {
            inode.displaced(parent, name);
        }
        if !unlinking.has_left() {
            return;
        }
        if let Some(inode) = inode {
            inode.set_unlinked();
        }
        if let Some(target) = target {
            self.remove_side_target(&target);
        }
        self.contents.note_special_durable(node.id());
        if node.kind() == Kind::File {
            self.contents.removed(node.id());
            if let Some(content) = self.live_of(node, *inode) {
                content.unlinked();
            }
        }
    }

    /// Before a name of a node is removed, with the directory's gate closed; `inode` is what is known of it.
    pub(super) fn unlinking<'a>(&self, node: &'a NodeRef, inode: Option<&'a Arc<Inode>>) -> Unlinking<'a> {
        // A store may count one name of each file: what is bound to none has had several.
        let was_linked = self.live_of(node, inode).is_some_and(|content| content.is_linked());
        let linking = inode.map(|inode| lock(&inode.linking));
        let is_one = || node.attributes().is_ok_and(|attributes| attributes.links == 1);
        let is_last = linking.is_some() && !was_linked && is_one();
        Unlinking { node, inode, is_last, _linking: linking }
    }

    /// The content of a node that is live.
    fn live_of(&self, node: &NodeRef, inode: Option<&Arc<Inode>>) -> Option<Arc<Content>> {
        match inode {
            _ if node.kind() != Kind::File => None,
            Some(inode) => inode.live(&self.contents),
            None => self.contents.live(node.id()),
        }
    }
}
