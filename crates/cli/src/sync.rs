//! `sync`: the kernel hands the daemon what it has cached of the mount, and
//! then the daemon makes it durable.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::args::SyncArgs;
use crate::control::{Client, Request, mounts, unanswered};
use crate::failure::{Exit, Failure, Result};

/// Runs `sync`.
///
/// The daemon has the kernel hand over page by page what is left after
/// `syncfs(2)`, which for a FUSE mount sends pages, waits for no answer
/// (`wait_sb_inodes` in Linux from 6.18 on passes such mounts over) and asks
/// nothing of the daemon. Asked again at the end, it tells of pages that the
/// daemon refused since it was asked first.
///
/// # Errors
/// Usage when nothing is mounted there, or what the store reported.
pub(crate) fn run(args: &SyncArgs) -> Result<Exit> {
    let mounted = mounts::at(&args.directory)?;
    let mut client = Client::connect(&mounted).ok_or_else(|| unanswered(&mounted))?;
    let failed = |errno: Errno| Failure::system(&mounted.path, &errno.into());
    let mount = opened(&mounted.path).map_err(failed)?;
    rustix::fs::syncfs(&mount).map_err(failed)?;
    client.ask(Request::Sync).map_err(|failure| failure.at(&mounted.path))?;
    rustix::fs::syncfs(&mount).map_err(failed)?;
    Ok(Exit::Done)
}

fn opened(mount_point: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(mount_point, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
