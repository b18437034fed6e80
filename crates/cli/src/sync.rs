//! `sync`: the kernel hands the daemon what it has cached of the mount, and
//! then the daemon makes it durable.
//!
//! `syncfs(2)` sends a FUSE mount's pages and waits for no answer
//! (`wait_sb_inodes` in Linux from 6.18 on passes such mounts over), and pages
//! that wait in the kernel behind an `fsync` or a change of length are not
//! even counted as requests. `fdatasync(2)` waits for all of a file's. So each
//! file that is open for writing is synced: of others the kernel holds
//! nothing, since it writes back when a descriptor is closed. This process
//! does that and not the daemon, which could not be killed while it waits for
//! a mount that it serves itself.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::args::SyncArgs;
use crate::control::mounts::Mounted;
use crate::control::{Answer, Client, Request, mounts, unanswered};
use crate::failure::{Exit, Failure, Result};

/// How often the daemon is asked where files are that were renamed meanwhile.
const SEARCHES_MAX: usize = 20;

/// Runs `sync`.
///
/// # Errors
/// Usage when nothing is mounted there, or what the store reported.
pub(crate) fn run(args: &SyncArgs) -> Result<Exit> {
    let mounted = mounts::at(&args.directory)?;
    let failed = |errno: Errno| Failure::system(&mounted.path, &errno.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(&mounted.path, flags, Mode::empty()).map_err(failed)?;
    let asked = ask(&mounted, Request::OpenForWriting)?;
    // All at once; what is left, file by file.
    rustix::fs::syncfs(&root).map_err(failed)?;
    hand_over(&mounted, &root, asked)?;
    ask(&mounted, Request::Sync)?;
    Ok(Exit::Done)
}

fn ask(mounted: &Mounted, request: Request) -> Result<Answer> {
    let mut client = Client::connect(mounted).ok_or_else(|| unanswered(mounted))?;
    client.ask(request).map_err(|failure| failure.at(&mounted.path))
}

/// Syncs each of the files, wherever it is by now. One that is listed no more
/// was closed, or has lost its name.
fn hand_over(mounted: &Mounted, root: &OwnedFd, asked: Answer) -> Result<()> {
    let Answer::OpenForWriting { mut files } = asked else { return Ok(()) };
    let mut left: HashSet<u64> = files.iter().map(|file| file.inode).collect();
    for _ in 0..SEARCHES_MAX {
        for file in files.iter().filter(|file| left.contains(&file.inode)).cloned().collect::<Vec<_>>() {
            let path = Path::new(OsStr::from_bytes(&file.path));
            let synced = sync(root, path, file.inode);
            if synced.map_err(|errno| Failure::system(&mounted.path.join(path), &errno.into()))? {
                left.remove(&file.inode);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let Answer::OpenForWriting { files: now } = ask(mounted, Request::OpenForWriting)? else { break };
        let open: HashSet<u64> = now.iter().map(|file| file.inode).collect();
        left.retain(|inode| open.contains(inode));
        files = now;
    }
    if left.is_empty() {
        return Ok(());
    }
    let text =
        "files are renamed so often that nobody can tell whether all that was written has reached the daemon";
    Err(Failure::new(Exit::Other, text).at(&mounted.path))
}

/// Syncs the file of this path; false when it is there no more.
fn sync(root: &OwnedFd, path: &Path, inode: u64) -> rustix::io::Result<bool> {
    let open = |access| {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(root, path, flags, Mode::empty())
    };
    let is_it = |found: rustix::fs::Stat| found.st_ino == inode;
    // Nothing else is opened: it might be a device.
    match rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW).map(is_it) {
        Ok(true) => {}
        Ok(false) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
        Err(errno) => return Err(errno),
    }
    let opened = match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => open(OFlags::WRONLY),
        opened => opened,
    };
    match opened {
        Ok(file) if is_it(rustix::fs::fstat(&file)?) => rustix::fs::fdatasync(&file).map(|()| true),
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
        Err(errno) => Err(errno),
    }
}
