//! From a credential and the vault header's copies to the root key.
//!
//! The order of checks: costs within the format's bounds (in decoding), the
//! slot's commitment in constant time, its wrap, the header's MAC, and last
//! that no newer copy verifies which the credential does not open: a removed
//! password must not come back through the older copy.

use std::fmt;

use strongroom_format::FormatError;
use strongroom_format::vault::header::Header;
use strongroom_format::vault::slot::{Kdf, KeySlot, Slot, SlotKind};

use crate::hierarchy::RootKey;
use crate::kdf::CostRefused;
use crate::slots::{Attempt, Credential, unwrap, verify_header};

/// Why a vault does not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnlockError {
    /// The secret opens no slot of its kind, of which there are some.
    WrongSecret,
    /// There is no slot of this kind.
    NoSlot(SlotKind),
    /// The secret is right, or no copy of the header can be read: the header
    /// was damaged or tampered with.
    Damaged(Damage),
    /// The header is of a format that this program does not know.
    Unsupported(FormatError),
    /// This machine has not the memory that the slots ask for.
    CostRefused(CostRefused),
}

/// What is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// No copy of the header is well-formed; this is wrong with the first.
    Malformed(FormatError),
    /// There is no copy of the header.
    Missing,
    /// The slot's wrapped root key.
    Wrap,
    /// The header's MAC.
    Mac,
}

impl fmt::Display for UnlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnlockError::WrongSecret => f.write_str("wrong password, key file or recovery key"),
            UnlockError::NoSlot(kind) => write!(f, "the vault has no {kind}"),
            UnlockError::Damaged(Damage::Malformed(what)) => write!(f, "the vault header is damaged: {what}"),
            UnlockError::Damaged(Damage::Missing) => f.write_str("the vault header is missing"),
            UnlockError::Damaged(Damage::Wrap) => {
                f.write_str("the vault header is damaged: the secret is right, but its key slot was changed")
            }
            UnlockError::Damaged(Damage::Mac) => {
                f.write_str("the vault header is damaged: the secret is right, but the header was changed")
            }
            UnlockError::Unsupported(what) => write!(
                f,
                "the vault is of another version of the format ({what}): mount it with the program that made it, \
                 and copy its files into a new vault"
            ),
            UnlockError::CostRefused(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for UnlockError {}

/// Opens one header.
///
/// # Errors
/// [`UnlockError`].
pub fn unlock(header: &Header, credential: &Credential) -> Result<RootKey, UnlockError> {
    let root = Attempts::default().on(header, credential)?;
    if verify_header(header, &root) { Ok(root) } else { Err(UnlockError::Damaged(Damage::Mac)) }
}

/// Opens the newest copy of a vault's header that verifies. `copies` are the
/// contents of those that could be read.
///
/// # Errors
/// [`UnlockError`]; what is wrong with the newest well-formed copy when each
/// is refused for its own reason.
pub fn unlock_copies(copies: &[&[u8]], credential: &Credential) -> Result<(Header, RootKey), UnlockError> {
    let mut headers = decode_copies(copies)?;
    headers.sort_by_key(|header| std::cmp::Reverse(header.sequence));
    let mut attempts = Attempts::default();
    let mut first_error = None;
    for (at, header) in headers.iter().enumerate() {
        let root = match attempts.on(header, credential) {
            Ok(root) => root,
            Err(error) => {
                first_error.get_or_insert(error);
                continue;
            }
        };
        if headers[..at].iter().any(|newer| newer.sequence > header.sequence && verify_header(newer, &root)) {
            return Err(UnlockError::WrongSecret);
        }
        if verify_header(header, &root) {
            return Ok((headers.swap_remove(at), root));
        }
        first_error.get_or_insert(UnlockError::Damaged(Damage::Mac));
    }
    Err(first_error.expect("at least one header was tried"))
}

/// What trying one secret of this kind on all these headers costs at most, as
/// Argon2id's memory in KiB times passes: the slots of all of them in sum, but
/// each once. Whoever can write to the store can make it large.
#[must_use]
pub fn trial_work(headers: &[Header], kind: SlotKind) -> u64 {
    let mut counted: Vec<&KeySlot> = Vec::new();
    for slot in headers.iter().flat_map(|header| header.slots.iter().flatten()).filter_map(Slot::known) {
        if slot.kind == kind && !counted.contains(&slot) {
            counted.push(slot);
        }
    }
    let work = |slot: &&KeySlot| match slot.kdf {
        Kdf::Argon2id(cost) => cost.work(),
        Kdf::Hkdf => 0,
    };
    counted.iter().map(work).sum()
}

/// The well-formed headers among `copies`, at least one.
fn decode_copies(copies: &[&[u8]]) -> Result<Vec<Header>, UnlockError> {
    let mut headers = Vec::new();
    let mut first_error = None;
    for copy in copies {
        match Header::decode(copy) {
            Ok(header) => headers.push(header),
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    match first_error {
        _ if !headers.is_empty() => Ok(headers),
        None => Err(UnlockError::Damaged(Damage::Missing)),
        Some(error) if error.is_unsupported() => Err(UnlockError::Unsupported(error)),
        Some(error) => Err(UnlockError::Damaged(Damage::Malformed(error))),
    }
}

/// Slots that a secret did not open, so that the same slot in two copies costs
/// its KDF once.
#[derive(Default)]
struct Attempts {
    failed: Vec<KeySlot>,
}

impl Attempts {
    fn on(&mut self, header: &Header, credential: &Credential) -> Result<RootKey, UnlockError> {
        let mut refused = None;
        let mut none = true;
        let known = header.slots.iter().flatten().filter_map(Slot::known);
        for slot in known.filter(|slot| slot.kind == credential.kind()) {
            none = false;
            if self.failed.contains(slot) {
                continue;
            }
            match unwrap(header, slot, credential.secret()) {
                Ok(Attempt::Opened(root)) => return Ok(root),
                Ok(Attempt::Damaged) => return Err(UnlockError::Damaged(Damage::Wrap)),
                Ok(Attempt::Wrong) => self.failed.push(slot.clone()),
                Err(cost) => refused = Some(cost),
            }
        }
        match refused {
            _ if none => Err(UnlockError::NoSlot(credential.kind())),
            Some(cost) => Err(UnlockError::CostRefused(cost)),
            None => Err(UnlockError::WrongSecret),
        }
    }
}
