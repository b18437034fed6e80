//! Inodes of a faulty store: each call is counted and may fail before it
//! reaches the store in memory.

use std::any::Any;
use std::sync::Arc;

use rustix::io::Errno;

use super::file::FaultyFile;
use super::{Call, Shared};
use crate::memory::{MemoryFile, MemoryNode};
use crate::{
    Access, Attributes, DirectoryEntry, Error, FileRef, InodeId, Kind, Node, NodeRef, RenameMode, Result,
    SetTime, XattrMode,
};

/// One inode of a faulty store.
pub(super) struct FaultyNode {
    shared: Arc<Shared>,
    node: Arc<MemoryNode>,
}

impl FaultyNode {
    pub(super) fn new(shared: Arc<Shared>, node: Arc<MemoryNode>) -> FaultyNode {
        FaultyNode { shared, node }
    }

    fn wrap(&self, node: MemoryNode) -> NodeRef {
        Arc::new(FaultyNode::new(Arc::clone(&self.shared), Arc::new(node)))
    }

    fn wrap_file(&self, file: MemoryFile) -> Result<FileRef> {
        Ok(Arc::new(FaultyFile::new(Arc::clone(&self.shared), file)?))
    }

    /// The node in memory behind another node of this store.
    fn inner<'a>(&self, node: &'a dyn Node, operation: &'static str) -> Result<&'a MemoryNode> {
        match node.as_any().downcast_ref::<FaultyNode>() {
            Some(node) if Arc::ptr_eq(&node.shared, &self.shared) => Ok(&node.node),
            _ => Err(Error::new(Errno::XDEV.raw_os_error(), operation)),
        }
    }
}

impl Node for FaultyNode {
    fn id(&self) -> InodeId {
        self.node.id()
    }

    fn kind(&self) -> Kind {
        self.node.kind()
    }

    fn attributes(&self) -> Result<Attributes> {
        self.shared.pass(Call::Attributes, "fstat")?;
        self.node.attributes()
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        self.shared.pass(Call::SetMode, "chmod")?;
        self.node.set_mode(mode)
    }

    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.shared.pass(Call::SetOwner, "fchownat")?;
        self.node.set_owner(uid, gid)
    }

    fn set_times(&self, accessed: SetTime, modified: SetTime) -> Result<()> {
        self.shared.pass(Call::SetTimes, "utimensat")?;
        self.node.set_times(accessed, modified)
    }

    fn read_link(&self) -> Result<Vec<u8>> {
        self.shared.pass(Call::ReadLink, "readlinkat")?;
        self.node.read_link()
    }

    fn open(&self, access: Access) -> Result<FileRef> {
        self.shared.pass(Call::Open, "openat")?;
        self.wrap_file(self.node.open_file(access)?)
    }

    fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        self.shared.pass(Call::Xattr, "getxattr")?;
        self.node.xattr(name)
    }

    fn set_xattr(&self, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.shared.pass(Call::SetXattr, "setxattr")?;
        self.node.set_xattr(name, value, mode)
    }

    fn xattr_names(&self) -> Result<Vec<Vec<u8>>> {
        self.shared.pass(Call::XattrNames, "listxattr")?;
        self.node.xattr_names()
    }

    fn remove_xattr(&self, name: &[u8]) -> Result<()> {
        self.shared.pass(Call::RemoveXattr, "removexattr")?;
        self.node.remove_xattr(name)
    }

    fn lookup(&self, name: &[u8]) -> Result<NodeRef> {
        self.shared.pass(Call::Lookup, "openat")?;
        Ok(self.wrap(self.node.lookup_node(name)?))
    }

    fn entries(&self) -> Result<Vec<DirectoryEntry>> {
        self.shared.pass(Call::Entries, "getdents64")?;
        self.node.entries()
    }

    fn create(&self, name: &[u8], mode: u32) -> Result<(NodeRef, FileRef)> {
        self.shared.pass(Call::Create, "openat")?;
        let (node, file) = self.node.create_file(Some(name), mode)?;
        Ok((self.wrap(node), self.wrap_file(file)?))
    }

    fn create_unnamed(&self, mode: u32) -> Result<(NodeRef, FileRef)> {
        self.shared.pass(Call::CreateUnnamed, "openat")?;
        let (node, file) = self.node.create_file(None, mode)?;
        Ok((self.wrap(node), self.wrap_file(file)?))
    }

    fn make_directory(&self, name: &[u8], mode: u32) -> Result<NodeRef> {
        self.shared.pass(Call::MakeDirectory, "mkdirat")?;
        Ok(self.wrap(self.node.make_directory_node(name, mode)?))
    }

    fn make_special(&self, name: &[u8], kind: Kind, mode: u32, device: u64) -> Result<NodeRef> {
        self.shared.pass(Call::MakeSpecial, "mknodat")?;
        Ok(self.wrap(self.node.make_special_node(name, kind, mode, device)?))
    }

    fn make_symlink(&self, name: &[u8], target: &[u8]) -> Result<NodeRef> {
        self.shared.pass(Call::MakeSymlink, "symlinkat")?;
        Ok(self.wrap(self.node.make_symlink_node(name, target)?))
    }

    fn link(&self, node: &dyn Node, name: &[u8]) -> Result<()> {
        self.shared.pass(Call::Link, "linkat")?;
        self.node.link(self.inner(node, "linkat")?, name)
    }

    fn remove(&self, name: &[u8]) -> Result<()> {
        self.shared.pass(Call::Remove, "unlinkat")?;
        self.node.remove(name)
    }

    fn remove_directory(&self, name: &[u8]) -> Result<()> {
        self.shared.pass(Call::RemoveDirectory, "unlinkat")?;
        self.node.remove_directory(name)
    }

    fn rename(&self, name: &[u8], to: &dyn Node, to_name: &[u8], mode: RenameMode) -> Result<()> {
        let call = if mode == RenameMode::Exchange { Call::Exchange } else { Call::Rename };
        self.shared.pass(call, "renameat2")?;
        self.node.rename(name, self.inner(to, "renameat2")?, to_name, mode)
    }

    fn sync(&self) -> Result<()> {
        self.shared.pass(Call::SyncDirectory, "fsync")?;
        self.node.sync()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
