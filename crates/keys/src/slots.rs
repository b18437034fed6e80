//! Key slots of the vault header: making, replacing and removing them, and the
//! header's own MAC (section 8 of the format).
//!
//! Every function here that changes a header seals it again, so a header in
//! memory always verifies. Writing it to the store is the caller's.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use strongroom_format::vault::header::{Header, MAC_COVERS, SESSIONS, SLOTS};
use strongroom_format::vault::slot::{Kdf, KdfCost, KeySlot, Label, LaterSlot, SALT_LEN, Slot, SlotKind};
use strongroom_format::vault::{Suite, VaultId};
use strongroom_memory::in_wiped_stack;
use strongroom_units::BlockSize;

use crate::hierarchy::{FIRST_GENERATION, RootKey};
use crate::kdf::{CostRefused, DERIVED_LEN, derive};
use crate::random::{self, EntropyError};
use crate::recovery::RecoveryKey;
use crate::secret::{Secret, SecretBytes};
use crate::siv;

/// The secret of a key file: SHA-256 of its content.
pub struct KeyFile {
    secret: Secret<32>,
    is_uniform: bool,
}

/// A key file with nothing in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFileEmpty;

impl fmt::Display for KeyFileEmpty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key file is empty")
    }
}

impl std::error::Error for KeyFileEmpty {}

impl KeyFile {
    /// Bytes of a key file that passes for a key: one made for this.
    pub const KEY_LEN: usize = 32;

    /// From the file's content.
    ///
    /// # Errors
    /// [`KeyFileEmpty`].
    pub fn from_content(content: &[u8]) -> Result<KeyFile, KeyFileEmpty> {
        if content.is_empty() {
            return Err(KeyFileEmpty);
        }
        let secret = in_wiped_stack(|| Secret::build(|secret| *secret = Sha256::digest(content).into()));
        Ok(KeyFile { secret, is_uniform: is_key(content) })
    }

    /// False when its content could be guessed, as that of a picture could, or
    /// of a password in a file. New slots stretch those as they do passwords.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.is_uniform
    }
}

/// Whether a key file holds 32 bytes that are no text. Of random ones, one in
/// 10^13 is all printable.
fn is_key(content: &[u8]) -> bool {
    let is_printable = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    content.len() == KeyFile::KEY_LEN && !content.iter().all(is_printable)
}

/// What opens a slot.
pub enum Credential {
    /// A password.
    Password(SecretBytes),
    /// A key file.
    KeyFile(KeyFile),
    /// A recovery key.
    Recovery(RecoveryKey),
    /// A password and a key file together.
    PasswordAndKeyFile(PasswordAndKeyFile),
}

/// The secret of a password and a key file: the key file's 32 bytes, then the
/// password.
pub struct PasswordAndKeyFile(SecretBytes);

impl PasswordAndKeyFile {
    /// Of both.
    #[must_use]
    pub fn new(password: &SecretBytes, file: &KeyFile) -> PasswordAndKeyFile {
        let mut both = SecretBytes::zeroed(KeyFile::KEY_LEN + password.expose().len());
        let (key, rest) = both.expose_mut().split_at_mut(KeyFile::KEY_LEN);
        key.copy_from_slice(file.secret.expose());
        rest.copy_from_slice(password.expose());
        PasswordAndKeyFile(both)
    }
}

impl Credential {
    /// The kind of slot that it opens.
    #[must_use]
    pub fn kind(&self) -> SlotKind {
        match self {
            Credential::Password(_) => SlotKind::Password,
            Credential::KeyFile(_) => SlotKind::KeyFile,
            Credential::Recovery(_) => SlotKind::Recovery,
            Credential::PasswordAndKeyFile(_) => SlotKind::PasswordAndKeyFile,
        }
    }

    pub(crate) fn secret(&self) -> &[u8] {
        match self {
            Credential::Password(password) => password.expose(),
            Credential::KeyFile(file) => file.secret.expose(),
            Credential::Recovery(key) => key.expose(),
            Credential::PasswordAndKeyFile(both) => both.0.expose(),
        }
    }

    /// Whether somebody could find it by trying: a new slot for it then costs
    /// Argon2id.
    #[must_use]
    pub fn is_guessable(&self) -> bool {
        match self {
            Credential::Password(_) | Credential::PasswordAndKeyFile(_) => true,
            Credential::KeyFile(file) => !file.is_uniform(),
            Credential::Recovery(_) => false,
        }
    }
}

/// What a new slot is made with.
#[derive(Clone, Debug)]
pub struct SlotOptions {
    /// What its owner calls it.
    pub label: Label,
    /// Seconds since 1970.
    pub created: u64,
    /// What trying it costs, when it is one that can be guessed.
    pub cost: KdfCost,
}

/// What a new vault is made with.
#[derive(Clone, Copy, Debug)]
pub struct NewVault {
    /// What seals it.
    pub suite: Suite,
    /// Block size of its files.
    pub block_size: BlockSize,
    /// The store folds case.
    pub base32_names: bool,
    /// Seconds since 1970.
    pub created: u64,
}

/// Why a slot was not made or removed; the header is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotError {
    /// Every slot is taken.
    Full,
    /// There is no slot of this number.
    Empty {
        /// The number.
        index: usize,
    },
    /// It is the last slot: without it nobody could open the vault again.
    Last,
    /// This machine has not the memory that the cost asks for.
    Cost(CostRefused),
    /// The kernel's random generator failed.
    Entropy(EntropyError),
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotError::Full => write!(f, "all {SLOTS} key slots are taken"),
            SlotError::Empty { index } => write!(f, "there is no key slot {index}"),
            SlotError::Last => {
                f.write_str("it is the last key slot: without it the vault could never be opened again")
            }
            SlotError::Cost(refused) => refused.fmt(f),
            SlotError::Entropy(failed) => failed.fmt(f),
        }
    }
}

impl std::error::Error for SlotError {}

impl From<CostRefused> for SlotError {
    fn from(refused: CostRefused) -> SlotError {
        SlotError::Cost(refused)
    }
}

impl From<EntropyError> for SlotError {
    fn from(failed: EntropyError) -> SlotError {
        SlotError::Entropy(failed)
    }
}

/// A new vault's header, with one slot, and its root key.
///
/// # Errors
/// [`SlotError::Cost`] and [`SlotError::Entropy`].
pub fn create_header(
    vault: &NewVault,
    credential: &Credential,
    options: &SlotOptions,
) -> Result<(Header, RootKey), SlotError> {
    let root = RootKey::random()?;
    let mut header = Header {
        suite: vault.suite,
        block_size: vault.block_size,
        base32_names: vault.base32_names,
        vault: VaultId(random::array()?),
        sequence: 0,
        generation: FIRST_GENERATION,
        generation_min: FIRST_GENERATION,
        created: vault.created,
        written: vault.created,
        has_freshness: false,
        sessions: [const { None }; SESSIONS],
        slots: [const { None }; SLOTS],
        extensions: Vec::new(),
        mac: [0; 32],
    };
    add_slot(&mut header, &root, credential, options)?;
    Ok((header, root))
}

/// Adds a slot that `credential` opens, and gives its number.
///
/// # Errors
/// [`SlotError`] but for `Empty` and `Last`.
pub fn add_slot(
    header: &mut Header,
    root: &RootKey,
    credential: &Credential,
    options: &SlotOptions,
) -> Result<usize, SlotError> {
    let index = header.slots.iter().position(Option::is_none).ok_or(SlotError::Full)?;
    header.slots[index] = Some(Slot::Known(wrap(header, root, credential, options)?));
    seal_header(header, root);
    Ok(index)
}

/// Replaces slot `index` by one that `credential` opens; what opened it before
/// does no more.
///
/// # Errors
/// [`SlotError`] but for `Full` and `Last`.
pub fn change_slot(
    header: &mut Header,
    root: &RootKey,
    index: usize,
    credential: &Credential,
    options: &SlotOptions,
) -> Result<(), SlotError> {
    occupied(header, index)?;
    header.slots[index] = Some(Slot::Known(wrap(header, root, credential, options)?));
    seal_header(header, root);
    Ok(())
}

/// Removes slot `index`.
///
/// # Errors
/// [`SlotError::Empty`], and [`SlotError::Last`] when no other slot is left.
pub fn remove_slot(header: &mut Header, root: &RootKey, index: usize) -> Result<(), SlotError> {
    let is_known = occupied(header, index)?.known().is_some();
    if is_known && list_slots(header).count() == 1 {
        return Err(SlotError::Last);
    }
    header.slots[index] = None;
    seal_header(header, root);
    Ok(())
}

/// The slots that this program can open, with their numbers.
pub fn list_slots(header: &Header) -> impl Iterator<Item = (usize, &KeySlot)> {
    let slots = header.slots.iter().enumerate();
    slots.filter_map(|(index, slot)| slot.as_ref().and_then(Slot::known).map(|slot| (index, slot)))
}

/// The slots of kinds that it does not know, with their numbers.
pub fn list_later_slots(header: &Header) -> impl Iterator<Item = (usize, &LaterSlot)> {
    header.slots.iter().enumerate().filter_map(|(index, slot)| match slot {
        Some(Slot::Later(slot)) => Some((index, slot)),
        _ => None,
    })
}

fn occupied(header: &Header, index: usize) -> Result<&Slot, SlotError> {
    header.slots.get(index).and_then(Option::as_ref).ok_or(SlotError::Empty { index })
}

/// Advances the header's sequence number and sets its MAC. To be called after
/// every change, before the header is written.
pub fn seal_header(header: &mut Header, root: &RootKey) {
    header.sequence = header.sequence.saturating_add(1);
    header.mac = in_wiped_stack(|| header_mac(header, root).finalize().into_bytes().into());
}

/// True when the header is as it was sealed under this root key. Compares in
/// constant time.
#[must_use]
pub fn verify_header(header: &Header, root: &RootKey) -> bool {
    in_wiped_stack(|| header_mac(header, root).verify_slice(&header.mac).is_ok())
}

fn header_mac(header: &Header, root: &RootKey) -> Hmac<Sha256> {
    let key = root.header_key(header.vault);
    hmac(key.expose(), &[&header.encode()[..MAC_COVERS]])
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

fn wrap(
    header: &Header,
    root: &RootKey,
    credential: &Credential,
    options: &SlotOptions,
) -> Result<KeySlot, SlotError> {
    let kind = credential.kind();
    let kdf = if credential.is_guessable() { Kdf::Argon2id(options.cost) } else { Kdf::Hkdf };
    let mut slot = KeySlot {
        kind,
        kdf,
        salt: random::array()?,
        created: options.created,
        label: options.label.clone(),
        commitment: [0; 32],
        wrapped: [0; 48],
    };
    let derived = derive(kdf, credential.secret(), &slot.salt)?;
    in_wiped_stack(|| {
        let (wrapping, committing) = split(&derived);
        slot.commitment = commitment(committing, &slot.salt).finalize().into_bytes().into();
        let wrapped = siv::seal(wrapping, header.wrap_context(&slot).bytes(), root.expose());
        slot.wrapped = wrapped.try_into().expect("a root key and a tag");
    });
    Ok(slot)
}

/// What a slot says to a secret.
pub(crate) enum Attempt {
    /// Another secret opens it.
    Wrong,
    /// The secret is right and the wrap is not what was made with it.
    Damaged,
    /// The root key.
    Opened(RootKey),
}

/// Tries a secret on a slot.
pub(crate) fn unwrap(header: &Header, slot: &KeySlot, secret: &[u8]) -> Result<Attempt, CostRefused> {
    let derived = derive(slot.kdf, secret, &slot.salt)?;
    Ok(in_wiped_stack(|| open(header, slot, &derived)))
}

/// What the keys of a slot, derived from a secret, make of it. To be called in
/// locked memory, since the root key passes through the heap.
fn open(header: &Header, slot: &KeySlot, derived: &Secret<DERIVED_LEN>) -> Attempt {
    let (wrapping, committing) = split(derived);
    if commitment(committing, &slot.salt).verify_slice(&slot.commitment).is_err() {
        return Attempt::Wrong;
    }
    let Ok(mut opened) = siv::open(wrapping, header.wrap_context(slot).bytes(), &slot.wrapped) else {
        return Attempt::Damaged;
    };
    let opened = SecretBytes::take(&mut opened);
    let root = Secret::build(|root| root.copy_from_slice(opened.expose()));
    Attempt::Opened(RootKey::from_secret(root))
}

/// The wrapping key and the commitment's.
fn split(derived: &Secret<DERIVED_LEN>) -> (&[u8; siv::KEY_LEN], &[u8]) {
    derived.expose().split_first_chunk().expect("longer than a key")
}

fn commitment(key: &[u8], salt: &[u8; SALT_LEN]) -> Hmac<Sha256> {
    hmac(key, &[b"commit", salt])
}
