//! Images and devices, their headers, and what is said when something is
//! wrong with them.

use std::path::Path;
use std::sync::Arc;

use strongroom_disk::backing::{FileBacking, OpenError};
use strongroom_disk::{Error, Header, HeaderLock};
use strongroom_engine::Engine;
use strongroom_format::vault::names::VAULT_DIRECTORY;
use strongroom_keys::SecretBytes;

use crate::args::disk::DiskSecretArgs;
use crate::compose::compose_for;
use crate::failure::{Exit, Failure, Result};
use crate::secrets::{KeyFileRange, Source};

/// Opens an image; see [`FileBacking::open`].
pub(super) fn open(path: &Path, writable: bool) -> Result<Arc<FileBacking>> {
    FileBacking::open(path, writable).map(Arc::new).map_err(|error| explain_open(error, path))
}

/// Opens an image for a look, whoever has it.
pub(super) fn look(path: &Path) -> Result<FileBacking> {
    FileBacking::open_shared(path, false).map_err(|error| explain_open(error, path))
}

pub(super) fn explain_open(error: OpenError, path: &Path) -> Failure {
    match error {
        OpenError::InUse => Failure::new(Exit::InUse, "somebody else uses it").at(path).hint(
            "Close it first: `strongroom disk list` shows open disks; a device may be mounted, and an image \
                   file be in use through a loop device (`losetup -j IMAGE`).",
        ),
        OpenError::HeaderInUse => {
            Failure::new(Exit::InUse, "another program reads or changes the header").at(path).hint(
                "Wait until it has ended (`fuser -v` with the image lists who has it open), and try again.",
            )
        }
        OpenError::Kind if is_vault(path) => Failure::usage("this is a vault, and no disk")
            .at(path)
            .hint("Open it with `strongroom mount VAULT DIR`."),
        OpenError::Kind => Failure::usage("this is neither a file nor a block device").at(path),
        OpenError::Io(error) => Failure::system(path, &error),
    }
}

/// Whether `path` is the directory of a vault.
fn is_vault(path: &Path) -> bool {
    path.join(VAULT_DIRECTORY).is_dir()
}

/// Reads a header, while nobody changes it.
pub(super) fn header(path: &Path, device: &FileBacking) -> Result<Header> {
    let _reading = device.lock_header(false).map_err(|error| explain_open(error, path))?;
    Header::read(device).map_err(|error| explain(error, path))
}

/// Keeps cryptsetup from reading or changing a header that is about to be
/// changed from what it was.
///
/// # Errors
/// In use when it was changed since it was read.
pub(super) fn lock(path: &Path, device: &FileBacking, read: Option<&Header>) -> Result<HeaderLock> {
    let lock = device.lock_header(true).map_err(|error| explain_open(error, path))?;
    match read {
        Some(read) if !Header::read(device).is_ok_and(|now| now.is_as(read)) => {
            Err(Failure::new(Exit::InUse, "another program has changed the header meanwhile")
                .at(path)
                .hint("Nothing was changed here. Try again."))
        }
        _ => Ok(lock),
    }
}

/// The engines, and as what a disk takes them; `words` are settings.
pub(super) fn engine(name: Option<&str>, words: &[String]) -> Result<Arc<dyn Engine>> {
    Ok(compose_for(name, words, None)?.scheduler)
}

/// The part of a key file that is meant.
pub(super) fn range(args: &DiskSecretArgs) -> KeyFileRange {
    KeyFileRange { offset: args.keyfile_offset.unwrap_or(0), len: args.keyfile_size }
}

/// Gets the secret that opens a disk.
pub(super) fn secret(args: &DiskSecretArgs, path: &Path) -> Result<SecretBytes> {
    args.source().read_bytes(&prompt(path), range(args))
}

/// Gets a secret that shall open a disk from now on.
pub(super) fn new_secret(source: &Source, path: &Path) -> Result<SecretBytes> {
    source.read_new_bytes(&format!("New passphrase of {}", path.display()), KeyFileRange::default())
}

/// What is asked for.
pub(super) fn prompt(path: &Path) -> String {
    format!("Passphrase of {}", path.display())
}

/// A failure with what to do.
pub(super) fn explain(error: Error, path: &Path) -> Failure {
    let message = error.to_string();
    let new = |exit, hint: &str| Failure::new(exit, message.clone()).at(path).hint(hint);
    match &error {
        Error::Io { source, .. } => {
            let failure = Failure::system(path, source);
            Failure::new(failure.exit(), format!("{}: {message}", path.display()))
        }
        Error::NotLuks => new(Exit::Usage, "Name a LUKS disk, or a header with --header."),
        Error::Header(found) if found.is_unsupported() => {
            new(Exit::Unsupported, "Nothing was changed. cryptsetup may know it.")
        }
        Error::Header(_) | Error::Checksum => {
            new(Exit::Damage, "Restore a backup: strongroom disk header restore IMAGE FILE")
        }
        Error::Cipher { .. } => new(
            Exit::Unsupported,
            "Ciphers: aes, serpent, twofish, camellia; modes: xts-plain64, xts-plain, \
                                    xts-essiv:sha256, cbc-plain, cbc-plain64, cbc-essiv:sha256.",
        ),
        Error::WrongPassphrase => Failure::new(Exit::WrongSecret, message).at(path),
        Error::NoSlot(_) => new(Exit::Usage, "`strongroom disk key list` shows them."),
        Error::Unbound(_) => {
            new(Exit::WrongSecret, "Name another, or none: `strongroom disk key list` shows them.")
        }
        Error::NoUsableSlot => new(
            Exit::WrongSecret,
            "Name one with --key-slot N: `strongroom disk key list --json` shows them with their priorities.",
        ),
        Error::Overlap { .. } => {
            new(Exit::Usage, "Name the disk, and this file with --header. Nothing was changed.")
        }
        Error::SlotInUse(_) => new(Exit::Usage, "Name another, or remove it first."),
        Error::Full => new(Exit::Usage, "Remove one with `strongroom disk key remove` first."),
        Error::LastSlot => {
            new(Exit::Usage, "Add another first; `strongroom disk erase` removes all of them.")
        }
        Error::Memory(_) => new(Exit::Unsupported, "Use a machine with more memory."),
        Error::TooSmall { .. } => new(Exit::Usage, "Make it larger."),
        Error::Engine(_) | Error::Entropy | Error::Range | Error::ReadOnly | Error::FlushFailed => {
            Failure::new(Exit::Other, message).at(path)
        }
    }
}
