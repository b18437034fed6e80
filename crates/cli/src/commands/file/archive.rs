//! Directories: packed into the file that is encrypted, and unpacked from it
//! into a directory that has its name only when it is whole.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{CWD, RenameFlags, renameat_with, syncfs};
use strongroom_archive::{Packed, Packer, unpack};
use strongroom_file::identities::Identities;
use strongroom_file::{Error, Input, Job, Output as Sink, decrypt};

use super::{failure, input_of};
use crate::failure::{Exit, Failure, Result};
use crate::report::{Output, shown};

/// A directory as an input, and what becomes of it.
pub(super) fn packed(directory: &Path, threads: usize) -> Result<(Input, Arc<Mutex<Packed>>)> {
    // `.` and `..` have no names of their own.
    let whole = directory.canonicalize().map_err(|error| Failure::system(directory, &error))?;
    let top = whole.file_name().map_or_else(|| OsString::from("root"), OsString::from);
    let packer =
        Packer::new(directory, top.as_bytes(), threads).map_err(|error| explain(&error, directory))?;
    let told = packer.packed();
    Ok((Input::Stream(Box::new(packer)), told))
}

/// Says what could not be packed.
pub(super) fn tell(told: &Mutex<Packed>, output: Output) {
    let packed = told.lock().unwrap_or_else(PoisonError::into_inner);
    for path in &packed.skipped {
        let name = shown(path.as_os_str().as_bytes());
        output.warn(&format!("{name}: a socket was left out: no archive has them"));
    }
}

/// What an archive's error is, at the input or output `at`.
pub(super) fn explain(error: &strongroom_archive::Error, at: &Path) -> Failure {
    use strongroom_archive::Error as Of;
    match error {
        Of::System(path, error) => Failure::system(path, error),
        Of::Outside(_) => Failure::new(Exit::Damage, error.to_string()).at(at),
        _ => Failure::new(Exit::Other, error.to_string()).at(at),
    }
}

/// The archive's error that a reader passed on as the system's.
pub(super) fn inside(error: &io::Error) -> Option<&strongroom_archive::Error> {
    error.get_ref()?.downcast_ref()
}

/// Decrypts `input` and unpacks it as the directory `to`. Gives the plain
/// bytes of the archive.
///
/// # Errors
/// As decrypting; usage when there is something of this name and not `force`.
pub(super) fn extract(
    job: &Job<'_>,
    identities: &Identities,
    input: &Path,
    to: &Path,
    force: bool,
    output: Output,
) -> Result<u64> {
    let directory = Fresh::new(to, force)?;
    let (reader, writer) = io::pipe().map_err(|error| Failure::system(to, &error))?;
    let from = input_of(input)?;
    let (decrypted, unpacked) = std::thread::scope(|scope| {
        let unpacked = scope.spawn(|| unpack(reader, &directory.temporary));
        let decrypted = decrypt(job, identities, from, Sink::Stream(Box::new(writer)));
        (decrypted, unpacked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    // Each ends when the other does, and then says so: the first is the cause.
    let plain = match (decrypted, &unpacked) {
        (Err(Error::Output(_)), Err(error)) => return Err(explain(error, input)),
        (Err(error), _) => return Err(failure(input, to, error)),
        (Ok(plain), _) => plain,
    };
    let unpacked = unpacked.map_err(|error| match error {
        strongroom_archive::Error::Archive(_) => explain(&error, input)
            .hint("It is no directory that was encrypted: decrypt it without --extract."),
        error => explain(&error, input),
    })?;
    for remark in &unpacked.remarks {
        output.warn(&shown(remark.as_bytes()));
    }
    directory.keep()?;
    Ok(plain)
}

/// A directory under another name until it is whole.
struct Fresh {
    path: PathBuf,
    temporary: PathBuf,
    force: bool,
}

impl Fresh {
    fn new(path: &Path, force: bool) -> Result<Fresh> {
        let exists =
            || Failure::usage("it exists").at(path).hint("Replace it with --force, or name another.");
        match path.symlink_metadata() {
            Ok(there) if !there.is_dir() => return Err(exists()),
            Ok(_) if !force && !is_empty(path)? => return Err(exists()),
            _ => {}
        }
        let name = path.file_name().ok_or_else(|| Failure::usage("name the new directory").at(path))?;
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(temporary);
        let made = DirBuilder::new().mode(0o700).create(&temporary);
        made.map_err(|error| Failure::system(&temporary, &error))?;
        Ok(Fresh { path: path.to_owned(), temporary, force })
    }

    /// Makes it durable and gives it its name. What had the name is removed.
    fn keep(self) -> Result<()> {
        let failed = |error: io::Error| Failure::system(&self.path, &error);
        let opened = File::open(&self.temporary).map_err(failed)?;
        syncfs(&opened).map_err(|errno| failed(errno.into()))?;
        let renamed = match std::fs::rename(&self.temporary, &self.path) {
            Err(error) if self.force && error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                renameat_with(CWD, &self.temporary, CWD, &self.path, RenameFlags::EXCHANGE)
                    .map_err(Into::into)
            }
            renamed => renamed,
        };
        renamed.map_err(failed)?;
        let above = self.path.parent().filter(|above| !above.as_os_str().is_empty());
        File::open(above.unwrap_or(Path::new("."))).and_then(|above| above.sync_all()).map_err(failed)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // What is unfinished, or what was replaced. What cannot be removed has
        // a name that says what it is.
        let _ = std::fs::remove_dir_all(&self.temporary);
    }
}

fn is_empty(path: &Path) -> Result<bool> {
    let mut entries = std::fs::read_dir(path).map_err(|error| Failure::system(path, &error))?;
    Ok(entries.next().is_none())
}
