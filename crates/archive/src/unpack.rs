//! Unpacking into a directory, and never outside of it.
//!
//! Every part of a name is opened from the directory on without following
//! symlinks, so that no entry goes through one that an earlier entry made.
//! Nothing that is there is written to: what an entry replaces is removed
//! first. Modes and times of directories are set at the end, the deepest
//! first, since they may forbid what is still to come.

use std::ffi::OsStr;
use std::fs::{File, FileTimes};
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RawMode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
    chownat, fchmod, linkat, makedev, mkdirat, mknodat, openat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use tar::EntryType;

use crate::Error;
use crate::pack::XATTR;
use crate::read::{Entries, Head};

/// What was unpacked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Entries.
    pub entries: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// What could not be kept of some entries, such as an owner or an
    /// attribute that only root may set; the first hundred.
    pub remarks: Vec<String>,
}

/// Unpacks an archive into a directory that exists, as whoever calls it may:
/// owners, devices and attributes that only root can set are remarks for
/// others.
///
/// # Errors
/// [`Error::Outside`] for an entry that would land elsewhere,
/// [`Error::Archive`], [`Error::System`]. What was unpacked before stays.
pub fn unpack(from: impl Read, directory: &Path) -> Result<Unpacked, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(CWD, directory, flags, Mode::empty()).map_err(Error::at(directory))?;
    let mut unpacking = Unpacking {
        created: created(&top).map_err(Error::at(directory))?,
        top,
        is_root: rustix::process::geteuid().is_root(),
        parent: None,
        directories: Vec::new(),
        unpacked: Unpacked::default(),
        buffer: vec![0; AT_ONCE],
    };
    let mut entries = Entries::new(BufReader::with_capacity(AT_ONCE, from));
    while let Some(head) = entries.next()? {
        unpacking.entry(&head, &mut entries)?;
    }
    unpacking.finish()
}

/// Bytes that are read and written at once.
const AT_ONCE: usize = 128 << 10;

struct Unpacking {
    top: OwnedFd,
    is_root: bool,
    /// Owner and group of what is made here; none where that cannot be told.
    created: Option<(u32, u32)>,
    /// The directory of the last entry: the next is in it, as a rule.
    parent: Option<(PathBuf, OwnedFd)>,
    directories: Vec<(PathBuf, Facts)>,
    unpacked: Unpacked,
    buffer: Vec<u8>,
}

/// Owner and group of what this process makes in a directory. The group may be
/// the directory's, which is the same here.
fn created(top: &OwnedFd) -> Result<Option<(u32, u32)>, Errno> {
    let stat = rustix::fs::fstat(top)?;
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Ok(Some(own).filter(|own| *own == (stat.st_uid, stat.st_gid)))
}

/// What an entry says beside its content.
struct Facts {
    mode: Mode,
    owner: (u32, u32),
    modified: Timespec,
    xattrs: Vec<(String, Vec<u8>)>,
}

impl Facts {
    fn of(head: &Head) -> io::Result<Facts> {
        let mut xattrs = Vec::new();
        let mut modified = None;
        for (key, value) in &head.records {
            let Ok(key) = std::str::from_utf8(key) else { continue };
            if let Some(name) = key.strip_prefix(XATTR) {
                xattrs.push((name.to_owned(), value.clone()));
            } else if key == "mtime" {
                modified = std::str::from_utf8(value).ok().and_then(time);
            }
        }
        let header = &head.header;
        let seconds = i64::try_from(header.mtime()?).unwrap_or(0);
        let number = |of: io::Result<u64>| u32::try_from(of.unwrap_or(0)).unwrap_or(0);
        Ok(Facts {
            mode: Mode::from_raw_mode((header.mode()? & 0o7777) as RawMode),
            owner: (number(header.uid()), number(header.gid())),
            modified: modified.unwrap_or(Timespec { tv_sec: seconds, tv_nsec: 0 }),
            xattrs,
        })
    }

    fn times(&self) -> Timestamps {
        let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        Timestamps { last_access: omitted, last_modification: self.modified }
    }

    /// The mode that somebody else's file may have without its owner.
    fn mode_for(&self, owner_kept: bool) -> Mode {
        let set_ids = Mode::SUID | Mode::SGID;
        if owner_kept { self.mode } else { self.mode - set_ids }
    }
}

/// Seconds with a fraction, as PAX has them.
fn time(text: &str) -> Option<Timespec> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = seconds.parse().ok()?;
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = format!("{fraction:0<9}");
    let nanoseconds: i64 = digits.get(..9)?.parse().ok()?;
    Some(Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ })
}

/// The parts of an entry's name, if it stays below the directory.
fn parts(path: &Path) -> Result<PathBuf, Error> {
    let mut safe = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => safe.push(part),
            Component::CurDir => {}
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => {
                return Err(Error::Outside(path.to_owned()));
            }
        }
    }
    Ok(safe)
}

impl Unpacking {
    fn entry(&mut self, head: &Head, content: &mut impl Read) -> Result<(), Error> {
        let named = PathBuf::from(OsStr::from_bytes(&head.name));
        let path = parts(&named)?;
        let facts = Facts::of(head).map_err(Error::Archive)?;
        let kind = head.header.entry_type();
        let Some(name) = path.file_name().map(OsStr::to_owned) else {
            // The directory itself, as `tar -C DIR -c .` has it.
            return if kind.is_dir() { Ok(()) } else { Err(Error::Outside(named)) };
        };
        let parent = self.parent_of(&path)?;
        match kind {
            EntryType::Directory => self.directory(&parent, &name, path.clone(), facts)?,
            EntryType::Symlink => self.symlink(&parent, &name, &path, head, &facts)?,
            EntryType::Link => self.hard_link(&parent, &name, &path, head)?,
            EntryType::Fifo | EntryType::Char | EntryType::Block => {
                self.special(&parent, &name, &path, head, &facts)?;
            }
            EntryType::Regular | EntryType::Continuous => {
                let copied = self.file(&parent, &name, &path, content, &facts)?;
                if copied != head.len {
                    return Err(Error::Archive(io::ErrorKind::UnexpectedEof.into()));
                }
            }
            _ => self.remark(&path, "an entry of an unknown kind was left out"),
        }
        self.parent = Some((path.parent().map(Path::to_owned).unwrap_or_default(), parent));
        self.unpacked.entries += 1;
        Ok(())
    }

    fn remark(&mut self, path: &Path, text: &str) {
        if self.unpacked.remarks.len() < 100 {
            self.unpacked.remarks.push(format!("{}: {text}", path.display()));
        }
    }

    /// The directory that a path stands in, made where it is missing.
    fn parent_of(&mut self, path: &Path) -> Result<OwnedFd, Error> {
        let wanted = path.parent().unwrap_or(Path::new(""));
        if let Some((_, opened)) = self.parent.take().filter(|(at, _)| at == wanted) {
            return Ok(opened);
        }
        let mut at = self.top.try_clone().map_err(|error| Error::System(path.to_owned(), error))?;
        let mut done = PathBuf::new();
        for part in wanted.components() {
            let Component::Normal(part) = part else { return Err(Error::Outside(path.to_owned())) };
            done.push(part);
            at = match below(&at, part) {
                Err(Errno::NOENT) => {
                    mkdirat(&at, part, Mode::RWXU).map_err(Error::at(&*done))?;
                    below(&at, part)
                }
                opened => opened,
            }
            .map_err(|errno| outside(errno, path))?;
        }
        Ok(at)
    }

    fn directory(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: PathBuf,
        facts: Facts,
    ) -> Result<(), Error> {
        match mkdirat(parent, name, Mode::RWXU) {
            Ok(()) => {}
            Err(Errno::EXIST) if below(parent, name).is_ok() => {}
            Err(Errno::EXIST) => {
                remove(parent, name, &path)?;
                mkdirat(parent, name, Mode::RWXU).map_err(Error::at(&*path))?;
            }
            Err(errno) => return Err(Error::at(path)(errno)),
        }
        self.directories.push((path, facts));
        Ok(())
    }

    fn file(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
        content: &mut impl Read,
        facts: &Facts,
    ) -> Result<u64, Error> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = || openat(parent, name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(replacing(parent, name, path, create)?);
        let len = copy(content, &mut file, path, &mut self.buffer)?;
        self.unpacked.bytes += len;
        self.settle(&file, path, facts)?;
        let times = FileTimes::new().set_modified(system_time(&facts.modified));
        file.set_times(times).map_err(|error| Error::System(path.to_owned(), error))?;
        Ok(len)
    }

    /// Owner, attributes and mode, in this order: an owner's change takes
    /// set-user-id bits away.
    fn settle(&mut self, file: &impl AsFd, path: &Path, facts: &Facts) -> Result<(), Error> {
        let kept = self.is_root && (self.created == Some(facts.owner) || self.own(file, path, facts));
        for (name, value) in &facts.xattrs {
            if rustix::fs::fsetxattr(file, name.as_str(), value, XattrFlags::empty()).is_err() {
                self.remark(path, &format!("its attribute {name} could not be set"));
            }
        }
        fchmod(file, facts.mode_for(kept)).map_err(Error::at(path))
    }

    fn own(&mut self, file: &impl AsFd, path: &Path, facts: &Facts) -> bool {
        let (uid, gid) = facts.owner;
        let owned = rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        if owned.is_err() {
            self.remark(path, "its owner could not be set");
        }
        owned.is_ok()
    }

    fn symlink(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
        head: &Head,
        facts: &Facts,
    ) -> Result<(), Error> {
        let target = target_of(head)?;
        // It may point anywhere: nothing here follows it.
        replacing(parent, name, path, || symlinkat(&target, parent, name))?;
        self.settle_name(parent, name, path, facts)
    }

    /// Owner and time of what is not opened.
    fn settle_name(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
        facts: &Facts,
    ) -> Result<(), Error> {
        if self.is_root {
            let (uid, gid) = facts.owner;
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            if chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                self.remark(path, "its owner could not be set");
            }
        }
        utimensat(parent, name, &facts.times(), AtFlags::SYMLINK_NOFOLLOW).map_err(Error::at(path))
    }

    fn hard_link(&mut self, parent: &OwnedFd, name: &OsStr, path: &Path, head: &Head) -> Result<(), Error> {
        let target = parts(&target_of(head)?)?;
        let Some(target_name) = target.file_name() else { return Err(Error::Outside(path.to_owned())) };
        let mut from = self.top.try_clone().map_err(|error| Error::System(path.to_owned(), error))?;
        for part in target.parent().unwrap_or(Path::new("")) {
            from = below(&from, part).map_err(|errno| outside(errno, &target))?;
        }
        let link = || linkat(&from, target_name, parent, name, AtFlags::empty());
        match link() {
            Err(Errno::EXIST) if target != path => {
                remove(parent, name, path)?;
                link().map_err(Error::at(path))
            }
            Err(Errno::EXIST) => Ok(()),
            linked => linked.map_err(Error::at(path)),
        }
    }

    fn special(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
        head: &Head,
        facts: &Facts,
    ) -> Result<(), Error> {
        let header = &head.header;
        let kind = match header.entry_type() {
            EntryType::Char => FileType::CharacterDevice,
            EntryType::Block => FileType::BlockDevice,
            _ => FileType::Fifo,
        };
        let number = |of: io::Result<Option<u32>>| of.ok().flatten().unwrap_or(0);
        let device = makedev(number(header.device_major()), number(header.device_minor()));
        let mode = facts.mode_for(self.is_root);
        let make = || match mknodat(parent, name, kind, mode, device) {
            Err(Errno::PERM) if kind != FileType::Fifo => Ok(false),
            made => made.map(|()| true),
        };
        if replacing(parent, name, path, make)? {
            return self.settle_name(parent, name, path, facts);
        }
        self.remark(path, "only root can make a device");
        Ok(())
    }

    fn finish(mut self) -> Result<Unpacked, Error> {
        self.parent = None;
        let directories = std::mem::take(&mut self.directories);
        for (path, facts) in directories.into_iter().rev() {
            let mut at = self.top.try_clone().map_err(|error| Error::System(path.clone(), error))?;
            for part in &path {
                at = below(&at, part).map_err(|errno| outside(errno, &path))?;
            }
            self.settle(&at, &path, &facts)?;
            rustix::fs::futimens(&at, &facts.times()).map_err(Error::at(&*path))?;
        }
        Ok(self.unpacked)
    }
}

/// Opens a directory in a directory, and follows no symlink.
fn below(at: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// What stands in the way of a name is no directory: a symlink, as a rule.
fn outside(errno: Errno, path: &Path) -> Error {
    match errno {
        Errno::LOOP | Errno::NOTDIR => Error::Outside(path.to_owned()),
        errno => Error::at(path)(errno),
    }
}

/// Makes something under a name, and removes what has that.
fn replacing<T>(
    parent: &OwnedFd,
    name: &OsStr,
    path: &Path,
    make: impl Fn() -> Result<T, Errno>,
) -> Result<T, Error> {
    let made = match make() {
        Err(Errno::EXIST) => {
            remove(parent, name, path)?;
            make()
        }
        made => made,
    };
    made.map_err(Error::at(path))
}

/// Removes what is no directory, so that another can have its name.
fn remove(parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), Error> {
    unlinkat(parent, name, AtFlags::empty()).map_err(Error::at(path))
}

fn target_of(head: &Head) -> Result<PathBuf, Error> {
    let wrong = || Error::Archive(io::Error::new(io::ErrorKind::InvalidData, "a link without its target"));
    Ok(PathBuf::from(OsStr::from_bytes(head.target.as_ref().ok_or_else(wrong)?)))
}

fn copy(from: &mut impl Read, to: &mut File, path: &Path, buffer: &mut [u8]) -> Result<u64, Error> {
    let mut total = 0;
    loop {
        let read = match from.read(buffer) {
            Ok(0) => return Ok(total),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::Archive(error)),
        };
        to.write_all(&buffer[..read]).map_err(|error| Error::System(path.to_owned(), error))?;
        total += read as u64;
    }
}

fn system_time(time: &Timespec) -> SystemTime {
    let nanoseconds = Duration::from_nanos(time.tv_nsec.cast_unsigned());
    match u64::try_from(time.tv_sec) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + nanoseconds,
        Err(_) => UNIX_EPOCH - Duration::from_secs(time.tv_sec.unsigned_abs()) + nanoseconds,
    }
}
