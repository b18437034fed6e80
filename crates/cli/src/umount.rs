//! `umount`: unmounts, and waits until the daemon has closed the vault, so
//! that success means that everything is stored.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::mount::UnmountFlags;

use crate::args::UmountArgs;
use crate::control::mounts::{self, Mounted};
use crate::control::{Client, Request};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

/// How long an aborted daemon has to close the vault before it is left alone.
const ABORT_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs `umount`.
///
/// # Errors
/// Usage when nothing is mounted there, in use, or what went wrong with
/// closing the vault. Without a daemon the mount goes, and that is a failure:
/// whatever was not synced is lost. With `--lazy` and `--abort`, which promise
/// nothing, it is a warning.
pub(crate) fn run(args: &UmountArgs, output: Output) -> Result<Exit> {
    let mounted = mounts::at(&args.directory)?;
    let client = Client::connect(&mounted);
    let is_lost = client.is_none() && !mounted.read_only;
    let done = if args.abort {
        abort(&mounted, client)
    } else {
        match client {
            Some(mut client) => client.ask(Request::Unmount { lazy: args.lazy }).map(drop),
            None => without_daemon(&mounted.path, args.lazy),
        }
    };
    done.map_err(|failure| failure.at(&mounted.path))?;
    match is_lost {
        true if args.abort || args.lazy => output.warn(UNANSWERED),
        true => return Err(Failure::new(Exit::Other, UNANSWERED).at(&mounted.path).hint(RECOVERED)),
        false => {}
    }
    Ok(Exit::Done)
}

/// The mount is gone, and nobody has said that the vault is closed.
const UNANSWERED: &str = "unmounted, but no daemon answered: the vault was not closed";
const RECOVERED: &str = "What was synced is safe; the next mount recovers the rest. The system's log may say why the daemon ended.";

/// Ends the connection in the kernel, which frees whoever waits for it. The
/// daemon then closes the vault, if there is one and it can.
fn abort(mounted: &Mounted, client: Option<Client>) -> Result<()> {
    let control = mounted.device.connection().join("abort");
    if let Err(error) = std::fs::write(&control, b"1") {
        // Without the control file system a forced unmount aborts as well.
        let flags = UnmountFlags::FORCE | UnmountFlags::NOFOLLOW;
        match rustix::mount::unmount(&mounted.path, flags) {
            Ok(()) | Err(rustix::io::Errno::BUSY) => {}
            Err(_) => return Err(Failure::system(&control, &error)),
        }
    }
    let closed = match client {
        Some(mut client) => client.ask_within(Request::Closed, Some(ABORT_TIMEOUT)).map(drop),
        None => Ok(()),
    };
    if mounts::all()?.contains(mounted) {
        without_daemon(&mounted.path, true)?;
    }
    closed
}

/// Unmounts where nobody answers: the daemon is gone, or is another user's.
fn without_daemon(path: &Path, lazy: bool) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return by_program(path, lazy);
    }
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    rustix::mount::unmount(path, flags | UnmountFlags::NOFOLLOW).map_err(|errno| match errno {
        rustix::io::Errno::BUSY => in_use(),
        errno => Failure::new(crate::failure::exit_of(errno.raw_os_error()), errno.to_string()),
    })
}

/// Files are open there.
pub(crate) fn in_use() -> Failure {
    Failure::new(Exit::InUse, "the mount is in use")
        .hint("Close what is open there (`fuser -vm DIR` lists it), or detach it with --lazy.")
}

fn by_program(path: &Path, lazy: bool) -> Result<()> {
    let mut command = Command::new("fusermount3");
    command.arg("-u").args(lazy.then_some("-z")).arg("--").arg(path).env("LC_ALL", "C");
    let output = command.output().map_err(|error| Failure::system(Path::new("fusermount3"), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("busy") { Err(in_use()) } else { Err(Failure::new(Exit::Other, said.trim())) }
}
