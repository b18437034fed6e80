//! A store, served as a file system: every request is one call of the store.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use strongroom_engine::Buffer;
use strongroom_fuse::{
    Allocate, Context, CreateMode, DirectoryEntries, DirectoryEntriesPlus, DirectoryEntry, Entry, Errno,
    Filesystem, Handle, NodeId, OpenFlags, Opened, Read, Release, Rename, SetAttributes, SetXattr, Space,
    TimedAttributes, Write,
};
use strongroom_store::faulty::{Call, Effect, FaultyStore, Plan};
use strongroom_store::{Access, AllocateMode, FileRef, NodeRef, Store, XattrMode};

use crate::handles::Handles;
use crate::words::{self, errno};

const EIO: i32 = 5;
const ACCESS: u32 = 0o3;
const READ_ONLY: u32 = 0;
const TRUNCATE: u32 = 0o1000;
const EXCLUSIVE: u32 = 0o200;
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;

/// One name of a directory.
struct Listed {
    name: Vec<u8>,
    inode: u64,
    mode: u32,
    next_offset: u64,
}

impl Listed {
    fn entry(&self) -> DirectoryEntry<'_> {
        let Listed { name, inode, mode, next_offset } = self;
        DirectoryEntry { name, inode: *inode, next_offset: *next_offset, mode: *mode }
    }
}

/// The file system.
pub(crate) struct Forgetful {
    store: FaultyStore,
    handles: Handles,
    /// Held by each change and barrier, and alone by what takes something away.
    calm: RwLock<()>,
}

impl Forgetful {
    pub(crate) fn new(store: FaultyStore) -> Forgetful {
        let handles = Handles::new(store.root());
        Forgetful { store, handles, calm: RwLock::default() }
    }

    /// What is not durable of files that are open to write is lost, and each
    /// that lost something tells so for as long as it is open, as JuiceFS does; or
    /// once, as sshfs does.
    pub(crate) fn lose(&self, is_told_always: bool) {
        let _alone = self.calm.write().unwrap_or_else(PoisonError::into_inner);
        let lose = |file: &FileRef| {
            let before = bytes(file);
            self.store
                .fail(Plan { effect: Effect::LosesUnsynced(EIO), ..Plan::once(0, EIO) }.of(Call::SyncAll));
            let _ = file.sync_all();
            bytes(file) != before
        };
        self.handles.lose(is_told_always, lose);
    }

    fn calm(&self) -> RwLockReadGuard<'_, ()> {
        self.calm.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, node: NodeRef) -> Result<Entry, Errno> {
        let attributes = node.attributes().map_err(errno)?;
        Ok(words::entry(self.handles.looked_up(node), &attributes))
    }

    /// Gives something just made to whoever asked for it.
    fn made(&self, context: &Context, node: NodeRef) -> Result<Entry, Errno> {
        node.set_owner(Some(context.uid), Some(context.gid)).map_err(errno)?;
        self.found(node)
    }

    /// The names of a directory from `offset` on, each with where to go on.
    fn listed(&self, node: NodeId, offset: u64) -> Result<Vec<Listed>, Errno> {
        let entries = self.handles.node(node)?.entries().map_err(errno)?;
        let dots = [b".".to_vec(), b"..".to_vec()].map(|name| (name, node.0, 0o040_000));
        let named = entries
            .into_iter()
            .map(|entry| (entry.name, entry.inode, entry.kind.map_or(0, words::type_bits)));
        let all = dots.into_iter().chain(named).zip(1..);
        let listed = |((name, inode, mode), next_offset)| Listed { name, inode, mode, next_offset };
        Ok(all.skip(offset as usize).map(listed).collect())
    }
}

fn bytes(file: &FileRef) -> Vec<u8> {
    let mut bytes = vec![0; file.len().map_or(0, |len| len as usize)];
    let read = file.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(read);
    bytes
}

impl Filesystem for Forgetful {
    fn lookup(&self, _: &Context, parent: NodeId, name: &[u8]) -> Result<Entry, Errno> {
        self.found(self.handles.node(parent)?.lookup(name).map_err(errno)?)
    }

    fn forget(&self, node: NodeId, lookups: u64) {
        self.handles.forget(node, lookups);
    }

    fn getattr(&self, _: &Context, node: NodeId, _: Option<Handle>) -> Result<TimedAttributes, Errno> {
        Ok(words::attributes(&self.handles.node(node)?.attributes().map_err(errno)?))
    }

    fn setattr(
        &self,
        context: &Context,
        id: NodeId,
        change: &SetAttributes,
    ) -> Result<TimedAttributes, Errno> {
        let _calm = self.calm();
        let node = self.handles.node(id)?;
        if let Some(mode) = change.mode {
            node.set_mode(mode & 0o7777).map_err(errno)?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            node.set_owner(change.uid, change.gid).map_err(errno)?;
        }
        if let Some(size) = change.size {
            node.open(Access::ReadWrite).and_then(|file| file.set_len(size)).map_err(errno)?;
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let (accessed, modified) = (words::set_time(change.atime), words::set_time(change.mtime));
            node.set_times(accessed, modified).map_err(errno)?;
        }
        self.getattr(context, id, None)
    }

    fn readlink(&self, _: &Context, node: NodeId, target: &mut Vec<u8>) -> Result<(), Errno> {
        target.extend(self.handles.node(node)?.read_link().map_err(errno)?);
        Ok(())
    }

    fn symlink(&self, context: &Context, parent: NodeId, name: &[u8], target: &[u8]) -> Result<Entry, Errno> {
        let made = self.handles.node(parent)?.make_symlink(name, target).map_err(errno)?;
        self.made(context, made)
    }

    fn mknod(
        &self,
        context: &Context,
        parent: NodeId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Entry, Errno> {
        let parent = self.handles.node(parent)?;
        let permissions = mode.masked() & 0o7777;
        let made = match words::kind_to_make(mode.mode)? {
            strongroom_store::Kind::File => parent.create(name, permissions).map(|(node, _)| node),
            kind => parent.make_special(name, kind, permissions, 0),
        };
        self.made(context, made.map_err(errno)?)
    }

    fn mkdir(
        &self,
        context: &Context,
        parent: NodeId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Entry, Errno> {
        let parent = self.handles.node(parent)?;
        self.made(context, parent.make_directory(name, mode.masked() & 0o7777).map_err(errno)?)
    }

    fn unlink(&self, _: &Context, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        self.handles.node(parent)?.remove(name).map_err(errno)
    }

    fn rmdir(&self, _: &Context, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        self.handles.node(parent)?.remove_directory(name).map_err(errno)
    }

    fn rename(&self, _: &Context, rename: &Rename<'_>) -> Result<(), Errno> {
        let (from, to) = (self.handles.node(rename.parent)?, self.handles.node(rename.new_parent)?);
        let mode = words::rename_mode(rename.flags)?;
        from.rename(rename.name, &*to, rename.new_name, mode).map_err(errno)
    }

    fn link(&self, _: &Context, id: NodeId, new_parent: NodeId, new_name: &[u8]) -> Result<Entry, Errno> {
        let node = self.handles.node(id)?;
        self.handles.node(new_parent)?.link(&*node, new_name).map_err(errno)?;
        self.found(node)
    }

    fn open(&self, _: &Context, node: NodeId, open: OpenFlags) -> Result<Opened, Errno> {
        let _calm = self.calm();
        let file = self.handles.node(node)?.open(Access::ReadWrite).map_err(errno)?;
        if open.flags & TRUNCATE != 0 {
            file.set_len(0).map_err(errno)?;
        }
        let writes = open.flags & ACCESS != READ_ONLY;
        Ok(Opened { handle: self.handles.opened(file, node, writes), flags: 0 })
    }

    fn create(
        &self,
        context: &Context,
        parent: NodeId,
        name: &[u8],
        mode: &CreateMode,
        open: OpenFlags,
    ) -> Result<(Entry, Opened), Errno> {
        let calm = self.calm();
        let directory = self.handles.node(parent)?;
        match directory.create(name, mode.masked() & 0o7777) {
            Ok((node, file)) => {
                let entry = self.made(context, node)?;
                let handle = self.handles.opened(file, entry.node, open.flags & ACCESS != READ_ONLY);
                Ok((entry, Opened { handle, flags: 0 }))
            }
            Err(error) if error.is_exists() && open.flags & EXCLUSIVE == 0 => {
                drop(calm);
                let entry = self.lookup(context, parent, name)?;
                Ok((entry, self.open(context, entry.node, open)?))
            }
            Err(error) => Err(errno(error)),
        }
    }

    fn tmpfile(
        &self,
        context: &Context,
        parent: NodeId,
        mode: &CreateMode,
        open: OpenFlags,
    ) -> Result<(Entry, Opened), Errno> {
        let _calm = self.calm();
        let directory = self.handles.node(parent)?;
        let (node, file) = directory.create_unnamed(mode.masked() & 0o7777).map_err(errno)?;
        let entry = self.made(context, node)?;
        let handle = self.handles.opened(file, entry.node, open.flags & ACCESS != READ_ONLY);
        Ok((entry, Opened { handle, flags: 0 }))
    }

    fn read(&self, _: &Context, _: NodeId, read: &Read, buffer: &mut Buffer) -> Result<usize, Errno> {
        self.handles.file(read.handle)?.read_at(&mut buffer[..read.size], read.offset).map_err(errno)
    }

    fn write(&self, _: &Context, _: NodeId, write: &Write, buffer: &mut Buffer) -> Result<usize, Errno> {
        let _calm = self.calm();
        self.handles.whole(write.handle)?.write_at(&buffer[..write.len], write.offset).map_err(errno)?;
        Ok(write.len)
    }

    fn flush(&self, _: &Context, _: NodeId, handle: Handle) -> Result<(), Errno> {
        self.handles.told(handle)
    }

    fn release(&self, _: &Context, _: NodeId, release: &Release) -> Result<(), Errno> {
        self.handles.closed(release.handle);
        Ok(())
    }

    fn fsync(&self, _: &Context, _: NodeId, handle: Handle, data_only: bool) -> Result<(), Errno> {
        let _calm = self.calm();
        let file = self.handles.whole(handle)?;
        self.handles.told(handle)?;
        if data_only { file.sync_data() } else { file.sync_all() }.map_err(errno)
    }

    fn readdir(
        &self,
        _: &Context,
        node: NodeId,
        _: Handle,
        offset: u64,
        entries: &mut DirectoryEntries<'_>,
    ) -> Result<(), Errno> {
        for listed in self.listed(node, offset)? {
            if !entries.push(&listed.entry()) {
                break;
            }
        }
        Ok(())
    }

    fn readdirplus(
        &self,
        _: &Context,
        node: NodeId,
        _: Handle,
        offset: u64,
        entries: &mut DirectoryEntriesPlus<'_>,
    ) -> Result<(), Errno> {
        for listed in self.listed(node, offset)? {
            if !entries.push_name(&listed.entry()) {
                break;
            }
        }
        Ok(())
    }

    fn fsyncdir(&self, _: &Context, node: NodeId, _: Handle, _: bool) -> Result<(), Errno> {
        self.handles.node(node)?.sync().map_err(errno)
    }

    fn statfs(&self, _: &Context, _: NodeId) -> Result<Space, Errno> {
        Ok(words::space(&self.store.space().map_err(errno)?))
    }

    fn setxattr(&self, _: &Context, node: NodeId, attribute: &SetXattr<'_>) -> Result<(), Errno> {
        let mode = match attribute.flags {
            0 => XattrMode::Any,
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => return Err(Errno::INVAL),
        };
        self.handles.node(node)?.set_xattr(attribute.name, attribute.value, mode).map_err(errno)
    }

    fn getxattr(&self, _: &Context, node: NodeId, name: &[u8], value: &mut Vec<u8>) -> Result<(), Errno> {
        value.extend(self.handles.node(node)?.xattr(name).map_err(errno)?);
        Ok(())
    }

    fn listxattr(&self, _: &Context, node: NodeId, names: &mut Vec<u8>) -> Result<(), Errno> {
        for name in self.handles.node(node)?.xattr_names().map_err(errno)? {
            names.extend(name);
            names.push(0);
        }
        Ok(())
    }

    fn removexattr(&self, _: &Context, node: NodeId, name: &[u8]) -> Result<(), Errno> {
        self.handles.node(node)?.remove_xattr(name).map_err(errno)
    }

    fn fallocate(&self, _: &Context, _: NodeId, allocate: &Allocate) -> Result<(), Errno> {
        let _calm = self.calm();
        let mode = match allocate.mode {
            0 => AllocateMode::Extend,
            KEEP_SIZE => AllocateMode::KeepLength,
            mode if mode == PUNCH_HOLE | KEEP_SIZE => AllocateMode::Punch,
            _ => return Err(Errno::OPNOTSUPP),
        };
        let file = self.handles.whole(allocate.handle)?;
        file.allocate(mode, allocate.offset, allocate.len).map_err(errno)
    }

    fn syncfs(&self, _: &Context, _: NodeId) -> Result<(), Errno> {
        let _calm = self.calm();
        self.store.sync_all().map_err(errno)
    }
}
