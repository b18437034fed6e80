//! Open files of stores that other machines write to.
//!
//! Such stores promise what is new to who opens a file: NFS and SMB by their
//! protocols, JuiceFS and others that a program serves in fact. A file that
//! stays open may be read from what was fetched before: JuiceFS keeps buffers
//! for each open file, and never drops those that are asked for again and again.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;

use super::node::attributes_of;
use super::{error, open_quietly, proc_link};
use crate::{Error, Result, Timestamp, low};

/// `f_type` of file systems that other machines may write to (`linux/magic.h`, and what statfs(2) names besides).
const DISTANT: [u64; 13] = [
    0x6573_5546, // FUSE
    0x6969,      // NFS
    0xfe53_4d42, // SMB 2
    0xff53_4d42, // CIFS
    0x00c3_6400, // CephFS
    0x0102_1997, // 9P
    0x5346_414f, // AFS
    0x6b41_4653, // AFS, the kernel's own client
    0x0bd0_0bd0, // Lustre
    0x4750_4653, // GPFS
    0x0116_1970, // GFS2
    0x7461_636f, // OCFS2
    0x786f_4256, // folders of VirtualBox
];

/// A store gives a file the time at the beginning of a write, and counts time
/// in ticks: a younger one may stay what it is although more is written.
const SETTLED: Duration = Duration::from_secs(2);

/// Whether other machines may write to the file system on which `fd` lies.
pub(super) fn is_distant(fd: impl AsFd) -> rustix::io::Result<bool> {
    let kind = u64::try_from(rustix::fs::fstatfs(fd)?.f_type);
    Ok(kind.is_ok_and(|kind| DISTANT.contains(&kind)))
}

/// What was known of a file when it was opened: `None`, or what any change
/// makes another.
#[derive(Debug, Default)]
pub(super) struct Refreshed(Mutex<Option<(Timestamp, u64)>>);

impl Refreshed {
    /// Lets `fd`, which is open to be read, read what is there now: by a file
    /// that is opened anew, unless nothing has changed.
    ///
    /// # Errors
    /// What the system reports.
    pub(super) fn renew(&self, fd: &OwnedFd) -> Result<()> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let anew = match open_quietly(rustix::fs::CWD, &proc_link(fd.as_fd()), OFlags::RDONLY) {
            Ok(anew) => anew,
            Err(Errno::NOENT | Errno::STALE) => return Ok(()),
            Err(errno) => return Err(error("openat")(errno)),
        };
        // Asked of the file that was just opened, and so not of a cache.
        let found = attributes_of(&anew)?;
        let now = has_settled(found.modified).then_some((found.modified, found.len));
        if now.is_none() || now != *known {
            low::replace(fd, &anew)
                .map_err(|failed| Error::new(failed.raw_os_error().unwrap_or_default(), "dup3"))?;
            // Whoever was still reading by the old one may have filled pages with what that gave.
            let _ = rustix::fs::fadvise(fd, 0, None, Advice::DontNeed);
            *known = now;
        }
        Ok(())
    }
}

fn has_settled(modified: Timestamp) -> bool {
    let modified = i128::from(modified.seconds) * 1_000_000_000 + i128::from(modified.nanoseconds);
    let since = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    i128::try_from(since).is_ok_and(|since| since - modified > SETTLED.as_nanos() as i128)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use rustix::fs::SeekFrom;

    use super::*;

    #[test]
    fn a_file_is_opened_anew_unless_it_has_been_the_same_for_a_while() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let fd = OwnedFd::from(File::open(file.path()).expect("open"));
        let refreshed = Refreshed::default();
        // An open file that is another one begins at its beginning.
        let is_another = || {
            rustix::fs::seek(&fd, SeekFrom::Start(7)).expect("a position");
            refreshed.renew(&fd).expect("renewed");
            rustix::fs::tell(&fd).expect("a position") == 0
        };
        assert!(is_another() && is_another(), "it has just been written");
        let change = |age: u64| {
            let time = SystemTime::now() - Duration::from_secs(age);
            file.as_file().set_modified(time).expect("a time");
        };
        change(60);
        assert!(is_another() && !is_another());
        change(50);
        assert!(is_another() && !is_another());
        let path = file.into_temp_path();
        path.close().expect("removed");
        refreshed.renew(&fd).expect("what is removed stays as it is");
    }
}
