//! Where a result goes: standard output, or a file that has its name only when
//! it is whole.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use strongroom_file::Output as Sink;

use crate::failure::{Failure, Result};

/// Keeps the temporary file until it is renamed, and removes it otherwise.
pub(super) struct Target {
    path: PathBuf,
    unfinished: Option<(PathBuf, File)>,
    force: bool,
}

impl Target {
    /// For the final name `path`, or `-`.
    pub(super) fn new(path: &Path, force: bool) -> Result<Target> {
        let mut target = Target { path: path.to_owned(), unfinished: None, force };
        // A device or a pipe is written to as it is.
        let special = std::fs::metadata(path).is_ok_and(|there| !there.is_file());
        if path == Path::new("-") {
            return Ok(target);
        }
        if special {
            let file =
                OpenOptions::new().write(true).open(path).map_err(|error| Failure::system(path, &error))?;
            target.unfinished = Some((PathBuf::new(), file));
            return Ok(target);
        }
        if !force && path.symlink_metadata().is_ok() {
            return Err(target.exists());
        }
        let name = path.file_name().ok_or_else(|| Failure::usage("it has no file name").at(path))?;
        let temporary = format!(".{}.{}.part", name.to_string_lossy(), std::process::id());
        let temporary = path.with_file_name(temporary);
        let options = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).clone();
        let file = options.open(&temporary).map_err(|error| Failure::system(&temporary, &error))?;
        target.unfinished = Some((temporary, file));
        Ok(target)
    }

    fn exists(&self) -> Failure {
        Failure::usage("it exists").at(&self.path).hint("Replace it with --force, or name another with -o.")
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self) -> Result<Option<File>> {
        let cloned = self.unfinished.as_ref().map(|(_, file)| file.try_clone());
        cloned.transpose().map_err(|error| Failure::system(&self.path, &error))
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
    pub(super) fn keep(mut self) -> Result<()> {
        let Some((temporary, file)) =
            self.unfinished.as_ref().filter(|(path, _)| !path.as_os_str().is_empty())
        else {
            return Ok(());
        };
        let failed = |error: std::io::Error| Failure::system(&self.path, &error);
        file.sync_all().map_err(failed)?;
        let flags = if self.force { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match renameat_with(CWD, temporary, CWD, &self.path, flags) {
            Err(rustix::io::Errno::EXIST) => return Err(self.exists()),
            renamed => renamed.map_err(|error| failed(error.into()))?,
        }
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
        self.unfinished = None;
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.unfinished {
            // What cannot be removed has a name that says what it is.
            let _ = std::fs::remove_file(temporary);
        }
    }
}
