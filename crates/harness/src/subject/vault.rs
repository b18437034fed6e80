//! One formatted store of a subject.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command;
use crate::failure::{Context, Failure, Result, ensure};
use crate::subject::Subject;
use crate::subject::mount::{Mount, MountOptions, log_tail};
use crate::subject::peer::PASSWORD;

const INIT_LIMIT: Duration = Duration::from_secs(60);

/// Where the parts of a vault under test lie.
#[derive(Clone, Debug)]
pub struct Place {
    /// The ciphertext; for a bare subject the same as `directory`.
    pub store: PathBuf,
    /// The mount point.
    pub directory: PathBuf,
    /// A file with the password.
    pub password: PathBuf,
    /// What the daemon printed.
    pub log: PathBuf,
}

impl Place {
    /// Where Strongroom remembers this vault, which is not to be where it lies on this machine.
    pub(super) fn state(&self) -> PathBuf {
        self.log.with_extension("state")
    }
}

/// A formatted store that can be mounted again and again.
#[derive(Clone, Debug)]
pub struct Vault {
    pub subject: Subject,
    pub place: Place,
}

impl Vault {
    /// Makes a vault below `base`, which must exist.
    pub fn create(subject: &Subject, base: &Path) -> Result<Self> {
        Self::create_over(subject, base, base)
    }

    /// Makes a vault with its store below another directory.
    pub fn create_over(subject: &Subject, base: &Path, below: &Path) -> Result<Self> {
        let bare = matches!(subject, Subject::Bare);
        let directory = base.join("plain");
        let store = if bare { directory.clone() } else { below.join("store") };
        let password = base.join("password");
        fs::create_dir(&directory).context(directory.display())?;
        fs::write(&password, format!("{PASSWORD}\n")).context(password.display())?;
        if !bare {
            fs::create_dir(&store).context(store.display())?;
        }
        let log = base.join("daemon.log");
        let place = Place { store, directory, password, log };
        if let Some(mut command) = subject.init_command(&place) {
            command::output(&mut command, INIT_LIMIT)?;
        }
        Ok(Self { subject: subject.clone(), place })
    }

    /// Mounts the vault.
    pub fn mount(&self, options: MountOptions) -> Result<Mount> {
        Mount::new(self, options)
    }

    /// The end of what the last daemon printed.
    pub fn log_tail(&self) -> String {
        log_tail(&self.place.log)
    }

    /// Bytes that the store occupies, by allocated blocks.
    pub fn stored_bytes(&self) -> Result<u64> {
        allocated(&self.place.store)
    }

    /// Lets the program verify everything that it stored, where it can.
    ///
    /// Returns whether the subject has such a command.
    ///
    /// # Errors
    /// The command found damage.
    pub fn check(&self, limit: Duration) -> Result<bool> {
        let Subject::Strongroom { binary, .. } = &self.subject else { return Ok(false) };
        let mut command = std::process::Command::new(binary);
        command.arg("check").arg(&self.place.store).arg("--password-file").arg(&self.place.password);
        command.arg("--json").env("XDG_STATE_HOME", self.place.state());
        let report = command::output(&mut command, limit)?;
        let report: serde_json::Value =
            serde_json::from_str(&report).map_err(|error| Failure::new(format!("check --json: {error}")))?;
        ensure!(report["schema"].is_string(), "check --json names no schema: {report}");
        Ok(true)
    }
}

fn allocated(path: &Path) -> Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    let mut total = metadata.blocks() * 512;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            total += allocated(&entry?.path())?;
        }
    }
    Ok(total)
}
