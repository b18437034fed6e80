//! A vault as a file system: each request is one call of the vault's namespace
//! or of an open file's content, and the vault's errors become numbers.
//!
//! What is decided here and nowhere else: what the kernel may cache and for
//! how long ([`Timeouts`]), what a request means for the handles, and that
//! damage is remembered with its path ([`DamageLog`]). Not here: permissions
//! (the kernel's), locks (the kernel's), and anything cryptographic.
//!
//! While files of a crashed session are not settled, a file is settled before
//! its length is first told: under write-back the kernel believes the first
//! length it hears, and would show zeros for what settling cuts off.

mod convert;
mod damage;
mod handles;
mod lost;
mod pruning;
mod store_failures;
mod unwritten;
mod whiteout;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use strongroom_engine::Buffer;
use strongroom_store::{Kind, XattrMode};
use strongroom_vault::content::{self, Content};
use strongroom_vault::namespace::directory::Directory;
use strongroom_vault::namespace::{self, Changes, Namespace, Observer, Opening};
use strongroom_vault::{Error, Vault};

use self::handles::Handles;
use self::lost::Lost;
use self::store_failures::FailureLog;
use self::unwritten::{SEEK_DATA, SEEK_HOLE, Unwritten};
use crate::abi::directory::{DirectoryEntries, DirectoryEntriesPlus, DirectoryEntry};
use crate::abi::flags::opened;
use crate::errno::Errno;
use crate::filesystem::{
    Allocate, Context, CopyRange, CreateMode, Filesystem, Handle, Negotiated, NodeId, OpenFlags, Read,
    Release, Rename, Seek, SetAttributes, SetXattr, Write,
};
use crate::node::{Entry, Opened, Space, TimedAttributes};
use crate::session::SessionHandle;

pub use self::damage::{DamageLog, Damaged};
pub use self::pruning::inode_mark;
pub use self::store_failures::StoreFailures;

/// Most bytes that one request copies, so that a copy can be interrupted.
const COPY_MAX: u64 = 64 << 20;

/// Largest transfer that `st_blksize` recommends: programs allocate buffers
/// of this size per open file.
const PREFERRED_TRANSFER_MAX: u64 = 128 << 10;

const O_ACCMODE: u32 = 0o3;
const O_EXCL: u32 = 0o200;
const O_TRUNC: u32 = 0o1000;

const FALLOC_KEEP_SIZE: u32 = 0x01;
const FALLOC_PUNCH_HOLE: u32 = 0x02;
const FALLOC_ZERO_RANGE: u32 = 0x10;

/// For how long the kernel may believe what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// That a name leads to a node, or to none.
    pub entry: Duration,
    /// What a node's attributes are.
    pub attributes: Duration,
    /// That listings and pages stay good until the kernel itself changes them.
    pub keep: bool,
}

impl Timeouts {
    /// For a mount through which alone the tree changes.
    pub const SOLE: Timeouts =
        Timeouts { entry: Duration::from_secs(3600), attributes: Duration::from_secs(3600), keep: true };
    /// For a mount beside a writer: whoever opens a file is to see what was
    /// synced before, its length and its name too.
    pub const SHARED: Timeouts = Timeouts { entry: Duration::ZERO, attributes: Duration::ZERO, keep: false };
}

/// An open file.
#[derive(Clone)]
struct OpenFile {
    content: Arc<Content>,
    node: u64,
    /// Written to through this handle, perhaps by a mapping.
    writes: bool,
}

/// A vault as a [`Filesystem`].
pub struct Adapter {
    vault: Arc<Vault>,
    namespace: Arc<Namespace>,
    damage: Arc<DamageLog>,
    store_failures: FailureLog,
    timeouts: Timeouts,
    transfer_preferred: u32,
    files: Handles<OpenFile>,
    directories: Handles<Arc<Directory>>,
    unwritten: Unwritten,
    lost: Lost,
    ready: Box<dyn Fn() + Send + Sync>,
    is_ready: AtomicBool,
    /// Minor version of the protocol; 0 until it is agreed.
    minor: AtomicU32,
}

type Answered<T> = Result<T, Errno>;

/// A file that is open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenForWriting {
    /// Its number in this session.
    pub node: u64,
    /// As `stat(2)` tells it; 0 where that cannot be had.
    pub inode: u64,
    /// From the mount, as it was last found; empty where no name is known.
    pub path: Vec<u8>,
}

impl Adapter {
    /// Serves `vault`, whose observer is `damage`. `ready` is called once,
    /// when the kernel is about to be told that the mount can be used.
    #[must_use]
    pub fn new(
        vault: Arc<Vault>,
        damage: Arc<DamageLog>,
        timeouts: Timeouts,
        ready: Box<dyn Fn() + Send + Sync>,
    ) -> Adapter {
        let namespace = Arc::clone(vault.namespace());
        damage.attach(Arc::downgrade(&namespace));
        let block_size = vault.header().block_size.bytes();
        Adapter {
            namespace,
            damage,
            store_failures: FailureLog::default(),
            timeouts,
            // Bounded by the constant.
            transfer_preferred: block_size.min(PREFERRED_TRANSFER_MAX) as u32,
            files: Handles::new(),
            directories: Handles::new(),
            unwritten: Unwritten::default(),
            lost: Lost::default(),
            ready,
            is_ready: AtomicBool::new(false),
            minor: AtomicU32::new(0),
            vault,
        }
    }

    /// Lets searches for data see what the kernel has not written back yet: by
    /// `session`, of so many workers.
    pub fn attach(&self, session: &SessionHandle, workers: usize) {
        self.unwritten.attach(session, workers);
    }

    /// The files of which the kernel may hold what it has not written back:
    /// those that are open for writing and have a name.
    #[must_use]
    pub fn open_for_writing(&self) -> Vec<OpenForWriting> {
        let named = |NodeId(node)| match self.namespace.attributes(node) {
            Ok(found) if found.links == 0 => None,
            Ok(found) => Some(OpenForWriting {
                node,
                inode: found.id.inode,
                path: self.namespace.path(node).unwrap_or_default(),
            }),
            Err(_) => Some(OpenForWriting { node, inode: 0, path: Vec::new() }),
        };
        self.unwritten.nodes().into_iter().filter_map(named).collect()
    }

    /// The vault that is served.
    #[must_use]
    pub fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    /// Requests that failed because the store did.
    #[must_use]
    pub fn store_failures(&self) -> StoreFailures {
        self.store_failures.known()
    }

    /// Open files and directories.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.files.len() + self.directories.len()
    }

    /// True once the mount can be used.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// The number for an error that a request about `node` met. Damage and
    /// failures of the store are counted and remembered.
    fn failed(&self, node: NodeId, error: &Error) -> Errno {
        self.store_failures.note(error);
        if matches!(error, Error::Damaged(_)) && !error.is_unfinished() {
            self.damage.damaged(node.0, error);
        }
        Errno::from_raw(error.errno())
    }

    fn answer<T>(&self, node: NodeId, result: strongroom_vault::Result<T>) -> Answered<T> {
        result.map_err(|error| self.failed(node, &error))
    }

    fn file(&self, handle: Handle) -> Answered<Arc<Content>> {
        self.files.named(handle).map(|open| open.content)
    }

    fn entry(&self, found: &namespace::Entry) -> Entry {
        convert::entry(found, &self.timeouts, self.transfer_preferred)
    }

    fn timed(&self, found: &strongroom_store::Attributes) -> TimedAttributes {
        convert::timed(found, self.timeouts.attributes, self.transfer_preferred)
    }

    /// Settles a file that a crashed session may have left unfinished, before
    /// the kernel hears of its length. A damaged file stays as it was found:
    /// opening it says what is wrong.
    fn settled(&self, mut found: namespace::Entry) -> namespace::Entry {
        if found.attributes.kind == Kind::File
            && self.vault.is_settling()
            && self.namespace.open(found.number, Opening::default()).is_ok()
        {
            if let Ok(attributes) = self.namespace.attributes(found.number) {
                found.attributes = attributes;
            }
            self.namespace.release(found.number);
        }
        found
    }

    fn opened_file(&self, node: u64, content: Arc<Content>, flags: OpenFlags) -> Opened {
        let writes = flags.flags & O_ACCMODE != 0;
        if writes {
            self.unwritten.opened(NodeId(node));
        }
        let handle = self.files.insert(OpenFile { content, node, writes });
        Opened { handle, flags: if self.timeouts.keep { opened::KEEP_CACHE } else { 0 } }
    }

    /// Drops set-user-id and set-group-id bits, for a change of data that
    /// says so.
    fn strip(&self, node: NodeId) -> Answered<()> {
        let changes = Changes { kill_suid_sgid: true, ..Changes::NONE };
        self.answer(node, self.namespace.set_attributes(node.0, &changes)).map(drop)
    }
}

fn opening(flags: OpenFlags) -> Opening {
    Opening {
        write: flags.flags & O_ACCMODE != 0,
        truncate: flags.flags & O_TRUNC != 0,
        exclusive: flags.flags & O_EXCL != 0,
        kill_suid_sgid: flags.kill_suid_sgid,
    }
}

fn directory_entry<'a>(item: &namespace::directory::Item<'a>) -> DirectoryEntry<'a> {
    DirectoryEntry {
        name: item.name,
        inode: item.inode,
        next_offset: item.next,
        mode: item.kind.map_or(0, convert::type_bits),
    }
}

impl Filesystem for Adapter {
    fn init(&self, negotiated: &Negotiated) -> Answered<()> {
        self.minor.store(negotiated.minor, Ordering::Release);
        self.is_ready.store(true, Ordering::Release);
        (self.ready)();
        Ok(())
    }

    /// An unmount ends the connection without waiting for the last releases.
    fn destroy(&self) {
        drop(self.directories.drain());
        for open in self.files.drain() {
            self.namespace.release(open.node);
        }
    }

    fn lookup(&self, _context: &Context, parent: NodeId, name: &[u8]) -> Answered<Entry> {
        match self.namespace.lookup(parent.0, name) {
            Ok(found) => Ok(self.entry(&self.settled(found))),
            Err(error) if error.is_not_found() => Ok(Entry::absent(self.timeouts.entry)),
            Err(error) => Err(self.failed(parent, &error)),
        }
    }

    fn forget(&self, node: NodeId, lookups: u64) {
        self.namespace.forget(node.0, lookups);
    }

    fn getattr(
        &self,
        _context: &Context,
        node: NodeId,
        _handle: Option<Handle>,
    ) -> Answered<TimedAttributes> {
        self.answer(node, self.namespace.attributes(node.0)).map(|found| self.timed(&found))
    }

    fn setattr(&self, _context: &Context, node: NodeId, change: &SetAttributes) -> Answered<TimedAttributes> {
        let changes = convert::changes(change);
        let found = self.answer(node, self.namespace.set_attributes(node.0, &changes))?;
        if let Some(len) = changes.len {
            self.lost.cut(node, len);
        }
        Ok(self.timed(&found))
    }

    fn readlink(&self, _context: &Context, node: NodeId, target: &mut Vec<u8>) -> Answered<()> {
        target.extend_from_slice(&self.answer(node, self.namespace.read_link(node.0))?);
        Ok(())
    }

    fn symlink(&self, context: &Context, parent: NodeId, name: &[u8], target: &[u8]) -> Answered<Entry> {
        let creation = convert::creation(context, &CreateMode { mode: 0o777, umask: 0, rdev: 0 });
        let made = self.namespace.make_symlink(parent.0, name, target, &creation);
        self.answer(parent, made).map(|made| self.entry(&made))
    }

    fn mknod(&self, context: &Context, parent: NodeId, name: &[u8], mode: &CreateMode) -> Answered<Entry> {
        let creation = convert::creation(context, mode);
        let made = match convert::kind_to_make(mode.mode)? {
            Kind::File => {
                let opening = Opening { exclusive: true, ..Opening::default() };
                self.namespace.create(parent.0, name, &creation, opening).map(|(made, _)| {
                    self.namespace.release(made.number);
                    made
                })
            }
            kind => {
                let device = convert::device_from_wire(mode.rdev);
                self.namespace.make_special(parent.0, name, kind, device, &creation)
            }
        };
        self.answer(parent, made).map(|made| self.entry(&made))
    }

    fn mkdir(&self, context: &Context, parent: NodeId, name: &[u8], mode: &CreateMode) -> Answered<Entry> {
        let made = self.namespace.make_directory(parent.0, name, &convert::creation(context, mode));
        self.answer(parent, made).map(|made| self.entry(&made))
    }

    fn unlink(&self, _context: &Context, parent: NodeId, name: &[u8]) -> Answered<()> {
        self.answer(parent, self.namespace.remove(parent.0, name))
    }

    fn rmdir(&self, _context: &Context, parent: NodeId, name: &[u8]) -> Answered<()> {
        self.answer(parent, self.namespace.remove_directory(parent.0, name))
    }

    fn rename(&self, context: &Context, rename: &Rename<'_>) -> Answered<()> {
        let (mode, leaves_whiteout) = convert::rename_mode(rename.flags)?;
        if leaves_whiteout {
            let renamed = whiteout::rename(&self.namespace, context, rename, mode);
            return self.answer(rename.parent, renamed);
        }
        let (from, to) = (rename.parent, rename.new_parent);
        self.answer(from, self.namespace.rename(from.0, rename.name, to.0, rename.new_name, mode))
    }

    fn link(&self, _context: &Context, node: NodeId, new_parent: NodeId, new_name: &[u8]) -> Answered<Entry> {
        let made = self.namespace.link(node.0, new_parent.0, new_name);
        self.answer(node, made).map(|made| self.entry(&self.settled(made)))
    }

    fn open(&self, _context: &Context, node: NodeId, flags: OpenFlags) -> Answered<Opened> {
        let content = self.answer(node, self.namespace.open(node.0, opening(flags)))?;
        Ok(self.opened_file(node.0, content, flags))
    }

    fn create(
        &self,
        context: &Context,
        parent: NodeId,
        name: &[u8],
        mode: &CreateMode,
        flags: OpenFlags,
    ) -> Answered<(Entry, Opened)> {
        let creation = convert::creation(context, mode);
        let made = self.namespace.create(parent.0, name, &creation, opening(flags));
        let (made, content) = self.answer(parent, made)?;
        Ok((self.entry(&self.settled(made)), self.opened_file(made.number, content, flags)))
    }

    fn tmpfile(
        &self,
        context: &Context,
        parent: NodeId,
        mode: &CreateMode,
        flags: OpenFlags,
    ) -> Answered<(Entry, Opened)> {
        let made = self.namespace.create_unnamed(parent.0, &convert::creation(context, mode));
        let (made, content) = self.answer(parent, made)?;
        Ok((self.entry(&made), self.opened_file(made.number, content, flags)))
    }

    fn read(&self, _context: &Context, node: NodeId, read: &Read, buffer: &mut Buffer) -> Answered<usize> {
        let open = self.files.named(read.handle)?;
        // The handle of a read for a fill may have been given away meanwhile.
        if open.node != node.0 {
            return Err(Errno::BADF);
        }
        let range = read.offset..read.offset.saturating_add(read.size as u64);
        if self.lost.has(node, range) {
            return Err(Errno::IO);
        }
        self.answer(node, open.content.read_at(read.offset, read.size, buffer))
    }

    /// With `O_APPEND`, too, the kernel names the offset: it keeps the length,
    /// and sends the parts of one long write in any order.
    fn write(&self, _context: &Context, node: NodeId, write: &Write, buffer: &mut Buffer) -> Answered<usize> {
        let content = self.file(write.handle)?;
        let range = write.offset..write.offset.saturating_add(write.len as u64);
        if let Err(error) = content.write_at(write.offset, write.len, buffer) {
            let (data, hole) = (|at| content.seek_data(at).ok(), |at| content.seek_hole(at).ok());
            for part in lost::without_data(&range, data, hole) {
                self.lost.failed(node, part);
            }
            return Err(self.failed(node, &error));
        }
        self.lost.written(node, range);
        if write.kill_suid_sgid {
            self.strip(node)?;
        }
        Ok(write.len)
    }

    fn release(&self, _context: &Context, _node: NodeId, release: &Release) -> Answered<()> {
        let open = self.files.remove(release.handle).ok_or(Errno::BADF)?;
        if open.writes {
            self.unwritten.closed(NodeId(open.node));
        }
        self.namespace.release(open.node);
        Ok(())
    }

    fn fsync(&self, _context: &Context, node: NodeId, handle: Handle, data_only: bool) -> Answered<()> {
        let content = self.file(handle)?;
        self.answer(node, if data_only { content.sync_data() } else { content.sync() })
    }

    fn opendir(&self, _context: &Context, node: NodeId, _flags: OpenFlags) -> Answered<Opened> {
        let directory = self.answer(node, self.namespace.open_directory(node.0))?;
        let handle = self.directories.insert(Arc::new(directory));
        let kept = opened::CACHE_DIR | opened::KEEP_CACHE;
        Ok(Opened { handle, flags: if self.timeouts.keep { kept } else { 0 } })
    }

    fn readdir(
        &self,
        _context: &Context,
        node: NodeId,
        handle: Handle,
        offset: u64,
        entries: &mut DirectoryEntries<'_>,
    ) -> Answered<()> {
        let directory = self.directories.named(handle)?;
        let mut sink = |item: namespace::directory::Item<'_>| entries.push(&directory_entry(&item));
        self.answer(node, self.namespace.read_directory(&directory, offset, &mut sink))
    }

    fn readdirplus(
        &self,
        _context: &Context,
        node: NodeId,
        handle: Handle,
        offset: u64,
        entries: &mut DirectoryEntriesPlus<'_>,
    ) -> Answered<()> {
        let directory = self.directories.named(handle)?;
        if self.vault.is_settling() {
            // Files are told of one by one, each settled first.
            let mut sink = |item: namespace::directory::Item<'_>| entries.push_name(&directory_entry(&item));
            return self.answer(node, self.namespace.read_directory(&directory, offset, &mut sink));
        }
        let mut sink = |item: namespace::directory::Item<'_>, found: Option<&namespace::Entry>| {
            let listed = directory_entry(&item);
            match found {
                Some(found) => entries.push(&listed, &self.entry(found)),
                None => entries.push_name(&listed),
            }
        };
        self.answer(node, self.namespace.read_directory_plus(&directory, offset, &mut sink))
    }

    fn releasedir(&self, _context: &Context, _node: NodeId, release: &Release) -> Answered<()> {
        self.directories.remove(release.handle).map(drop).ok_or(Errno::BADF)
    }

    /// The names become durable; the data of files is promised by syncing them.
    fn fsyncdir(&self, _context: &Context, node: NodeId, _handle: Handle, _data_only: bool) -> Answered<()> {
        self.answer(node, self.namespace.sync_directory(node.0))
    }

    fn statfs(&self, _context: &Context, node: NodeId) -> Answered<Space> {
        let space = self.answer(node, self.namespace.space())?;
        Ok(convert::space(&space, self.transfer_preferred))
    }

    fn setxattr(&self, _context: &Context, node: NodeId, attribute: &SetXattr<'_>) -> Answered<()> {
        let mode = match attribute.flags {
            0 => XattrMode::Any,
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => return Err(Errno::INVAL),
        };
        let SetXattr { name, value, acl_kill_sgid, .. } = *attribute;
        convert::check_attribute_name(name)?;
        self.answer(node, self.namespace.set_xattr(node.0, name, value, mode, acl_kill_sgid))
    }

    fn getxattr(&self, _context: &Context, node: NodeId, name: &[u8], value: &mut Vec<u8>) -> Answered<()> {
        convert::check_attribute_name(name)?;
        value.extend_from_slice(&self.answer(node, self.namespace.xattr(node.0, name))?);
        Ok(())
    }

    fn listxattr(&self, _context: &Context, node: NodeId, names: &mut Vec<u8>) -> Answered<()> {
        for name in self.answer(node, self.namespace.xattr_names(node.0))? {
            names.extend_from_slice(&name);
            names.push(0);
        }
        Ok(())
    }

    fn removexattr(&self, _context: &Context, node: NodeId, name: &[u8]) -> Answered<()> {
        convert::check_attribute_name(name)?;
        self.answer(node, self.namespace.remove_xattr(node.0, name))
    }

    fn fallocate(&self, _context: &Context, node: NodeId, allocate: &Allocate) -> Answered<()> {
        let content = self.file(allocate.handle)?;
        let keep_len = allocate.mode & FALLOC_KEEP_SIZE != 0;
        let how = match allocate.mode & !FALLOC_KEEP_SIZE {
            0 => content::Allocate::Reserve { keep_len },
            FALLOC_PUNCH_HOLE if keep_len => content::Allocate::Punch,
            FALLOC_ZERO_RANGE => content::Allocate::Zero { keep_len },
            _ => return Err(Errno::OPNOTSUPP),
        };
        self.answer(node, content.allocate(how, allocate.offset, allocate.len))
    }

    fn lseek(&self, _context: &Context, node: NodeId, seek: &Seek) -> Answered<u64> {
        let content = self.file(seek.handle)?;
        if !self.unwritten.write_back(node) {
            return unwritten::guess(seek);
        }
        let found = match seek.whence {
            SEEK_DATA => content.seek_data(seek.offset),
            SEEK_HOLE => content.seek_hole(seek.offset),
            _ => return Err(Errno::INVAL),
        };
        self.answer(node, found)
    }

    fn copy_file_range(&self, _context: &Context, node: NodeId, copy: &CopyRange) -> Answered<u64> {
        let (from, to) = (self.file(copy.handle)?, self.file(copy.to_handle)?);
        // Bounded by the constant.
        let len = copy.len.min(COPY_MAX) as usize;
        let copied = self.answer(node, from.copy_to(copy.offset, &to, copy.to_offset, len))?;
        Ok(copied as u64)
    }

    fn syncfs(&self, _context: &Context, node: NodeId) -> Answered<()> {
        self.answer(node, self.vault.sync())
    }
}
