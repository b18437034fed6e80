//! `sync`: the kernel hands the daemon what it has cached of the mount, and
//! then the daemon makes it durable.

use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::args::SyncArgs;
use crate::control::{Client, Request, mounts, unanswered};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

/// Runs `sync`.
///
/// # Errors
/// Usage when nothing is mounted there, or what the store reported.
pub(crate) fn run(args: &SyncArgs, _output: Output) -> Result<Exit> {
    let mounted = mounts::at(&args.directory)?;
    let mut client = Client::connect(&mounted).ok_or_else(|| unanswered(&mounted))?;
    write_back(&mounted.path)?;
    client.ask(Request::Sync).map_err(|failure| failure.at(&mounted.path))?;
    Ok(Exit::Done)
}

/// Has the kernel write back the mount's cached pages, which for a FUSE mount
/// asks nothing of the daemon beyond that.
fn write_back(mount_point: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(mount_point, flags, Mode::empty())
        .and_then(rustix::fs::syncfs)
        .map_err(|errno| Failure::system(mount_point, &errno.into()))
}
