//! `sync`: the kernel hands the daemon what it has cached of the mount, and
//! then the daemon makes it durable.
//!
//! `syncfs(2)` sends a FUSE mount's pages and waits for no answer
//! (`wait_sb_inodes` in Linux from 6.18 on passes such mounts over), and pages
//! that wait in the kernel behind an `fsync` or a change of length are not
//! even counted as requests. `fdatasync(2)` waits for all of a file's. So each
//! file that is open for writing is synced: of others the kernel holds
//! nothing, since it writes back when a descriptor is closed.
//!
//! This process does that and not the daemon, which could not be killed while
//! it waits for a mount that it serves itself. A file that this process does
//! not find or may not open is an error by name.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::args::SyncArgs;
use crate::control::mounts::Mounted;
use crate::control::{Answer, Client, OpenFile, Request, mounts, unanswered};
use crate::failure::{Exit, Failure, Result};

/// How often the daemon is asked where files are that were renamed meanwhile.
const SEARCHES_MAX: usize = 20;

/// Runs `sync`.
///
/// # Errors
/// Usage when nothing is mounted there, or what the store reported; all that
/// can be synced is.
pub(crate) fn run(args: &SyncArgs) -> Result<Exit> {
    let mounted = mounts::at(&args.directory)?;
    // First: the mount may be one that does not answer.
    let answer = ask(&mounted, Request::OpenForWriting)?;
    let handed_over = match answer {
        Answer::OpenForWriting { files } => hand_over(&mounted, files),
        _ => Err(Failure::new(Exit::Other, "the daemon's answer is not understood").at(&mounted.path)),
    };
    ask(&mounted, Request::Sync)?;
    handed_over.map(|()| Exit::Done)
}

fn ask(mounted: &Mounted, request: Request) -> Result<Answer> {
    let mut client = Client::connect(mounted).ok_or_else(|| unanswered(mounted))?;
    client.ask(request).map_err(|failure| failure.at(&mounted.path))
}

/// Has the kernel hand over what it holds of the files; the first failure, when
/// all has been tried.
fn hand_over(mounted: &Mounted, files: Vec<OpenFile>) -> Result<()> {
    let failed = |path: &Path, errno: Errno| Failure::system(&mounted.path.join(path), &errno.into());
    let of_mount = |errno| failed(Path::new(""), errno);
    let root = rustix::fs::open(&mounted.path, DIRECTORY, Mode::empty()).map_err(of_mount)?;
    // All at once; what is left, file by file.
    let mut outcome = rustix::fs::syncfs(&root).map_err(of_mount);
    let mut left = files;
    for _ in 0..SEARCHES_MAX {
        let mut missing = Vec::new();
        for file in left {
            match opened(&root, path(&file), file.inode) {
                Some(opened) => {
                    let synced = rustix::fs::fdatasync(&opened);
                    outcome = outcome.and(synced.map_err(|errno| failed(path(&file), errno)));
                }
                None => missing.push(file),
            }
        }
        left = elsewhere(mounted, missing)?;
        if left.is_empty() {
            break;
        }
    }
    if let Some(file) = left.first() {
        outcome = outcome.and(Err(not_found(mounted, file)));
    }
    // Tells of pages that the daemon refused meanwhile, whoever was told before.
    outcome.and(rustix::fs::syncfs(&root).map_err(of_mount))
}

fn path(file: &OpenFile) -> &Path {
    Path::new(OsStr::from_bytes(&file.path))
}

/// Where the daemon says that these files are by now: those of them that are
/// open for writing still, and have a name.
fn elsewhere(mounted: &Mounted, files: Vec<OpenFile>) -> Result<Vec<OpenFile>> {
    if files.is_empty() {
        return Ok(files);
    }
    let Answer::OpenForWriting { files: mut now } = ask(mounted, Request::OpenForWriting)? else {
        return Ok(files);
    };
    now.retain(|file| files.iter().any(|missed| missed.node == file.node));
    Ok(now)
}

fn not_found(mounted: &Mounted, file: &OpenFile) -> Failure {
    let text = "a file that is open for writing cannot be found or opened there, so nobody can tell whether all that \
                was written to it has reached the daemon";
    Failure::new(Exit::Other, text)
        .at(&mounted.path.join(path(file)))
        .hint("Everything else is durable. Use fsync in the program that writes it, or close it there.")
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Nothing is waited for.
const QUIETLY: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The file of this path and inode. It may be elsewhere by now, hidden by
/// another mount, or not this user's to open.
fn opened(root: &OwnedFd, path: &Path, inode: u64) -> Option<OwnedFd> {
    let device = rustix::fs::fstat(root).ok()?.st_dev;
    let is_it = |found: Stat| (found.st_dev, found.st_ino) == (device, inode);
    // Before it is opened: what else stands there may be a device.
    rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW).ok().filter(|found| is_it(*found))?;
    let open = |access: OFlags| rustix::fs::openat(root, path, access.union(QUIETLY), Mode::empty());
    let file = open(OFlags::RDONLY).or_else(|_| open(OFlags::WRONLY)).ok()?;
    rustix::fs::fstat(&file).is_ok_and(is_it).then_some(file)
}
