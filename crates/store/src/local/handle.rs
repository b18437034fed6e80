//! The descriptor of an open file, and how it gets over a store that keeps an
//! error.
//!
//! A program that serves a file system may never forget that it has lost what
//! was written to an open file: JuiceFS fails every later call on it, until all
//! that have it open to write have closed it. So on such a store, where a call
//! has failed and so does a barrier after it, the file is *shut*: its descriptor
//! is open to be read alone, and whoever changes the file next opens it anew.
//!
//! What was written before may be lost then, and the barrier that said so was
//! nobody's but ours. Therefore the next one fails with the same error: nobody
//! takes for durable what was written to what was shut. That goes for the barriers
//! of the file and for those of the whole store, each once, since whoever makes one
//! hears nothing of the other. Other programs tell of a loss once, to whoever has the
//! file open, when he makes a barrier or closes it; so what was open before hands on
//! what it is told when it is closed.
//!
//! On other file systems the kernel tells of a loss once, and there is nothing to
//! get over.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::fs::OFlags;
use rustix::io::{Errno, retry_on_intr};

use super::access::open_own;
use super::{error, open_quietly, proc_link};
use crate::{Result, low};

/// An open file's descriptor. Threads share it.
#[derive(Debug)]
pub(super) struct Handle {
    fd: Arc<OwnedFd>,
    /// Of a file that a program serves, and that is open to be written.
    standing: Option<RwLock<Standing>>,
    /// Held by a barrier from its beginning until what it was told is noted.
    barrier: Mutex<()>,
    /// How many changes were noted, for whoever asks whether one came meanwhile.
    changes: AtomicU64,
}

#[derive(Debug, Default)]
struct Standing {
    /// The descriptor is open to be read alone.
    is_shut: bool,
    /// What the next barrier of each [`Asker`] has to tell.
    owed: [Option<Errno>; 2],
}

/// Whose barrier it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    File,
    Store,
}

impl Asker {
    fn other(self) -> Asker {
        match self {
            Asker::File => Asker::Store,
            Asker::Store => Asker::File,
        }
    }
}

fn read(standing: &RwLock<Standing>) -> RwLockReadGuard<'_, Standing> {
    standing.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(standing: &RwLock<Standing>) -> RwLockWriteGuard<'_, Standing> {
    standing.write().unwrap_or_else(PoisonError::into_inner)
}

impl Handle {
    /// `is_served`: by a program, and open to be written.
    pub(super) fn new(fd: Arc<OwnedFd>, is_served: bool) -> Handle {
        let standing = is_served.then(RwLock::default);
        Handle { fd, standing, barrier: Mutex::default(), changes: AtomicU64::new(0) }
    }

    /// Whether a program serves the file, which is open to be written.
    pub(super) fn is_served(&self) -> bool {
        self.standing.is_some()
    }

    /// A change has been made.
    pub(super) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// For what changes nothing. It stays the same number for as long as the file is open.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Changes the file.
    pub(super) fn change<T>(&self, change: impl FnOnce(&OwnedFd) -> Result<T>) -> Result<T> {
        let Some(standing) = &self.standing else { return change(&self.fd) };
        let mut open = read(standing);
        while open.is_shut {
            drop(open);
            self.open_anew(&mut write(standing))?;
            open = read(standing);
        }
        let changed = change(&self.fd);
        drop(open);
        if changed.is_err() {
            self.shut_if_lost();
        }
        changed
    }

    /// A barrier, as `sync` makes one.
    pub(super) fn sync(
        &self,
        asker: Asker,
        sync: impl Fn(&OwnedFd) -> rustix::io::Result<()>,
    ) -> rustix::io::Result<()> {
        let Some(standing) = &self.standing else { return retry_on_intr(|| sync(&self.fd)) };
        let _one = self.barrier.lock().unwrap_or_else(PoisonError::into_inner);
        let owed = write(standing).owed[asker as usize].take();
        if let Some(errno) = owed {
            return Err(errno);
        }
        // Nobody shuts it meanwhile: a barrier on what is open to be read alone says nothing.
        let open = read(standing);
        let synced = if open.is_shut { Ok(()) } else { retry_on_intr(|| sync(&self.fd)) };
        drop(open);
        if let Err(errno) = synced {
            write(standing).owed[asker.other() as usize] = Some(errno);
            self.shut_if_lost();
        }
        synced
    }

    /// A call has failed: if nothing can be made durable any more the file is shut.
    /// Nobody changes it meanwhile, so that all that is lost with it is owed.
    pub(super) fn shut_if_lost(&self) {
        let Some(standing) = &self.standing else { return };
        let mut standing = write(standing);
        if standing.is_shut {
            return;
        }
        let Err(lost) = retry_on_intr(|| rustix::fs::fsync(&self.fd)) else { return };
        standing.owed = [Some(lost); 2];
        // Whoever cannot be shut stays as it is, and fails on.
        standing.is_shut = self.replace(OFlags::RDONLY).is_ok();
    }

    /// What `before`, another handle of the same file, owes, and is told now that it
    /// is to be closed, is owed by this one.
    pub(super) fn succeed(&self, before: &Handle) {
        let (Some(standing), Some(of_before)) = (&self.standing, &before.standing) else { return };
        let told = before.flush();
        let owed = std::mem::take(&mut write(of_before).owed);
        let mut standing = write(standing);
        for (mine, owed) in standing.owed.iter_mut().zip(owed) {
            *mine = mine.or(owed).or(told);
        }
    }

    pub(super) fn owes_nothing(&self) -> bool {
        self.standing.as_ref().is_none_or(|standing| read(standing).owed.iter().all(Option::is_none))
    }

    /// What is told to who closes the file.
    fn flush(&self) -> Option<Errno> {
        let failed = low::flush(&*self.fd).err()?;
        let told = Errno::from_io_error(&failed).unwrap_or(Errno::IO);
        // What has been removed has nothing to be kept.
        (!matches!(told, Errno::NOENT | Errno::STALE)).then_some(told)
    }

    fn open_anew(&self, standing: &mut Standing) -> Result<()> {
        if standing.is_shut {
            self.replace(OFlags::RDWR).map_err(error("openat"))?;
            standing.is_shut = false;
        }
        Ok(())
    }

    fn replace(&self, access: OFlags) -> rustix::io::Result<()> {
        let link = proc_link(self.fd.as_fd());
        let anew = open_own(&*self.fd, || open_quietly(rustix::fs::CWD, &link, access))?;
        low::replace(&*self.fd, &anew).map_err(|failed| Errno::from_io_error(&failed).unwrap_or(Errno::IO))
    }
}
