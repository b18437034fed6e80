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

use super::asking::Terminal;
use super::input_of;
use super::passage::passage;
use super::removal;
use super::target::above;
use super::temporary::Temporary;
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
        Of::Changed(path) => Failure::new(Exit::Other, "it changed while it was read").at(path),
        Of::Outside(_) => Failure::new(Exit::Damage, error.to_string()).at(at),
        _ => Failure::new(Exit::Other, error.to_string()).at(at),
    }
}

/// The archive's error that a reader passed on as the system's.
pub(super) fn inside(error: &io::Error) -> Option<&strongroom_archive::Error> {
    error.get_ref()?.downcast_ref()
}

/// What unpacking works with.
pub(super) struct Extraction<'a> {
    pub(super) job: Job<'a>,
    pub(super) identities: Identities,
    pub(super) terminal: &'a Terminal,
    pub(super) output: Output,
}

impl Extraction<'_> {
    /// Decrypts `input` and unpacks it as the directory `to`. Gives the plain
    /// bytes of the archive.
    ///
    /// # Errors
    /// As decrypting; usage when there is something of this name and not `force`.
    pub(super) fn extract(&self, input: &Path, to: &Path, force: bool) -> Result<u64> {
        let directory = Fresh::new(to, force)?;
        let (writer, reader) = passage();
        let from = input_of(input)?;
        let (decrypted, unpacked) = std::thread::scope(|scope| {
            let unpacked = scope.spawn(|| unpack(reader, directory.temporary.path()));
            let decrypted = decrypt(&self.job, &self.identities, from, Sink::Stream(Box::new(writer)));
            (decrypted, unpacked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        // Each ends when the other does, and then says so: the first is the cause.
        let plain = match (decrypted, &unpacked) {
            (Err(Error::Output(_)), Err(error)) => return Err(explain(error, input)),
            (Err(error), _) => return Err(self.terminal.explain(input, to, error)),
            (Ok(plain), _) => plain,
        };
        let unpacked = unpacked.map_err(|error| match error {
            strongroom_archive::Error::Archive(_) => explain(&error, input)
                .hint("It is no directory that was encrypted: decrypt it without --extract."),
            error => explain(&error, input),
        })?;
        for remark in &unpacked.remarks {
            self.output.warn(&shown(remark.as_bytes()));
        }
        directory.keep()?;
        Ok(plain)
    }
}

/// Refuses what [`Extraction::extract`] would refuse, before anything is asked
/// for.
///
/// # Errors
/// Usage.
pub(super) fn check_free(path: &Path, force: bool) -> Result<()> {
    let exists = || Failure::usage("it exists").at(path);
    match path.symlink_metadata() {
        Ok(there) if !there.is_dir() => {
            return Err(exists().hint("It is no directory, which --force would replace: name another."));
        }
        Ok(_) if !force && !is_empty(path)? => {
            return Err(exists().hint("Replace it with --force, or name another."));
        }
        _ => {}
    }
    match path.file_name() {
        Some(_) => Ok(()),
        None => Err(Failure::usage("name the new directory").at(path)),
    }
}

/// A directory under another name until it is whole.
struct Fresh {
    path: PathBuf,
    temporary: Temporary,
    force: bool,
}

impl Fresh {
    fn new(path: &Path, force: bool) -> Result<Fresh> {
        check_free(path, force)?;
        let made = Temporary::beside(path, |beside| DirBuilder::new().mode(0o700).create(beside));
        let temporary = made.map_err(|error| Failure::system(path, &error))?;
        Ok(Fresh { path: path.to_owned(), temporary, force })
    }

    /// Makes it durable and gives it its name. What had the name is removed.
    fn keep(self) -> Result<()> {
        let Fresh { path, temporary, force } = self;
        let failed = |error: io::Error| Failure::system(&path, &error);
        let opened = File::open(temporary.path()).map_err(failed)?;
        syncfs(&opened).map_err(|errno| failed(errno.into()))?;
        let named = removal::before_the_end(|| match std::fs::rename(temporary.path(), &path) {
            Err(error) if force && error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                let flags = RenameFlags::EXCHANGE;
                renameat_with(CWD, temporary.path(), CWD, &path, flags)?;
                Ok(true)
            }
            renamed => renamed.map(|()| false),
        });
        // What was there before has the temporary name now.
        if !named.map_err(failed)? {
            temporary.forget();
        }
        File::open(above(&path)).and_then(|above| above.sync_all()).map_err(failed)
    }
}

fn is_empty(path: &Path) -> Result<bool> {
    let mut entries = std::fs::read_dir(path).map_err(|error| Failure::system(path, &error))?;
    Ok(entries.next().is_none())
}
