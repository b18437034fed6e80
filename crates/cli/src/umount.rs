//! `umount`: unmounts, and waits until the daemon has closed the vault and is
//! gone, so that success means that everything is stored and nothing is held.
//! What it waits for, and for how long, `docs/lifecycle.md` says.

mod helper;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::mount::UnmountFlags;

use crate::args::UmountArgs;
use crate::control::mounts::{self, Mounted};
use crate::control::{self, Answer, Client, Request, holders};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

pub(crate) use self::helper::run as helper;

/// How long an aborted daemon has to close the vault before it is left alone.
const ABORT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a process may take to end whose vault is closed.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs `umount`.
///
/// # Errors
/// Usage when nothing is mounted there, in use, or what went wrong with
/// closing the vault. Without a daemon the mount goes, and that is a failure:
/// whatever was not synced is lost. With `--lazy` and `--abort`, which promise
/// nothing, it is a warning.
pub(crate) fn run(args: &UmountArgs, output: Output) -> Result<Exit> {
    let mounted = mounts::any_at(&args.directory)
        .or_else(|failure| control::detached(&args.directory).ok_or(failure))?;
    let client = Client::connect(&mounted);
    let is_lost = client.is_none() && !mounted.read_only;
    let done = match client {
        client if args.abort => abort(&mounted, client),
        Some(client) => orderly(&mounted, client, args.lazy, output),
        None => without_daemon(&mounted.path, args.lazy),
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
/// What is left, if the store is still there: that may not be looked at here, since one that does not answer would
/// hold this up.
const RECOVERED: &str = "While the store is there, what was synced is safe; what was not may be lost. The next mount \
                         recovers what it can. The system's log may say why the daemon ended.";

/// Has the daemon unmount, and waits for its end.
fn orderly(mounted: &Mounted, mut client: Client, lazy: bool, output: Output) -> Result<()> {
    let answer = client.ask(Request::Unmount { lazy })?;
    if matches!(answer, Answer::Held) {
        let told = holders::told(&holders::of(mounted.device), &mounted.path);
        return Err(Failure::new(
            Exit::InUse,
            "unmounted here, and something still holds it: the vault is open",
        )
        .hint(told));
    }
    // Until then its descriptors keep the store's file system busy.
    if !lazy && !client.ended_within(END_TIMEOUT) {
        output.warn("the vault is closed, and the daemon has not ended yet");
    }
    Ok(())
}

/// Ends the connection in the kernel, which frees whoever waits for it. The
/// daemon then closes the vault, if there is one and it can.
fn abort(mounted: &Mounted, client: Option<Client>) -> Result<()> {
    let control = mounted.device.connection().join("abort");
    let request = match std::fs::write(&control, b"1") {
        Ok(()) => Request::Closed,
        // Without the control file system a forced unmount aborts as well, and
        // so does the daemon's end.
        Err(error) => {
            let flags = UnmountFlags::FORCE | UnmountFlags::NOFOLLOW;
            match rustix::mount::unmount(&mounted.path, flags) {
                _ if client.is_some() => {}
                Ok(()) | Err(rustix::io::Errno::BUSY) => {}
                Err(_) => return Err(Failure::system(&control, &error)),
            }
            Request::Abort
        }
    };
    let closed = match client {
        Some(mut client) => {
            let answer = client.ask_within(request, Some(ABORT_TIMEOUT));
            answer.map(|_| client.ended_within(END_TIMEOUT)).map(drop)
        }
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
