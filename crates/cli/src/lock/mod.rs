//! Who uses a vault: a lock on `.strongroom/lock`, and a record in it of who
//! holds it (section 9 of `docs/format/vault.md`).
//!
//! The lock is `flock(2)`'s: it belongs to the open file description, so that
//! it ends with the process however that ends. Where stores do not share such
//! locks between machines, the record keeps others out: that of a process
//! which runs on this machine, and that of another machine, which only the
//! user can say is gone. Writers lock exclusively and leave a record; readers
//! that must not meet one share the lock and leave none.

mod holder;
mod stored;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use strongroom_format::vault::VaultId;
use strongroom_keys::RootKey;
use strongroom_vault::Fence;

use self::holder::FileMark;
pub(crate) use self::holder::{Holder, Standing};
use self::stored::Stored;
use crate::control;
use crate::failure::{Exit, Failure};
use crate::report::{self, Output};

/// The lock's place in a vault.
const NAME: &str = ".strongroom/lock";
/// No holder describes itself at more length.
const LEN_MAX: u64 = 256 << 10;

/// Whether others may use the vault too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Nobody else: for writing.
    Exclusive,
    /// Others that share it: for reading what must not change meanwhile.
    Shared,
}

/// From whom a lock may be taken that is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takeover {
    /// From nobody.
    Refuse,
    /// From a holder on another machine, or of what this may be a copy of.
    Elsewhere,
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
    /// Locked, unless that was taken over.
    file: File,
    /// What was left to be found by others; none by readers.
    record: Option<Arc<Record>>,
}

/// The record of this process.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
    holder: Holder,
    /// What is written of it.
    text: Vec<u8>,
}

impl Takeover {
    /// Whether the lock of such a holder may be taken.
    pub(crate) fn covers(self, holder: &Holder) -> bool {
        self == Takeover::Elsewhere && matches!(holder.standing(), Standing::Elsewhere | Standing::OfAnother)
    }
}

impl VaultLock {
    /// Waits for a mount of this machine that has the vault and is just
    /// ending, or is being made, with a word about it. For every command
    /// that is going to lock it.
    pub(crate) fn settle(vault: &Path, output: Output) {
        let Some(holder) = VaultLock::holder(vault).filter(|holder| holder.is_passing()) else { return };
        output.warn(&format!("waiting: {holder} is just ending or beginning"));
        // Whether that was enough, locking tells.
        holder.wait_while_passing();
    }

    /// Locks the vault at `vault` without waiting. `purpose` and `mount_point`
    /// tell others who has it. On a store that cannot be written to, a shared
    /// lock is taken, and none at all where there is no file to lock: no
    /// writer can come there either.
    ///
    /// # Errors
    /// [`LockError`].
    pub(crate) fn acquire(
        vault: &Path,
        mode: LockMode,
        purpose: &str,
        mount_point: Option<&Path>,
    ) -> Result<Option<VaultLock>, LockError> {
        Self::acquire_from(vault, mode, purpose, mount_point, Takeover::Refuse)
    }

    /// The same; with [`Takeover::Elsewhere`] also from a holder on another
    /// machine, who finds his record replaced.
    ///
    /// # Errors
    /// [`LockError`].
    pub(crate) fn acquire_from(
        vault: &Path,
        mode: LockMode,
        purpose: &str,
        mount_point: Option<&Path>,
        takeover: Takeover,
    ) -> Result<Option<VaultLock>, LockError> {
        let path = vault.join(NAME);
        let Some(mut file) = open(&path, mode)? else { return Ok(None) };
        let operation = match mode {
            LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
            LockMode::Shared => FlockOperation::NonBlockingLockShared,
        };
        let locked = rustix::io::retry_on_intr(|| rustix::fs::flock(&file, operation));
        let left = read(&mut file).map(Box::new);
        let may_take = |left: &Holder| takeover.covers(left);
        let is_taken_over = left.as_ref().is_some_and(|left| left.standing_unlocked() != Standing::Gone);
        let is_elsewhere = |left: &Holder| left.standing() == Standing::Elsewhere;
        match (locked, left) {
            (Ok(()), None) => {}
            (Ok(()), Some(left)) if left.standing_unlocked() == Standing::Gone || may_take(&left) => {}
            // Its machine may have gone without the server of the store
            // having noticed.
            (Err(Errno::WOULDBLOCK), Some(left)) if may_take(&left) && is_elsewhere(&left) => {}
            (Ok(()) | Err(Errno::WOULDBLOCK), left) => return Err(LockError::Held(left)),
            // A store without such locks has the record alone.
            (Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS), None) => {}
            (Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS), Some(left)) => {
                if left.standing_unlocked() != Standing::Gone && !may_take(&left) {
                    return Err(LockError::Held(Some(left)));
                }
            }
            (Err(errno), _) => return Err(LockError::System(path, errno)),
        }
        if mode == LockMode::Shared {
            return Ok(Some(VaultLock { file, record: None }));
        }
        let holder = Holder { file: FileMark::of(&file), ..Holder::this_process(purpose, mount_point) };
        let record = Record::new(path, holder, None)?;
        record.leave(&mut file).map_err(|errno| LockError::System(record.path.clone(), errno))?;
        // Of two that came at once, the one that wrote last has it.
        if !record.stands() {
            return Err(LockError::Held(read(&mut file).map(Box::new)));
        }
        if is_taken_over {
            // Until then whoever had it goes on to change names.
            std::thread::sleep(2 * strongroom_vault::FENCE_INTERVAL);
        }
        Ok(Some(VaultLock { file, record: Some(Arc::new(record)) }))
    }

    /// Tells whoever has the vault's key, on other machines too, who has the
    /// vault. To be called once that is unlocked, before there is a fence.
    ///
    /// # Errors
    /// [`LockError`].
    pub(crate) fn tell(&mut self, root: &RootKey, vault: VaultId) -> Result<(), LockError> {
        let Some(record) = &self.record else { return Ok(()) };
        if !record.stands() {
            return Err(LockError::Held(read(&mut self.file).map(Box::new)));
        }
        let record = Record::new(record.path.clone(), record.holder.clone(), Some((root, vault)))?;
        record.leave(&mut self.file).map_err(|errno| LockError::System(record.path.clone(), errno))?;
        self.record = Some(Arc::new(record));
        Ok(())
    }

    /// What tells the vault when the lock has been lost to another machine.
    pub(crate) fn fence(&self) -> Option<Arc<dyn Fence>> {
        self.record.clone().map(|record| record as Arc<dyn Fence>)
    }

    /// Who writes to the vault, as far as the record says. Nothing is locked:
    /// a writer that comes now is not to meet a reader that only asks.
    pub(crate) fn writer(vault: &Path) -> Option<Box<Holder>> {
        let mut file = open_to_look(&vault.join(NAME)).ok()?;
        read(&mut file).map(Box::new).filter(|left| left.standing() != Standing::Gone)
    }

    /// Who keeps writers out now, if anybody does. A holder that left no word
    /// has empty fields.
    pub(crate) fn holder(vault: &Path) -> Option<Box<Holder>> {
        let mut file = open_to_look(&vault.join(NAME)).ok()?;
        let left = read(&mut file).map(Box::new);
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => Some(left.unwrap_or_else(|| Box::new(Holder::unknown()))),
            _ => left.filter(|left| left.standing_unlocked() != Standing::Gone),
        }
    }
}

impl Drop for VaultLock {
    fn drop(&mut self) {
        // One that another machine has taken over is its own now.
        if let Some(record) = &self.record
            && record.stands()
        {
            let _ = self.file.set_len(0);
        }
    }
}

impl Record {
    fn new(path: PathBuf, holder: Holder, keys: Option<(&RootKey, VaultId)>) -> Result<Record, LockError> {
        match Stored::of(&holder, keys) {
            Some(stored) => Ok(Record { path, holder, text: stored.text() }),
            // The kernel's random generator failed.
            None => Err(LockError::System(path, Errno::IO)),
        }
    }

    /// Writes the record, durably: whoever comes after a crash shall find it.
    /// One that is there is replaced by one write, so that nobody finds none.
    fn leave(&self, file: &mut File) -> Result<(), Errno> {
        let left = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(&self.text))
            .and_then(|()| file.set_len(self.text.len() as u64))
            .and_then(|()| file.sync_data());
        left.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// Whether the file, opened anew, still holds this record.
    fn stands(&self) -> bool {
        self.found().is_ok_and(|found| found)
    }

    /// The same, or why it cannot be told. Asked before each commit, and
    /// when a new file is closed: as a rule that is one look at its bytes.
    fn found(&self) -> Result<bool, Errno> {
        let file = open_to_look(&self.path)?;
        let mut text = vec![0; self.text.len() + 1];
        let len = rustix::io::pread(&file, &mut text, 0)?;
        if text[..len] == self.text {
            return Ok(true);
        }
        text.clear();
        file.take(LEN_MAX)
            .read_to_end(&mut text)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(Stored::parse(&text).is_some_and(|found| found.holder() == self.holder))
    }
}

impl Fence for Record {
    fn holds(&self) -> Result<bool, strongroom_store::Error> {
        self.found().map_err(|errno| strongroom_store::Error::new(errno.raw_os_error(), "open"))
    }
}

impl LockError {
    /// The same, as the vault's key tells who has it.
    pub(crate) fn revealed(self, root: &RootKey, vault: VaultId) -> LockError {
        match self {
            LockError::Held(Some(holder)) => LockError::Held(Some(Box::new(holder.revealed(root, vault)))),
            other => other,
        }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Failure {
        match error {
            LockError::Held(None) => Failure::new(Exit::InUse, "the vault is in use by another process")
                .hint(
                    "A command that reads it, or a read-only mount of it with a freshness file, keeps writers out: \
                     wait, or unmount it.",
                ),
            LockError::Held(Some(holder)) => {
                let failure = Failure::new(Exit::InUse, format!("the vault is in use ({holder})"));
                if let Some(text) = unlisted(&holder) {
                    return failure.hint(text);
                }
                match (&holder.mount_point, holder.is_here()) {
                    (Some(at), true) => {
                        let at = report::shown(at.as_os_str().as_encoded_bytes());
                        failure.hint(format!("Unmount it first: strongroom umount {at}"))
                    }
                    (None, true) => failure.hint("Wait until that is done, and try again."),
                    (_, false) => failure.hint(
                        "End it there. If that machine is gone for certain, mount with --takeover: should it write \
                         once more, files that both change are damaged.",
                    ),
                }
            }
            // What opening a socket, a directory or a link by this name says, and
            // what is said of any other kind.
            LockError::System(path, Errno::INVAL | Errno::NXIO | Errno::ISDIR | Errno::LOOP) => {
                Failure::new(Exit::Damage, "the vault's lock is not a regular file")
                    .at(&path)
                    .hint("Nothing of strongroom's makes such a thing there. Remove it, and try again.")
            }
            LockError::System(path, errno) => Failure::system(&path, &errno.into()),
        }
    }
}

/// What to do about a holder that an unmount does not end.
fn unlisted(holder: &Holder) -> Option<String> {
    let at = holder.mount_point.as_ref()?;
    if holder.standing() == Standing::OfAnother {
        let at = report::shown(at.as_os_str().as_encoded_bytes());
        return Some(format!(
            "This is a copy of the vault that is mounted at {at}, made meanwhile, or that vault itself by another \
             way. If it is a copy, go on with `strongroom mount --takeover`, which recovers it as after a crash. If \
             it is the same, unmount first: both would damage it."
        ));
    }
    if !holder.is_passing() {
        return None;
    }
    let held = control::device_of(holder.pid).map(control::holders::of).unwrap_or_default();
    let told = control::holders::told(&held, at);
    Some(format!("It was unmounted there, and something still holds it.\n{told}"))
}

/// The lock's file; none where it is not there and cannot be made.
fn open(path: &Path, mode: LockMode) -> Result<Option<File>, LockError> {
    // A FIFO there would have its opener wait, and a device may act by it.
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let failed = |errno| LockError::System(path.to_owned(), errno);
    match rustix::fs::open(path, flags | OFlags::RDWR | OFlags::CREATE, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => file_alone(File::from(fd)).map(Some).map_err(failed),
        Err(Errno::ROFS | Errno::ACCESS | Errno::PERM) if mode == LockMode::Shared => {
            match open_to_look(path) {
                Ok(file) => Ok(Some(file)),
                Err(Errno::NOENT) => Ok(None),
                Err(errno) => Err(failed(errno)),
            }
        }
        Err(errno) => Err(failed(errno)),
    }
}

/// The lock's file as it is now, to be read alone.
fn open_to_look(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from).and_then(file_alone)
}

/// Refuses what is no regular file: nobody but the program makes the lock.
fn file_alone(file: File) -> Result<File, Errno> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if kind == FileType::RegularFile { Ok(file) } else { Err(Errno::INVAL) }
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    let mark = FileMark::of(file);
    file.take(LEN_MAX).read_to_end(&mut text).ok()?;
    Some(Stored::parse(&text)?.holder().found_in(mark))
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
        // No mount table shows it, so that unmounting alone does not end it.
        assert!(failure.to_string().contains("umount --abort /mnt/plain"), "{failure}");
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

    /// A machine that is not this one.
    fn elsewhere(vault: &tempfile::TempDir) -> Holder {
        let holder = Holder {
            host: "faraway".into(),
            machine: "00".repeat(16),
            boot_id: "another".into(),
            mount_point: Some("/mnt/there".into()),
            ..Holder::this_process("mount", None)
        };
        leave(vault, &holder, true);
        read(&mut File::open(vault.path().join(NAME)).expect("there")).expect("a record")
    }

    /// Leaves a holder's record, as of another machine where that is said.
    fn leave(vault: &tempfile::TempDir, holder: &Holder, is_elsewhere: bool) {
        let stored = Stored::of(holder, Some((&root(), VaultId([1; 16])))).expect("entropy");
        let text = String::from_utf8(stored.text()).expect("JSON");
        let spoiled = if is_elsewhere { text.replacen("machine\":\"", "machine\":\"00", 1) } else { text };
        std::fs::write(vault.path().join(NAME), spoiled).expect("written");
    }

    /// A vault's root key, always the same.
    fn root() -> RootKey {
        static ROOT: std::sync::OnceLock<RootKey> = std::sync::OnceLock::new();
        ROOT.get_or_init(|| RootKey::random().expect("entropy")).duplicate()
    }

    fn acquire(vault: &tempfile::TempDir, takeover: Takeover) -> Result<Option<VaultLock>, LockError> {
        VaultLock::acquire_from(vault.path(), LockMode::Exclusive, "mount", None, takeover)
    }

    #[test]
    fn another_machine_keeps_writers_and_checks_out_without_any_lock() {
        let vault = vault();
        let holder = elsewhere(&vault);
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let held = VaultLock::acquire(vault.path(), mode, "check", None);
            let Err(LockError::Held(Some(found))) = held else { panic!("{held:?}") };
            assert_eq!(*found, holder);
        }
        assert_eq!(VaultLock::holder(vault.path()), Some(Box::new(holder.clone())));
        let said = Failure::from(LockError::Held(Some(Box::new(holder.clone())))).to_string();
        assert!(said.contains("another machine") && said.contains("--takeover"), "{said}");
        let told = Box::new(holder.clone().revealed(&root(), VaultId([1; 16])));
        let said = Failure::from(LockError::Held(Some(told))).to_string();
        assert!(said.contains("of faraway at /mnt/there, since") && said.contains("--takeover"), "{said}");
        assert_eq!(holder.clone().revealed(&root(), VaultId([2; 16])), holder, "another vault's key");
    }

    #[test]
    fn what_is_taken_over_is_lost_to_the_other_who_notices_and_leaves_it_alone() {
        let vault = vault();
        let first = acquire(&vault, Takeover::Refuse).expect("free").expect("a file");
        let fence = first.fence().expect("a writer");
        assert_eq!(fence.holds(), Ok(true));
        // On another machine, where flock is not shared, it is taken over.
        let path = vault.path().join(NAME);
        let other = elsewhere(&vault);
        assert_eq!(fence.holds(), Ok(false));
        drop(first);
        assert_eq!(read(&mut File::open(&path).expect("there")), Some(other), "not the first one's any more");
        let began = std::time::Instant::now();
        let taken = acquire(&vault, Takeover::Elsewhere).expect("taken over").expect("a file");
        assert!(began.elapsed() >= 2 * strongroom_vault::FENCE_INTERVAL, "the first one has noticed");
        assert_eq!(taken.fence().expect("a writer").holds(), Ok(true));
        drop(taken);
        assert!(acquire(&vault, Takeover::Refuse).is_ok());
    }

    #[test]
    fn a_store_that_is_gone_for_a_while_is_no_takeover() {
        let vault = vault();
        let lock = acquire(&vault, Takeover::Refuse).expect("free").expect("a file");
        let fence = lock.fence().expect("a writer");
        let (here, away) = (vault.path().join(".strongroom"), vault.path().join("away"));
        std::fs::rename(&here, &away).expect("renamed");
        assert!(fence.holds().is_err());
        std::fs::rename(&away, &here).expect("renamed");
        assert_eq!(fence.holds(), Ok(true));
    }

    #[test]
    fn nothing_is_taken_over_from_a_process_of_this_machine_that_runs() {
        let vault = vault();
        let here = Holder::this_process("mount", None);
        leave(&vault, &here, false);
        for takeover in [Takeover::Refuse, Takeover::Elsewhere] {
            assert!(matches!(acquire(&vault, takeover), Err(LockError::Held(Some(_)))));
        }
        let ended = Holder { started: here.started + 1, ..here };
        leave(&vault, &ended, false);
        assert!(acquire(&vault, Takeover::Refuse).is_ok(), "a dead process's");
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
