//! Prefetch around a fault: where a program reads piece by piece without an
//! order, the kernel is given the rest of what it reads from
//! (`docs/pacing.md#prefetch-around-a-fault` says when, and why no program can
//! lose a byte by it).

mod gate;
mod windows;

use self::gate::{Gate, Withheld};
use self::windows::Windows;
use crate::abi::reply;
use crate::devfuse;
use crate::errno::Errno;
use crate::filesystem::{Context, Filesystem, Handle, NodeId, Read};
use crate::notify::Notifier;
use crate::pacing::limits::{FILLERS_EACH, FILLERS_MAX, HELP, MISS_MAX, PAGE_LEN, QUEUE_MAX, WINDOW};
use crate::statistics::Counters;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use strongroom_engine::Buffer;

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
pub(crate) struct Prefetch {
    gate: Gate,
    windows: Windows,
    queue: Mutex<Queue>,
    /// The first window has come, or many more have.
    changed: Condvar,
}

/// Threads that fill, in a session.
pub(crate) fn fillers() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (cpus * FILLERS_EACH).min(FILLERS_MAX)
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
pub(crate) struct Prefetcher<'a> {
    shared: &'a Prefetch,
    way: Way<'a>,
}

impl Prefetch {
    /// For a session in which nothing is open yet.
    pub(crate) fn new() -> Prefetch {
        let (gate, windows) = (Gate::default(), Windows::new());
        Prefetch { gate, windows, queue: Mutex::default(), changed: Condvar::new() }
    }

    /// For a worker.
    pub(crate) fn worker<'a>(&'a self, way: Way<'a>) -> Prefetcher<'a> {
        Prefetcher { shared: self, way }
    }

    /// Fills windows until the session ends.
    pub(crate) fn run<F: Filesystem + ?Sized>(
        &self,
        filesystem: &F,
        notifier: &Notifier,
        counters: &Counters,
    ) {
        let mut buffer = Buffer::empty();
        while let Some(window) = self.next() {
            let Some(fill) = self.gate.begin(window.node) else { continue };
            let filled = catch_unwind(AssertUnwindSafe(|| window.fill(filesystem, notifier, &mut buffer)));
            match filled {
                Ok(Ok(len)) => counters.prefetched(len),
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
    }

    /// Waits for a window; `None` at the end.
    fn next(&self) -> Option<Window> {
        let idle = |queue: &mut Queue| queue.windows.is_empty() && !queue.ended;
        let mut queue = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        if queue.ended { None } else { queue.windows.pop_front() }
    }

    fn missed(&self, node: NodeId, read: &Read) {
        let is_miss = read.size <= MISS_MAX && read.flags & OFlags::DIRECT.bits() == 0;
        if !is_miss || !self.windows.missed(node, read.offset) {
            return;
        }
        let offset = read.offset - read.offset % WINDOW as u64;
        let mut queue = self.lock();
        if queue.windows.len() < QUEUE_MAX {
            queue.windows.push_back(Window { node, offset, handle: read.handle, flags: read.flags });
            // Whoever was woken for the first fills until none waits.
            if queue.windows.len() == 1 || queue.windows.len().is_multiple_of(HELP) {
                self.changed.notify_one();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Prefetcher<'_> {
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
        devfuse::send(&*self.file, &[IoSlice::new(&header), IoSlice::new(&self.body)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const FILE: NodeId = NodeId(7);
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Misses a window as often as it takes to have it filled.
    fn miss(prefetch: &Prefetch, window: usize, size: usize, flags: u32) {
        let read = Read { handle: Handle(1), offset: (window * WINDOW) as u64, size, flags };
        prefetch.missed(FILE, &read);
        prefetch.missed(FILE, &read);
    }

    fn waiting(prefetch: &Prefetch) -> usize {
        prefetch.lock().windows.len()
    }

    #[test]
    fn long_reads_and_those_past_the_page_cache_are_no_misses() {
        let prefetch = Prefetch::new();
        miss(&prefetch, 0, MISS_MAX + 1, 0);
        miss(&prefetch, 1, 4096, OFlags::DIRECT.bits());
        assert_eq!(waiting(&prefetch), 0);
        miss(&prefetch, 2, MISS_MAX, 0);
        assert_eq!(waiting(&prefetch), 1);
    }

    #[test]
    fn no_more_windows_wait_than_are_worth_it() {
        let prefetch = Prefetch::new();
        (0..QUEUE_MAX + 10).for_each(|window| miss(&prefetch, window, 4096, 0));
        assert_eq!(waiting(&prefetch), QUEUE_MAX);
    }

    #[test]
    fn one_thread_fills_until_many_windows_wait() {
        let prefetch = Prefetch::new();
        let (taken, takes) = channel();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (prefetch, taken) = (&prefetch, taken.clone());
                // Each takes one window, and is busy with it from then on.
                scope.spawn(move || taken.send(prefetch.next().is_some()));
            }
            miss(&prefetch, 0, 4096, 0);
            let first = takes.recv_timeout(PATIENCE);
            (1..=HELP).for_each(|window| miss(&prefetch, window, 4096, 0));
            let helper = takes.recv_timeout(PATIENCE);
            prefetch.end();
            assert_eq!((first, helper), (Ok(true), Ok(true)));
        });
        assert!(prefetch.next().is_none(), "all has ended");
    }
}
