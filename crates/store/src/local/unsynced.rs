//! What a store without a barrier of its own has yet to make durable.
//!
//! `syncfs(2)` is a barrier on every local file system. On one that a FUSE
//! daemon serves it is none: the kernel writes back what it has cached and
//! tells the daemon nothing (`fuse_sync_fs` in the kernel, which asks virtiofs
//! and its like alone). `fsync` of a file or directory does reach the daemon.
//! So on such a store everything that was changed since the
//! last barrier is remembered, each inode by a descriptor, and the barrier is
//! an `fsync` of each.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;
use rustix::io::{Errno, retry_on_intr};

use super::access::open_own;
use super::handle::{Asker, Handle};
use super::{error, open_quietly, proc_link};
use crate::{InodeId, Kind, Result};

/// `f_type` of FUSE file systems (`FUSE_SUPER_MAGIC` in `linux/magic.h`).
const FUSE: u64 = 0x6573_5546;

/// Whether a program serves the file system on which `fd` lies.
pub(crate) fn is_fuse(fd: impl AsFd) -> rustix::io::Result<bool> {
    Ok(u64::try_from(rustix::fs::fstatfs(fd)?.f_type) == Ok(FUSE))
}

/// Inodes that were changed since the last barrier.
#[derive(Debug, Default)]
struct Changed {
    /// Open files, each by all the handles that no barrier has covered.
    files: HashMap<InodeId, Vec<Arc<Handle>>>,
    /// Directories and files, by descriptors that may be good for nothing
    /// but to be referred to.
    nodes: HashMap<InodeId, (Kind, Arc<OwnedFd>)>,
}

impl Changed {
    /// Keeps a handle of the file, and gives those that were kept before.
    fn keep(&mut self, id: InodeId, handle: &Arc<Handle>) -> Vec<Arc<Handle>> {
        let kept = self.files.entry(id).or_default();
        if !kept.iter().any(|kept| Arc::ptr_eq(kept, handle)) {
            kept.push(Arc::clone(handle));
        }
        kept.iter().filter(|kept| !Arc::ptr_eq(kept, handle)).map(Arc::clone).collect()
    }

    fn drop_handle(&mut self, id: InodeId, handle: &Arc<Handle>) {
        let Some(kept) = self.files.get_mut(&id) else { return };
        kept.retain(|kept| !Arc::ptr_eq(kept, handle));
        if kept.is_empty() {
            self.files.remove(&id);
        }
    }

    /// A barrier has failed: what it had taken is kept again.
    fn put_back(&mut self, taken: Changed) {
        for (id, handles) in taken.files {
            for handle in handles {
                self.keep(id, &handle);
            }
        }
        self.nodes.extend(taken.nodes);
    }
}

/// Notes a change when it goes, at the end of the call that makes it: a
/// barrier that begins before the change has returned need not cover it, and
/// one that begins behind has to.
#[must_use = "the change is noted when this goes"]
pub(super) struct Note<'a> {
    unsynced: &'a Unsynced,
    id: InodeId,
    changed: By<'a>,
}

/// By what an inode is being changed.
enum By<'a> {
    File(&'a Arc<Handle>),
    Node(Kind, &'a Arc<OwnedFd>),
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        let Some(mut changed) = self.unsynced.changed() else { return };
        match self.changed {
            By::File(handle) => {
                handle.note_change();
                let before = changed.keep(self.id, handle);
                drop(changed);
                self.unsynced.hand_on(self.id, before, handle);
            }
            By::Node(kind @ (Kind::File | Kind::Directory), fd) => {
                changed.nodes.entry(self.id).or_insert_with(|| (kind, Arc::clone(fd)));
            }
            By::Node(..) => (),
        }
    }
}

/// What was changed since the last barrier, on stores that need it kept.
#[derive(Debug, Default)]
pub(super) struct Unsynced(Option<Kept>);

#[derive(Debug, Default)]
struct Kept {
    changed: Mutex<Changed>,
    /// Held by a barrier from its beginning to its end: what it has taken is
    /// not durable before, and the next barrier has to wait for that.
    barrier: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unsynced {
    /// Remembers changes if `fd` lies on a file system whose `syncfs` is no
    /// barrier.
    pub(super) fn of(fd: impl AsFd) -> Result<Unsynced> {
        let is_fuse = is_fuse(fd).map_err(error("statfs"))?;
        Ok(Unsynced(is_fuse.then(Kept::default)))
    }

    /// Whether a program serves the file system.
    pub(super) fn is_of_fuse(&self) -> bool {
        self.0.is_some()
    }

    fn changed(&self) -> Option<MutexGuard<'_, Changed>> {
        self.0.as_ref().map(|kept| lock(&kept.changed))
    }

    /// The open file `id` is being changed.
    pub(super) fn file<'a>(&'a self, id: InodeId, handle: &'a Arc<Handle>) -> Note<'a> {
        Note { unsynced: self, id, changed: By::File(handle) }
    }

    /// The entries or the attributes of `id` are being changed. What else
    /// than files and directories there is has nothing but its entry.
    pub(super) fn node<'a>(&'a self, id: InodeId, kind: Kind, fd: &'a Arc<OwnedFd>) -> Note<'a> {
        Note { unsynced: self, id, changed: By::Node(kind, fd) }
    }

    /// `to` is kept, too: what was open before is closed, so that no more than one
    /// handle of a file is kept for long. One that is open to be read takes nothing on.
    fn hand_on(&self, id: InodeId, before: Vec<Arc<Handle>>, to: &Handle) {
        for handle in before.into_iter().filter(|_| to.is_served()) {
            // It may take as long as a barrier.
            to.succeed(&handle);
            if let Some(mut changed) = self.changed() {
                changed.drop_handle(id, &handle);
            }
        }
    }

    /// What is kept of the file besides `handle`.
    fn others(&self, id: InodeId, handle: &Arc<Handle>) -> Vec<Arc<Handle>> {
        let Some(changed) = self.changed() else { return vec![] };
        let kept = changed.files.get(&id).into_iter().flatten();
        kept.filter(|kept| !Arc::ptr_eq(kept, handle)).map(Arc::clone).collect()
    }

    /// A call on an open file has failed. What is kept of one that was open
    /// before, of the same inode, must not keep the store's error.
    pub(super) fn note_failed(&self, id: InodeId, failed: &Arc<Handle>) {
        for other in self.others(id, failed) {
            other.shut_if_lost();
        }
    }

    /// A barrier on an open file, and on what was open before of the same inode.
    /// With `is_whole`, which covers the attributes, the next barrier of the store
    /// has nothing to do here, unless something is changed meanwhile.
    pub(super) fn sync_file(
        &self,
        id: InodeId,
        handle: &Arc<Handle>,
        is_whole: bool,
        sync: impl Fn(&OwnedFd) -> rustix::io::Result<()>,
    ) -> rustix::io::Result<()> {
        let changes = handle.changes();
        let others = self.others(id, handle);
        if !others.is_empty()
            && let Some(mut changed) = self.changed()
        {
            changed.keep(id, handle);
        }
        self.hand_on(id, others, handle);
        handle.sync(Asker::File, sync)?;
        if is_whole
            && let Some(mut changed) = self.changed()
            && changed.files.get(&id).is_some_and(|kept| kept.len() == 1)
            && handle.changes() == changes
            && handle.owes_nothing()
        {
            changed.drop_handle(id, handle);
        }
        Ok(())
    }

    /// Nothing of an inode need become durable: what is kept of it is closed.
    pub(super) fn forget(&self, id: InodeId) {
        let Some(mut changed) = self.changed() else { return };
        let kept = (changed.files.remove(&id), changed.nodes.remove(&id));
        // Closing may take as long as the store likes.
        drop(changed);
        drop(kept);
    }

    /// Makes durable what was noted before; false when nothing is noted here,
    /// because `syncfs` does it.
    ///
    /// # Errors
    /// What the store reports; everything is tried again by the next barrier.
    pub(super) fn sync(&self) -> Result<bool> {
        let Some(kept) = &self.0 else { return Ok(false) };
        let _barrier = lock(&kept.barrier);
        let taken = std::mem::take(&mut *lock(&kept.changed));
        let outcome = sync_each(&taken);
        if outcome.is_err() {
            lock(&kept.changed).put_back(taken);
        }
        outcome.map(|()| true)
    }
}

/// All of them, whatever fails: who loses much is to hear of it once.
fn sync_each(changed: &Changed) -> Result<()> {
    let mut outcome = Ok(());
    for file in changed.files.values().flatten() {
        let synced = file.sync(Asker::Store, |fd| rustix::fs::fsync(fd)).map_err(error("fsync"));
        outcome = outcome.and(synced);
    }
    for (kind, fd) in changed.nodes.values() {
        outcome = outcome.and(sync_node(*kind, fd));
    }
    outcome
}

fn sync_node(kind: Kind, fd: &OwnedFd) -> Result<()> {
    let opened = open_own(fd, || match kind {
        Kind::Directory => open_quietly(fd, ".", OFlags::RDONLY | OFlags::DIRECTORY),
        _ => open_quietly(rustix::fs::CWD, &proc_link(fd.as_fd()), OFlags::RDONLY),
    });
    match opened {
        Ok(open) => retry_on_intr(|| rustix::fs::fsync(&open)).map_err(error("fsync")),
        // What has been removed has nothing to be kept.
        Err(Errno::NOENT | Errno::STALE) => Ok(()),
        Err(errno) => Err(error("openat")(errno)),
    }
}
