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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{dumpable_behavior, getrlimit};

    #[test]
    fn a_protected_process_leaves_no_core() {
        protect_process().expect("a process may always protect itself");
        assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
        let core = getrlimit(Resource::Core);
        assert_eq!((core.current, core.maximum), (Some(0), Some(0)));
    }
}
