//! Whether somebody else wants the CPU, by what `/proc` says.
//!
//! Two answers, since neither does alone. [`Running`] counts the threads of the
//! whole system, and Linux leaves some that sleep among them for a while: good
//! enough to refuse something. [`Waited`] is exact, and of one thread alone.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::num::NonZeroUsize;
use std::time::Duration;

/// `PROC_SUPER_MAGIC` of `statfs(2)`.
const PROC: u64 = 0x9fa0;

/// Opens a file of the kernel's. In a container a program may answer instead,
/// through a mount of its own, which takes too long.
fn open(path: &str) -> Option<OwnedFd> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    is_of_kernel(&file).then_some(file)
}

fn is_of_kernel(file: impl AsFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| system.f_type as u64 == PROC)
}

/// Has `parse` look at what a file says now.
fn ask<T>(file: Option<&OwnedFd>, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut text = [0; 128];
    let len = rustix::io::pread(file?, &mut text, 0).ok()?;
    parse(std::str::from_utf8(&text[..len]).ok()?)
}

/// How many threads of the system run or are ready to, of `/proc/loadavg`.
#[derive(Debug)]
pub(super) struct Running {
    file: Option<OwnedFd>,
    cpus: usize,
}

impl Running {
    pub(super) fn new() -> Running {
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Running { file: open("/proc/loadavg"), cpus }
    }

    /// True when a CPU is left for the program that asked, which waits now,
    /// beside this thread's and those of all others that run. With one CPU
    /// that is never so, nor where it is not known.
    pub(super) fn leave_a_cpu(&self) -> bool {
        self.count().is_some_and(|running| running < self.cpus)
    }

    /// True when whoever runs has a CPU, this thread among them.
    pub(super) fn have_cpus(&self) -> bool {
        self.count().is_some_and(|running| running <= self.cpus)
    }

    fn count(&self) -> Option<usize> {
        ask(self.file.as_ref(), running)
    }
}

/// Before the slash in `0.20 0.18 0.12 1/80 11206`.
fn running(text: &str) -> Option<usize> {
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// How long the thread that made it was ready to run and waited for a CPU, of
/// `/proc/thread-self/schedstat`.
#[derive(Debug)]
pub(super) struct Waited {
    file: Option<OwnedFd>,
    /// All of it, when this was last asked.
    seen: Duration,
}

impl Waited {
    pub(super) fn new() -> Waited {
        Waited { file: open("/proc/thread-self/schedstat"), seen: Duration::ZERO }
    }

    /// Since this was last asked; `None` where it is not known.
    pub(super) fn lately(&mut self) -> Option<Duration> {
        let all = ask(self.file.as_ref(), waited)?;
        let lately = all.saturating_sub(self.seen);
        self.seen = all;
        Some(lately)
    }
}

/// The second of three numbers, in nanoseconds: `2040733 153282 41`.
fn waited(text: &str) -> Option<Duration> {
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Files that say what a test wants.
#[cfg(test)]
pub(super) mod told {
    use super::{Running, Waited};
    use std::time::Duration;
    use tempfile::NamedTempFile;

    /// A load that changes when it is told to.
    pub(in crate::pacing) struct Told(NamedTempFile);

    impl Told {
        pub(in crate::pacing) fn new() -> Told {
            Told(NamedTempFile::new().unwrap())
        }

        /// Of two CPUs.
        pub(in crate::pacing) fn running(&self, count: usize) -> Running {
            self.runs(count);
            Running { file: Some(self.0.reopen().unwrap().into()), cpus: 2 }
        }

        pub(in crate::pacing) fn runs(&self, count: usize) {
            std::fs::write(self.0.path(), format!("0.20 0.18 0.12 {count}/80 11206\n")).unwrap();
        }

        pub(in crate::pacing) fn waited(&self) -> Waited {
            self.waits(Duration::ZERO);
            Waited { file: Some(self.0.reopen().unwrap().into()), seen: Duration::ZERO }
        }

        /// All in all.
        pub(in crate::pacing) fn waits(&self, all: Duration) {
            std::fs::write(self.0.path(), format!("7 {} 1\n", all.as_nanos())).unwrap();
        }
    }

    /// Nothing is known.
    pub(in crate::pacing) fn unknown() -> (Running, Waited) {
        (Running { file: None, cpus: 8 }, Waited { file: None, seen: Duration::ZERO })
    }
}

#[cfg(test)]
mod tests {
    use super::told::{Told, unknown};
    use super::*;

    #[test]
    fn numbers_are_found_or_nothing() {
        assert_eq!(running("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(waited("2040733 153282 41\n"), Some(Duration::from_nanos(153_282)));
        for text in ["", "1", "1 x 3", "0.20 0.18 0.12", "0.20 0.18 0.12 x/80 1"] {
            assert_eq!((running(text), waited(text)), (None, None));
        }
    }

    #[test]
    fn what_this_kernel_says_is_understood() {
        let running = Running::new();
        assert!(running.file.is_none() || running.count().is_some_and(|count| count > 0));
        let mut waited = Waited::new();
        assert!(waited.file.is_none() || waited.lately().is_some());
    }

    #[test]
    fn only_the_kernel_is_asked() {
        assert!(!is_of_kernel(tempfile::tempfile().unwrap()));
        assert!(is_of_kernel(std::fs::File::open("/proc/self/stat").unwrap()));
    }

    #[test]
    fn others_leave_a_cpu_or_have_all() {
        let told = Told::new();
        let answers = [1, 2, 3].map(|count| {
            let running = told.running(count);
            (running.leave_a_cpu(), running.have_cpus())
        });
        assert_eq!(answers, [(true, true), (false, true), (false, false)]);
        let (running, mut waited) = unknown();
        assert!(!running.leave_a_cpu() && !running.have_cpus() && waited.lately().is_none());
    }

    #[test]
    fn each_wait_is_told_once() {
        let told = Told::new();
        let mut waited = told.waited();
        for (all, lately) in [(500, 500), (500, 0), (800, 300)] {
            told.waits(Duration::from_nanos(all));
            assert_eq!(waited.lately(), Some(Duration::from_nanos(lately)));
        }
    }
}
