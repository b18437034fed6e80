//! Renaming and exchanging entries.
//!
//! What replaces a file is durable before it does. A file's header says which
//! name it belongs under; it says the new one, durably, before the entry
//! moves, and holds the old one valid beside it.

use std::cell::Cell;
use std::sync::Arc;

use strongroom_store::{InodeId, Kind, NodeRef, RenameMode};

use super::access::DIRECTORY_BITS;
use super::claims::Claim;
use super::inode::{Inode, Pin, Place, lock, read, write};
use super::names::StoredName;
use super::remove::is_empty;
use super::shape::Shape;
use super::{Namespace, sidefile};
use crate::content::{Content, Home};
use crate::error::{Error, Result, errno};
use crate::header_file::CANNOT_EXCHANGE;
use crate::reader_rules::ReaderRule;
use crate::rules::Rule;

/// One end of a rename.
pub(super) struct End<'a> {
    parent: Arc<Inode>,
    pub(super) name: &'a [u8],
    stored: StoredName,
    pub(super) place: Place,
    /// The store was asked to move the entry.
    asked: Cell<bool>,
}

/// What was found and made durable before any gate was closed.
struct Prepared<'a> {
    /// Files that belong under their new names, and the old ones beside.
    /// Dropped first: their inodes are known until then.
    bound: Vec<Bound>,
    source: Pin<'a>,
    /// The entry that will be replaced or exchanged.
    target: Option<InodeId>,
    /// The inode that will be exchanged.
    _exchanged: Option<Pin<'a>>,
    /// Dropped after what is bound, which may be bound anew.
    _claim: Claim<'a>,
}

/// An open file that belongs under its new name, and under the old one beside.
/// Where it is not moved, it is bound to the old one again.
struct Bound {
    inode: Arc<Inode>,
    content: Arc<Content>,
    from: Home,
    to: Home,
    moved: Cell<bool>,
    /// The store was asked, and has reported an error: it may have moved all
    /// the same.
    tried: Cell<bool>,
}

impl Bound {
    fn is_current(&self) -> bool {
        self.content.home() == self.to.mac
    }

    fn moved(&self) {
        self.moved.set(true);
        self.content.has_moved();
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if !self.moved.get() && self.is_current() {
            // Refused by the store, both names stay valid.
            let _ = match self.tried.get() {
                true => self.content.bind(self.from),
                false => self.content.stays(self.from),
            };
        }
        self.inode.close();
    }
}

impl Namespace {
    /// Moves the entry `name` of `parent` to `to_name` in `to_parent`.
    ///
    /// # Errors
    /// As `renameat2(2)`: `ENOENT`, `EEXIST`, `ENOTDIR`, `EISDIR`,
    /// `ENOTEMPTY`, `EINVAL` for a whiteout or a move into itself, `EROFS`; or
    /// what the store reports.
    pub fn rename(
        &self,
        parent: u64,
        name: &[u8],
        to_parent: u64,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.writable()?;
        if mode == RenameMode::Whiteout {
            return Err(Error::Refused(errno::EINVAL));
        }
        let from = self.end(parent, name)?;
        let to = self.end(to_parent, to_name)?;
        loop {
            let prepared = self.prepare(&from, &to, mode)?;
            if let Some(result) = self.rename_prepared(&from, &to, mode, &prepared) {
                return result;
            }
        }
    }

    /// The inode that an end leads to. It stays known, and is not held against
    /// its name: what is damaged is moved as it is.
    fn found(&self, end: &End<'_>) -> Result<Option<Pin<'_>>> {
        find(end)?.map(|node| self.pin_unbound(node)).transpose()
    }

    fn end<'a>(&self, parent: u64, name: &'a [u8]) -> Result<End<'a>> {
        let parent = self.directory(parent)?;
        let stored = self.stored_name(&parent, name)?;
        let place = self.place(&parent, name, &stored)?;
        Ok(End { parent, name, stored, place, asked: Cell::new(false) })
    }

    /// Finds both entries, binds them to their new names, and makes durable
    /// what is going to replace one. No gate is held: that may take its time.
    /// What will be refused is refused before, as far as that is known: what
    /// was bound durably stands in the store's past for ever.
    fn prepare(&self, from: &End<'_>, to: &End<'_>, mode: RenameMode) -> Result<Prepared<'_>> {
        let (source, target, claim) = self.claimed(from, to, mode)?;
        let mut exchanged = None;
        let mut bound = Vec::new();
        let is_same = target.as_ref().is_some_and(|target| target.id() == source.node.id());
        let will_move = !is_same
            && match mode {
                // A directory replaces a directory alone, and nothing else one.
                RenameMode::Replace => target.as_ref().is_none_or(|target| {
                    (target.kind() == Kind::Directory) == (source.kind == Kind::Directory)
                }),
                RenameMode::NoReplace | RenameMode::Whiteout => target.is_none(),
                RenameMode::Exchange => target.is_some(),
            };
        if will_move {
            self.check_not_inside(&source, &to.parent)?;
            if let Some(target) = target.as_ref().filter(|_| mode == RenameMode::Exchange) {
                let target = exchanged.insert(self.pin_unbound(Arc::clone(target))?);
                self.check_not_inside(target, &from.parent)?;
            }
            bound.extend(self.prepare_end(&source, from, to, target.is_some())?);
            if let Some(target) = &exchanged {
                bound.extend(self.prepare_end(target, to, from, true)?);
            }
        }
        let target = target.map(|node| node.id());
        Ok(Prepared { bound, source, target, _exchanged: exchanged, _claim: claim })
    }

    /// Both entries, and that nobody else renames what moves.
    fn claimed(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        mode: RenameMode,
    ) -> Result<(Pin<'_>, Option<NodeRef>, Claim<'_>)> {
        loop {
            let source = self.found(from)?.ok_or(Error::Refused(errno::ENOENT))?;
            let target = find(to)?;
            let id = |node: &NodeRef| node.id();
            let exchanged = target.as_ref().filter(|_| mode == RenameMode::Exchange).map(id);
            let claim =
                self.renaming.claim([Some(source.node.id()), exchanged].into_iter().flatten().collect());
            // Another rename may have moved them while this one waited.
            let is_target = exchanged.is_none() || find(to)?.as_ref().map(id) == exchanged;
            if is_target && find(from)?.as_ref().map(id) == Some(source.node.id()) {
                return Ok((source, target, claim));
            }
        }
    }

    fn prepare_end(
        &self,
        inode: &Arc<Inode>,
        from: &End<'_>,
        to: &End<'_>,
        replaces: bool,
    ) -> Result<Option<Bound>> {
        if !matches!(inode.shape, Shape::File) {
            return Ok(None);
        }
        let [from, to] = [from, to].map(|end| self.names.home(end.place.directory, end.name));
        let opened = self.using_unbound(inode).and_then(|content| {
            content.check_source(from)?;
            Ok(content)
        });
        let bound = match opened {
            Ok(content) => Some(Bound {
                content: content.keep(),
                inode: Arc::clone(inode),
                from,
                to,
                moved: Cell::new(false),
                tried: Cell::new(false),
            }),
            // It never was durable, and is lost: the kernel looks it up again.
            Err(error) if error.is_unfinished() => return Err(error),
            // It was removed, and its entry leads elsewhere by now.
            Err(error) if error.errno() == errno::ESTALE => None,
            // A damaged file is moved as it is.
            Err(error @ Error::Damaged(_)) => {
                self.observer.damaged(inode.number, &error);
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(bound) = &bound {
            bound.content.bind(bound.to)?;
            if !replaces {
                bound.content.vouch()?;
            }
        }
        if replaces {
            self.contents.make_durable(&inode.node)?;
        }
        Ok(bound)
    }

    /// Renames with the gates closed; `None` when the entries have changed
    /// since they were prepared.
    fn rename_prepared(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        mode: RenameMode,
        prepared: &Prepared<'_>,
    ) -> Option<Result<()>> {
        let source = &*prepared.source;
        let same = from.parent.number == to.parent.number;
        let several = !same || source.kind == Kind::Directory || mode == RenameMode::Exchange;
        let mut tree = several.then(|| lock(&self.tree));
        let from_gate = write(&from.parent.gate);
        let to_gate = (!same).then(|| write(&to.parent.gate));
        if from_gate.removed || to_gate.as_ref().is_some_and(|gate| gate.removed) {
            return Some(Err(Error::Refused(errno::ENOENT)));
        }
        let found = entry(from).and_then(|found| Ok((found, entry(to)?)));
        let (found, target) = match found {
            Ok((Some(found), target)) => (found, target),
            Ok((None, _)) => return Some(Err(Error::Refused(errno::ENOENT))),
            Err(error) => return Some(Err(error)),
        };
        if found.id() != source.node.id() || target.as_ref().map(|node| node.id()) != prepared.target {
            return None;
        }
        // Another rename of the same file may have come in between.
        if !prepared.bound.iter().all(Bound::is_current) {
            return None;
        }
        let _changes = match (self.change(from.place.directory), self.change(to.place.directory)) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
        };
        let is_same = target.as_ref().is_some_and(|target| target.id() == source.node.id());
        if let Some(moves) = &mut tree
            && [Some(source.kind), target.as_ref().map(|target| target.kind())]
                .contains(&Some(Kind::Directory))
        {
            **moves += 1;
        }
        let renamed = match (mode, target) {
            (RenameMode::NoReplace, Some(_)) => Err(Error::Refused(errno::EEXIST)),
            (RenameMode::Exchange, None) => Err(Error::Refused(errno::ENOENT)),
            // Two names of one inode: nothing happens to either.
            (_, Some(target)) if target.id() == source.node.id() => Ok(()),
            (RenameMode::Exchange, Some(target)) => self.pin_unbound(target).and_then(|target| {
                self.check_not_inside(source, &to.parent)?;
                self.check_not_inside(&target, &from.parent)?;
                self.exchange(from, to, source, &target)
            }),
            (_, None) => {
                self.check_not_inside(source, &to.parent).and_then(|()| self.move_entry(from, to, source))
            }
            (_, Some(target)) => match (source.kind, target.kind()) {
                (Kind::Directory, Kind::Directory) => self.replace_directory(from, to, source, &target),
                (Kind::Directory, _) => Err(Error::Refused(errno::ENOTDIR)),
                (_, Kind::Directory) => Err(Error::Refused(errno::EISDIR)),
                _ => self.replace(from, to, source, &target),
            },
        };
        match &renamed {
            Ok(()) => prepared.bound.iter().for_each(Bound::moved),
            Err(error) => {
                if from.asked.get() && !matches!(error, Error::Refused(_)) {
                    prepared.bound.iter().for_each(|bound| bound.tried.set(true));
                }
                self.stayed(source, prepared.target);
            }
        }
        if !is_same {
            let places = ((from.place.directory, from.name), (to.place.directory, to.name));
            match renamed {
                Ok(()) => self.record_renamed(places.0, places.1, mode),
                // An empty directory may have been taken out of the way.
                Err(_) if matches!(entry(to), Ok(None)) => self.unrecord(places.1.0, places.1.1),
                Err(_) => {}
            }
        }
        Some(renamed)
    }

    /// Binds what is no file to the name that it is about to get, beside the
    /// one that it has. The gates are closed, so that nobody renames it
    /// meanwhile.
    fn bind_end(&self, inode: &Inode, from: &End<'_>, to: &End<'_>) -> Result<()> {
        let home = |end: &End<'_>| self.names.home(end.place.directory, end.name);
        match &inode.shape {
            // One that does not belong where it stands is moved as it is.
            Shape::Special(record) if !record.belongs(home(from)) && ReaderRule::HomeOfSource.is_kept() => {
                Ok(())
            }
            Shape::Special(record) => self.bind_special(inode, record, home(from), home(to)),
            Shape::Directory => self.bind_directory(inode, from, to),
            Shape::File | Shape::Broken(_) => Ok(()),
        }
    }

    /// Nothing was renamed: directories that were to be do not belong under
    /// their new names.
    fn stayed(&self, source: &Inode, target: Option<InodeId>) {
        self.directory_stayed(source);
        if let Some(target) = target.and_then(|id| self.table.known(id)) {
            self.directory_stayed(&target);
        }
    }

    /// Moves to a name that does not exist.
    fn move_entry(&self, from: &End<'_>, to: &End<'_>, source: &Inode) -> Result<()> {
        self.with_side(&to.parent, &to.stored, || {
            self.bind_end(source, from, to)?;
            self.stored_rename(from, to, RenameMode::Replace)
        })?;
        self.moved(from, to, source);
        Ok(())
    }

    /// Replaces an entry that is no directory.
    fn replace(&self, from: &End<'_>, to: &End<'_>, source: &Inode, target: &NodeRef) -> Result<()> {
        self.ensure_side(to)?;
        self.bind_end(source, from, to)?;
        let long = self.long_target(target);
        let known = self.table.known(target.id());
        let unlinking = self.unlinking(target, known.as_ref());
        self.stored_rename(from, to, RenameMode::Replace)?;
        self.unnamed(&unlinking, long, to.parent.number, to.name);
        self.moved(from, to, source);
        Ok(())
    }

    /// Replaces an empty directory. Its record makes it not empty to the
    /// store, so the two are exchanged, and the empty one taken out of the
    /// source's place; where the store cannot exchange, it is taken out first.
    fn replace_directory(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        source: &Inode,
        target: &NodeRef,
    ) -> Result<()> {
        let inode = self.table.known(target.id());
        if inode.as_ref().is_some_and(|inode| inode.number == from.parent.number) {
            return Err(Error::Refused(errno::ENOTEMPTY));
        }
        let mut gate = inode.as_ref().map(|inode| write(&inode.gate));
        // Before either is bound to a name that it would not get.
        self.check_not_inside(source, &to.parent)?;
        self.granted_alone(target, DIRECTORY_BITS, || match is_empty(&**target)? {
            true => Ok(()),
            false => Err(Error::Refused(errno::ENOTEMPTY)),
        })?;
        self.ensure_side(to)?;
        // In between, the empty one stands in the source's place.
        let emptied = self.pin_unbound(Arc::clone(target))?;
        self.bind_end(&emptied, to, from)?;
        self.bind_end(source, from, to)?;
        let exchanged = self.granted_alone(target, DIRECTORY_BITS, || {
            if !is_empty(&**target)? {
                return Err(Error::Refused(errno::ENOTEMPTY));
            }
            self.stored_rename(from, to, RenameMode::Exchange)
        });
        match exchanged {
            Ok(()) => self.take_out(target, &*from.parent.node, &from.stored.main)?,
            Err(Error::Store(error)) if CANNOT_EXCHANGE.contains(&error.errno()) => {
                self.take_out(target, &*to.parent.node, &to.stored.main)?;
                self.stored_rename(from, to, RenameMode::Replace)?;
            }
            Err(error) => return Err(error),
        }
        if let (Some(inode), Some(gate)) = (&inode, &mut gate) {
            gate.removed = true;
            inode.displaced(to.parent.number, to.name);
        }
        self.moved(from, to, source);
        Ok(())
    }

    /// Refuses to move a directory into itself, as far as names are known:
    /// asked before anything is bound or removed for such a move, which fails
    /// anyway.
    fn check_not_inside(&self, source: &Inode, to: &Inode) -> Result<()> {
        if source.kind != Kind::Directory {
            return Ok(());
        }
        let mut number = to.number;
        for _ in 0..4096 {
            if number == source.number {
                return Err(Error::Refused(errno::EINVAL));
            }
            let Ok(inode) = self.table.inode(number) else { break };
            let Some(place) = lock(&inode.place).clone() else { break };
            number = place.parent;
        }
        Ok(())
    }

    fn exchange(&self, from: &End<'_>, to: &End<'_>, source: &Inode, target: &Inode) -> Result<()> {
        self.ensure_side(from)?;
        self.ensure_side(to)?;
        self.bind_end(target, to, from)?;
        self.bind_end(source, from, to)?;
        self.stored_rename(from, to, RenameMode::Exchange)?;
        self.replaced(source, &to.place);
        self.replaced(target, &from.place);
        Ok(())
    }

    fn stored_rename(&self, from: &End<'_>, to: &End<'_>, mode: RenameMode) -> Result<()> {
        let (node, to_node) = (&from.parent.node, &to.parent.node);
        from.asked.set(true);
        Ok(node.rename(&from.stored.main, &**to_node, &to.stored.main, mode)?)
    }

    /// The entry has moved: its place is the new one, and the old name's side
    /// file has served.
    fn moved(&self, from: &End<'_>, to: &End<'_>, source: &Inode) {
        self.replaced(source, &to.place);
        self.remove_side(&from.parent, &from.stored);
    }

    /// The inode stands in another place.
    fn replaced(&self, inode: &Inode, place: &Place) {
        inode.placed(place.clone());
        match inode.shape {
            Shape::Special(_) => self.contents.note_special_moved(inode.node.id()),
            Shape::Directory => self.directory_moved(inode),
            Shape::File | Shape::Broken(_) => {}
        }
        if inode.kind == Kind::File
            && let Some(content) = inode.live(&self.contents)
        {
            self.hint_path(inode, &content);
        }
    }

    /// Makes sure of the side file of an entry that exists.
    fn ensure_side(&self, end: &End<'_>) -> Result<()> {
        match &end.stored.side {
            Some(side) => sidefile::write(
                &*end.parent.node,
                &side.name,
                &side.sealed,
                self.contents.keeps(Rule::SideBeforeEntry),
            ),
            None => Ok(()),
        }
    }
}

/// The entry of one end, with its gate held to read for as long as it takes.
///
/// # Errors
/// `ENOENT` where the directory has been removed, or what the store reports.
fn find(end: &End<'_>) -> Result<Option<NodeRef>> {
    let gate = read(&end.parent.gate);
    if gate.removed {
        return Err(Error::Refused(errno::ENOENT));
    }
    entry(end)
}

/// The entry of one end, whose gate the caller holds.
fn entry(end: &End<'_>) -> Result<Option<NodeRef>> {
    match end.parent.node.lookup(&end.stored.main) {
        Ok(node) => Ok(Some(node)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
