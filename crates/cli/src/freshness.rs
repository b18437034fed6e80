//! Freshness files as the user names them, and what is said of them.

use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use strongroom_format::vault::VaultId;
use strongroom_store::Store;
use strongroom_store::local::{LocalStore, OpenMode};
use strongroom_vault::{Damage, Error, Recording, Staleness, Trust, Trusted, Vault};

use crate::daemon::Plan;
use crate::failure::{Exit, Failure, Result};
use crate::history::{History, SeenFile};
use crate::report::{self, Output, shown};

/// The freshness file at `path`, for the vault at `vault`; `writable` when it
/// is going to be written to.
///
/// # Errors
/// Usage for a file inside of the vault, or no file; or what the system
/// reports of its directory.
pub(crate) fn trusted(path: &Path, vault: &Path, trust: Trust, writable: bool) -> Result<Trusted> {
    let path = resolved(path)?;
    if path.starts_with(vault.canonicalize().unwrap_or_else(|_| vault.to_owned())) {
        return Err(Failure::usage("a freshness file in the vault is rolled back with it")
            .at(&path)
            .hint("Keep it elsewhere: on another disk, or on a USB stick."));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Failure::usage("this is not the name of a file").at(&path));
    };
    let mode = if writable { OpenMode::Writable } else { OpenMode::ReadOnly };
    let store = LocalStore::open(parent, mode)
        .map_err(|error| Failure::system(parent, &std::io::Error::from_raw_os_error(error.errno())))?;
    Ok(Trusted { directory: store.root(), name: name.as_bytes().to_vec(), trust })
}

/// The path without symlinks, also of a file that does not exist yet.
fn resolved(path: &Path) -> Result<PathBuf> {
    if let Ok(found) = path.canonicalize() {
        return Ok(found);
    }
    let absolute = crate::daemon::launch::absolute(path)?;
    match (absolute.parent().map(Path::canonicalize), absolute.file_name()) {
        (Some(Ok(parent)), Some(name)) => Ok(parent.join(name)),
        (Some(Err(error)), Some(_)) => Err(Failure::system(path, &error)
            .hint("The directory of the freshness file has to be there: is its disk mounted?")),
        _ => Err(Failure::usage("this is not the name of a file").at(path)),
    }
}

/// Tells what the user should know of the freshness file of an open vault.
pub(crate) fn tell(vault: &Vault, file: &Path, output: Output) {
    let file = shown(file.as_os_str().as_bytes());
    match vault.recording() {
        Some(Recording::New) => {
            output.warn(&format!("{file} is new: it records the vault as it was found, and vouches for nothing before"));
        }
        Some(Recording::Bypassed) => output.warn(&format!(
            "the vault has been mounted for writing, or its keys changed, without {file}: what was made, removed \
             or replaced meanwhile is an error until it is accepted (strongroom check --freshness tells what)"
        )),
        Some(Recording::Current) | None => {}
    }
}

/// Tells who uses a vault without its freshness file that there is one. A file
/// that is gone from a directory that is there was given up.
pub(crate) fn tell_unused(history: &History, vault: VaultId, output: Output) {
    let Some(seen) = history.known(vault).and_then(|known| known.freshness) else { return };
    let file = Path::new(&seen.path);
    let is_missing =
        |path: &Path| path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    if is_missing(file) && !file.parent().is_some_and(is_missing) {
        return;
    }
    output.warn(&format!(
        "the vault has a freshness file, {}: without --freshness, files and directories that were put back or \
         deleted in the vault are not noticed",
        shown(seen.path.as_bytes())
    ));
}

/// Refuses a freshness file that is missing although this machine has seen the
/// vault with one. The vault's header says so too, from its second opening on.
///
/// # Errors
/// Damage.
pub(crate) fn check_missing(plan: &Plan, vault: VaultId) -> Result<()> {
    let Some(file) = plan.freshness.as_deref().filter(|_| plan.trust == Trust::Record) else { return Ok(()) };
    let known = plan.history.known(vault).and_then(|known| known.freshness);
    let is_missing = file.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    match known.filter(|_| is_missing && !plan.is_read_only()) {
        Some(seen) => Err(missing(file, Some(&seen))),
        None => Ok(()),
    }
}

/// The vault had a freshness file, and it is not there.
fn missing(file: &Path, seen: Option<&SeenFile>) -> Failure {
    let seen = seen.map(|SeenFile { path, seen }| {
        format!(
            " This machine has seen it as {}, from {} on.",
            shown(path.as_bytes()),
            report::rfc3339(*seen)
        )
    });
    Failure::new(Exit::Damage, "there is no freshness file of this name, and the vault had one").at(file).hint(
        format!(
            "Name the file that it had; is its disk mounted?{} If it is lost, compare the vault with a backup, and \
             begin a new one: mount with --new-freshness.",
            seen.unwrap_or_default()
        ),
    )
}

/// An error of opening a vault with a freshness file, with what to do.
pub(crate) fn explain(error: Error, vault: &Path, file: Option<&Path>) -> Failure {
    let Some(file) = file else { return Failure::from(error).at(vault) };
    let file_name = shown(file.as_os_str().as_bytes());
    match &error {
        Error::Damaged(Damage::Stale(Staleness::Vault)) => {
            Failure::new(Exit::Damage, error.to_string()).at(vault).hint(format!(
                "Somebody has put an older state in its place: compare with a backup. If it was you: strongroom \
                 freshness accept {} {file_name}",
                vault.display()
            ))
        }
        Error::Damaged(Damage::Record(_)) => Failure::new(Exit::Damage, error.to_string())
            .at(file)
            .hint(
                "Name this vault's own freshness file. If it is lost, move this file away, and begin a new one: \
                 mount with --new-freshness.",
            ),
        Error::Damaged(Damage::RecordMissing) => missing(file, None),
        Error::Freshness(_) => Failure::from(error)
            .at(file)
            .hint("To mount for writing it has to be writable: see that its disk is there, and has room."),
        _ => Failure::from(error).at(vault),
    }
}
