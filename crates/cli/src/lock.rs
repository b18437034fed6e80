//! Who uses a vault: a lock on `.strongroom/lock`, whose content names the
//! holder.
//!
//! The lock is `flock(2)`'s: it belongs to the open file description, so that
//! it ends with the process however that ends, and a file left behind blocks
//! nobody. What the file says is for people; the lock alone decides. Writers
//! lock exclusively, readers that must not meet one share the lock.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};
use crate::report;

/// The lock's place in a vault.
const NAME: &str = ".strongroom/lock";
/// No holder describes itself at more length.
const LEN_MAX: u64 = 16 << 10;

/// Whether others may use the vault too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Nobody else: for writing.
    Exclusive,
    /// Others that share it: for reading what must not change meanwhile.
    Shared,
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// Name of its machine.
    pub(crate) host: String,
    /// Id of that machine's start, which tells a process from a later one of
    /// the same number.
    pub(crate) boot_id: String,
    /// Its process.
    pub(crate) pid: u32,
    /// Where it has the vault mounted, if it has.
    pub(crate) mount_point: Option<PathBuf>,
    /// What it does: `mount`, `check`, `key change`…
    pub(crate) purpose: String,
    /// When it began, in RFC 3339.
    pub(crate) since: String,
}

/// Why a lock was not taken.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Somebody has it; who, as far as the file says.
    Held(Option<Box<Holder>>),
    /// The system's error.
    System(PathBuf, Errno),
}

/// A lock that is held for as long as this lives.
#[derive(Debug)]
pub(crate) struct VaultLock {
    file: File,
    writable: bool,
}

impl VaultLock {
    /// Locks the vault at `vault` without waiting. `purpose` and `mount_point`
    /// tell others who has it. On a store that cannot be written to, a shared
    /// lock is taken without leaving word, and none at all where there is no
    /// file to lock: no writer can come there either.
    ///
    /// # Errors
    /// [`LockError`].
    pub(crate) fn acquire(
        vault: &Path,
        mode: LockMode,
        purpose: &str,
        mount_point: Option<&Path>,
    ) -> Result<Option<VaultLock>, LockError> {
        let path = vault.join(NAME);
        let Some((mut file, writable)) = open(&path, mode)? else { return Ok(None) };
        let operation = match mode {
            LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
            LockMode::Shared => FlockOperation::NonBlockingLockShared,
        };
        match rustix::io::retry_on_intr(|| rustix::fs::flock(&file, operation)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(LockError::Held(read(&mut file).map(Box::new))),
            Err(errno) => return Err(LockError::System(path, errno)),
        }
        let mut lock = VaultLock { file, writable };
        lock.describe(purpose, mount_point);
        Ok(Some(lock))
    }

    /// Who has the vault locked exclusively now, if anybody has. A holder that
    /// left no word has empty fields.
    pub(crate) fn holder(vault: &Path) -> Option<Box<Holder>> {
        match VaultLock::probe(vault) {
            Err(LockError::Held(holder)) => Some(holder.unwrap_or_else(|| Box::new(Holder::unknown()))),
            _ => None,
        }
    }

    fn probe(vault: &Path) -> Result<(), LockError> {
        let path = vault.join(NAME);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|errno| LockError::System(path.clone(), errno))?;
        let mut file = File::from(fd);
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => Err(LockError::Held(read(&mut file).map(Box::new))),
            _ => Ok(()),
        }
    }

    /// Leaves word of who holds the lock; that it fails does no harm.
    fn describe(&mut self, purpose: &str, mount_point: Option<&Path>) {
        if !self.writable {
            return;
        }
        let holder = Holder::this_process(purpose, mount_point);
        let text = serde_json::to_vec(&holder).unwrap_or_default();
        let _ = self.file.set_len(0);
        let _ = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(&text));
    }
}

impl Drop for VaultLock {
    fn drop(&mut self) {
        if self.writable {
            let _ = self.file.set_len(0);
        }
    }
}

impl Holder {
    fn this_process(purpose: &str, mount_point: Option<&Path>) -> Holder {
        Holder {
            host: host_name(),
            boot_id: boot_id(),
            pid: std::process::id(),
            mount_point: mount_point.map(Path::to_owned),
            purpose: purpose.to_owned(),
            since: report::rfc3339(report::now()),
        }
    }

    fn unknown() -> Holder {
        Holder {
            host: String::new(),
            boot_id: String::new(),
            pid: 0,
            mount_point: None,
            purpose: String::new(),
            since: String::new(),
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} by process {}", self.purpose, self.pid)?;
        if self.boot_id != boot_id() {
            write!(f, " of {}", report::shown(self.host.as_bytes()))?;
        }
        if let Some(mount_point) = &self.mount_point {
            write!(f, " at {}", report::shown(mount_point.as_os_str().as_encoded_bytes()))?;
        }
        write!(f, ", since {}", self.since)
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Failure {
        match error {
            LockError::Held(holder) => {
                let failure = match &holder {
                    Some(holder) => Failure::new(Exit::InUse, format!("the vault is in use ({holder})")),
                    None => Failure::new(Exit::InUse, "the vault is in use by another process"),
                };
                match holder.and_then(|holder| holder.mount_point) {
                    Some(at) => failure.hint(format!("Unmount it first: strongroom umount {}", at.display())),
                    None => failure.hint("Wait until that is done, and try again."),
                }
            }
            LockError::System(path, errno) => Failure::system(&path, &errno.into()),
        }
    }
}

/// The lock's file, and whether it can be written to; none where it is not
/// there and cannot be made.
fn open(path: &Path, mode: LockMode) -> Result<Option<(File, bool)>, LockError> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let failed = |errno| LockError::System(path.to_owned(), errno);
    match rustix::fs::open(path, flags | OFlags::RDWR | OFlags::CREATE, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => Ok(Some((File::from(fd), true))),
        Err(Errno::ROFS | Errno::ACCESS | Errno::PERM) if mode == LockMode::Shared => {
            match rustix::fs::open(path, flags | OFlags::RDONLY, Mode::empty()) {
                Ok(fd) => Ok(Some((File::from(fd), false))),
                Err(Errno::NOENT) => Ok(None),
                Err(errno) => Err(failed(errno)),
            }
        }
        Err(errno) => Err(failed(errno)),
    }
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = Vec::new();
    file.take(LEN_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// This machine's name.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault() -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join(".strongroom")).expect("a directory");
        directory
    }

    #[test]
    fn the_second_writer_learns_of_the_first() {
        let vault = vault();
        let mount_point = Path::new("/mnt/plain");
        let first = VaultLock::acquire(vault.path(), LockMode::Exclusive, "mount", Some(mount_point));
        let first = first.expect("free");
        let Err(LockError::Held(Some(holder))) =
            VaultLock::acquire(vault.path(), LockMode::Exclusive, "key add", None)
        else {
            panic!("locked twice");
        };
        assert_eq!(holder.pid, std::process::id());
        assert_eq!(holder.mount_point.as_deref(), Some(mount_point));
        assert_eq!(VaultLock::holder(vault.path()), Some(holder.clone()));
        let failure = Failure::from(LockError::Held(Some(holder)));
        assert_eq!(failure.exit(), Exit::InUse);
        assert!(failure.to_string().contains("umount /mnt/plain"), "{failure}");
        drop(first);
        assert_eq!(VaultLock::holder(vault.path()), None);
        assert!(VaultLock::acquire(vault.path(), LockMode::Exclusive, "key add", None).is_ok());
    }

    #[test]
    fn readers_share_and_keep_writers_out() {
        let vault = vault();
        let acquire = |mode| VaultLock::acquire(vault.path(), mode, "check", None);
        let readers = [acquire(LockMode::Shared).expect("free"), acquire(LockMode::Shared).expect("shared")];
        assert!(matches!(acquire(LockMode::Exclusive), Err(LockError::Held(_))));
        drop(readers);
        assert!(acquire(LockMode::Exclusive).is_ok());
    }

    #[test]
    fn a_file_left_behind_blocks_nobody_and_may_hold_anything() {
        let vault = vault();
        std::fs::write(vault.path().join(NAME), b"\xff{").expect("written");
        let held = VaultLock::acquire(vault.path(), LockMode::Exclusive, "mount", None).expect("free");
        drop(held);
        assert_eq!(VaultLock::holder(vault.path()), None);
    }
}
