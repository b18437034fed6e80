//! From the path of a vault and a secret to its header and root key.
//!
//! In this order, so that each error comes before the next one's cost: is it
//! a vault, can a copy of its header be read, has it a slot for this kind of
//! secret, is the secret right, and does the header belong to what is stored.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use strongroom_format::vault::header::Header;
use strongroom_format::vault::names::{NameEncoding, StoredName};
use strongroom_format::vault::slot::SlotKind;
use strongroom_keys::slots::{list_slots, verify_header};
use strongroom_keys::unlock::{Damage, UnlockError};
use strongroom_keys::{Credential, NameCipher, RecordMac, RootKey, VaultKeys, unlock_copies};
use strongroom_store::Store;
use strongroom_store::local::{LocalStore, OpenMode};
use strongroom_vault::{self as vault, read_header_copies};

use crate::args::secret::SecretArgs;
use crate::failure::{Exit, Failure, Result};
use crate::history::History;
use crate::proc;
use crate::report::Output;
use crate::secrets::Source;

/// What one copy of the header is worth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CopyState {
    /// It can be read; without a secret nothing more is known.
    Readable,
    /// It is the newest, and authentic.
    Sound,
    /// It is authentic and older than the other copy.
    Outdated,
    /// There is none.
    Missing,
    /// It cannot be read, or is not authentic.
    Damaged,
}

/// One copy of the header, as reports tell of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HeaderCopy {
    /// 0 or 1.
    pub(crate) index: usize,
    /// What it is worth.
    pub(crate) state: CopyState,
    /// Its sequence number, where it can be read.
    pub(crate) sequence: Option<u64>,
    /// What is wrong with it.
    pub(crate) detail: Option<String>,
}

/// A vault whose header has been read and not been opened yet.
pub(crate) struct LockedVault {
    store: Arc<LocalStore>,
    copies: [Option<Vec<u8>>; 2],
}

/// A vault that has been opened with a secret.
pub(crate) struct Unlocked {
    /// The store, as it was opened.
    pub(crate) store: Arc<LocalStore>,
    /// The header, authenticated.
    pub(crate) header: Header,
    /// The key of all keys.
    pub(crate) root: RootKey,
    /// What each copy of the header is worth.
    pub(crate) copies: [HeaderCopy; 2],
}

/// Opens the vault at `path` with the secret that `args` name; the password is
/// asked for without. A copy of the header that is damaged is warned of.
///
/// # Errors
/// Usage when it is no vault, wrong secret, damage, unsupported, or what the
/// store reports.
pub(crate) fn unlock(
    path: &Path,
    mode: OpenMode,
    args: &SecretArgs,
    history: &History,
    output: Output,
) -> Result<Unlocked> {
    let locked = LockedVault::open(path, mode)?;
    let source = args.source();
    locked.check_slots(path, &source, history)?;
    let credential = source.read(&format!("Password of {}", path.display()))?;
    locked.unlock_for_use(path, &credential, history, output)
}

/// Reads and judges the header copies of an unlocked vault anew, after they
/// were written.
///
/// # Errors
/// Damage, or what the store reports.
pub(crate) fn reread(store: &dyn Store, root: &RootKey) -> Result<(Header, [HeaderCopy; 2])> {
    let copies = read_header_copies(store)?;
    let sound = copies.iter().flatten().flat_map(|bytes| Header::decode(bytes));
    let sound = sound.filter(|header| verify_header(header, root));
    let newest = sound.max_by_key(|header| header.sequence);
    let header = newest.ok_or_else(|| explain(UnlockError::Damaged(Damage::Missing)))?;
    let judged = judge_by(&copies, &header, root);
    Ok((header, judged))
}

/// What each copy is worth beside the newest.
fn judge_by(copies: &[Option<Vec<u8>>; 2], newest: &Header, root: &RootKey) -> [HeaderCopy; 2] {
    judge(copies, |copy| {
        if !verify_header(copy, root) {
            (CopyState::Damaged, Some("it was changed, or belongs to another vault".to_owned()))
        } else if copy.sequence < newest.sequence {
            (CopyState::Outdated, None)
        } else {
            (CopyState::Sound, None)
        }
    })
}

fn judge(
    copies: &[Option<Vec<u8>>; 2],
    of_header: impl Fn(&Header) -> (CopyState, Option<String>),
) -> [HeaderCopy; 2] {
    [0, 1].map(|index| match copies[index].as_deref().map(Header::decode) {
        None => HeaderCopy { index, state: CopyState::Missing, sequence: None, detail: None },
        Some(Err(error)) => {
            HeaderCopy { index, state: CopyState::Damaged, sequence: None, detail: Some(error.to_string()) }
        }
        Some(Ok(header)) => {
            let (state, detail) = of_header(&header);
            HeaderCopy { index, state, sequence: Some(header.sequence), detail }
        }
    })
}

/// Whether a file or block device begins as LUKS does.
fn is_disk(path: &Path) -> bool {
    use std::io::Read as _;
    use std::os::unix::fs::FileTypeExt as _;
    let kind = std::fs::metadata(path).map(|found| found.file_type());
    let mut begin = [0; strongroom_format::luks::MAGIC.len()];
    kind.is_ok_and(|kind| kind.is_file() || kind.is_block_device())
        && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
        && begin == strongroom_format::luks::MAGIC
}

impl LockedVault {
    /// Reads the header of the vault at `path`.
    ///
    /// # Errors
    /// Usage when it is no vault, unsupported without `/proc`, or what the
    /// store reports.
    pub(crate) fn open(path: &Path, mode: OpenMode) -> Result<LockedVault> {
        proc::need()?;
        let store = LocalStore::open(path, mode).map_err(|error| match is_disk(path) {
            true => Failure::usage("this is an encrypted disk, and no vault")
                .at(path)
                .hint("Open it with `strongroom disk open IMAGE --raw DIR`."),
            false => Failure::system(path, &std::io::Error::from_raw_os_error(error.errno())),
        })?;
        let copies = read_header_copies(&store).map_err(|error| match error {
            error if error.is_not_found() => {
                Failure::usage("this is no vault: it has no directory .strongroom").at(path).hint(
                    "Make a vault with `strongroom init`, or name the encrypted directory, not the mount.",
                )
            }
            vault::Error::Damaged(_) => Failure::from(error).at(path).hint(
                "Strongroom makes no such thing. Move it away, and put the directory .strongroom back from a backup \
                 of the vault: nothing opens without it.",
            ),
            error => Failure::from(error).at(path),
        })?;
        Ok(LockedVault { store: Arc::new(store), copies })
    }

    /// The store.
    pub(crate) fn store(&self) -> &Arc<LocalStore> {
        &self.store
    }

    fn present(&self) -> Vec<&[u8]> {
        self.copies.iter().flatten().map(Vec::as_slice).collect()
    }

    /// The copies that can be read, not authenticated.
    pub(crate) fn headers(&self) -> Vec<Header> {
        self.present().into_iter().flat_map(Header::decode).collect()
    }

    /// The newest copy that can be read, not authenticated.
    ///
    /// # Errors
    /// Damage or unsupported when there is none.
    pub(crate) fn newest(&self) -> Result<Header> {
        let headers: Vec<_> = self.present().into_iter().map(Header::decode).collect();
        let error = headers.iter().find_map(|header| header.clone().err());
        let newest = headers.into_iter().flatten().max_by_key(|header| header.sequence);
        newest.ok_or_else(|| {
            explain(match error {
                None => UnlockError::Damaged(Damage::Missing),
                Some(error) if error.is_unsupported() => UnlockError::Unsupported(error),
                Some(error) => UnlockError::Damaged(Damage::Malformed(error)),
            })
        })
    }

    /// What can be told of the copies without a secret.
    pub(crate) fn copies(&self) -> [HeaderCopy; 2] {
        judge(&self.copies, |_| (CopyState::Readable, None))
    }

    /// Fails before anything is asked for when no slot is of the secret's
    /// kind, or no header can be read. Asks when trying the secret may take
    /// long.
    ///
    /// # Errors
    /// Wrong secret, damage, unsupported; as [`History::admit_work`].
    pub(crate) fn check_slots(&self, path: &Path, source: &Source, history: &History) -> Result<()> {
        self.newest().map_err(|failure| failure.at(path))?;
        let kind = source.kind();
        let headers = self.headers();
        let kinds: Vec<_> = headers.iter().flat_map(|h| list_slots(h).map(|(_, slot)| slot.kind)).collect();
        if !kinds.contains(&kind) {
            return Err(no_slot(kind, &kinds).at(path));
        }
        history.admit_work(path, &headers, kind)
    }

    /// Tries a secret.
    ///
    /// # Errors
    /// Wrong secret, damage, unsupported.
    pub(crate) fn unlock(self, credential: &Credential) -> Result<Unlocked> {
        let (header, root) = unlock_copies(&self.present(), credential).map_err(explain)?;
        let copies = judge_by(&self.copies, &header, &root);
        check_belongs(&*self.store, &header, &root)?;
        Ok(Unlocked { store: self.store, header, root, copies })
    }

    /// As [`LockedVault::unlock`], with `path` in errors, and warnings. What
    /// is older than this machine has seen is refused.
    ///
    /// # Errors
    /// As [`LockedVault::unlock`] and [`History::admit`].
    pub(crate) fn unlock_for_use(
        self,
        path: &Path,
        credential: &Credential,
        history: &History,
        output: Output,
    ) -> Result<Unlocked> {
        let unlocked = self.unlock(credential).map_err(|failure| failure.at(path))?;
        history.admit(path, &unlocked.header, &*unlocked.store, output)?;
        if strongroom_keys::secret::memory_lock_refused() {
            output.warn(
                "secrets could not be locked in memory: raise the limit with `ulimit -l`, or turn swap off",
            );
        }
        for copy in unlocked.copies.iter().filter(|copy| copy.state.is_damage()) {
            output.warn(&copy.to_string());
        }
        Ok(unlocked)
    }
}

impl CopyState {
    /// Whether a sound vault has no such copy.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, CopyState::Missing | CopyState::Damaged)
    }
}

impl std::fmt::Display for HeaderCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "header.{} is ", self.index)?;
        f.write_str(match self.state {
            CopyState::Readable => "readable",
            CopyState::Sound => "sound",
            CopyState::Outdated => "older than the other copy",
            CopyState::Missing => "missing; the next mount for writing makes it anew",
            CopyState::Damaged => "damaged; the next mount for writing makes it anew",
        })?;
        match &self.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

fn no_slot(kind: SlotKind, kinds: &[SlotKind]) -> Failure {
    let failure = Failure::new(Exit::WrongSecret, format!("the vault has no {kind}"));
    let options: Vec<&str> = SlotKind::ALL
        .into_iter()
        .filter(|kind| kinds.contains(kind))
        .map(|kind| match kind {
            SlotKind::Password => "a password",
            SlotKind::KeyFile => "a key file (--key-file)",
            SlotKind::Recovery => "a recovery key (--recovery-file)",
            SlotKind::PasswordAndKeyFile => "a password with a key file (--key-file --password-prompt)",
        })
        .collect();
    match options.is_empty() {
        true => failure,
        false => failure.hint(format!("It opens with {}.", options.join(" or "))),
    }
}

/// An error of unlocking with its code and what to do.
pub(crate) fn explain(error: UnlockError) -> Failure {
    let message = error.to_string();
    match error {
        UnlockError::WrongSecret => Failure::new(Exit::WrongSecret, message).hint(
            "If it is right for certain, its key slot is damaged: see `strongroom header restore --help`.",
        ),
        UnlockError::NoSlot(kind) => no_slot(kind, &[]),
        UnlockError::Damaged(_) => Failure::new(Exit::Damage, message)
            .hint("Put a backup back with `strongroom header restore`. The files themselves may be sound."),
        UnlockError::Unsupported(_) => Failure::new(Exit::Unsupported, message)
            .hint("Use the version of strongroom that made it, or a newer one."),
        UnlockError::CostRefused(_) => Failure::new(Exit::Unsupported, message)
            .hint("Open it with a key file or recovery key, or on a machine with more memory."),
    }
}

/// Refuses a header that is whole but of another vault.
fn check_belongs(store: &dyn Store, header: &Header, root: &RootKey) -> Result<()> {
    if belongs(store, header, root)? {
        return Ok(());
    }
    Err(Failure::new(Exit::Damage, "the header is of another vault: no name in this one opens with it")
        .hint("Put a backup of the right header back with `strongroom header restore`."))
}

/// False when there are names at the top of the tree and none of them opens
/// with the header's keys.
///
/// # Errors
/// What the store reports.
pub(crate) fn belongs(store: &dyn Store, header: &Header, root: &RootKey) -> Result<bool> {
    let keys = VaultKeys::derive(root, header.vault);
    let (cipher, top) = (NameCipher::new(&keys), RecordMac::new(&keys).root_directory());
    let encoding = NameEncoding::from_flag(header.base32_names);
    let mut foreign = false;
    for entry in store.root().entries()? {
        if let Ok(StoredName::Short(sealed)) = encoding.parse(&entry.name) {
            if cipher.open_name(top, &sealed).is_ok() {
                return Ok(true);
            }
            foreign = true;
        }
    }
    Ok(!foreign)
}
