//! `sync`: the kernel hands the daemon what it has cached of the mount, and
//! then the daemon makes it durable.

use std::fs::read_to_string;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use crate::args::SyncArgs;
use crate::control::mounts::Mounted;
use crate::control::{Client, Request, mounts, unanswered};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

/// Longest wait for a moment in which the daemon has answered everything.
const ANSWERED_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(1);

/// Runs `sync`.
///
/// # Errors
/// Usage when nothing is mounted there, or what the store reported.
pub(crate) fn run(args: &SyncArgs, output: Output) -> Result<Exit> {
    let mounted = mounts::at(&args.directory)?;
    let mut client = Client::connect(&mounted).ok_or_else(|| unanswered(&mounted))?;
    write_back(&mounted.path)?;
    await_answers(&mounted, output)?;
    client.ask(Request::Sync).map_err(|failure| failure.at(&mounted.path))?;
    Ok(Exit::Done)
}

/// Waits for a moment in which the daemon has answered all that the kernel has
/// asked: `syncfs(2)` sends a FUSE mount's pages, and does not wait for the
/// answers (`wait_sb_inodes` in Linux from 6.18 on passes such mounts over).
/// Where the control file system is not mounted that cannot be asked, and it
/// says so.
fn await_answers(mounted: &Mounted, output: Output) -> Result<()> {
    let waiting = mounted.device.connection().join("waiting");
    let until = Instant::now() + ANSWERED_LIMIT;
    loop {
        match read_to_string(&waiting) {
            Ok(count) if count.trim() == "0" => return Ok(()),
            Ok(_) if Instant::now() < until => std::thread::sleep(POLL),
            Ok(_) => {
                let text = "the mount is so busy that nobody can tell whether all that was written has reached the daemon";
                return Err(Failure::new(Exit::Other, text).at(&mounted.path));
            }
            Err(error) => {
                output.warn(&format!(
                    "{}: {error}; so nobody can tell whether the kernel has handed over all that was written a \
                     moment ago. Use fsync, or mount the control file system: mount -t fusectl none \
                     /sys/fs/fuse/connections",
                    waiting.display()
                ));
                return Ok(());
            }
        }
    }
}

/// Has the kernel write back the mount's cached pages, which for a FUSE mount
/// asks nothing of the daemon beyond that.
fn write_back(mount_point: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(mount_point, flags, Mode::empty())
        .and_then(rustix::fs::syncfs)
        .map_err(|errno| Failure::system(mount_point, &errno.into()))
}
