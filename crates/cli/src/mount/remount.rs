//! `mount -o remount`: whether a mount may be written through, and what is
//! executed in it. The daemon goes on as it is: who reads beside a writer has
//! the vault open for reading, and cannot begin to write.

use std::ffi::OsString;
use std::path::Path;

use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};

use crate::control::{Answer, Client, Request, mounts, unanswered};
use crate::failure::{Exit, Failure, Result};

/// Whether one of the words is `remount`.
pub(super) fn is_asked_for(options: &[OsString]) -> bool {
    words(options).any(|word| word == "remount")
}

fn words(options: &[OsString]) -> impl Iterator<Item = &str> {
    options.iter().filter_map(|options| options.to_str()).flat_map(|options| options.split(','))
}

/// Gives the mount at `directory` the flags that the words say; those that
/// they do not name stay.
///
/// # Errors
/// Usage when no vault is mounted there, or one to be read is to be written;
/// in use while files are open for writing; not permitted to users.
pub(super) fn run(directory: &Path, options: &[OsString]) -> Result<Exit> {
    let mounted = mounts::at(directory)?;
    let failed = |errno: Errno| Failure::system(directory, &errno.into());
    let now = rustix::fs::statvfs(&mounted.path).map_err(failed)?.f_flag;
    let flags = flags(of_mount(now), options);
    if !flags.contains(MountFlags::RDONLY) && is_for_reading(&mounted)? {
        return Err(Failure::usage("it was mounted to be read, and its daemon cannot begin to write")
            .at(directory)
            .hint("Unmount it, and mount it without ro or --read-only."));
    }
    mount_remount(&mounted.path, flags, c"").map_err(|errno| match errno {
        Errno::BUSY => Failure::new(Exit::InUse, "files are open for writing").at(directory),
        errno => failed(errno),
    })?;
    Ok(Exit::Done)
}

fn is_for_reading(mounted: &mounts::Mounted) -> Result<bool> {
    let mut client = Client::connect(mounted).ok_or_else(|| unanswered(mounted))?;
    match client.ask(Request::Status)? {
        Answer::Status(status) => Ok(status.read_only),
        _ => Err(unanswered(mounted)),
    }
}

/// The flags that a mount has.
fn of_mount(now: StatVfsMountFlags) -> MountFlags {
    let pairs = [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    pairs.into_iter().filter(|(has, _)| now.contains(*has)).map(|(_, flag)| flag).collect()
}

fn flags(mut flags: MountFlags, options: &[OsString]) -> MountFlags {
    for word in words(options) {
        match word {
            "ro" => flags |= MountFlags::RDONLY,
            "rw" => flags -= MountFlags::RDONLY,
            "nosuid" => flags |= MountFlags::NOSUID,
            "suid" => flags -= MountFlags::NOSUID,
            "nodev" => flags |= MountFlags::NODEV,
            "dev" => flags -= MountFlags::NODEV,
            "noexec" => flags |= MountFlags::NOEXEC,
            "exec" => flags -= MountFlags::NOEXEC,
            "noatime" => flags |= MountFlags::NOATIME,
            "atime" => flags -= MountFlags::NOATIME,
            // What else a mount is given, it has been given.
            _ => {}
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_word_counts_and_what_is_not_named_stays() {
        let of = |words: &str| flags(MountFlags::NOSUID | MountFlags::NODEV, &[OsString::from(words)]);
        let both = MountFlags::NOSUID | MountFlags::NODEV;
        assert_eq!(of("rw,nosuid,relatime,user_id=0,remount,ro"), both | MountFlags::RDONLY);
        assert_eq!(of("remount,ro,rw,dev"), MountFlags::NOSUID);
        assert!(is_asked_for(&["rw".into(), "ro,remount".into()]) && !is_asked_for(&["remount_".into()]));
    }
}
