//! Names, directory ids and attributes between their plain
//! and their stored form (`docs/format/vault.md`, section 5).
//!
//! This module joins the ciphers with the spelling; it does no input or
//! output.

use strongroom_format::vault::DirectoryId;
use strongroom_format::vault::names::{self as spelling, NameEncoding, StoredName as Spelled};
use strongroom_keys::names::{NotAuthentic, spell};
use strongroom_keys::random::{EntropyError, array as random};
use strongroom_keys::{NameCipher, RecordMac, SpecialCipher, VaultKeys, XattrCipher};
use strongroom_store::{DirectoryEntry, Kind};

use super::NAME_MAX;
use crate::content::Home;
use crate::error::{Damage, Error, Result};
use crate::reader_rules::ReaderRule;

/// The entry of every directory but the top one that holds its record.
pub(crate) const RECORD: &[u8] = spelling::DIRECTORY_RECORD.as_bytes();

/// Random bytes of a name in `.strongroom/temporary`.
const PASSING_LEN: usize = 16;

/// A plain name as the store knows it.
pub(super) struct StoredName {
    /// The entry.
    pub(super) main: Vec<u8>,
    /// What stands beside it, when the sealed name is too long for the store.
    pub(super) side: Option<SideName>,
}

/// A long name's side file.
pub(super) struct SideName {
    pub(super) name: Vec<u8>,
    /// What it holds.
    pub(super) sealed: Vec<u8>,
}

/// What a stored name turned out to be.
pub(super) enum Found {
    /// The vault's own.
    Hidden,
    /// An entry of this plain name.
    Name(Vec<u8>),
    /// An entry whose sealed name stands in this side file.
    Long { side: Vec<u8> },
}

/// True for what the vault itself keeps in a directory beside its entries.
pub(super) fn is_hidden(stored: &[u8]) -> bool {
    stored == RECORD || spelling::long_name_of(stored).is_some()
}

/// True for a removed file that the store keeps for as long as somebody has it open.
/// A mount passes over it. Once the mount is gone it is nothing that goes by itself
/// any more, and may be all that is left of a file: a store that is ended while it
/// replaces one has given the old one such a name, and the new one none.
pub(super) fn is_remains(entry: &DirectoryEntry) -> bool {
    matches!(entry.kind, None | Some(Kind::File)) && spelling::is_remains(&entry.name)
}

/// Ciphers and spelling of one vault.
pub(super) struct Names {
    cipher: NameCipher,
    xattrs: XattrCipher,
    pub(super) records: RecordMac,
    pub(super) encoding: NameEncoding,
    pub(super) specials: SpecialCipher,
}

impl Names {
    pub(super) fn new(keys: &VaultKeys, folding: bool) -> Names {
        Names {
            cipher: NameCipher::new(keys),
            xattrs: XattrCipher::new(keys),
            records: RecordMac::new(keys),
            encoding: NameEncoding::from_flag(folding),
            specials: SpecialCipher::new(keys),
        }
    }

    /// Seals a plain name.
    pub(super) fn seal(&self, directory: DirectoryId, name: &[u8]) -> StoredName {
        let sealed = self.cipher.seal_name(directory, name);
        let spelled = spell(self.encoding, &sealed);
        let side = spelled.is_long.then(|| spelling::side_name(&spelled.name).into_bytes());
        StoredName { main: spelled.name.into_bytes(), side: side.map(|name| SideName { name, sealed }) }
    }

    /// What a stored name is, and its plain form where it tells.
    pub(super) fn find(&self, directory: DirectoryId, stored: &[u8]) -> Result<Found> {
        match self.encoding.parse(stored) {
            Ok(Spelled::VaultDirectory | Spelled::DirectoryRecord | Spelled::Side(_)) => Ok(Found::Hidden),
            Ok(Spelled::Remains) => Err(damaged("a removed file is left over that the store kept")),
            Ok(Spelled::Short(sealed)) => self.open_name(directory, &sealed).map(Found::Name),
            Ok(Spelled::Long) => {
                let name = String::from_utf8_lossy(stored);
                Ok(Found::Long { side: spelling::side_name(&name).into_bytes() })
            }
            Err(_) => Err(damaged("a stored name is none of this vault's")),
        }
    }

    /// The plain name of the long one `stored`, whose side file holds `sealed`.
    pub(super) fn open_long(&self, directory: DirectoryId, stored: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
        let spelled = spell(self.encoding, sealed);
        let is_its = spelled.is_long && spelled.name.as_bytes() == stored;
        if !is_its && ReaderRule::SideName.is_kept() {
            return Err(damaged("a long name's side file is another's"));
        }
        self.open_name(directory, sealed)
    }

    fn open_name(&self, directory: DirectoryId, sealed: &[u8]) -> Result<Vec<u8>> {
        let name =
            self.cipher.open_name(directory, sealed).map_err(unopened("a stored name does not open"))?;
        let odd = name.is_empty() || name.len() > NAME_MAX || name == b"." || name == b"..";
        if odd || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
            return Err(damaged("a stored name is no possible one"));
        }
        Ok(name)
    }

    /// The id of the top directory.
    pub(super) fn root_directory(&self) -> DirectoryId {
        self.records.root_directory()
    }

    /// Whether a stored name is spelled as this vault spells names of entries, or is
    /// one that a store gives to them.
    pub(super) fn is_spelled(&self, stored: &[u8]) -> bool {
        matches!(self.encoding.parse(stored), Ok(Spelled::Short(_) | Spelled::Long | Spelled::Remains))
    }

    /// The home that a name in a directory stands for.
    pub(super) fn home(&self, directory: DirectoryId, name: &[u8]) -> Home {
        Home { mac: self.records.home(directory, name), directory }
    }

    /// A name for `.strongroom/temporary`.
    pub(super) fn random_name(&self) -> Result<Vec<u8>> {
        Ok(data_encoding::HEXLOWER.encode(&random::<PASSING_LEN>().map_err(entropy)?).into_bytes())
    }

    /// Seals the name of an attribute; `None` when it is too long.
    pub(super) fn seal_xattr_name(&self, inode: [u8; 16], name: &[u8]) -> Option<Vec<u8>> {
        spelling::xattr_name(&self.xattrs.seal_name(&owner(inode), name)).map(String::into_bytes)
    }

    /// The plain name of an inode's stored attribute; `None` when it is not the
    /// vault's.
    pub(super) fn open_xattr_name(&self, inode: [u8; 16], stored: &[u8]) -> Result<Option<Vec<u8>>> {
        let what = "a stored attribute's name does not open";
        let sealed = spelling::parse_xattr_name(stored).map_err(|_| damaged(what))?;
        sealed.map(|sealed| self.xattrs.open_name(&owner(inode), &sealed).map_err(unopened(what))).transpose()
    }

    pub(super) fn seal_xattr_value(&self, inode: [u8; 16], name: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        self.xattrs.seal_value(&owner(inode), of_value(name), value).map_err(entropy)
    }

    pub(super) fn open_xattr_value(&self, inode: [u8; 16], name: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
        let opened = self.xattrs.open_value(&owner(inode), of_value(name), sealed);
        opened.map_err(unopened("an attribute's value does not open"))
    }
}

/// The inode to which an attribute is bound.
fn owner(inode: [u8; 16]) -> [u8; 16] {
    if ReaderRule::AttributeOwner.is_kept() { inode } else { [0; 16] }
}

/// The name to which an attribute's value is bound.
fn of_value(name: &[u8]) -> &[u8] {
    if ReaderRule::AttributeName.is_kept() { name } else { &[] }
}

pub(super) fn damaged(what: &'static str) -> Error {
    Error::Damaged(Damage::Name(what))
}

pub(super) fn unopened(what: &'static str) -> impl Fn(NotAuthentic) -> Error {
    move |_| damaged(what)
}

pub(super) fn entropy(_: EntropyError) -> Error {
    Error::Entropy
}
