//! Inodes of a store in memory.

use std::any::Any;
use std::sync::Arc;

use rustix::io::Errno;

use super::names::{NewInode, SYMLINK_MAX};
use super::observer::Barrier;
use super::state::State;
use super::tree::{Body, Delta, Inode, Meta};
use super::{Handle, MemoryFile};
use crate::{
    Access, Attributes, DirectoryEntry, Error, FileRef, InodeId, Kind, Node, NodeRef, RenameMode, Result,
    SetTime, XattrMode,
};

/// The device number of every store in memory.
const DEVICE: u64 = 0x5347;
/// Longest name of an extended attribute, as Linux has it.
const XATTR_NAME_MAX: usize = 255;
/// Longest value of an extended attribute, as Linux has it.
const XATTR_SIZE_MAX: usize = 65_536;

/// One inode of a store in memory.
pub(crate) struct MemoryNode {
    handle: Handle,
    kind: Kind,
}

/// An error of `operation`.
fn fail<T>(errno: Errno, operation: &'static str) -> Result<T> {
    Err(Error::new(errno.raw_os_error(), operation))
}

impl MemoryNode {
    pub(super) fn new(handle: Handle, kind: Kind) -> MemoryNode {
        MemoryNode { handle, kind }
    }

    /// A further handle of `inode`, which `state` (locked by the caller) has.
    fn refer(&self, state: &mut State, inode: u64) -> Handle {
        state.refer(inode);
        Handle::counted(&self.handle.shared, inode)
    }

    /// Does `act` on the state and makes a node of the inode it returns.
    pub(crate) fn node_by(&self, act: impl FnOnce(&mut State) -> Result<u64>) -> Result<MemoryNode> {
        let mut state = self.handle.shared.lock();
        let number = act(&mut state)?;
        let kind = state.inode(number, "openat")?.meta.kind;
        Ok(MemoryNode::new(self.refer(&mut state, number), kind))
    }

    /// An open file of this inode.
    pub(crate) fn open_file(&self, access: Access) -> Result<MemoryFile> {
        match self.kind {
            Kind::File => (),
            Kind::Directory => return fail(Errno::ISDIR, "openat"),
            _ => return fail(Errno::INVAL, "openat"),
        }
        let mut state = self.handle.shared.lock();
        Ok(MemoryFile::new(self.refer(&mut state, self.handle.inode), access))
    }

    /// Changes the metadata, as one operation.
    fn change_meta(
        &self,
        operation: &'static str,
        change: impl FnOnce(&mut Meta) -> Result<()>,
    ) -> Result<()> {
        change_meta(&mut self.handle.shared.lock(), self.handle.inode, operation, change)
    }

    fn read<T>(&self, operation: &'static str, read: impl FnOnce(&Inode) -> Result<T>) -> Result<T> {
        let state = self.handle.shared.lock();
        read(state.inode(self.handle.inode, operation)?)
    }

    /// The inode number of another node of the same store.
    fn same_store(&self, node: &dyn Node, operation: &'static str) -> Result<u64> {
        match node.as_any().downcast_ref::<MemoryNode>() {
            Some(node) if Arc::ptr_eq(&node.handle.shared, &self.handle.shared) => Ok(node.handle.inode),
            _ => fail(Errno::XDEV, operation),
        }
    }

    fn make(&self, name: &[u8], new: &NewInode, operation: &'static str) -> Result<MemoryNode> {
        self.node_by(|state| state.make(self.handle.inode, Some(name), new, operation))
    }

    /// [`Node::create`], with the types of this module.
    pub(crate) fn create_file(&self, name: Option<&[u8]>, mode: u32) -> Result<(MemoryNode, MemoryFile)> {
        let new = NewInode { kind: Kind::File, mode, device: 0, target: Vec::new() };
        let node = self.node_by(|state| state.make(self.handle.inode, name, &new, "openat"))?;
        let file = node.open_file(Access::ReadWrite)?;
        Ok((node, file))
    }

    /// [`Node::lookup`], likewise.
    pub(crate) fn lookup_node(&self, name: &[u8]) -> Result<MemoryNode> {
        self.node_by(|state| state.lookup(self.handle.inode, name))
    }

    /// [`Node::make_directory`], likewise.
    pub(crate) fn make_directory_node(&self, name: &[u8], mode: u32) -> Result<MemoryNode> {
        let new = NewInode { kind: Kind::Directory, mode, device: 0, target: Vec::new() };
        self.make(name, &new, "mkdirat")
    }

    /// [`Node::make_special`], likewise.
    pub(crate) fn make_special_node(
        &self,
        name: &[u8],
        kind: Kind,
        mode: u32,
        device: u64,
    ) -> Result<MemoryNode> {
        let device = match kind {
            Kind::Fifo | Kind::Socket => 0,
            Kind::BlockDevice | Kind::CharacterDevice => device,
            Kind::File | Kind::Directory | Kind::Symlink => return fail(Errno::INVAL, "mknodat"),
        };
        let new = NewInode { kind, mode, device, target: Vec::new() };
        self.make(name, &new, "mknodat")
    }

    /// [`Node::make_symlink`], likewise.
    pub(crate) fn make_symlink_node(&self, name: &[u8], target: &[u8]) -> Result<MemoryNode> {
        match target.len() {
            0 => return fail(Errno::NOENT, "symlinkat"),
            1..=SYMLINK_MAX => (),
            _ => return fail(Errno::NAMETOOLONG, "symlinkat"),
        }
        if target.contains(&0) {
            return fail(Errno::INVAL, "symlinkat");
        }
        let new = NewInode { kind: Kind::Symlink, mode: 0o777, device: 0, target: target.to_vec() };
        self.make(name, &new, "symlinkat")
    }
}

/// Changes the metadata of `inode`, as one operation.
pub(super) fn change_meta(
    state: &mut State,
    inode: u64,
    operation: &'static str,
    change: impl FnOnce(&mut Meta) -> Result<()>,
) -> Result<()> {
    let mut meta = state.inode(inode, operation)?.meta.clone();
    change(&mut meta)?;
    meta.changed = state.now();
    state.commit(operation, vec![Delta::SetMeta { inode, meta: Box::new(meta) }]);
    Ok(())
}

/// Sets both times of `inode`, as one operation.
pub(super) fn change_times(
    state: &mut State,
    inode: u64,
    accessed: SetTime,
    modified: SetTime,
) -> Result<()> {
    let now = state.now();
    let choose = |old, new| match new {
        SetTime::Omit => old,
        SetTime::Now => now,
        SetTime::To(time) => time,
    };
    change_meta(state, inode, "utimensat", |meta| {
        meta.accessed = choose(meta.accessed, accessed);
        meta.modified = choose(meta.modified, modified);
        Ok(())
    })
}

/// What `stat` tells of an inode.
pub(super) fn attributes_of(number: u64, inode: &Inode) -> Attributes {
    let meta = &inode.meta;
    let (len, blocks) = match &inode.body {
        Body::File(body) => (body.len(), body.charged() * 8),
        Body::Symlink(target) => (target.len() as u64, 0),
        Body::Directory(directory) => (directory.entries.len() as u64, 0),
        Body::Special => (0, 0),
    };
    Attributes {
        id: InodeId { device: DEVICE, inode: number },
        kind: meta.kind,
        mode: meta.mode,
        links: meta.links,
        uid: meta.uid,
        gid: meta.gid,
        device: meta.device,
        len,
        blocks,
        accessed: meta.accessed,
        modified: meta.modified,
        changed: meta.changed,
    }
}

/// Checks an extended attribute's name against what Linux takes.
fn check_xattr(name: &[u8], kind: Kind, operation: &'static str) -> Result<()> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        return fail(Errno::RANGE, operation);
    }
    let classes: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system."];
    if !classes.iter().any(|class| name.starts_with(class) && name.len() > class.len()) {
        return fail(Errno::OPNOTSUPP, operation);
    }
    if name.starts_with(b"user.") && !matches!(kind, Kind::File | Kind::Directory) {
        return fail(Errno::PERM, operation);
    }
    Ok(())
}

impl Node for MemoryNode {
    fn id(&self) -> InodeId {
        InodeId { device: DEVICE, inode: self.handle.inode }
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn attributes(&self) -> Result<Attributes> {
        self.read("fstat", |inode| Ok(attributes_of(self.handle.inode, inode)))
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        if self.kind == Kind::Symlink {
            return fail(Errno::OPNOTSUPP, "chmod");
        }
        self.change_meta("chmod", |meta| {
            meta.mode = mode & 0o7777;
            Ok(())
        })
    }

    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.change_meta("fchownat", |meta| {
            meta.uid = uid.unwrap_or(meta.uid);
            meta.gid = gid.unwrap_or(meta.gid);
            Ok(())
        })
    }

    fn set_times(&self, accessed: SetTime, modified: SetTime) -> Result<()> {
        change_times(&mut self.handle.shared.lock(), self.handle.inode, accessed, modified)
    }

    fn read_link(&self) -> Result<Vec<u8>> {
        self.read("readlinkat", |inode| match &inode.body {
            Body::Symlink(target) => Ok(target.to_vec()),
            _ => fail(Errno::INVAL, "readlinkat"),
        })
    }

    fn open(&self, access: Access) -> Result<FileRef> {
        Ok(Arc::new(self.open_file(access)?))
    }

    fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        check_xattr(name, Kind::File, "getxattr")?;
        self.read("getxattr", |inode| match inode.meta.xattrs.get(name) {
            Some(value) => Ok(value.clone()),
            None => fail(Errno::NODATA, "getxattr"),
        })
    }

    fn set_xattr(&self, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let operation = "setxattr";
        check_xattr(name, self.kind, operation)?;
        if value.len() > XATTR_SIZE_MAX {
            return fail(Errno::TOOBIG, operation);
        }
        self.change_meta(operation, |meta| {
            match (mode, meta.xattrs.contains_key(name)) {
                (XattrMode::Create, true) => return fail(Errno::EXIST, operation),
                (XattrMode::Replace, false) => return fail(Errno::NODATA, operation),
                _ => (),
            }
            Arc::make_mut(&mut meta.xattrs).insert(name.to_vec(), value.to_vec());
            Ok(())
        })
    }

    fn xattr_names(&self) -> Result<Vec<Vec<u8>>> {
        self.read("listxattr", |inode| Ok(inode.meta.xattrs.keys().cloned().collect()))
    }

    fn remove_xattr(&self, name: &[u8]) -> Result<()> {
        let operation = "removexattr";
        check_xattr(name, self.kind, operation)?;
        self.change_meta(operation, |meta| match Arc::make_mut(&mut meta.xattrs).remove(name) {
            Some(_) => Ok(()),
            None => fail(Errno::NODATA, operation),
        })
    }

    fn lookup(&self, name: &[u8]) -> Result<NodeRef> {
        Ok(Arc::new(self.lookup_node(name)?))
    }

    fn entries(&self) -> Result<Vec<DirectoryEntry>> {
        let state = self.handle.shared.lock();
        let inode = state.inode(self.handle.inode, "getdents64")?;
        let Body::Directory(directory) = &inode.body else { return fail(Errno::NOTDIR, "getdents64") };
        let entry = |(name, &inode): (&Arc<[u8]>, &u64)| {
            let kind = state.tree().inode(inode).map(|inode| inode.meta.kind);
            DirectoryEntry { name: name.to_vec(), inode, kind }
        };
        Ok(directory.entries.iter().map(entry).collect())
    }

    fn create(&self, name: &[u8], mode: u32) -> Result<(NodeRef, FileRef)> {
        let (node, file) = self.create_file(Some(name), mode)?;
        Ok((Arc::new(node), Arc::new(file)))
    }

    fn create_unnamed(&self, mode: u32) -> Result<(NodeRef, FileRef)> {
        let (node, file) = self.create_file(None, mode)?;
        Ok((Arc::new(node), Arc::new(file)))
    }

    fn make_directory(&self, name: &[u8], mode: u32) -> Result<NodeRef> {
        Ok(Arc::new(self.make_directory_node(name, mode)?))
    }

    fn make_special(&self, name: &[u8], kind: Kind, mode: u32, device: u64) -> Result<NodeRef> {
        Ok(Arc::new(self.make_special_node(name, kind, mode, device)?))
    }

    fn make_symlink(&self, name: &[u8], target: &[u8]) -> Result<NodeRef> {
        Ok(Arc::new(self.make_symlink_node(name, target)?))
    }

    fn link(&self, node: &dyn Node, name: &[u8]) -> Result<()> {
        let number = self.same_store(node, "linkat")?;
        self.handle.shared.lock().link(number, self.handle.inode, name)
    }

    fn remove(&self, name: &[u8]) -> Result<()> {
        self.handle.shared.lock().unlink(self.handle.inode, name, false)
    }

    fn remove_directory(&self, name: &[u8]) -> Result<()> {
        self.handle.shared.lock().unlink(self.handle.inode, name, true)
    }

    fn rename(&self, name: &[u8], to: &dyn Node, to_name: &[u8], mode: RenameMode) -> Result<()> {
        let to = self.same_store(to, "renameat2")?;
        self.handle.shared.lock().rename((self.handle.inode, name), (to, to_name), mode)
    }

    fn sync(&self) -> Result<()> {
        if self.kind != Kind::Directory {
            return fail(Errno::NOTDIR, "fsync");
        }
        self.handle.shared.lock().barrier(Barrier::Directory(self.handle.inode));
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
