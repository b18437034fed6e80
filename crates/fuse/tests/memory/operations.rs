//! The operations of the file system in memory.

use super::{DIRECTORY, LINK, Memory, Node, REGULAR, Seen, TIMEOUT, TYPE, Tree, now};
use std::sync::atomic::Ordering;
use std::time::Duration;
use strongroom_engine::Buffer;
use strongroom_fuse::abi::flags;
use strongroom_fuse::{
    Allocate, Context, CopyRange, CreateMode, DirectoryEntries, DirectoryEntriesPlus, DirectoryEntry, Entry,
    Errno, Filesystem, Handle, Negotiated, NodeId, OpenFlags, Opened, Read, Release, Rename, Seek,
    SetAttributes, SetTime, SetXattr, Space, TimedAttributes, Write,
};

const TRUNCATE: u32 = 0o1000;
const EXCLUSIVE: u32 = 0o200;
const PUNCH_HOLE: u32 = 2;
const KEEP_SIZE: u32 = 1;

/// Bytes of a read that is long.
const LONG: usize = 64 << 10;

fn opened(node: &mut Node) -> Opened {
    node.opens += 1;
    let kept = if node.is_slow { flags::opened::KEEP_CACHE } else { 0 };
    Opened { handle: Handle(node.attributes.inode), flags: kept }
}

/// `.`, `..` and the names, from `offset` on.
fn listing(tree: &Tree, node: NodeId, offset: u64) -> Result<Vec<(Vec<u8>, u64, u64)>, Errno> {
    let directory = tree.node(node)?;
    let dots = [(b".".to_vec(), node.0), (b"..".to_vec(), directory.parent)];
    let names = directory.names.iter().map(|(name, &id)| (name.clone(), id));
    let all = dots.into_iter().chain(names).zip(1..);
    Ok(all.skip(offset as usize).take(2000).map(|((name, id), next)| (name, id, next)).collect())
}

impl Memory {
    fn made(&self, parent: NodeId, name: &[u8], node: Node, context: &Context) -> Result<Entry, Errno> {
        let mut tree = self.tree();
        if tree.node(parent)?.names.contains_key(name) {
            return Err(Errno::EXIST);
        }
        let id = tree.add(node.attributes.mode, (context.uid, context.gid), parent.0);
        let made = tree.node_mut(NodeId(id))?;
        made.data = node.data;
        made.hangs = name == b"hang";
        made.is_slow = name == b"slow";
        made.attributes.rdev = node.attributes.rdev;
        tree.insert(parent, name, id)?;
        tree.entry(NodeId(id))
    }

    fn blank(mode: u32) -> Node {
        let mut node = Node::default();
        node.attributes.mode = mode;
        node
    }

    fn closed(&self, node: NodeId) {
        let mut tree = self.tree();
        if let Ok(found) = tree.node_mut(node) {
            found.opens -= 1;
        }
        tree.collect(node);
    }
}

impl Filesystem for Memory {
    fn init(&self, negotiated: &Negotiated) -> Result<(), Errno> {
        *self.seen.negotiated.lock().unwrap() = Some(*negotiated);
        Ok(())
    }

    fn destroy(&self) {
        self.seen.destroyed.store(true, Ordering::SeqCst);
    }

    fn lookup(&self, _: &Context, parent: NodeId, name: &[u8]) -> Result<Entry, Errno> {
        assert_ne!(name, b"panic", "this name panics");
        let mut tree = self.tree();
        match tree.child(parent, name) {
            Ok(id) => tree.entry(id),
            Err(Errno::NOENT) => Ok(Entry::absent(TIMEOUT)),
            Err(errno) => Err(errno),
        }
    }

    fn forget(&self, node: NodeId, lookups: u64) {
        let mut tree = self.tree();
        if let Ok(found) = tree.node_mut(node) {
            found.lookups = found.lookups.checked_sub(lookups).expect("lookups are counted");
        }
        tree.collect(node);
    }

    fn getattr(&self, _: &Context, node: NodeId, _: Option<Handle>) -> Result<TimedAttributes, Errno> {
        self.tree().timed(node)
    }

    fn setattr(&self, _: &Context, id: NodeId, change: &SetAttributes) -> Result<TimedAttributes, Errno> {
        let mut tree = self.tree();
        let node = tree.node_mut(id)?;
        let time = |set: Option<SetTime>| match set {
            Some(SetTime::Now) => Some(now()),
            Some(SetTime::At(time)) => Some(time),
            None => None,
        };
        if let Some(size) = change.size {
            node.data.resize(size as usize, 0);
        }
        let attributes = &mut node.attributes;
        if let Some(mode) = change.mode {
            attributes.mode = attributes.mode & TYPE | mode & 0o7777;
        }
        if change.kill_suid_sgid {
            attributes.mode &= !0o6000;
        }
        attributes.uid = change.uid.unwrap_or(attributes.uid);
        attributes.gid = change.gid.unwrap_or(attributes.gid);
        attributes.atime = time(change.atime).unwrap_or(attributes.atime);
        attributes.mtime = time(change.mtime).unwrap_or(attributes.mtime);
        attributes.ctime = change.ctime.unwrap_or_else(now);
        tree.timed(id)
    }

    fn readlink(&self, _: &Context, node: NodeId, target: &mut Vec<u8>) -> Result<(), Errno> {
        target.extend_from_slice(&self.tree().node(node)?.data);
        Ok(())
    }

    fn symlink(&self, context: &Context, parent: NodeId, name: &[u8], target: &[u8]) -> Result<Entry, Errno> {
        let node = Node { data: target.to_vec(), ..Memory::blank(LINK | 0o777) };
        self.made(parent, name, node, context)
    }

    fn mknod(
        &self,
        context: &Context,
        parent: NodeId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Entry, Errno> {
        let mut node = Memory::blank(mode.masked());
        node.attributes.rdev = mode.rdev;
        self.made(parent, name, node, context)
    }

    fn mkdir(
        &self,
        context: &Context,
        parent: NodeId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Entry, Errno> {
        self.made(parent, name, Memory::blank(mode.masked()), context)
    }

    fn unlink(&self, _: &Context, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        let mut tree = self.tree();
        let id = tree.child(parent, name)?;
        tree.node_mut(parent)?.names.remove(name);
        tree.unlinked(id);
        Ok(())
    }

    fn rmdir(&self, context: &Context, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        {
            let tree = self.tree();
            let directory = tree.node(tree.child(parent, name)?)?;
            if directory.attributes.mode & TYPE != DIRECTORY {
                return Err(Errno::NOTDIR);
            }
            if !directory.names.is_empty() {
                return Err(Errno::NOTEMPTY);
            }
        }
        self.unlink(context, parent, name)
    }

    fn rename(&self, _: &Context, rename: &Rename<'_>) -> Result<(), Errno> {
        let mut tree = self.tree();
        let id = tree.child(rename.parent, rename.name)?;
        let old = tree.child(rename.new_parent, rename.new_name).ok();
        match (rename.flags, old) {
            (flags::rename::NO_REPLACE, Some(_)) => return Err(Errno::EXIST),
            (flags::rename::EXCHANGE, Some(old)) => {
                tree.node_mut(rename.parent)?.names.insert(rename.name.to_vec(), old.0);
                tree.node_mut(rename.new_parent)?.names.insert(rename.new_name.to_vec(), id.0);
                return Ok(());
            }
            (flags::rename::EXCHANGE, None) => return Err(Errno::NOENT),
            (0 | flags::rename::NO_REPLACE, _) => {}
            _ => return Err(Errno::INVAL),
        }
        tree.node_mut(rename.parent)?.names.remove(rename.name);
        tree.node_mut(rename.new_parent)?.names.insert(rename.new_name.to_vec(), id.0);
        if let Some(old) = old {
            tree.unlinked(old);
        }
        Ok(())
    }

    fn link(&self, _: &Context, id: NodeId, new_parent: NodeId, new_name: &[u8]) -> Result<Entry, Errno> {
        let mut tree = self.tree();
        tree.insert(new_parent, new_name, id.0)?;
        tree.node_mut(id)?.attributes.nlink += 1;
        tree.entry(id)
    }

    fn open(&self, _: &Context, node: NodeId, open: OpenFlags) -> Result<Opened, Errno> {
        let mut tree = self.tree();
        let node = tree.node_mut(node)?;
        if open.flags & TRUNCATE != 0 {
            node.data.clear();
        }
        Ok(opened(node))
    }

    fn create(
        &self,
        context: &Context,
        parent: NodeId,
        name: &[u8],
        mode: &CreateMode,
        open: OpenFlags,
    ) -> Result<(Entry, Opened), Errno> {
        let entry = match self.mknod(context, parent, name, mode) {
            Err(Errno::EXIST) if open.flags & EXCLUSIVE == 0 => self.lookup(context, parent, name)?,
            other => other?,
        };
        Ok((entry, self.open(context, entry.node, open)?))
    }

    fn tmpfile(
        &self,
        context: &Context,
        parent: NodeId,
        mode: &CreateMode,
        _: OpenFlags,
    ) -> Result<(Entry, Opened), Errno> {
        let mut tree = self.tree();
        let id = NodeId(tree.add(REGULAR | mode.masked() & 0o7777, (context.uid, context.gid), parent.0));
        let node = tree.node_mut(id)?;
        node.attributes.nlink = 0;
        let opened = opened(node);
        Ok((tree.entry(id)?, opened))
    }

    fn read(&self, _: &Context, node: NodeId, read: &Read, buffer: &mut Buffer) -> Result<usize, Errno> {
        Seen::maximum(&self.seen.read_max, read.size);
        if self.tree().node(node)?.hangs {
            self.hang();
        }
        let tree = self.tree();
        let data = &tree.node(node)?.data;
        let start = data.len().min(read.offset as usize);
        let end = data.len().min(start + read.size);
        // As a vault would: the buffer travels, and comes back.
        let mut travelling = buffer.take();
        travelling[..end - start].copy_from_slice(&data[start..end]);
        *buffer = travelling;
        let is_slow = tree.node(node)?.is_slow && read.size >= LONG;
        drop(tree);
        if is_slow {
            std::thread::sleep(Duration::from_millis(3));
        }
        Ok(end - start)
    }

    fn write(&self, _: &Context, node: NodeId, write: &Write, buffer: &mut Buffer) -> Result<usize, Errno> {
        Seen::maximum(&self.seen.write_max, write.len);
        if buffer.as_ptr().align_offset(4096) != 0 {
            self.seen.unaligned.fetch_add(1, Ordering::Relaxed);
        }
        if self.tree().node(node)?.hangs {
            self.hang();
        }
        let mut tree = self.tree();
        let node = tree.node_mut(node)?;
        let start = write.offset as usize;
        let end = start + write.len;
        if node.data.len() < end {
            node.data.resize(end, 0);
        }
        node.data[start..end].copy_from_slice(&buffer[..write.len]);
        // The payload may be overwritten; no later request may see it.
        buffer[..write.len].fill(0xee);
        if write.kill_suid_sgid {
            node.attributes.mode &= !0o6000;
        }
        Ok(write.len)
    }

    fn flush(&self, _: &Context, _: NodeId, _: Handle) -> Result<(), Errno> {
        Ok(())
    }

    fn release(&self, _: &Context, node: NodeId, _: &Release) -> Result<(), Errno> {
        self.closed(node);
        Ok(())
    }

    fn fsync(&self, _: &Context, _: NodeId, _: Handle, _: bool) -> Result<(), Errno> {
        self.seen.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn opendir(&self, _: &Context, node: NodeId, _: OpenFlags) -> Result<Opened, Errno> {
        Ok(opened(self.tree().node_mut(node)?))
    }

    fn readdir(
        &self,
        _: &Context,
        node: NodeId,
        _: Handle,
        offset: u64,
        entries: &mut DirectoryEntries<'_>,
    ) -> Result<(), Errno> {
        let tree = self.tree();
        for (name, inode, next_offset) in listing(&tree, node, offset)? {
            let mode = tree.node(NodeId(inode))?.attributes.mode;
            if !entries.push(&DirectoryEntry { name: &name, inode, next_offset, mode }) {
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
        self.seen.listings_plus.fetch_add(1, Ordering::Relaxed);
        let mut tree = self.tree();
        for (name, inode, next_offset) in listing(&tree, node, offset)? {
            let mode = tree.node(NodeId(inode))?.attributes.mode;
            let entry = DirectoryEntry { name: &name, inode, next_offset, mode };
            if !entries.fits(&name) {
                break;
            }
            let pushed = if name == b"." || name == b".." {
                entries.push_name(&entry)
            } else {
                entries.push(&entry, &tree.entry(NodeId(inode))?)
            };
            assert!(pushed, "what fits is appended");
        }
        Ok(())
    }

    fn releasedir(&self, _: &Context, node: NodeId, _: &Release) -> Result<(), Errno> {
        self.closed(node);
        Ok(())
    }

    fn fsyncdir(&self, _: &Context, _: NodeId, _: Handle, _: bool) -> Result<(), Errno> {
        self.seen.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn statfs(&self, _: &Context, _: NodeId) -> Result<Space, Errno> {
        Ok(Space {
            blocks: 1000,
            blocks_free: 500,
            blocks_available: 400,
            files: 300,
            files_free: 200,
            block_size: 1 << 20,
            fragment_size: 4096,
            name_max: 255,
        })
    }

    fn setxattr(&self, _: &Context, node: NodeId, attribute: &SetXattr<'_>) -> Result<(), Errno> {
        if attribute.name.starts_with(b"system.") {
            return Err(Errno::OPNOTSUPP);
        }
        let mut tree = self.tree();
        let xattrs = &mut tree.node_mut(node)?.xattrs;
        match (attribute.flags, xattrs.contains_key(attribute.name)) {
            (1, true) => Err(Errno::EXIST),
            (2, false) => Err(Errno::NODATA),
            _ => {
                xattrs.insert(attribute.name.to_vec(), attribute.value.to_vec());
                Ok(())
            }
        }
    }

    fn getxattr(&self, _: &Context, node: NodeId, name: &[u8], value: &mut Vec<u8>) -> Result<(), Errno> {
        let tree = self.tree();
        value.extend_from_slice(tree.node(node)?.xattrs.get(name).ok_or(Errno::NODATA)?);
        Ok(())
    }

    fn listxattr(&self, _: &Context, node: NodeId, names: &mut Vec<u8>) -> Result<(), Errno> {
        for name in self.tree().node(node)?.xattrs.keys() {
            names.extend_from_slice(name);
            names.push(0);
        }
        Ok(())
    }

    fn removexattr(&self, _: &Context, node: NodeId, name: &[u8]) -> Result<(), Errno> {
        self.tree().node_mut(node)?.xattrs.remove(name).map(drop).ok_or(Errno::NODATA)
    }

    fn fallocate(&self, _: &Context, node: NodeId, allocate: &Allocate) -> Result<(), Errno> {
        let mut tree = self.tree();
        let data = &mut tree.node_mut(node)?.data;
        let (start, end) = (allocate.offset as usize, (allocate.offset + allocate.len) as usize);
        if allocate.mode == PUNCH_HOLE | KEEP_SIZE {
            let len = data.len();
            data[start.min(len)..end.min(len)].fill(0);
        } else if allocate.mode == 0 {
            data.resize(data.len().max(end), 0);
        } else {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(())
    }

    /// Pages of zeros count as holes.
    fn lseek(&self, _: &Context, node: NodeId, seek: &Seek) -> Result<u64, Errno> {
        let tree = self.tree();
        let data = &tree.node(node)?.data;
        let from = seek.offset as usize;
        if from >= data.len() {
            return Err(Errno::NXIO);
        }
        let wants_hole = seek.whence == 4;
        let mut pages = data.chunks(4096).enumerate().skip(from / 4096);
        let found = pages.find(|(_, page)| page.iter().all(|&byte| byte == 0) == wants_hole);
        match found {
            Some((page, _)) => Ok((page * 4096).max(from) as u64),
            None if wants_hole => Ok(data.len() as u64),
            None => Err(Errno::NXIO),
        }
    }

    fn copy_file_range(&self, _: &Context, node: NodeId, copy: &CopyRange) -> Result<u64, Errno> {
        self.seen.copies.fetch_add(1, Ordering::Relaxed);
        let mut tree = self.tree();
        let from = &tree.node(node)?.data;
        let start = from.len().min(copy.offset as usize);
        let end = from.len().min(start.saturating_add(copy.len as usize));
        let bytes = from[start..end].to_vec();
        let to = &mut tree.node_mut(copy.to_node)?.data;
        let to_start = copy.to_offset as usize;
        to.resize(to.len().max(to_start + bytes.len()), 0);
        to[to_start..to_start + bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len() as u64)
    }
}
