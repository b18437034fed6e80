//! The kernel's side of a FUSE mount: finding its connection, and aborting it.
//!
//! Aborting answers every waiting request with an error. It is the only way out for a process that
//! hangs in a request that its dead daemon will never answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command;
use crate::failure::Result;

const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// One mounted FUSE file system, named by its device minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection(u32);

impl Connection {
    /// The FUSE connection that is mounted exactly on `directory`, if there is one.
    ///
    /// Reads the mount table only: it never touches the mount, so it cannot hang.
    pub fn of(directory: &Path) -> Result<Option<Self>> {
        Ok(parse(&fs::read_to_string("/proc/self/mountinfo")?, directory))
    }

    /// Makes every request on the connection fail, now and from now on.
    ///
    /// # Errors
    /// The control file system is missing or the connection is not ours.
    pub fn abort(self) -> Result {
        let file = PathBuf::from(CONNECTIONS).join(self.0.to_string()).join("abort");
        if !file.exists() && fs::read_dir(CONNECTIONS).is_ok_and(|mut entries| entries.next().is_none()) {
            // The control file system is often not mounted in containers; only root can, and only once.
            let mut mount = Command::new("mount");
            mount.args(["-t", "fusectl", "fusectl", CONNECTIONS]);
            command::output(&mut mount, Duration::from_secs(10))?;
        }
        Ok(fs::write(file, "1")?)
    }
}

fn parse(mountinfo: &str, directory: &Path) -> Option<Connection> {
    mountinfo.lines().rev().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(2);
        let minor = fields.next()?.strip_prefix("0:")?.parse().ok()?;
        let point = fields.nth(1)?;
        let is_fuse = source.split(' ').next()?.starts_with("fuse");
        (is_fuse && Path::new(point) == directory).then_some(Connection(minor))
    })
}

/// Every mount point below `directory`, deepest first.
pub fn mounts_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let mut points: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from)
        .filter(|point| point.starts_with(directory) && point != directory)
        .collect();
    points.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        40 22 0:44 / /tmp/a rw,nosuid - fuse.gocryptfs store rw,user_id=0\n\
        41 22 0:45 / /tmp/b rw - tmpfs tmpfs rw\n\
        42 22 0:46 / /tmp/c rw shared:1 master:2 - fuse.strongroom store rw\n";

    #[test]
    fn finds_fuse_mounts_by_their_exact_directory() {
        assert_eq!(parse(TABLE, Path::new("/tmp/a")), Some(Connection(44)));
        assert_eq!(parse(TABLE, Path::new("/tmp/c")), Some(Connection(46)));
    }

    #[test]
    fn ignores_other_file_systems_and_other_directories() {
        assert_eq!(parse(TABLE, Path::new("/tmp/b")), None);
        assert_eq!(parse(TABLE, Path::new("/tmp")), None);
        assert_eq!(parse(TABLE, Path::new("/")), None);
    }
}
