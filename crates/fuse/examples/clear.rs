//! Serves a directory as it is, over this crate's transport: what a mount costs before anything is encrypted.
//!
//! ```text
//! cargo run --release -p strongroom-fuse --example clear -- DIRECTORY MOUNT_POINT
//! ```
//!
//! For measurements (`cargo xtask bench folder`), not for use: no links, devices or extended attributes, and
//! whoever mounts it must be the only one who changes the directory. It ends when it is unmounted.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use strongroom_engine::Buffer;
use strongroom_fuse::abi::flags::opened::{CACHE_DIR, KEEP_CACHE};
use strongroom_fuse::{
    Attributes, Context, CreateMode, DirectoryEntries, DirectoryEntriesPlus, DirectoryEntry, Entry, Errno,
    Filesystem, Handle, Mount, MountOptions, NodeId, OpenFlags, Opened, Read, Release, Rename, Session,
    SessionOptions, SetAttributes, SetTime, Space, TimedAttributes, Timestamp, TransportChoice, Write,
};

/// Nobody else changes the directory.
const TIMEOUT: Duration = Duration::from_secs(3600);
const O_ACCMODE: u32 = 0o3;
const O_APPEND: u32 = 0o2000;

type Answered<T> = Result<T, Errno>;

struct Node {
    /// Names the file without opening it.
    path: Arc<OwnedFd>,
    key: (u64, u64),
    lookups: u64,
}

#[derive(Default)]
struct Nodes {
    by_number: HashMap<u64, Node>,
    by_key: HashMap<(u64, u64), u64>,
    next: u64,
}

/// What is open, by the number that the kernel has for it.
struct Slots<T>(Mutex<Numbered<T>>);

struct Numbered<T> {
    values: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    fn new() -> Slots<T> {
        Slots(Mutex::new(Numbered { values: Vec::new(), free: Vec::new() }))
    }

    fn insert(&self, value: T) -> Handle {
        let mut slots = locked(&self.0);
        let Numbered { values, free } = &mut *slots;
        let index = free.pop().unwrap_or_else(|| {
            values.push(None);
            values.len() - 1
        });
        values[index] = Some(Arc::new(value));
        Handle(index as u64)
    }

    fn named(&self, handle: Handle) -> Answered<Arc<T>> {
        locked(&self.0).values.get(handle.0 as usize).cloned().flatten().ok_or(Errno::BADF)
    }

    fn remove(&self, handle: Handle) {
        let mut slots = locked(&self.0);
        if slots.values.get_mut(handle.0 as usize).is_some_and(|slot| slot.take().is_some()) {
            slots.free.push(handle.0 as usize);
        }
    }
}

struct Listed {
    name: Vec<u8>,
    inode: u64,
    mode: u32,
}

struct Open {
    node: NodeId,
    file: File,
}

struct Clear {
    nodes: Mutex<Nodes>,
    files: Slots<Open>,
    listings: Slots<Vec<Listed>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(Errno::IO.raw()))
}

fn timestamp(seconds: i64, nanoseconds: u64) -> Timestamp {
    Timestamp { seconds, nanoseconds: nanoseconds as u32 }
}

fn timed(stat: &Stat) -> TimedAttributes {
    let attributes = Attributes {
        inode: stat.st_ino,
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: timestamp(stat.st_atime, stat.st_atime_nsec),
        mtime: timestamp(stat.st_mtime, stat.st_mtime_nsec),
        ctime: timestamp(stat.st_ctime, stat.st_ctime_nsec),
        mode: stat.st_mode,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: 0,
        block_size: 4096,
    };
    TimedAttributes::new(attributes, TIMEOUT)
}

impl Clear {
    fn new(directory: &Path) -> Result<Clear, Box<dyn Error>> {
        let root = rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        let mut nodes = Nodes { next: 2, ..Nodes::default() };
        nodes.by_number.insert(1, Node { path: Arc::new(root), key: (0, 0), lookups: 1 });
        Ok(Clear { nodes: Mutex::new(nodes), files: Slots::new(), listings: Slots::new() })
    }

    fn path(&self, node: NodeId) -> Answered<Arc<OwnedFd>> {
        locked(&self.nodes).by_number.get(&node.0).map(|node| Arc::clone(&node.path)).ok_or(Errno::STALE)
    }

    /// Counts a lookup of `name` in `parent`.
    fn entry(&self, parent: NodeId, name: &[u8]) -> Answered<Entry> {
        let directory = self.path(parent)?;
        let path = rustix::fs::openat(&*directory, name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = rustix::fs::fstat(&path)?;
        let key = (stat.st_dev, stat.st_ino);
        let mut nodes = locked(&self.nodes);
        let number = match nodes.by_key.get(&key) {
            Some(number) => *number,
            None => {
                let number = nodes.next;
                nodes.next += 1;
                nodes.by_key.insert(key, number);
                nodes.by_number.insert(number, Node { path: Arc::new(path), key, lookups: 0 });
                number
            }
        };
        nodes.by_number.get_mut(&number).ok_or(Errno::IO)?.lookups += 1;
        let attributes = timed(&stat);
        Ok(Entry { node: NodeId(number), generation: 0, entry_timeout: TIMEOUT, attributes })
    }

    fn attributes(&self, node: NodeId) -> Answered<TimedAttributes> {
        Ok(timed(&rustix::fs::fstat(&*self.path(node)?)?))
    }

    /// The file itself, by the link that `/proc` has for its descriptor.
    fn link(&self, node: NodeId) -> Answered<PathBuf> {
        Ok(PathBuf::from(format!("/proc/self/fd/{}", self.path(node)?.as_raw_fd())))
    }

    fn opened(&self, node: NodeId, file: OwnedFd) -> Opened {
        Opened { handle: self.files.insert(Open { node, file: File::from(file) }), flags: KEEP_CACHE }
    }
}

/// Under write-back the kernel reads what it is to change, and places appended bytes itself.
fn flags(flags: OpenFlags) -> OFlags {
    let access = if flags.flags & O_ACCMODE == 0 { OFlags::RDONLY } else { OFlags::RDWR };
    access | OFlags::CLOEXEC | OFlags::from_bits_retain(flags.flags & !(O_ACCMODE | O_APPEND))
}

impl Filesystem for Clear {
    fn lookup(&self, _: &Context, parent: NodeId, name: &[u8]) -> Answered<Entry> {
        match self.entry(parent, name) {
            Err(Errno::NOENT) => Ok(Entry::absent(TIMEOUT)),
            found => found,
        }
    }

    fn forget(&self, node: NodeId, lookups: u64) {
        let mut nodes = locked(&self.nodes);
        let Some(known) = nodes.by_number.get_mut(&node.0).filter(|_| node != NodeId::ROOT) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 {
            let key = known.key;
            nodes.by_number.remove(&node.0);
            nodes.by_key.remove(&key);
        }
    }

    fn getattr(&self, _: &Context, node: NodeId, _: Option<Handle>) -> Answered<TimedAttributes> {
        self.attributes(node)
    }

    fn setattr(&self, _: &Context, node: NodeId, change: &SetAttributes) -> Answered<TimedAttributes> {
        let link = self.link(node)?;
        if let Some(mode) = change.mode {
            rustix::fs::chmod(&link, Mode::from_raw_mode(mode & 0o7777))?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            std::os::unix::fs::chown(&link, change.uid, change.gid).map_err(failed)?;
        }
        if let Some(size) = change.size {
            File::options().write(true).open(&link).and_then(|file| file.set_len(size)).map_err(failed)?;
        }
        let time = |set: Option<SetTime>| {
            let (tv_sec, tv_nsec) = match set {
                None => (0, rustix::fs::UTIME_OMIT),
                Some(SetTime::Now) => (0, rustix::fs::UTIME_NOW),
                Some(SetTime::At(at)) => (at.seconds, at.nanoseconds.into()),
            };
            rustix::fs::Timespec { tv_sec, tv_nsec }
        };
        if change.atime.is_some() || change.mtime.is_some() {
            let times = rustix::fs::Timestamps {
                last_access: time(change.atime),
                last_modification: time(change.mtime),
            };
            rustix::fs::utimensat(rustix::fs::CWD, &link, &times, AtFlags::empty())?;
        }
        self.attributes(node)
    }

    fn mkdir(&self, _: &Context, parent: NodeId, name: &[u8], mode: &CreateMode) -> Answered<Entry> {
        rustix::fs::mkdirat(&*self.path(parent)?, name, Mode::from_raw_mode(mode.masked() & 0o7777))?;
        self.entry(parent, name)
    }

    fn unlink(&self, _: &Context, parent: NodeId, name: &[u8]) -> Answered<()> {
        Ok(rustix::fs::unlinkat(&*self.path(parent)?, name, AtFlags::empty())?)
    }

    fn rmdir(&self, _: &Context, parent: NodeId, name: &[u8]) -> Answered<()> {
        Ok(rustix::fs::unlinkat(&*self.path(parent)?, name, AtFlags::REMOVEDIR)?)
    }

    fn rename(&self, _: &Context, rename: &Rename<'_>) -> Answered<()> {
        let (from, to) = (self.path(rename.parent)?, self.path(rename.new_parent)?);
        let flags = RenameFlags::from_bits_retain(rename.flags);
        Ok(rustix::fs::renameat_with(&*from, rename.name, &*to, rename.new_name, flags)?)
    }

    fn open(&self, _: &Context, node: NodeId, how: OpenFlags) -> Answered<Opened> {
        let file = rustix::fs::open(self.link(node)?, flags(how) - OFlags::NOFOLLOW, Mode::empty())?;
        Ok(self.opened(node, file))
    }

    fn create(
        &self,
        _: &Context,
        parent: NodeId,
        name: &[u8],
        mode: &CreateMode,
        how: OpenFlags,
    ) -> Answered<(Entry, Opened)> {
        let permissions = Mode::from_raw_mode(mode.masked() & 0o7777);
        let directory = self.path(parent)?;
        let file = rustix::fs::openat(&*directory, name, flags(how) | OFlags::CREATE, permissions)?;
        let entry = self.entry(parent, name)?;
        Ok((entry, self.opened(entry.node, file)))
    }

    fn read(&self, _: &Context, node: NodeId, read: &Read, buffer: &mut Buffer) -> Answered<usize> {
        let open = self.files.named(read.handle)?;
        if open.node != node {
            return Err(Errno::BADF);
        }
        let mut done = 0;
        while done < read.size {
            match open
                .file
                .read_at(&mut buffer[done..read.size], read.offset + done as u64)
                .map_err(failed)?
            {
                0 => break,
                len => done += len,
            }
        }
        Ok(done)
    }

    fn write(&self, _: &Context, _: NodeId, write: &Write, buffer: &mut Buffer) -> Answered<usize> {
        self.files
            .named(write.handle)?
            .file
            .write_all_at(&buffer[..write.len], write.offset)
            .map_err(failed)?;
        Ok(write.len)
    }

    fn release(&self, _: &Context, _: NodeId, release: &Release) -> Answered<()> {
        self.files.remove(release.handle);
        Ok(())
    }

    fn fsync(&self, _: &Context, _: NodeId, handle: Handle, data_only: bool) -> Answered<()> {
        let open = self.files.named(handle)?;
        if data_only { open.file.sync_data() } else { open.file.sync_all() }.map_err(failed)
    }

    fn opendir(&self, _: &Context, node: NodeId, _: OpenFlags) -> Answered<Opened> {
        let directory =
            rustix::fs::openat(&*self.path(node)?, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut listed = Vec::new();
        for entry in Dir::new(directory)? {
            let entry = entry?;
            let mode = match entry.file_type() {
                FileType::Unknown => 0,
                known => known.as_raw_mode(),
            };
            listed.push(Listed { name: entry.file_name().to_bytes().to_vec(), inode: entry.ino(), mode });
        }
        Ok(Opened { handle: self.listings.insert(listed), flags: CACHE_DIR | KEEP_CACHE })
    }

    fn readdir(
        &self,
        _: &Context,
        _: NodeId,
        handle: Handle,
        offset: u64,
        entries: &mut DirectoryEntries<'_>,
    ) -> Answered<()> {
        let listing = self.listings.named(handle)?;
        for (index, listed) in listing.iter().enumerate().skip(offset as usize) {
            if !entries.push(&directory_entry(index, listed)) {
                break;
            }
        }
        Ok(())
    }

    fn readdirplus(
        &self,
        _: &Context,
        node: NodeId,
        handle: Handle,
        offset: u64,
        entries: &mut DirectoryEntriesPlus<'_>,
    ) -> Answered<()> {
        let listing = self.listings.named(handle)?;
        for (index, listed) in listing.iter().enumerate().skip(offset as usize) {
            let entry = directory_entry(index, listed);
            if !entries.fits(&listed.name) {
                break;
            }
            let pushed = match &listed.name[..] {
                b"." | b".." => entries.push_name(&entry),
                name => match self.entry(node, name) {
                    Ok(found) => entries.push(&entry, &found),
                    Err(_) => entries.push_name(&entry),
                },
            };
            if !pushed {
                break;
            }
        }
        Ok(())
    }

    fn releasedir(&self, _: &Context, _: NodeId, release: &Release) -> Answered<()> {
        self.listings.remove(release.handle);
        Ok(())
    }

    fn statfs(&self, _: &Context, node: NodeId) -> Answered<Space> {
        let found = rustix::fs::fstatvfs(&*self.path(node)?)?;
        Ok(Space {
            blocks: found.f_blocks,
            blocks_free: found.f_bfree,
            blocks_available: found.f_bavail,
            files: found.f_files,
            files_free: found.f_ffree,
            block_size: found.f_bsize as u32,
            fragment_size: found.f_frsize as u32,
            name_max: found.f_namemax as u32,
        })
    }
}

fn directory_entry(index: usize, listed: &Listed) -> DirectoryEntry<'_> {
    DirectoryEntry {
        name: &listed.name,
        inode: listed.inode,
        next_offset: index as u64 + 1,
        mode: listed.mode,
    }
}

fn chosen(option: &Path) -> Result<TransportChoice, String> {
    match option.to_str() {
        Some("--dev") => Ok(TransportChoice::Device),
        Some("--uring") => Ok(TransportChoice::Ring),
        _ => Err(format!("{}: there is no such option", option.display())),
    }
}

fn serve(directory: &Path, point: &Path, transport: TransportChoice) -> Result<(), Box<dyn Error>> {
    // As our mount does: every known file costs a descriptor.
    strongroom_store::local::raise_file_limit()?;
    let clear = Arc::new(Clear::new(directory)?);
    let mount = Mount::new(point, &MountOptions::default())?;
    Session::new(mount, clear, SessionOptions { transport, ..SessionOptions::default() }).run()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    match &arguments[..] {
        [option] if option.as_os_str() == "--version" => {
            println!("clear {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        [directory, point] => serve(directory, point, TransportChoice::default()),
        [option, directory, point] => serve(directory, point, chosen(option)?),
        _ => Err("usage: clear [--dev|--uring] DIRECTORY MOUNT_POINT".into()),
    }
}
