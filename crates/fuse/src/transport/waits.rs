//! How long a thread waits for a CPU while it is ready to run, from
//! `/proc/thread-self/schedstat`.
//!
//! The count of those who run or are ready to, in `/proc/loadavg`, says less:
//! Linux 6.18 leaves some that sleep in it for a while
//! (`docs/pacing.md#why-not-by-the-load`).

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::time::Duration;

/// Of the thread that made it.
#[derive(Debug)]
pub(super) struct Waits {
    file: Option<OwnedFd>,
    /// All that it had waited when this was last asked.
    seen: Duration,
}

impl Waits {
    /// Opens the file, which kernels without these statistics do not have.
    pub(super) fn new() -> Waits {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Waits::of(rustix::fs::open("/proc/thread-self/schedstat", flags, Mode::empty()).ok())
    }

    pub(super) fn of(file: Option<OwnedFd>) -> Waits {
        Waits { file, seen: Duration::ZERO }
    }

    /// How long it has waited since this was last asked; `None` where that is
    /// not known. Takes a microsecond.
    pub(super) fn lately(&mut self) -> Option<Duration> {
        let mut text = [0; 128];
        let len = rustix::io::pread(self.file.as_ref()?, &mut text, 0).ok()?;
        let all = waited(&text[..len])?;
        let lately = all.saturating_sub(self.seen);
        self.seen = all;
        Some(lately)
    }
}

/// The second of three numbers, in nanoseconds: `2040733 153282 41`.
fn waited(text: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Instant;

    #[test]
    fn the_wait_is_found_or_nothing() {
        assert_eq!(waited(b"2040733 153282 41\n"), Some(Duration::from_nanos(153_282)));
        for text in [&b""[..], b"2040733", b"1 x 3", b"\xff\xff \xff"] {
            assert_eq!(waited(text), None);
        }
        assert_eq!(Waits::of(None).lately(), None);
    }

    #[test]
    fn each_wait_is_told_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut waits = Waits::of(Some(file.reopen().unwrap().into()));
        for (all, lately) in [(500, 500), (500, 0), (800, 300)] {
            std::fs::write(file.path(), format!("7 {all} 1\n")).unwrap();
            assert_eq!(waits.lately(), Some(Duration::from_nanos(lately)));
        }
    }

    #[test]
    fn whoever_shares_a_cpu_waits_for_it() {
        let all = sched_getaffinity(None).unwrap();
        let mut one = CpuSet::new();
        one.set((0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).unwrap());
        let (is_over, began) = (AtomicBool::new(false), Instant::now());
        thread::scope(|scope| {
            scope.spawn(|| {
                sched_setaffinity(None, &one).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let waiter = scope.spawn(|| {
                sched_setaffinity(None, &one).unwrap();
                let (mut waits, mut all) = (Waits::new(), Duration::ZERO);
                while all < Duration::from_millis(20) && began.elapsed() < Duration::from_secs(20) {
                    all += waits.lately().expect("this kernel has the statistics");
                }
                is_over.store(true, Ordering::Relaxed);
                all
            });
            assert!(waiter.join().unwrap() >= Duration::from_millis(20));
        });
    }
}
