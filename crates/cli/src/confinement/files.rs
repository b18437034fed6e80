//! Taking files away from a daemon, by Landlock.
//!
//! What is open stays open, and little can be opened any more. It is for a
//! thread and those that it starts, so it is done before the first; and it
//! denies mounting and unmounting to whoever it restricts, so it is not done
//! where a daemon unmounts.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

/// The newest interface that is known here; an older kernel does what it can.
const INTERFACE: ABI = ABI::V6;

const NULL: &str = "/dev/null";

/// What may still be done below a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) deeds: Deeds,
}

/// What is done in directories of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deeds {
    /// Sockets are made there, listed, and removed.
    Sockets,
    /// One socket, which is there already, is removed.
    Removal,
}

impl Deeds {
    fn rights(self) -> BitFlags<AccessFs> {
        match self {
            Deeds::Sockets => AccessFs::MakeSock | AccessFs::RemoveFile | AccessFs::ReadDir,
            Deeds::Removal => AccessFs::RemoveFile.into(),
        }
    }
}

/// How far the kernel went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// No file can be opened, made, renamed or removed but within the reach;
    /// no process outside is signalled.
    All,
    /// Without what this kernel's Landlock does not know.
    Part,
    /// The kernel has no Landlock, or it is off.
    Nothing,
}

/// Restricts this thread and those that it starts, for ever.
///
/// # Errors
/// A directory that is not there, more threads than one, or what the kernel
/// says.
pub(super) fn restrict(reach: &[Reach<'_>]) -> Result<Held, String> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(|error| error.to_string())?.count();
    if threads != 1 {
        return Err(format!("{threads} threads have been started already"));
    }
    let status = ruleset(reach).and_then(|ruleset| Ok(ruleset.restrict_self()?));
    Ok(match status.map_err(|error| error.to_string())?.ruleset {
        RulesetStatus::FullyEnforced => Held::All,
        RulesetStatus::PartiallyEnforced => Held::Part,
        RulesetStatus::NotEnforced => Held::Nothing,
    })
}

fn ruleset(reach: &[Reach<'_>]) -> Result<RulesetCreated, Box<dyn std::error::Error>> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(INTERFACE))?
        .scope(Scope::from_all(INTERFACE))?
        .create()?;
    // In the place of the standard descriptors, once the daemon is ready.
    let null = PathFd::new(NULL)?;
    ruleset = ruleset.add_rule(PathBeneath::new(null, AccessFs::ReadFile | AccessFs::WriteFile))?;
    for Reach { directory, deeds } in reach {
        ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new(directory)?, deeds.rights()))?;
    }
    Ok(ruleset)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::PermissionDenied;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Run by the next test in a process of its own, for which it is for ever.
    /// Test programs have threads, so that the restriction itself is called.
    #[test]
    #[ignore = "restricts its process"]
    fn restricted() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        for name in ["sockets", "removes", "other"] {
            std::fs::create_dir(at(name)).expect("made");
        }
        std::fs::write(at("removes/socket"), "").expect("written");
        std::fs::write(at("other/file"), "text").expect("written");
        let open = std::fs::File::open(at("other/file")).expect("opened");
        let reach = [
            Reach { directory: &at("sockets"), deeds: Deeds::Sockets },
            Reach { directory: &at("removes"), deeds: Deeds::Removal },
        ];
        let status = ruleset(&reach).expect("a rule set").restrict_self().expect("restricted");
        if status.ruleset == RulesetStatus::NotEnforced {
            println!("not run: the kernel has no Landlock");
            return;
        }
        assert_eq!(std::io::read_to_string(&open).expect("it was open before"), "text");
        drop(UnixListener::bind(at("sockets/socket")).expect("a socket"));
        std::fs::remove_file(at("sockets/socket")).expect("removed");
        std::fs::remove_file(at("removes/socket")).expect("removed");
        let denied = |result: std::io::Result<()>| result.expect_err("denied").kind() == PermissionDenied;
        std::fs::File::options().read(true).write(true).open(NULL).expect("opened");
        assert!(denied(std::fs::File::open(at("other/file")).map(drop)));
        assert!(denied(std::fs::File::open("/etc/passwd").map(drop)));
        assert!(denied(std::fs::write(at("sockets/file"), "")));
        assert!(denied(std::fs::remove_file(at("other/file"))));
        assert!(denied(UnixListener::bind(at("removes/socket")).map(drop)));
        // Removed with the directory by whoever runs this.
        std::mem::forget(directory);
    }

    #[test]
    fn little_can_be_opened_any_more() {
        let scratch = tempfile::tempdir().expect("a directory");
        let test = std::env::current_exe().expect("this test");
        let mut child = std::process::Command::new(test);
        child.args(["--ignored", "--exact", "--nocapture", "confinement::files::tests::restricted"]);
        let output = child.env("TMPDIR", scratch.path()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        text.lines().filter(|line| line.contains("not run")).for_each(|line| println!("{line}"));
    }
}
