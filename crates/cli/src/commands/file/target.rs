//! Where a result goes: standard output, or a file that has its name only when
//! it is whole. Until then it has no name at all, where the store knows such
//! files (`O_TMPFILE`), so that a kill leaves nothing.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawMode, RenameFlags, linkat, openat, renameat_with};
use rustix::io::Errno;
use strongroom_file::Output as Sink;

use super::descriptors::{descriptor_to_write, is_standard};
use super::temporary::Temporary;
use crate::failure::{Failure, Result};
use crate::opening;

/// Keeps what is unfinished until it has its name, and removes it otherwise.
pub(super) struct Target {
    path: PathBuf,
    unfinished: Unfinished,
    force: bool,
}

enum Unfinished {
    Standard,
    /// A device or a pipe, which is written to as it is.
    Special(File),
    Unnamed(File),
    Named(Temporary, File),
}

impl Target {
    /// For the final name `path`, or `-`.
    pub(super) fn new(path: &Path, force: bool) -> Result<Target> {
        Target::with_mode(path, force, 0o666)
    }

    /// For what nobody else may read.
    pub(super) fn secret(path: &Path) -> Result<Target> {
        Target::with_mode(path, false, 0o600)
    }

    /// The umask takes from the mode of a new file.
    fn with_mode(path: &Path, force: bool, mode: RawMode) -> Result<Target> {
        let failed = |error: io::Error| Failure::system(path, &error);
        let special = |file| Target { path: path.to_owned(), unfinished: Unfinished::Special(file), force };
        match descriptor_to_write(path) {
            Some(1) => return Target::with_mode(Path::new("-"), force, mode),
            Some(number) => return opening::descriptor_copy(number).map(special).map_err(failed),
            None if is_standard(path) => {
                return Ok(Target { path: path.to_owned(), unfinished: Unfinished::Standard, force });
            }
            None => {}
        }
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return OpenOptions::new().write(true).open(path).map(special).map_err(failed);
        }
        if !force && path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        if path.file_name().is_none() {
            return Err(Failure::usage("it has no file name").at(path));
        }
        // What a symlink names is replaced, and not the symlink.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let unfinished = match unnamed(&path, mode).map_err(failed)? {
            Some(file) => Unfinished::Unnamed(file),
            None => named(&path, mode).map_err(failed)?,
        };
        Ok(Target { path, unfinished, force })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self) -> Result<Option<File>> {
        let cloned = match &self.unfinished {
            Unfinished::Standard => return Ok(None),
            Unfinished::Special(file) | Unfinished::Unnamed(file) | Unfinished::Named(_, file) => {
                file.try_clone()
            }
        };
        cloned.map(Some).map_err(|error| Failure::system(&self.path, &error))
    }

    /// To be written to in any order, where that is possible.
    pub(super) fn sink(&self) -> Result<Sink> {
        Ok(match self.file()? {
            Some(file) if file.metadata().is_ok_and(|metadata| metadata.is_file()) => Sink::File(file),
            _ => Sink::Stream(self.writer()?),
        })
    }

    /// To be written to in order.
    pub(super) fn writer(&self) -> Result<Box<dyn Write + Send>> {
        Ok(match self.file()? {
            Some(file) => Box::new(file),
            // Not through the line buffer of `Stdout`.
            None => {
                let standard = rustix::io::dup(rustix::stdio::stdout());
                Box::new(File::from(standard.map_err(|error| Failure::system(&self.path, &error.into()))?))
            }
        })
    }

    /// It is whole: makes it durable and gives it its name.
    pub(super) fn keep(self) -> Result<()> {
        let Target { path, unfinished, force } = self;
        let failed = |error: io::Error| Failure::system(called(&path), &error);
        let file = match &unfinished {
            Unfinished::Unnamed(file) | Unfinished::Named(_, file) => file,
            Unfinished::Special(_) => return Ok(()),
            Unfinished::Standard => return synced(rustix::stdio::stdout()).map_err(failed),
        };
        if force && let Ok(old) = path.metadata() {
            keep_facts(file, &old).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        let named = match unfinished {
            Unfinished::Unnamed(file) if force => {
                let temporary = Temporary::beside(&path, |beside| link(&file, beside));
                temporary.and_then(|temporary| rename(temporary, &path, force))
            }
            Unfinished::Unnamed(file) => link(&file, &path),
            Unfinished::Named(temporary, _) => rename(temporary, &path, force),
            Unfinished::Standard | Unfinished::Special(_) => Ok(()),
        };
        match named {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(&path)),
            named => named.map_err(failed)?,
        }
        File::open(above(&path)).and_then(|directory| directory.sync_all()).map_err(failed)
    }
}

/// How a result is called in messages.
pub(super) fn called(path: &Path) -> &Path {
    if is_standard(path) { Path::new("standard output") } else { path }
}

pub(super) fn exists(path: &Path) -> Failure {
    Failure::usage("it exists").at(path).hint("Replace it with --force, or name another with -o.")
}

/// What the shell has made a file of may be full only when it is synced.
fn synced(standard: BorrowedFd<'_>) -> io::Result<()> {
    let stat = rustix::fs::fstat(standard)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => match rustix::fs::fsync(standard) {
            // Not every store can.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::ROFS) => Ok(()),
            synced => Ok(synced?),
        },
        _ => Ok(()),
    }
}

/// The directory in which a path stands.
pub(super) fn above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file without a name; none where the store, or what names it later, has
/// not got that.
fn unnamed(path: &Path, mode: RawMode) -> io::Result<Option<File>> {
    if !Path::new("/proc/self/fd").is_dir() {
        return Ok(None);
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(CWD, above(path), flags, Mode::from_raw_mode(mode)) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn named(path: &Path, mode: RawMode) -> io::Result<Unfinished> {
    let mut file = None;
    let temporary = Temporary::beside(path, |beside| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(mode);
        options.open(beside).map(|opened| file = Some(opened))
    })?;
    Ok(Unfinished::Named(temporary, file.expect("it was made")))
}

/// Gives an unnamed file a name that nothing has.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let number = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, number, CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
}

/// Gives it its final name; without `force` only if nothing has that.
fn rename(temporary: Temporary, path: &Path, force: bool) -> io::Result<()> {
    let flags = if force { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match renameat_with(CWD, temporary.path(), CWD, path, flags) {
        // Stores without that flag, NFS for one, have links.
        Err(Errno::INVAL) if !force => {
            linkat(CWD, temporary.path(), CWD, path, AtFlags::empty()).map_err(io::Error::from)
        }
        renamed => {
            renamed?;
            temporary.forget();
            Ok(())
        }
    }
}

/// What replaces a file has its mode, and its owner where that may be set.
fn keep_facts(file: &File, old: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        // Only root may.
        let _ = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()));
    }
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways to a name, whatever the store has.
    fn targets(path: &Path, force: bool) -> Vec<Target> {
        let of = |unfinished| Target { path: path.to_owned(), unfinished, force };
        let unnamed = unnamed(path, 0o666).expect("asked").map(|file| of(Unfinished::Unnamed(file)));
        unnamed.into_iter().chain([of(named(path, 0o666).expect("made"))]).collect()
    }

    fn filled(target: Target) -> Target {
        target.writer().expect("a file").write_all(b"new").expect("written");
        target
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_is_gone_otherwise() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("f");
        let names = || std::fs::read_dir(directory.path()).expect("listed").count();
        for way in 0..2 {
            // One at a time: the other way's unfinished file has a name.
            let Some(target) = targets(&path, false).into_iter().nth(way) else { continue };
            let target = filled(target);
            assert!(!path.exists());
            target.keep().expect("named");
            assert_eq!(std::fs::read(&path).expect("there"), b"new");
            assert_eq!(names(), 1);
            std::fs::remove_file(&path).expect("removed");
        }
        targets(&path, false).into_iter().map(filled).for_each(drop);
        assert_eq!(names(), 0);
    }

    #[test]
    fn what_came_there_meanwhile_is_kept_unless_by_force() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("f");
        let written = |mode| {
            std::fs::write(&path, b"old").expect("written");
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
        };
        for target in targets(&path, false) {
            written(0o644);
            assert_eq!(filled(target).keep().expect_err("there").exit(), crate::failure::Exit::Usage);
            assert_eq!(std::fs::read(&path).expect("there"), b"old");
        }
        for target in targets(&path, true) {
            written(0o640);
            filled(target).keep().expect("replaced");
            assert_eq!(std::fs::read(&path).expect("there"), b"new");
            assert_eq!(path.metadata().expect("there").mode() & 0o777, 0o640);
        }
        assert_eq!(std::fs::read_dir(directory.path()).expect("listed").count(), 1);
    }
}
