//! Whether somebody else wants to compute: how many threads of the whole
//! system run or wait for a CPU, from `/proc/loadavg`.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// A system where the question takes longer, since a program answers it for a
/// container, is not asked again.
const ASKING_MAX: Duration = Duration::from_micros(50);
/// So many answers in a row that took longer, since one may have been
/// interrupted.
const SLOW_MAX: u32 = 3;

/// Asks. One for each worker.
#[derive(Debug)]
pub(super) struct Neighbours {
    file: Option<OwnedFd>,
    cpus: usize,
    slow: u32,
}

impl Neighbours {
    /// Opens the file; where it is not there, nobody is ever alone.
    pub(super) fn new() -> Neighbours {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open("/proc/loadavg", flags, Mode::empty()).ok();
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Neighbours { file, cpus, slow: 0 }
    }

    /// With so many CPUs.
    #[cfg(test)]
    pub(super) fn with(cpus: usize) -> Neighbours {
        Neighbours { cpus, ..Neighbours::new() }
    }

    /// True when a CPU is left for the program that asked, which waits now,
    /// beside this thread's and those of all others that run. With one CPU
    /// that is never so.
    pub(super) fn leave_a_cpu(&mut self) -> bool {
        self.running().is_some_and(|running| running < self.cpus)
    }

    /// True when whoever runs has a CPU, this thread among them.
    pub(super) fn all_have_a_cpu(&mut self) -> bool {
        self.running().is_some_and(|running| running <= self.cpus)
    }

    /// How many run or are ready to; `None` where that is not known.
    fn running(&mut self) -> Option<usize> {
        let file = self.file.as_ref()?;
        let mut text = [0; 128];
        let began = Instant::now();
        let len = rustix::io::pread(file, &mut text, 0).unwrap_or(0);
        self.slow = if began.elapsed() > ASKING_MAX { self.slow + 1 } else { 0 };
        if self.slow >= SLOW_MAX {
            self.file = None;
        }
        running(&text[..len])
    }
}

/// The count of threads that run or are ready to, this one among them: before
/// the slash in `0.20 0.18 0.12 1/80 11206`.
fn running(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_or_nothing() {
        assert_eq!(running(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        for text in [&b""[..], b"0.20 0.18 0.12", b"0.20 0.18 0.12 x/80 1", b"\xff\xff"] {
            assert_eq!(running(text), None);
        }
    }

    #[test]
    fn a_system_without_the_file_is_never_left() {
        let mut neighbours = Neighbours { file: None, cpus: 8, slow: 0 };
        assert!(!neighbours.leave_a_cpu());
    }

    #[test]
    fn with_one_cpu_nobody_is_alone() {
        let mut neighbours = Neighbours::with(1);
        assert!(!neighbours.leave_a_cpu());
    }

    #[test]
    fn threads_that_compute_are_seen() {
        let mut neighbours = Neighbours::with(2);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(20));
            assert!(!neighbours.leave_a_cpu());
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
