//! What is remembered of one vault, as one small file: how it is read, and
//! written whole or not at all.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};
use strongroom_format::vault::VaultId;

/// What the file says it is.
const SCHEMA: &str = "strongroom.history/1";

/// Longest file that is read; a path may need six bytes for each of its own.
const LEN_MAX: u64 = 64 << 10;

/// How long another process may hold the lock, which it needs for one write.
const LOCK_LIMIT: Duration = Duration::from_secs(2);

/// What this machine has seen of a vault. Nothing of it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(super) schema: String,
    /// The vault's id, in hex.
    pub(super) vault: String,
    /// The highest sequence number of a header that was authentic.
    pub(crate) sequence: u64,
    /// When that header was written, in seconds since 1970; 0 where it does not say.
    pub(crate) written: u64,
    /// When it was seen here first, in seconds since 1970.
    pub(crate) seen: u64,
    /// The most that trying a secret of one kind has cost at a header that was authentic, as Argon2id's memory in
    /// KiB times passes.
    #[serde(default)]
    pub(super) work: u64,
    /// The freshness file that the vault was mounted with last.
    pub(crate) freshness: Option<SeenFile>,
    /// How far a check by time has come; none where none has begun.
    #[serde(default)]
    pub(super) scrub: Option<SeenFiles>,
}

/// The part of a vault that checks by time have looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeenFiles {
    /// The stored path where the next one goes on.
    pub(crate) next: String,
    /// When the pass began, in seconds since 1970.
    pub(crate) began: u64,
    /// Files that were looked at since.
    pub(crate) files: u64,
}

/// A freshness file that was in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeenFile {
    /// Where it was.
    pub(crate) path: String,
    /// When, in seconds since 1970.
    pub(crate) seen: u64,
}

impl Record {
    pub(super) fn new(vault: VaultId, sequence: u64, written: u64, seen: u64) -> Record {
        let (schema, vault) = (SCHEMA.to_owned(), vault.to_string());
        Record { schema, vault, sequence, written, seen, work: 0, freshness: None, scrub: None }
    }
}

/// The file of a vault.
pub(super) fn file(directory: &Path, vault: VaultId) -> PathBuf {
    directory.join(format!("vault-{vault}.json"))
}

/// Reads what is remembered of a vault; `None` when there is nothing.
///
/// # Errors
/// Why the file cannot be used, as a phrase.
pub(super) fn read(directory: &Path, vault: VaultId) -> Result<Option<Record>, String> {
    let path = file(directory, vault);
    // What is no file must not be waited for.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(&path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(words(&error)),
    };
    if !file.metadata().map_err(|error| words(&error))?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut text = Vec::new();
    file.take(LEN_MAX + 1).read_to_end(&mut text).map_err(|error| words(&error))?;
    if text.len() as u64 > LEN_MAX {
        return Err("it is too long".to_owned());
    }
    let record: Record = serde_json::from_slice(&text).map_err(|_| "it is damaged".to_owned())?;
    if record.schema != SCHEMA {
        return Err(format!("this version does not know `{}`", record.schema.escape_default()));
    }
    match record.vault == vault.to_string() {
        true => Ok(Some(record)),
        false => Err("it is of another vault".to_owned()),
    }
}

/// Puts what `change` makes of the record in its place, durably, while no
/// other process does. Nothing is written where nothing changes.
///
/// # Errors
/// Why that cannot be done, as a phrase; what was remembered is unharmed.
pub(super) fn update(
    directory: &Path,
    vault: VaultId,
    change: impl FnOnce(Option<Record>) -> Option<Record>,
) -> Result<(), String> {
    let said = |error: std::io::Error| words(&error);
    fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(said)?;
    let owner = fs::metadata(directory).map_err(said)?.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return Err(format!("{} belongs to another user", directory.display()));
    }
    let _lock = lock(directory)?;
    // One that is damaged is replaced by none but who has decided to.
    let known = read(directory, vault);
    let known = match known {
        Ok(known) => known,
        Err(_) if !file(directory, vault).is_dir() => None,
        Err(why) => return Err(why),
    };
    match change(known.clone()) {
        Some(record) if Some(&record) != known.as_ref() => write(directory, vault, &record).map_err(said),
        _ => Ok(()),
    }
}

fn lock(directory: &Path) -> Result<File, String> {
    let said = |error: std::io::Error| words(&error);
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
    let file = options.open(directory.join("history.lock")).map_err(said)?;
    let until = Instant::now() + LOCK_LIMIT;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err("another process keeps it locked".to_owned()),
            Err(error) => return Err(words(&error.into())),
        }
    }
}

/// The caller has the lock, so that one name for the new file is enough.
fn write(directory: &Path, vault: VaultId, record: &Record) -> std::io::Result<()> {
    let path = file(directory, vault);
    let fresh = path.with_extension("new");
    let mut text = serde_json::to_vec_pretty(record).expect("a record has text keys");
    text.push(b'\n');
    let written = (|| {
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        File::open(directory)?.sync_all()
    })();
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

/// The number says nothing that the words before it do not.
fn words(error: &std::io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const VAULT: VaultId = VaultId([7; 16]);

    fn record(sequence: u64) -> Record {
        Record::new(VAULT, sequence, 1000, 2000)
    }

    #[test]
    fn what_was_written_is_read_again_and_is_private() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("a/b");
        assert_eq!(read(&directory, VAULT), Ok(None));
        for sequence in [3, 9] {
            update(&directory, VAULT, |_| Some(record(sequence))).expect("written");
            assert_eq!(read(&directory, VAULT), Ok(Some(record(sequence))));
        }
        assert_eq!(read(&directory, VaultId([8; 16])), Ok(None));
        let mode = fs::metadata(file(&directory, VAULT)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let names = fs::read_dir(&directory).expect("a directory").count();
        assert_eq!(names, 2, "the record and the lock, and no temporary file");
    }

    #[test]
    fn a_file_left_by_a_write_that_was_cut_off_is_replaced() {
        let place = tempfile::tempdir().expect("a directory");
        fs::write(file(place.path(), VAULT).with_extension("new"), "{").expect("written");
        update(place.path(), VAULT, |_| Some(record(3))).expect("written");
        assert_eq!(read(place.path(), VAULT), Ok(Some(record(3))));
    }

    #[test]
    fn what_is_no_record_of_the_vault_is_said_to_be_none() {
        let place = tempfile::tempdir().expect("a directory");
        update(place.path(), VAULT, |_| Some(record(3))).expect("written");
        let path = file(place.path(), VAULT);
        let text = fs::read_to_string(&path).expect("text");
        for (changed, word) in [
            (text.replace("history/1", "history/2"), "does not know"),
            (text.replace("0707", "0708"), "another vault"),
            (text.replace('3', "-3"), "damaged"),
            (text[..text.len() / 2].to_owned(), "damaged"),
            (String::new(), "damaged"),
            (" ".repeat(LEN_MAX as usize + 1), "too long"),
        ] {
            fs::write(&path, changed).expect("written");
            let why = read(place.path(), VAULT).expect_err("it cannot be used");
            assert!(why.contains(word), "{word}: {why}");
        }
        fs::remove_file(&path).expect("removed");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a FIFO");
        assert!(read(place.path(), VAULT).expect_err("a FIFO").contains("not a file"));
    }

    #[test]
    fn two_writers_take_turns() {
        let place = tempfile::tempdir().expect("a directory");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let next = |known: Option<Record>| {
                            let mut record = known.unwrap_or_else(|| record(0));
                            record.sequence += 1;
                            Some(record)
                        };
                        update(place.path(), VAULT, next).expect("written");
                    }
                });
            }
        });
        assert_eq!(read(place.path(), VAULT).expect("whole").expect("there").sequence, 100);
    }

    #[test]
    fn a_lock_that_is_never_given_back_is_not_waited_for_for_ever() {
        let place = tempfile::tempdir().expect("a directory");
        let _held = lock(place.path()).expect("free");
        let why = update(place.path(), VAULT, |_| Some(record(3))).expect_err("held");
        assert!(why.contains("locked"), "{why}");
    }
}
