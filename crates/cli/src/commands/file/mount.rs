//! `strongroom file mount`: finds the file's key, and has a daemon show the
//! plain file.
//!
//! Keys, passphrases and plugins are this process's business: the daemon is
//! handed the file key alone, which opens this file and no other.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use strongroom_file::{ExposeSecret, FileKey, Ranges};
use strongroom_keys::SecretBytes;

use super::asking::{self, Terminal};
use super::plan::Besides;
use super::serve;
use crate::args::file::FileMountArgs;
use crate::args::values::LogTarget;
use crate::control::mounts;
use crate::daemon::launch::{self, absolute};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

/// What is shown where. Paths are absolute.
pub(super) struct Plan {
    pub(super) file: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) allow_other: bool,
    pub(super) engine: Option<String>,
    pub(super) log: Option<LogTarget>,
    pub(super) confined: bool,
}

impl Plan {
    fn of(args: &FileMountArgs) -> Result<Plan> {
        let file = args.file.canonicalize().map_err(|error| Failure::system(&args.file, &error))?;
        let mut log = args.log.clone();
        if let Some(LogTarget::File(path)) = &mut log {
            *path = absolute(path)?;
        }
        Ok(Plan {
            file,
            directory: mount_point(&args.directory)?,
            allow_other: args.allow_other,
            engine: args.engine.clone(),
            log,
            confined: !args.no_confinement,
        })
    }

    /// The plain file's name.
    pub(super) fn name(&self) -> OsString {
        let name = match self.file.extension() {
            Some(extension) if extension == "age" => self.file.file_stem(),
            _ => self.file.file_name(),
        };
        name.map_or_else(|| "plain".into(), OsString::from)
    }

    pub(super) fn open(&self) -> Result<File> {
        let failed = |error| Failure::system(&self.file, &error);
        // A pipe is not waited for.
        let there = std::fs::metadata(&self.file).map_err(failed)?;
        if there.is_dir() {
            return Err(Failure::usage("it is a directory, and no encrypted file")
                .at(&self.file)
                .hint("A vault is mounted with `strongroom mount`."));
        }
        if !there.is_file() {
            return Err(Failure::usage("it is no regular file, and cannot be sought in").at(&self.file));
        }
        File::open(&self.file).map_err(failed)
    }
}

/// The mount point without symlinks. One that has a mount already is not
/// entered: its daemon may not answer.
fn mount_point(path: &Path) -> Result<PathBuf> {
    if !launch::is_daemon() {
        mounts::check_free(path)?;
    }
    path.canonicalize().map_err(|error| Failure::system(path, &error).hint("Make the directory first."))
}

/// Shows a file; in the foreground, returns when it is unmounted.
///
/// # Errors
/// What kept it from being shown, with the daemon's own code.
pub(super) fn run(args: &FileMountArgs, output: Output) -> Result<Exit> {
    let plan = Plan::of(args)?;
    if launch::is_daemon() {
        return Ok(serve::run_launched(&plan));
    }
    let mut entries =
        std::fs::read_dir(&plan.directory).map_err(|error| Failure::system(&plan.directory, &error))?;
    if entries.next().is_some() {
        return Err(Failure::usage("the directory is not empty")
            .at(&plan.directory)
            .hint("Use an empty one."));
    }
    let file = plan.open()?;
    Besides::keys(&args.keys).check_streams(&[])?;
    let terminal = Terminal::default();
    let identities = asking::identities(&args.keys, &terminal, output)?;
    let unlocked = Ranges::unlock(&file, &identities);
    let key = unlocked.map_err(|error| terminal.explain(&plan.file, &plan.file, error))?;
    drop((file, identities));
    if args.foreground {
        serve::run_foreground(&plan, &key)?;
    } else {
        let mut bytes = *key.expose_secret();
        launch::start_with(Some(&SecretBytes::take(&mut bytes)))?;
    }
    Ok(Exit::Done)
}

/// The key that the first process handed on.
pub(super) fn handed_on(secret: Option<&SecretBytes>) -> Result<FileKey> {
    let secret = secret.filter(|secret| secret.len() == 16);
    let secret = secret.ok_or_else(|| Failure::new(Exit::Other, "no file key was handed on"))?;
    Ok(FileKey::init_with_mut(|bytes| bytes.copy_from_slice(secret.expose())))
}
