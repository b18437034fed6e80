//! A directory of this machine as a store.
//!
//! Every inode is held by a file descriptor (mostly `O_PATH`), so that a node
//! stays valid while its names change, and every operation is relative to
//! such a descriptor: no path is ever walked twice, and no symlink of the
//! store is ever followed. Where the kernel has no descriptor form of a call
//! the descriptor's link under `/proc/self/fd` is used; `/proc` must
//! therefore be mounted.
//!
//! Not done here: caching, locking between processes, retries after errors.
//! Modes given to the creating calls pass through the process's umask, as
//! everywhere; a daemon that wants them exact sets the umask to 0.

mod access;
mod file;
mod handle;
mod node;
mod probe;
mod refreshing;
mod times;
mod unsynced;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

use crate::{Error, Limits, NodeRef, Result, Space, Store};
use node::LocalNode;
pub use probe::Abilities;
use times::Times;
pub use times::{StoreTimes, StoreWaits};
use unsynced::Unsynced;
pub(crate) use unsynced::is_fuse;

/// Longest symlink target that Linux takes (`PATH_MAX` less the NUL).
const SYMLINK_MAX: usize = 4095;

/// Whether a local store may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// All operations.
    Writable,
    /// Operations that would change anything give `EROFS`.
    ReadOnly,
}

/// What all nodes of one store share.
#[derive(Debug)]
pub(crate) struct Shared {
    mode: OpenMode,
    /// Other machines may write to it.
    is_distant: bool,
    unsynced: Unsynced,
    times: Times,
    /// Whether files without a name are there once they are named; tried when
    /// the first is asked for.
    unnamed: OnceLock<bool>,
    /// Whether a file may have several names; tried when the first gets one.
    links: OnceLock<bool>,
    /// Whether there are extended attributes, as far as it was in doubt.
    xattrs: Xattrs,
}

/// What is known of extended attributes.
#[derive(Debug)]
struct Xattrs {
    /// The top directory, where they are tried.
    top: Arc<OwnedFd>,
    lacking: AtomicBool,
}

impl Shared {
    /// Whether an error of a call on extended attributes is because the store
    /// has none: then it is remembered.
    fn lacks_xattrs(self: &Arc<Self>) -> bool {
        if self.xattrs.lacking.load(Ordering::Relaxed) {
            return true;
        }
        let top = LocalNode::from_fd(Arc::clone(self), Arc::clone(&self.xattrs.top), true);
        let lacking = self.mode == OpenMode::Writable && top.is_ok_and(|(top, _)| probe::lacks_xattrs(&top));
        self.xattrs.lacking.fetch_or(lacking, Ordering::Relaxed);
        lacking
    }

    /// Refuses `operation` on a read-only store.
    fn writable(&self, operation: &'static str) -> Result<()> {
        match self.mode {
            OpenMode::Writable => Ok(()),
            OpenMode::ReadOnly => Err(error(operation)(Errno::ROFS)),
        }
    }
}

/// A directory of this machine as a store.
#[derive(Debug)]
pub struct LocalStore {
    shared: Arc<Shared>,
    root: Arc<LocalNode>,
    /// The top directory, open for reading: `syncfs` refuses `O_PATH`.
    handle: Arc<OwnedFd>,
    limits: Limits,
}

impl LocalStore {
    /// Opens the directory at `path`; a symlink there is followed.
    ///
    /// # Errors
    /// `ENOTDIR` when it is none, or what the system reports.
    pub fn open(path: impl AsRef<Path>, mode: OpenMode) -> Result<LocalStore> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = Arc::new(rustix::fs::open(path.as_ref(), flags, Mode::empty()).map_err(error("open"))?);
        let bounds = rustix::fs::fstatvfs(&*handle).map_err(error("statvfs"))?;
        let limits = Limits {
            name_max: usize::try_from(bounds.f_namemax).unwrap_or(usize::MAX),
            symlink_max: SYMLINK_MAX,
        };
        let unsynced = Unsynced::of(&handle)?;
        let shared = Arc::new(Shared {
            mode,
            is_distant: refreshing::is_distant(&handle).map_err(error("fstatfs"))?,
            unsynced,
            times: Times::default(),
            unnamed: OnceLock::new(),
            links: OnceLock::new(),
            xattrs: Xattrs { top: Arc::clone(&handle), lacking: AtomicBool::new(false) },
        });
        let (root, _) = LocalNode::from_fd(Arc::clone(&shared), Arc::clone(&handle), true)?;
        let root = Arc::new(root);
        Ok(LocalStore { shared, root, handle, limits })
    }

    /// Whether a program or another machine serves the directory.
    #[must_use]
    pub fn is_distant(&self) -> bool {
        self.shared.is_distant
    }

    /// How long the system took so far for what this store asked of it.
    #[must_use]
    pub fn times(&self) -> StoreTimes {
        self.shared.times.totals()
    }

    /// What the system has not answered for a second.
    #[must_use]
    pub fn waits(&self) -> StoreWaits {
        self.shared.times.waits()
    }
}

impl Store for LocalStore {
    fn root(&self) -> NodeRef {
        Arc::clone(&self.root) as NodeRef
    }

    fn sync_all(&self) -> Result<()> {
        let _timing = self.shared.times.barriers.begin_rare();
        if self.shared.unsynced.sync()? {
            return Ok(());
        }
        rustix::fs::syncfs(&*self.handle).map_err(error("syncfs"))
    }

    fn space(&self) -> Result<Space> {
        let found = rustix::fs::fstatvfs(&*self.handle).map_err(error("statvfs"))?;
        Ok(Space {
            fragment: found.f_frsize,
            total: found.f_blocks,
            free: found.f_bfree,
            available: found.f_bavail,
            files: found.f_files,
            files_free: found.f_ffree,
        })
    }

    fn limits(&self) -> Limits {
        self.limits
    }
}

/// Descriptors that a process is given room for at once, 8 bytes each.
const FILES_EXPECTED: u64 = 1 << 16;

/// Raises this process's limit of open files as far as it may: every inode
/// that a consumer refers to costs one descriptor. A privileged process
/// (`CAP_SYS_RESOURCE`) gets the system's own bound, `fs.nr_open`, any other
/// its hard limit. Returns the soft limit now in force (`u64::MAX` for none).
///
/// # Errors
/// What `setrlimit(2)` reports; the limit is then as it was.
pub fn raise_file_limit() -> Result<u64> {
    let limit = raise()?;
    widen_table(limit.min(FILES_EXPECTED));
    Ok(limit)
}

/// Makes room for so many descriptors. The system doubles a process's table as
/// it fills, and where the process has several threads waits each time until
/// no CPU can still be reading the old one (an RCU grace period, milliseconds
/// to tens of them): the first thousands of lookups would take longer for
/// that than for everything else.
fn widen_table(room: u64) {
    let Some(last) = i32::try_from(room).ok().and_then(|room| room.checked_sub(1)) else { return };
    // The table keeps its size when the descriptor goes. Without room it
    // grows later.
    if let Ok(any) = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::io::fcntl_dupfd_cloexec(&any, last);
    }
}

fn raise() -> Result<u64> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let most = system_file_limit().filter(|most| limit.maximum.is_some_and(|hard| hard < *most));
    let raise = |to| rustix::process::setrlimit(Resource::Nofile, Rlimit { current: to, maximum: to });
    // Refused to ordinary processes, and to root in some containers.
    if most.is_some() && raise(most).is_ok() {
        return Ok(most.unwrap_or(u64::MAX));
    }
    if limit.current != limit.maximum {
        raise(limit.maximum).map_err(error("setrlimit"))?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// The most that any process may have open, where the system tells.
fn system_file_limit() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/fs/nr_open").ok()?.trim().parse().ok()
}

/// Turns an errno of `operation` into an error.
fn error(operation: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error::new(errno.raw_os_error(), operation)
}

/// The link by which `/proc` names an open descriptor of this process.
/// Following it leads to the inode itself, even if that is a symlink.
fn proc_link(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Opens with `O_NOATIME`, so that reading the store does not dirty it, or
/// without where the caller does not own the inode.
fn open_quietly(fd: impl AsFd, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    match rustix::fs::openat(&fd, path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::openat(&fd, path, flags, Mode::empty()),
        other => other,
    }
}

/// Refuses what no directory entry can be called, and the two names that
/// would lead out of a directory.
fn checked_name<'a>(name: &'a [u8], operation: &'static str) -> Result<&'a [u8]> {
    let bad = name.is_empty() || name == b"." || name == b".." || name.iter().any(|&b| b == 0 || b == b'/');
    if bad { Err(error(operation)(Errno::INVAL)) } else { Ok(name) }
}
