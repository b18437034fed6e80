//! Directory operations of a store in memory: each checks as the system does
//! and then lists the steps to take, which are taken all at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustix::io::Errno;

use super::state::{State, new_meta};
use super::tree::{Body, Delta, Directory, Inode, Meta, ROOT};
use crate::{Error, Kind, RenameMode, Result, Timestamp};

/// Longest name in bytes.
pub(crate) const NAME_MAX: usize = 255;
/// Longest symlink target in bytes.
pub(crate) const SYMLINK_MAX: usize = 4095;
/// Most names of one inode, as on ext4.
const LINKS_MAX: u32 = 65_000;

/// One directory operation while it is checked and listed.
struct Plan<'a> {
    state: &'a State,
    operation: &'static str,
    now: Timestamp,
    /// New metadata by inode; several steps may change one.
    metas: BTreeMap<u64, Meta>,
    deltas: Vec<Delta>,
}

impl<'a> Plan<'a> {
    fn new(state: &'a State, operation: &'static str, now: Timestamp) -> Plan<'a> {
        Plan { state, operation, now, metas: BTreeMap::new(), deltas: Vec::new() }
    }

    fn fail<T>(&self, errno: Errno) -> Result<T> {
        Err(Error::new(errno.raw_os_error(), self.operation))
    }

    fn directory(&self, number: u64) -> Result<&'a Directory> {
        let inode = self.state.inode(number, self.operation)?;
        match &inode.body {
            Body::Directory(directory) => Ok(directory),
            _ => self.fail(Errno::NOTDIR),
        }
    }

    /// The directory, which must not have been removed.
    fn living_directory(&self, number: u64) -> Result<&'a Directory> {
        let directory = self.directory(number)?;
        if self.state.inode(number, self.operation)?.meta.links == 0 {
            return self.fail(Errno::NOENT);
        }
        Ok(directory)
    }

    fn find(&self, directory: u64, name: &[u8]) -> Result<Option<u64>> {
        Ok(self.directory(directory)?.entries.get(name).copied())
    }

    fn kind(&self, number: u64) -> Result<Kind> {
        Ok(self.state.inode(number, self.operation)?.meta.kind)
    }

    /// The metadata of an inode for changing; its change time is set.
    fn meta(&mut self, number: u64) -> Result<&mut Meta> {
        let now = self.now;
        let inode = self.state.inode(number, self.operation)?;
        let meta = self.metas.entry(number).or_insert_with(|| inode.meta.clone());
        meta.changed = now;
        Ok(meta)
    }

    /// Notes that the entries of a directory change.
    fn modify(&mut self, directory: u64) -> Result<&mut Meta> {
        let now = self.now;
        let meta = self.meta(directory)?;
        meta.modified = now;
        Ok(meta)
    }

    fn put(&mut self, directory: u64, name: &[u8], inode: u64) {
        self.deltas.push(Delta::PutEntry { directory, name: name.into(), inode });
    }

    fn drop_entry(&mut self, directory: u64, name: &[u8]) {
        self.deltas.push(Delta::DropEntry { directory, name: name.into() });
    }

    /// Takes one name of an inode away: of a directory, its last.
    fn unlink(&mut self, number: u64, parent: u64) -> Result<()> {
        if self.kind(number)? == Kind::Directory {
            self.meta(number)?.links = 0;
            self.meta(parent)?.links -= 1;
        } else {
            self.meta(number)?.links -= 1;
        }
        Ok(())
    }

    /// Moves a directory's share in its parent's link count.
    fn reparent(&mut self, number: u64, from: u64, to: u64) -> Result<()> {
        if from != to && self.kind(number)? == Kind::Directory {
            self.meta(from)?.links -= 1;
            self.meta(to)?.links += 1;
            self.deltas.push(Delta::SetParent { directory: number, parent: to });
        }
        Ok(())
    }

    /// True when `directory` is `inode` or lies below it.
    fn is_below(&self, directory: u64, inode: u64) -> Result<bool> {
        let mut at = directory;
        loop {
            if at == inode {
                return Ok(true);
            }
            if at == ROOT {
                return Ok(false);
            }
            at = self.directory(at)?.parent;
        }
    }

    fn finish(mut self) -> Vec<Delta> {
        let metas = std::mem::take(&mut self.metas);
        self.deltas
            .extend(metas.into_iter().map(|(inode, meta)| Delta::SetMeta { inode, meta: Box::new(meta) }));
        self.deltas
    }
}

/// Refuses what no entry can be called.
pub(crate) fn check_name(name: &[u8], operation: &'static str) -> Result<()> {
    let bad = name.is_empty() || name == b"." || name == b".." || name.iter().any(|&b| b == 0 || b == b'/');
    match (bad, name.len() > NAME_MAX) {
        (true, _) => Err(Error::new(Errno::INVAL.raw_os_error(), operation)),
        (_, true) => Err(Error::new(Errno::NAMETOOLONG.raw_os_error(), operation)),
        _ => Ok(()),
    }
}

/// Who makes a new inode, and of what kind.
pub(crate) struct NewInode {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) device: u64,
    pub(crate) target: Vec<u8>,
}

impl State {
    /// The inode that `name` means in `directory`.
    pub(crate) fn lookup(&mut self, directory: u64, name: &[u8]) -> Result<u64> {
        let operation = "openat";
        check_name(name, operation)?;
        let plan = Plan::new(self, operation, Timestamp::default());
        match plan.find(directory, name)? {
            Some(number) => Ok(number),
            None => plan.fail(Errno::NOENT),
        }
    }

    /// Makes an inode, with a name or (a regular file) without.
    pub(crate) fn make(
        &mut self,
        directory: u64,
        name: Option<&[u8]>,
        new: &NewInode,
        operation: &'static str,
    ) -> Result<u64> {
        if let Some(name) = name {
            check_name(name, operation)?;
        }
        let (now, number) = (self.now(), self.new_number());
        let mut plan = Plan::new(self, operation, now);
        if let Some(name) = name
            && plan.find(directory, name)?.is_some()
        {
            return plan.fail(Errno::EXIST);
        }
        plan.living_directory(directory)?;
        let mut meta = new_meta(new.kind, new.mode, now);
        meta.device = new.device;
        meta.linkable = name.is_none();
        meta.links = u32::from(name.is_some());
        let body = match new.kind {
            Kind::File => Body::File(Default::default()),
            Kind::Directory => Body::Directory(Directory { parent: directory, entries: BTreeMap::new() }),
            Kind::Symlink => Body::Symlink(new.target.as_slice().into()),
            _ => Body::Special,
        };
        if new.kind == Kind::Directory {
            meta.links = 2;
            plan.modify(directory)?.links += 1;
        }
        plan.deltas.push(Delta::Insert { inode: number, content: Arc::new(Inode { meta, body }) });
        if let Some(name) = name {
            plan.modify(directory)?;
            plan.put(directory, name, number);
        }
        let deltas = plan.finish();
        self.commit(operation, deltas);
        Ok(number)
    }

    /// Gives an inode one more name.
    pub(crate) fn link(&mut self, number: u64, directory: u64, name: &[u8]) -> Result<()> {
        let operation = "linkat";
        check_name(name, operation)?;
        let now = self.now();
        let mut plan = Plan::new(self, operation, now);
        if plan.find(directory, name)?.is_some() {
            return plan.fail(Errno::EXIST);
        }
        plan.living_directory(directory)?;
        let meta = &plan.state.inode(number, operation)?.meta;
        match meta {
            Meta { kind: Kind::Directory, .. } => return plan.fail(Errno::PERM),
            Meta { links: 0, linkable: false, .. } => return plan.fail(Errno::NOENT),
            Meta { links, .. } if *links >= LINKS_MAX => return plan.fail(Errno::MLINK),
            _ => (),
        }
        let meta = plan.meta(number)?;
        meta.links += 1;
        meta.linkable = false;
        plan.modify(directory)?;
        plan.put(directory, name, number);
        let deltas = plan.finish();
        self.commit(operation, deltas);
        Ok(())
    }

    /// Takes a name away: of an empty directory, or of anything else.
    pub(crate) fn unlink(&mut self, directory: u64, name: &[u8], of_directory: bool) -> Result<()> {
        let operation = "unlinkat";
        check_name(name, operation)?;
        let now = self.now();
        let mut plan = Plan::new(self, operation, now);
        let Some(number) = plan.find(directory, name)? else { return plan.fail(Errno::NOENT) };
        match (of_directory, plan.kind(number)? == Kind::Directory) {
            (false, true) => return plan.fail(Errno::ISDIR),
            (true, false) => return plan.fail(Errno::NOTDIR),
            (true, true) if !plan.directory(number)?.entries.is_empty() => return plan.fail(Errno::NOTEMPTY),
            _ => (),
        }
        plan.modify(directory)?;
        plan.drop_entry(directory, name);
        plan.unlink(number, directory)?;
        let deltas = plan.finish();
        self.commit(operation, deltas);
        Ok(())
    }

    /// Moves or exchanges entries.
    pub(crate) fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), mode: RenameMode) -> Result<()> {
        let operation = "renameat2";
        check_name(from.1, operation)?;
        check_name(to.1, operation)?;
        let (now, whiteout) = (self.now(), self.new_number());
        let mut plan = Plan::new(self, operation, now);
        let Some(moved) = plan.find(from.0, from.1)? else { return plan.fail(Errno::NOENT) };
        plan.living_directory(to.0)?;
        let target = plan.find(to.0, to.1)?;
        check_rename(&plan, moved, from.0, to.0, target, mode)?;
        // Two names of one inode: nothing is to do, as POSIX has it.
        if target == Some(moved) {
            return Ok(());
        }
        plan.modify(from.0)?;
        plan.modify(to.0)?;
        plan.meta(moved)?;
        match (mode, target) {
            (RenameMode::Exchange, Some(other)) => {
                plan.meta(other)?;
                plan.put(from.0, from.1, other);
                plan.reparent(other, to.0, from.0)?;
            }
            (RenameMode::Whiteout, _) => {
                let mut meta = new_meta(Kind::CharacterDevice, 0, now);
                meta.links = 1;
                let content = Arc::new(Inode { meta, body: Body::Special });
                plan.deltas.push(Delta::Insert { inode: whiteout, content });
                plan.put(from.0, from.1, whiteout);
            }
            _ => plan.drop_entry(from.0, from.1),
        }
        if let (Some(replaced), true) = (target, mode != RenameMode::Exchange) {
            plan.unlink(replaced, to.0)?;
        }
        plan.put(to.0, to.1, moved);
        plan.reparent(moved, from.0, to.0)?;
        let deltas = plan.finish();
        self.commit(operation, deltas);
        Ok(())
    }
}

/// What `renameat2(2)` refuses.
fn check_rename(
    plan: &Plan<'_>,
    moved: u64,
    from: u64,
    to: u64,
    target: Option<u64>,
    mode: RenameMode,
) -> Result<()> {
    let moves_directory = plan.kind(moved)? == Kind::Directory;
    match (mode, target) {
        (RenameMode::NoReplace, Some(_)) => return plan.fail(Errno::EXIST),
        (RenameMode::Exchange, None) => return plan.fail(Errno::NOENT),
        _ => (),
    }
    if moves_directory && plan.is_below(to, moved)? {
        return plan.fail(Errno::INVAL);
    }
    let Some(target) = target else { return Ok(()) };
    let onto_directory = plan.kind(target)? == Kind::Directory;
    if onto_directory && plan.is_below(from, target)? {
        let errno = if mode == RenameMode::Exchange { Errno::INVAL } else { Errno::NOTEMPTY };
        return plan.fail(errno);
    }
    if mode == RenameMode::Exchange || target == moved {
        return Ok(());
    }
    match (moves_directory, onto_directory) {
        (true, false) => plan.fail(Errno::NOTDIR),
        (false, true) => plan.fail(Errno::ISDIR),
        (true, true) if !plan.directory(target)?.entries.is_empty() => plan.fail(Errno::NOTEMPTY),
        _ => Ok(()),
    }
}
