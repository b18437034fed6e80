//! Reading around: where a program reads piece by piece without an order, the
//! kernel is given the rest of what it reads from
//! (`docs/pacing.md#readahead-around-a-fault` says when, and why no program can
//! lose a byte by it).

mod gate;
mod windows;

use self::gate::{Gate, Withheld};
use self::windows::{WINDOW, Windows};
use crate::abi::reply;
use crate::errno::Errno;
use crate::filesystem::{Context, Filesystem, Handle, NodeId, Read};
use crate::notify::Notifier;
use crate::statistics::Counters;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use strongroom_engine::Buffer;

/// Longest read that counts as a piece, in bytes: a page of most databases.
const PIECE_MAX: usize = 16 << 10;
/// Windows that wait to be filled, at most.
const QUEUE_MAX: usize = 1024;
/// As many more windows that wait call one more thread to help.
const CROWD: usize = 16;
/// Threads that fill, for each CPU, and at most. Many programs that read on
/// few CPUs have a share each, and what one thread fills falls behind; the
/// threads that help have shares of their own.
const FILLERS_EACH: usize = 4;
const FILLERS_MAX: usize = 32;
/// Bytes of a page.
const PAGE_LEN: usize = 4096;

/// What a request did, as far as it matters to what the kernel caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Nothing of the kind.
    Nothing,
    /// The kernel asked for data of a file, and got all of it.
    Read(NodeId, Read),
    /// A file was opened for writing.
    Opened(NodeId),
    /// A file's length was changed.
    Resized(NodeId),
    /// A handle that was open for writing was given back.
    Closed(NodeId),
}

/// A window to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    node: NodeId,
    /// Where it begins.
    offset: u64,
    /// A handle to read it by, which may be gone when its turn comes.
    handle: Handle,
    flags: u32,
}

#[derive(Debug, Default)]
struct Queue {
    windows: VecDeque<Window>,
    ended: bool,
}

/// What the workers and the filling threads of a session share.
#[derive(Debug)]
pub(crate) struct ReadAround {
    gate: Gate,
    windows: Windows,
    queue: Mutex<Queue>,
    /// A window has come.
    changed: Condvar,
    /// Many wait.
    crowded: Condvar,
}

/// Which of the threads that fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filler {
    /// Fills what comes.
    First,
    /// Sleeps until many wait, and fills until none does.
    Helper,
}

/// Those of a session.
pub(crate) fn fillers() -> impl Iterator<Item = Filler> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let count = (cpus * FILLERS_EACH).min(FILLERS_MAX);
    iter::once(Filler::First).chain(iter::repeat_n(Filler::Helper, count - 1))
}

/// How the reply of a worker comes to be sent after a fill.
pub(crate) enum Way<'a> {
    /// It is left to a filling thread, which sends it by this file: the one
    /// that the worker gets its requests by.
    Leave(Arc<OwnedFd>),
    /// The worker waits and sends it, and is relieved meanwhile.
    Wait(&'a dyn Relief),
}

/// Sees to it that others serve while a worker waits.
pub(crate) trait Relief {
    /// The worker that asks is about to wait.
    fn waits(&self);

    /// It serves again.
    fn returns(&self);
}

/// A worker's part.
pub(crate) struct Watch<'a> {
    shared: &'a ReadAround,
    way: Way<'a>,
}

impl ReadAround {
    /// For a session in which nothing is open yet.
    pub(crate) fn new() -> ReadAround {
        ReadAround {
            gate: Gate::default(),
            windows: Windows::new(),
            queue: Mutex::default(),
            changed: Condvar::new(),
            crowded: Condvar::new(),
        }
    }

    /// For a worker.
    pub(crate) fn watch<'a>(&'a self, way: Way<'a>) -> Watch<'a> {
        Watch { shared: self, way }
    }

    /// Fills windows until the session ends.
    pub(crate) fn run<F: Filesystem + ?Sized>(
        &self,
        filler: Filler,
        filesystem: &F,
        notifier: &Notifier,
        counters: &Counters,
    ) {
        let mut buffer = Buffer::empty();
        while let Some(window) = self.next(filler) {
            let Some(fill) = self.gate.begin(window.node) else { continue };
            let filled = catch_unwind(AssertUnwindSafe(|| window.fill(filesystem, notifier, &mut buffer)));
            match filled {
                Ok(Ok(len)) => counters.read_around(len),
                // Whoever reads it meets the error himself.
                Ok(Err(_)) => {}
                Err(_) => counters.panicked(),
            }
            for withheld in self.gate.end(fill) {
                if withheld.send().is_err() {
                    counters.unsent();
                }
            }
        }
    }

    /// The workers have ended.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
        self.crowded.notify_all();
    }

    /// Waits for a window; `None` at the end.
    fn next(&self, filler: Filler) -> Option<Window> {
        let calls = match filler {
            Filler::First => &self.changed,
            Filler::Helper => &self.crowded,
        };
        let idle = |queue: &mut Queue| queue.windows.is_empty() && !queue.ended;
        let mut queue = calls.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        if queue.ended { None } else { queue.windows.pop_front() }
    }

    fn missed(&self, node: NodeId, read: &Read) {
        let is_piece = read.size <= PIECE_MAX && read.flags & OFlags::DIRECT.bits() == 0;
        if !is_piece || !self.windows.missed(node, read.offset) {
            return;
        }
        let offset = read.offset - read.offset % WINDOW as u64;
        let mut queue = self.lock();
        if queue.windows.len() < QUEUE_MAX {
            queue.windows.push_back(Window { node, offset, handle: read.handle, flags: read.flags });
            self.changed.notify_one();
            if queue.windows.len().is_multiple_of(CROWD) {
                self.crowded.notify_one();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch<'_> {
    /// Withholds the reply to what a request did for as long as it must not be
    /// sent. True when a filling thread sends it, false when it is to be sent
    /// now.
    pub(crate) fn withholds(&self, touch: Touch, unique: u64, body: &[u8]) -> bool {
        let gate = &self.shared.gate;
        let node = match touch {
            Touch::Opened(node) => {
                gate.opened(node);
                node
            }
            Touch::Resized(node) => node,
            Touch::Nothing | Touch::Read(..) | Touch::Closed(_) => return false,
        };
        match &self.way {
            Way::Leave(file) => {
                gate.leaves(node, || Withheld { file: Arc::clone(file), unique, body: body.to_vec() })
            }
            Way::Wait(relief) => {
                gate.waits(node, *relief);
                false
            }
        }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, touch: Touch) {
        match touch {
            Touch::Read(node, read) => self.shared.missed(node, &read),
            Touch::Closed(node) => self.shared.gate.closed(node),
            Touch::Nothing | Touch::Opened(_) | Touch::Resized(_) => {}
        }
    }
}

impl Window {
    /// Reads the window's whole pages and hands them to the kernel; how many
    /// bytes.
    fn fill<F: Filesystem + ?Sized>(
        &self,
        filesystem: &F,
        notifier: &Notifier,
        buffer: &mut Buffer,
    ) -> Result<usize, Errno> {
        if buffer.len() != WINDOW {
            *buffer = Buffer::new(WINDOW);
        }
        let read = Read { handle: self.handle, offset: self.offset, size: WINDOW, flags: self.flags };
        let len = filesystem.read(&Context::default(), self.node, &read, buffer)?;
        let whole = len - len % PAGE_LEN;
        let pages = buffer.get(..whole).ok_or(Errno::IO)?;
        notifier.store(self.node, self.offset, pages)?;
        Ok(whole)
    }
}

impl Withheld {
    fn send(&self) -> Result<(), Errno> {
        let header = reply::header(self.unique, Ok(self.body.len()));
        crate::transport::send(&*self.file, &[IoSlice::new(&header), IoSlice::new(&self.body)])
    }
}
