//! Threads that work on files, and together on the parts of large ones: for
//! who looks at a whole vault. What is done with a file is the caller's.
//!
//! Who walks the tree submits openers. A thread runs one, and what it gives
//! has parts, which all threads take in turn; whoever ends the last part
//! finishes the file. Parts go before new files, so that few files are open
//! at a time. Memory is bounded by the number of threads and of openers that
//! wait.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

use strongroom_engine::Buffer;
use strongroom_units::{GROUP_BLOCKS, GroupIndex};

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Files that are found and not begun yet.
const WAITING_MAX: usize = 256;

/// Plain bytes of a part, at least: enough that taking it costs nothing.
const PART: u64 = 16 << 20;

/// Threads where nobody says how many: two for each CPU, since one waits for
/// the store while the other computes.
#[must_use]
pub fn default_threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// A file in parts.
pub trait Parts: Send + Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// Works on one part.
    fn run(&self, part: usize, scratch: &mut Buffer);

    /// Every part has been worked on.
    fn finish(&self);
}

/// Begins the work on a file; none when there is nothing more to it.
pub type Opener<'env> = Box<dyn FnOnce() -> Option<Box<dyn Parts + 'env>> + Send + 'env>;

/// Splits the groups of a file into parts.
#[must_use]
pub fn parts_of(groups: &[GroupIndex], block_bytes: u64) -> usize {
    groups.len().div_ceil(groups_in_part(block_bytes)).max(1)
}

/// The groups of one part.
#[must_use]
pub fn groups_of(groups: &[GroupIndex], block_bytes: u64, part: usize) -> &[GroupIndex] {
    let step = groups_in_part(block_bytes);
    let start = (part * step).min(groups.len());
    &groups[start..(start + step).min(groups.len())]
}

fn groups_in_part(block_bytes: u64) -> usize {
    (PART / (GROUP_BLOCKS * block_bytes)).max(1) as usize
}

struct Shared<'env> {
    parts: Box<dyn Parts + 'env>,
    count: usize,
    next: AtomicUsize,
    left: AtomicUsize,
}

#[derive(Default)]
struct State<'env> {
    waiting: VecDeque<Opener<'env>>,
    shared: Vec<Arc<Shared<'env>>>,
    /// Openers that run: they may give parts.
    opening: usize,
    closed: bool,
}

/// The work that there is.
pub struct Pool<'env> {
    state: Mutex<State<'env>>,
    changed: Condvar,
    interrupt: Arc<AtomicBool>,
    /// Files that may wait.
    room: usize,
}

enum Work<'env> {
    Open(Opener<'env>),
    Part(Arc<Shared<'env>>, usize),
}

impl<'env> Pool<'env> {
    /// No work yet. Once `interrupt` is set, files that wait are dropped, and
    /// nobody is told but by what [`Pool::work`] and [`Pool::submit`] do.
    pub fn new(interrupt: Arc<AtomicBool>) -> Pool<'env> {
        Pool::with_room(interrupt, WAITING_MAX)
    }

    /// The same, where so many files may wait.
    pub(crate) fn with_room(interrupt: Arc<AtomicBool>, room: usize) -> Pool<'env> {
        Pool { state: Mutex::new(State::default()), changed: Condvar::new(), interrupt, room }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State<'env>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over a file, and waits while many wait already. After an
    /// interrupt it is dropped.
    pub fn submit(&self, opener: Opener<'env>) {
        let mut state = self.lock();
        while state.waiting.len() >= self.room && !self.is_interrupted() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !self.is_interrupted() {
            state.waiting.push_back(opener);
        }
        self.changed.notify_all();
    }

    /// No more files come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Works until everything is done that was handed over before the pool
    /// was closed.
    pub fn work(&self) {
        let mut scratch = Buffer::empty();
        while let Some(work) = self.take() {
            match work {
                Work::Open(opener) => self.open(opener, &mut scratch),
                Work::Part(shared, part) => shared.run(part, &mut scratch),
            }
        }
    }

    fn take(&self) -> Option<Work<'env>> {
        let mut state = self.lock();
        loop {
            if self.is_interrupted() && !state.waiting.is_empty() {
                state.waiting.clear();
                // Who waits to hand one over hears of the interrupt by this alone.
                self.changed.notify_all();
            }
            if let Some(shared) = state.shared.last().cloned() {
                let part = shared.next.fetch_add(1, Ordering::Relaxed);
                if part + 1 >= shared.count {
                    state.shared.pop();
                }
                return Some(Work::Part(shared, part));
            }
            if let Some(opener) = state.waiting.pop_front() {
                state.opening += 1;
                self.changed.notify_all();
                return Some(Work::Open(opener));
            }
            if state.closed && state.opening == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&self, opener: Opener<'env>, scratch: &mut Buffer) {
        let parts = opener();
        let mut state = self.lock();
        state.opening -= 1;
        let Some(parts) = parts else {
            self.changed.notify_all();
            return;
        };
        let count = parts.count();
        let shared =
            Arc::new(Shared { parts, count, next: AtomicUsize::new(1), left: AtomicUsize::new(count) });
        if count > 1 {
            state.shared.push(Arc::clone(&shared));
        }
        self.changed.notify_all();
        drop(state);
        shared.run(0, scratch);
    }
}

impl Shared<'_> {
    fn run(&self, part: usize, scratch: &mut Buffer) {
        self.parts.run(part, scratch);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.parts.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counted<'a> {
        parts: usize,
        done: AtomicUsize,
        sum: &'a AtomicUsize,
        finished: &'a AtomicUsize,
    }

    impl Parts for Counted<'_> {
        fn count(&self) -> usize {
            self.parts
        }

        fn run(&self, part: usize, _: &mut Buffer) {
            self.sum.fetch_add(part + 1, Ordering::Relaxed);
            self.done.fetch_add(1, Ordering::Relaxed);
        }

        fn finish(&self) {
            assert_eq!(self.done.load(Ordering::Relaxed), self.parts, "finished before its parts");
            self.finished.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn every_part_is_run_once_and_every_file_finished_once() {
        for threads in [1, 4] {
            let (sum, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let pool = Pool::new(Arc::default());
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| pool.work());
                }
                for file in 0..1000 {
                    let (sum, finished) = (&sum, &finished);
                    pool.submit(Box::new(move || {
                        let parts = file % 7;
                        let counted = Counted { parts, done: AtomicUsize::new(0), sum, finished };
                        (parts > 0).then(|| Box::new(counted) as Box<dyn Parts>)
                    }));
                }
                pool.close();
            });
            let files: Vec<usize> = (0..1000).map(|file| file % 7).collect();
            drop(pool);
            assert_eq!(sum.into_inner(), files.iter().map(|n| n * (n + 1) / 2).sum::<usize>());
            assert_eq!(finished.into_inner(), files.iter().filter(|&&n| n > 0).count());
        }
    }

    #[test]
    fn an_interrupt_ends_it_with_files_waiting() {
        let pool = Pool::new(Arc::default());
        pool.interrupt.store(true, Ordering::Relaxed);
        for _ in 0..2 * WAITING_MAX {
            pool.submit(Box::new(|| panic!("it was not to be begun")));
        }
        pool.close();
        pool.work();
    }

    #[test]
    fn parts_cover_the_groups_in_order() {
        for (count, block) in [(1, 4096), (31, 4096), (32, 4096), (33, 4096), (100, 1 << 20), (100, 65536)] {
            let groups: Vec<GroupIndex> = (0..count).map(GroupIndex).collect();
            let parts = (0..parts_of(&groups, block)).map(|part| groups_of(&groups, block, part));
            assert_eq!(parts.collect::<Vec<_>>().concat(), groups);
        }
    }
}
