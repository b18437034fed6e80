//! What a daemon takes away from itself, so that whoever takes it over by a
//! fault of ours has little of what the kernel offers.
//!
//! Three steps. [`drop_capabilities`], before the first thread, keeps of root's
//! capabilities those that a store of others' files, a mount and locked memory
//! need. [`restrict_files`], before the first thread too, and for daemons that
//! neither unmount nor open files later, leaves them what is open and the
//! directories of their sockets. [`restrict`], when everything is set up and
//! for all threads at once, forbids new privileges and the system calls that no
//! daemon needs: running programs, making processes, looking into others,
//! sockets but local ones, mounting, loading code into the kernel, changing
//! users and clocks.

mod files;

use std::collections::BTreeMap;
use std::sync::Mutex;

use self::files::Held;
pub(crate) use self::files::{Deeds, Reach};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use serde::{Deserialize, Serialize};

/// What is forbidden to a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    /// No program that it runs gains privileges, and system calls are filtered.
    pub(crate) system_calls: bool,
    /// It has no capability but those it uses.
    pub(crate) capabilities: bool,
    /// It can open no files, but for what its sockets need. Of disks through
    /// NBD alone; others open files, or unmount.
    pub(crate) files: bool,
    /// Why not, where something is not done that could be.
    pub(crate) reason: Option<String>,
}

/// What this process has done.
static STANDING: Mutex<Confinement> =
    Mutex::new(Confinement { system_calls: false, capabilities: false, files: false, reason: None });

/// What has been forbidden to this process.
pub(crate) fn standing() -> Confinement {
    STANDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

fn note(change: impl FnOnce(&mut Confinement)) {
    change(&mut STANDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
}

/// What a daemon of root needs: files of all owners, with their modes, special
/// files and attributes; the system call that unmounts and sets up rings; the
/// store's reserve and its own limits; priorities; locked memory.
const NEEDED: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::IPC_LOCK);

/// Gives up the capabilities that are not needed, of this thread and those
/// that it starts: to be called before the first.
pub(crate) fn drop_capabilities(wanted: bool) {
    if !wanted {
        return note(|standing| standing.reason = Some("switched off by --no-confinement".to_owned()));
    }
    let dropped = rustix::thread::capabilities(None).and_then(|sets| {
        let kept = CapabilitySets {
            effective: sets.effective & NEEDED,
            permitted: sets.permitted & NEEDED,
            inheritable: CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, kept)
    });
    note(|standing| match dropped {
        Ok(()) => standing.capabilities = true,
        Err(errno) => standing.reason = Some(format!("capabilities cannot be given up: {errno}")),
    });
}

/// Leaves to this thread, the only one, and to those that it starts what is
/// open, and what may be done within `reach`.
pub(crate) fn restrict_files(wanted: bool, reach: &[Reach<'_>]) {
    if !wanted {
        return;
    }
    let held = files::restrict(reach);
    note(|standing| match held {
        Ok(Held::All) => standing.files = true,
        Ok(Held::Part) => {
            standing.files = true;
            standing.reason = Some("files in part: the kernel's Landlock is an older one".to_owned());
        }
        Ok(Held::Nothing) => {
            standing.reason = Some("not files: the kernel has no Landlock".to_owned());
        }
        Err(error) => standing.reason = Some(format!("files cannot be taken away: {error}")),
    });
}

/// Forbids new privileges and system calls to all threads, for ever. `runs`
/// names a program that the daemon has to run, with its privileges.
pub(crate) fn restrict(wanted: bool, runs: Option<&str>) {
    if !wanted {
        return;
    }
    if let Some(program) = runs {
        let reason = format!("{program} has to be run with its privileges");
        return note(|standing| standing.reason = Some(reason));
    }
    let outcome = filters().and_then(|filters| {
        filters.iter().try_for_each(|filter| {
            seccompiler::apply_filter_all_threads(filter).map_err(|error| error.to_string())
        })
    });
    note(|standing| match outcome {
        Ok(()) => standing.system_calls = true,
        Err(error) => standing.reason = Some(format!("system calls cannot be filtered: {error}")),
    });
}

/// What `libc` does not name for AArch64 with musl; the number is of the table that newer architectures share
/// (Linux, `asm-generic/unistd.h`).
#[cfg(all(target_arch = "aarch64", target_env = "musl"))]
const KEXEC_FILE_LOAD: libc::c_long = 294;
#[cfg(not(all(target_arch = "aarch64", target_env = "musl")))]
const KEXEC_FILE_LOAD: libc::c_long = libc::SYS_kexec_file_load;

/// System calls that are refused as not permitted, whatever their arguments.
const REFUSED: &[libc::c_long] = &[
    // Running programs, and looking into others.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_perf_event_open,
    // Code for the kernel, and what watches it.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_syslog,
    // Mounts but for unmounting, and name spaces.
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    // Users.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_vhangup,
    libc::SYS_personality,
    // Keys of the kernel.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// Those that x86-64 has besides.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] =
    &[libc::SYS_fork, libc::SYS_vfork, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// A system call as filters number it.
#[allow(clippy::useless_conversion, reason = "`c_long` has 32 bits on machines of 32 bits")]
fn number(call: libc::c_long) -> i64 {
    i64::from(call)
}

/// The programs for the kernel; none are made for machines of 32 bits.
fn filters() -> Result<[BpfProgram; 2], String> {
    let condition = |argument, operator, value: u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
    };
    let refused = || -> Result<_, seccompiler::BackendError> {
        let calls = REFUSED.iter().chain(REFUSED_HERE);
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            calls.map(|call| (number(*call), Vec::new())).collect();
        // Local sockets, and the kernel's events.
        let family = |family: i32| condition(0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned()));
        let others = SeccompRule::new(vec![family(libc::AF_UNIX)?, family(libc::AF_NETLINK)?])?;
        rules.insert(number(libc::SYS_socket), vec![others]);
        // Threads, and no processes.
        let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
        let process = SeccompRule::new(vec![condition(0, SeccompCmpOp::MaskedEq(thread), 0)?])?;
        rules.insert(number(libc::SYS_clone), vec![process]);
        Ok(rules)
    };
    // Its arguments are in memory, where no filter sees them. A C library that
    // is told that there is no such call takes `clone`.
    let clone3 = BTreeMap::from([(number(libc::SYS_clone3), Vec::new())]);
    let program = |rules, errno: i32| -> Result<BpfProgram, seccompiler::BackendError> {
        let refuse = SeccompAction::Errno(errno.cast_unsigned());
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?
            .try_into()
    };
    let both = || Ok([program(clone3.clone(), libc::ENOSYS)?, program(refused()?, libc::EPERM)?]);
    both().map_err(|error: seccompiler::BackendError| error.to_string())
}

impl std::fmt::Display for Confinement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts =
            [("system calls", self.system_calls), ("capabilities", self.capabilities), ("files", self.files)];
        let held: Vec<&str> = parts.iter().filter(|(_, held)| *held).map(|(part, _)| *part).collect();
        match &held[..] {
            [] => f.write_str("nothing")?,
            [one] => f.write_str(one)?,
            [others @ .., last] => write!(f, "{} and {last}", others.join(", "))?,
        }
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Run by the next test in a process of its own, for which it is for ever.
    #[test]
    #[ignore = "confines its process"]
    fn confined() {
        let (told, hears) = std::sync::mpsc::channel::<()>();
        let older = std::thread::spawn(move || {
            hears.recv().expect("told");
            std::process::Command::new("true").spawn().map(drop).map_err(|error| error.kind())
        });
        drop_capabilities(true);
        restrict(true, None);
        let Confinement { system_calls, capabilities, files, reason } = standing();
        assert!(system_calls && capabilities && !files && reason.is_none(), "{reason:?}");
        told.send(()).expect("it listens");
        let denied = Err(std::io::ErrorKind::PermissionDenied);
        assert_eq!(older.join().expect("no panic"), denied, "a thread that was there before");
        let network = std::net::UdpSocket::bind("127.0.0.1:0");
        assert_eq!(network.map(drop).map_err(|error| error.kind()), denied);
        let root = rustix::process::chroot("/");
        assert_eq!(root, Err(rustix::io::Errno::PERM));
        // What a daemon does all the time.
        std::thread::spawn(|| ()).join().expect("threads start");
        std::os::unix::net::UnixStream::pair().expect("local sockets");
        std::fs::read("/proc/self/status").expect("files");
        let kept = rustix::thread::capabilities(None).expect("told");
        assert!(NEEDED.contains(kept.permitted) && NEEDED.contains(kept.effective));
    }

    #[test]
    fn a_confined_process_runs_nothing_and_reaches_no_network() {
        let test = std::env::current_exe().expect("this test");
        let name = "confinement::tests::confined";
        let mut child = std::process::Command::new(test);
        let output = child.args(["--ignored", "--exact", name]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    fn what_is_not_wanted_or_not_possible_is_said() {
        let one = |system_calls, capabilities, files, reason: Option<&str>| {
            let reason = reason.map(str::to_owned);
            Confinement { system_calls, capabilities, files, reason }.to_string()
        };
        assert_eq!(one(false, false, false, Some("why")), "nothing (why)");
        assert_eq!(one(true, false, false, None), "system calls");
        assert_eq!(one(true, true, false, None), "system calls and capabilities");
        assert_eq!(one(true, true, true, None), "system calls, capabilities and files");
    }

    #[test]
    fn no_call_is_refused_that_threads_need() {
        filters().expect("this architecture is known");
        let all: Vec<_> = REFUSED.iter().chain(REFUSED_HERE).collect();
        let mut once = all.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), all.len());
        for needed in [libc::SYS_clone, libc::SYS_umount2, libc::SYS_mmap, libc::SYS_io_uring_enter] {
            assert!(!all.contains(&&needed));
        }
    }
}
