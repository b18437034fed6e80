//! The mounts of this program, from `/proc/self/mountinfo`. Nothing here
//! touches a mount itself: one whose daemon is gone or stuck would not answer.
//!
//! Source: `proc_pid_mountinfo(5)`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Client;
use crate::failure::{Exit, Failure, Result};
use crate::proc;

/// What is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A vault.
    Vault,
    /// A single file, which cannot be written to.
    File,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Vault => "a vault",
            Kind::File => "a single file",
        }
    }

    /// Of a type that the mount table shows.
    fn of(name: &[u8]) -> Option<Kind> {
        match name {
            b"fuse.strongroom" => Some(Kind::Vault),
            b"fuse.strongroom-file" => Some(Kind::File),
            _ => None,
        }
    }
}

/// The device number of a mounted file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct DeviceNumber {
    /// Its upper part.
    pub(crate) major: u32,
    /// Its lower part.
    pub(crate) minor: u32,
}

impl DeviceNumber {
    /// The directory of a FUSE connection's controls, named by the kernel's
    /// device number, of which 20 bits are the minor.
    pub(crate) fn connection(self) -> PathBuf {
        let number = u64::from(self.major) << 20 | u64::from(self.minor);
        Path::new("/sys/fs/fuse/connections").join(number.to_string())
    }
}

/// A mount of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// What it shows.
    pub(crate) kind: Kind,
    /// Its device number.
    pub(crate) device: DeviceNumber,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What the table shows as its source.
    pub(crate) source: String,
    /// Who mounted it.
    pub(crate) owner: u32,
    /// Nothing can be written through it.
    pub(crate) read_only: bool,
}

/// All mounts of vaults, in the table's order.
///
/// # Errors
/// When `/proc` is not there.
pub(crate) fn vaults() -> Result<Vec<Mounted>> {
    let all = all()?;
    Ok(all.into_iter().filter(|mounted| mounted.kind == Kind::Vault).collect())
}

/// All mounts of this program, in the table's order.
///
/// # Errors
/// When `/proc` is not there.
pub(crate) fn all() -> Result<Vec<Mounted>> {
    proc::need()?;
    let path = Path::new("/proc/self/mountinfo");
    let table = std::fs::read(path).map_err(|error| Failure::system(path, &error))?;
    Ok(table.split(|&byte| byte == b'\n').filter_map(parse).collect())
}

/// The topmost mount of a vault at `path`.
///
/// # Errors
/// Usage when there is none.
pub(crate) fn at(path: &Path) -> Result<Mounted> {
    match topmost(all()?, path)? {
        Some(mounted) if mounted.kind == Kind::Vault => Ok(mounted),
        Some(_) => Err(Failure::usage("a single file is mounted here, and no vault").at(path)),
        None => Err(Failure::usage("no vault is mounted here")
            .at(path)
            .hint("`strongroom status` lists the mounts.")),
    }
}

/// Nothing of this program is mounted at `path`.
///
/// # Errors
/// In use, with what is mounted there.
pub(crate) fn check_free(path: &Path) -> Result<()> {
    let Some(mounted) = all().ok().and_then(|all| topmost(all, path).ok().flatten()) else { return Ok(()) };
    let is_dead = mounted.kind == Kind::Vault && Client::connect(&mounted).is_none();
    let dead = if is_dead { ", and no daemon answers for it" } else { "" };
    let text = format!("{} is mounted here already ({}){dead}", mounted.kind.name(), mounted.source);
    Err(Failure::new(Exit::InUse, text)
        .at(path)
        .hint("Use another directory, or unmount it first: strongroom umount DIR"))
}

/// The topmost mount at `path`, of a vault or a single file.
///
/// # Errors
/// Usage when there is none.
pub(crate) fn any_at(path: &Path) -> Result<Mounted> {
    topmost(all()?, path)?.ok_or_else(|| {
        Failure::usage("no vault is mounted here, and no file")
            .at(path)
            .hint("`strongroom status` lists the mounts of vaults.")
    })
}

fn topmost(mounts: Vec<Mounted>, path: &Path) -> Result<Option<Mounted>> {
    let found = |candidate: &Path| mounts.iter().rev().find(|mounted| mounted.path == candidate).cloned();
    let absolute = std::path::absolute(path).map_err(|error| Failure::system(path, &error))?;
    // Without entering it first, for it may not answer; a symlink to it last.
    let beside = || {
        let above = absolute.parent()?.canonicalize().ok()?;
        found(&above.join(absolute.file_name()?))
    };
    let followed = || found(&absolute.canonicalize().ok()?);
    Ok(found(&absolute).or_else(beside).or_else(followed))
}

/// Where a table shows the file system `device`, in the table's order.
pub(crate) fn places(table: &[u8], device: DeviceNumber) -> Vec<PathBuf> {
    let number = format!("{}:{}", device.major, device.minor);
    let lines = table.split(|&byte| byte == b'\n');
    let places = lines.filter_map(|line| {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let is_it = fields.next()? == number.as_bytes();
        fields.nth(1).filter(|_| is_it).map(|field| OsString::from_vec(unescape(field)).into())
    });
    places.collect()
}

/// Whether a process's own mount table shows a mount of this program at
/// `path`; this process's table where the other may not be read.
pub(crate) fn shows(pid: u32, path: &Path) -> bool {
    let own = || std::fs::read("/proc/self/mountinfo");
    let table = std::fs::read(format!("/proc/{pid}/mountinfo")).or_else(|_| own()).unwrap_or_default();
    table.split(|&byte| byte == b'\n').filter_map(parse).any(|mounted| mounted.path == path)
}

fn parse(line: &[u8]) -> Option<Mounted> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    let (kind, source, options) = (fields.get(dash + 1)?, fields.get(dash + 2)?, fields.get(dash + 3)?);
    let kind = Kind::of(kind)?;
    let (major, minor) = std::str::from_utf8(fields.get(2)?).ok()?.split_once(':')?;
    let device = DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? };
    let owner = options.split(|&byte| byte == b',').find_map(|word| word.strip_prefix(b"user_id="));
    Some(Mounted {
        kind,
        device,
        path: OsString::from_vec(unescape(fields.get(4)?)).into(),
        source: String::from_utf8_lossy(&unescape(source)).into_owned(),
        owner: std::str::from_utf8(owner?).ok()?.parse().ok()?,
        read_only: fields.get(5)?.split(|&byte| byte == b',').any(|word| word == b"ro"),
    })
}

/// Undoes the octal escapes of blanks, line ends and backslashes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if first == b'\\' => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => bytes.push(first),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_this_program_are_told_from_others() {
        let line = b"30 1 0:40 / /a\\040b rw,nosuid shared:7 - fuse.strongroom /my\\040vault rw,user_id=1000,group_id=5";
        let mounted = Mounted {
            kind: Kind::Vault,
            device: DeviceNumber { major: 0, minor: 40 },
            path: "/a b".into(),
            source: "/my vault".to_owned(),
            owner: 1000,
            read_only: false,
        };
        assert_eq!(parse(line), Some(mounted));
        let line = b"30 1 0:40 / /m ro,nosuid - fuse.strongroom /v rw,user_id=0";
        assert!(parse(line).is_some_and(|mounted| mounted.read_only));
        assert_eq!(parse(b"22 1 0:21 / /proc rw shared:5 - proc proc rw"), None);
        let line = b"30 1 0:40 / /m ro - fuse.strongroom-file /f.age ro,user_id=0";
        assert!(parse(line).is_some_and(|mounted| mounted.kind == Kind::File));
        assert_eq!(parse(b"31 1 0:41 / /m rw - fuse.sshfs host: rw,user_id=0"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn every_place_of_a_file_system_is_found() {
        let table = b"22 1 0:21 / /proc rw - proc proc rw\n30 1 0:40 / /a\\040b rw - fuse.strongroom v rw\n\
            31 1 0:40 / /m rw shared:1 - fuse.strongroom v rw\nbroken\n";
        let device = |minor| DeviceNumber { major: 0, minor };
        assert_eq!(places(table, device(40)), [PathBuf::from("/a b"), PathBuf::from("/m")]);
        assert!(places(table, device(4)).is_empty());
        assert!(!shows(std::process::id(), Path::new("/proc")), "no mount of this program");
    }

    #[test]
    fn what_is_not_mounted_is_wrong_usage() {
        let failure = at(Path::new("/")).expect_err("no vault is mounted at the root");
        assert_eq!(failure.exit(), crate::failure::Exit::Usage);
    }
}
