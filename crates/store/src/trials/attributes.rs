//! Extended attributes, permission bits, owners and times.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Gid, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::{Answer, Failed, Place, at, kept, lost, make, refused};

/// An attribute that no vault uses.
const XATTR: &str = "user.strongroom.trial";
/// An owner and a group that are not this process's, as a rule.
const STRANGERS: (u32, u32) = (12_345, 23_456);
/// A time with digits down to the nanosecond.
const TIME: (i64, i64) = (1_234_567_891, 123_456_789);

pub(super) fn xattrs(place: &Place<'_>) -> Answer {
    let [file, directory] = ["file", "directory"].map(|name| place.at(name));
    make(&file, b"text")?;
    fs::create_dir(&directory).map_err(at("mkdir"))?;
    let value = [7; 1000];
    for path in [&file, &directory] {
        match rustix::fs::lsetxattr(path, XATTR, &value, XattrFlags::CREATE) {
            Ok(()) => {}
            Err(Errno::IO) => return lost("setting one is an I/O error"),
            Err(errno) => return refused("setting one", errno),
        }
    }
    for path in [&file, &directory] {
        let mut read = [0; 2000];
        let len = rustix::fs::lgetxattr(path, XATTR, &mut read).map_err(at("reading one"))?;
        let mut names = [0; 2000];
        let names_len = rustix::fs::llistxattr(path, &mut names).map_err(at("listing them"))?;
        let is_listed = names[..names_len].split(|byte| *byte == 0).any(|name| name == XATTR.as_bytes());
        if read[..len] != value || !is_listed {
            return lost("one that was set is not found again");
        }
        rustix::fs::lremovexattr(path, XATTR).map_err(at("removing one"))?;
    }
    kept("of files and directories")
}

pub(super) fn modes(place: &Place<'_>) -> Answer {
    let [file, directory] = ["file", "directory"].map(|name| place.at(name));
    make(&file, b"text")?;
    fs::create_dir(&directory).map_err(at("mkdir"))?;
    for (path, mode) in [(&file, 0o640), (&directory, 0o750), (&file, 0o600), (&directory, 0o700)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(at("chmod"))?;
        let found = fs::metadata(path).map_err(at("stat"))?.mode() & 0o7777;
        if found != mode {
            return lost(format!("{mode:o} becomes {found:o}"));
        }
    }
    kept("as they are set")
}

pub(super) fn owners(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    make(&path, b"text")?;
    let (uid, gid) = match rustix::process::geteuid().is_root() {
        true => STRANGERS,
        false => (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
    };
    let set = rustix::fs::chownat(
        CWD,
        &path,
        Some(Uid::from_raw(uid)),
        Some(Gid::from_raw(gid)),
        AtFlags::SYMLINK_NOFOLLOW,
    );
    match set {
        Ok(()) => {}
        Err(Errno::PERM) => return lost("files cannot be given to others"),
        Err(errno) => return Err(at("chown")(errno)),
    }
    let found = fs::metadata(&path).map_err(at("stat"))?;
    match (found.uid(), found.gid()) == (uid, gid) {
        true => kept("as they are set"),
        false => lost(format!("{uid}:{gid} becomes {}:{}", found.uid(), found.gid())),
    }
}

pub(super) fn times(place: &Place<'_>) -> Answer {
    let path = place.at("file");
    let (seconds, nanoseconds) = set_time(&path, TIME)?;
    if seconds.abs_diff(TIME.0) > 1 {
        return lost("a time that was set is not found again");
    }
    let exact = [(1, "1 ns"), (100, "100 ns"), (1_000, "1 µs"), (1_000_000, "1 ms"), (1_000_000_000, "1 s")];
    let rounded = |unit: i64| (TIME.0, TIME.1 / unit * unit) == (seconds, nanoseconds);
    match exact.into_iter().find(|(unit, _)| rounded(*unit)) {
        Some((unit, text)) if unit <= 1_000 => kept(format!("to {text}")),
        Some((_, text)) => lost(format!("to {text}")),
        None => lost("to 2 s or less well"),
    }
}

pub(super) fn old_times(place: &Place<'_>) -> Answer {
    let (seconds, _) = set_time(&place.at("file"), (-86_400, 0))?;
    match seconds {
        -86_400 => kept("times before 1970 are kept"),
        _ => lost("a time before 1970 becomes another"),
    }
}

/// Sets the time of a new file and tells what it is when it is looked at anew.
fn set_time(path: &Path, (seconds, nanoseconds): (i64, i64)) -> Result<(i64, i64), Failed> {
    make(path, b"text")?;
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    let file = File::options().write(true).open(path).map_err(at("opening"))?;
    rustix::fs::futimens(&file, &times).map_err(at("setting a time"))?;
    file.sync_all().map_err(at("fsync"))?;
    drop(file);
    let found = fs::symlink_metadata(path).map_err(at("stat"))?;
    Ok((found.mtime(), found.mtime_nsec()))
}
