//! In which class the kernel's scheduler has a thread.

use rustix::io::{self, Errno};
use rustix::thread::Pid;

/// A class of `sched(7)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `SCHED_OTHER`, which threads begin in.
    Normal,
    /// `SCHED_IDLE`: whoever is normal and wakes goes before it, and takes its
    /// CPU for a free one.
    Idle,
}

impl Class {
    fn policy(self) -> libc::c_int {
        match self {
            Class::Normal => libc::SCHED_OTHER,
            Class::Idle => libc::SCHED_IDLE,
        }
    }

    /// That of the calling thread; `None` for any other class.
    pub(crate) fn of_this_thread() -> Option<Class> {
        // The call itself, here and below: musl's functions of these names only say that there is no such call.
        // SAFETY: it takes a number and touches no memory.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
        [Class::Normal, Class::Idle].into_iter().find(|class| libc::c_long::from(class.policy()) == policy)
    }

    /// Puts `thread` of this process into it; how nice it is stays.
    ///
    /// # Errors
    /// `PERM` for leaving [`Class::Idle`] without the right to be as nice as it
    /// was before (`CAP_SYS_NICE`, or `RLIMIT_NICE`).
    pub(crate) fn set(self, thread: Pid) -> io::Result<()> {
        // Neither class has priorities. The kernel's `sched_param` has this number alone.
        let priority: libc::c_int = 0;
        let (call, thread, priority) =
            (libc::SYS_sched_setscheduler, thread.as_raw_pid(), &raw const priority);
        // SAFETY: the call reads the number, which lives for as long, and
        // writes nothing. Which thread it concerns changes when that thread
        // runs, and nothing that is safe to rely on depends on it.
        match unsafe { libc::syscall(call, thread, self.policy(), priority) } {
            0 => Ok(()),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::gettid;

    #[test]
    fn a_thread_goes_idle_and_comes_back_where_it_may() {
        let thread = std::thread::spawn(|| {
            assert_eq!(Class::of_this_thread(), Some(Class::Normal));
            Class::Idle.set(gettid()).unwrap();
            assert_eq!(Class::of_this_thread(), Some(Class::Idle));
            match Class::Normal.set(gettid()) {
                Ok(()) => assert_eq!(Class::of_this_thread(), Some(Class::Normal)),
                Err(errno) => assert_eq!((errno, Class::of_this_thread()), (Errno::PERM, Some(Class::Idle))),
            }
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_thread_that_there_is_not_is_an_error() {
        let gone = std::thread::spawn(gettid).join().unwrap();
        assert_eq!(Class::Idle.set(gone), Err(Errno::SRCH));
    }
}
