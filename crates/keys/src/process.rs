//! What a process that holds keys does to itself.

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Forbids core dumps of this process, and tracing by processes of the same
/// user. To be called once, before the first secret; a program run by `exec`
/// can be dumped and traced again, but inherits the limit of core dumps.
///
/// # Errors
/// The kernel's, which a program should report and may survive.
pub fn protect_process() -> Result<(), Errno> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let limited = setrlimit(Resource::Core, none);
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    limited
}

/// Has programs that this process starts from now on inherit none of its
/// descriptors but standard input, output and error. What the caller of this
/// program left open, a lock or the end of a pipe, is not a daemon's to keep.
///
/// # Errors
/// The kernel's: before Linux 5.11 it cannot do that.
pub fn keep_descriptors() -> std::io::Result<()> {
    crate::low::close_on_exec_from(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{dumpable_behavior, getrlimit};

    #[test]
    fn kept_descriptors_stay_open_and_are_not_inherited() {
        use std::os::fd::AsFd;
        let (end, _other) = std::io::pipe().expect("a pipe");
        rustix::io::fcntl_setfd(end.as_fd(), rustix::io::FdFlags::empty()).expect("it is open");
        keep_descriptors().expect("Linux 5.11");
        assert_eq!(rustix::io::fcntl_getfd(end.as_fd()), Ok(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn a_protected_process_leaves_no_core() {
        protect_process().expect("a process may always protect itself");
        assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
        let core = getrlimit(Resource::Core);
        assert_eq!((core.current, core.maximum), (Some(0), Some(0)));
    }
}
