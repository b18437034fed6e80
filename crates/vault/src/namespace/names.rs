//! Names, directory ids and attributes between their plain
//! and their stored form (`docs/format/vault.md`, section 5).
//!
//! This module joins the ciphers with the spelling; it does no input or
//! output but for reading a directory's record.

use strongroom_format::vault::DirectoryId;
use strongroom_format::vault::names::{
    self as spelling, DIRECTORY_RECORD, DirectoryRecord, NameEncoding, StoredName as Spelled,
};
use strongroom_keys::names::{NotAuthentic, spell};
use strongroom_keys::random::{EntropyError, array as random};
use strongroom_keys::{NameCipher, RecordMac, SpecialCipher, VaultKeys, XattrCipher};
use strongroom_store::Node;

use super::NAME_MAX;
use super::inode::{Inode, ROOT};
use crate::content::Home;
use crate::error::{Damage, Error, Result, errno};

/// The entry of every directory but the top one that holds its record.
pub(super) const RECORD: &[u8] = DIRECTORY_RECORD.as_bytes();

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
    stored == RECORD || stored.starts_with(b".n~")
}

/// Ciphers and spelling of one vault.
pub(super) struct Names {
    cipher: NameCipher,
    xattrs: XattrCipher,
    pub(super) records: RecordMac,
    encoding: NameEncoding,
    pub(super) specials: SpecialCipher,
    pub(super) generation: u32,
}

impl Names {
    pub(super) fn new(keys: &VaultKeys, folding: bool) -> Names {
        Names {
            cipher: NameCipher::new(keys),
            xattrs: XattrCipher::new(keys),
            records: RecordMac::new(keys),
            encoding: NameEncoding::from_flag(folding),
            specials: SpecialCipher::new(keys),
            generation: keys.generation(),
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
        if !spelled.is_long || spelled.name.as_bytes() != stored {
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

    /// The id of a directory, read from its record once.
    ///
    /// # Errors
    /// `ENOENT` when the directory has been removed, damage of the record, or
    /// what the store reports.
    pub(super) fn directory_id(&self, inode: &Inode) -> Result<DirectoryId> {
        if let Some(id) = inode.directory_id.get() {
            return Ok(*id);
        }
        let id = if inode.number == ROOT { self.records.root_directory() } else { self.read_record(inode)? };
        Ok(*inode.directory_id.get_or_init(|| id))
    }

    fn read_record(&self, inode: &Inode) -> Result<DirectoryId> {
        match self.record_of(&*inode.node) {
            Err(error) if error == LOST && inode.is_removed() => Err(Error::Refused(errno::ENOENT)),
            other => other,
        }
    }

    /// The id in the record of a stored directory, which is not the top one.
    ///
    /// # Errors
    /// Damage when it is lost or does not verify, or what the store reports.
    pub(super) fn record_of(&self, directory: &dyn Node) -> Result<DirectoryId> {
        let target = match directory.lookup(RECORD).and_then(|record| record.read_link()) {
            Err(error) if error.is_not_found() => return Err(LOST),
            // Something else stands in its place.
            Err(error) if error.errno() == errno::EINVAL => {
                return Err(damaged("a directory's record is malformed"));
            }
            other => other?,
        };
        let record =
            DirectoryRecord::parse(&target).map_err(|_| damaged("a directory's record is malformed"))?;
        if self.records.verifies(&record) {
            Ok(record.id)
        } else {
            Err(damaged("a directory's record is forged"))
        }
    }

    /// The id of the top directory.
    pub(super) fn root_directory(&self) -> DirectoryId {
        self.records.root_directory()
    }

    /// Whether a stored name is spelled as this vault spells names of entries.
    pub(super) fn is_spelled(&self, stored: &[u8]) -> bool {
        matches!(self.encoding.parse(stored), Ok(Spelled::Short(_) | Spelled::Long))
    }

    /// A new directory's id and the target of its record.
    pub(super) fn new_directory(&self) -> Result<(DirectoryId, Vec<u8>)> {
        let id = DirectoryId(random().map_err(entropy)?);
        Ok((id, self.records.directory(id).to_target().into_bytes()))
    }

    /// The target of the record of a directory with this id.
    pub(super) fn record(&self, id: DirectoryId) -> Vec<u8> {
        self.records.directory(id).to_target().into_bytes()
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
    pub(super) fn seal_xattr_name(&self, name: &[u8]) -> Option<Vec<u8>> {
        spelling::xattr_name(&self.xattrs.seal_name(name)).map(String::into_bytes)
    }

    /// The plain name of a stored attribute; `None` when it is not the vault's.
    pub(super) fn open_xattr_name(&self, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        let what = "a stored attribute's name does not open";
        let sealed = spelling::parse_xattr_name(stored).map_err(|_| damaged(what))?;
        sealed.map(|sealed| self.xattrs.open_name(&sealed).map_err(unopened(what))).transpose()
    }

    pub(super) fn seal_xattr_value(&self, inode: [u8; 16], name: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        self.xattrs.seal_value(&inode, name, value).map_err(entropy)
    }

    pub(super) fn open_xattr_value(&self, inode: [u8; 16], name: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
        let opened = self.xattrs.open_value(&inode, name, sealed);
        opened.map_err(unopened("an attribute's value does not open"))
    }
}

/// A directory without its record.
const LOST: Error = Error::Damaged(Damage::Name("a directory has lost its record"));

pub(super) fn damaged(what: &'static str) -> Error {
    Error::Damaged(Damage::Name(what))
}

pub(super) fn unopened(what: &'static str) -> impl Fn(NotAuthentic) -> Error {
    move |_| damaged(what)
}

pub(super) fn entropy(_: EntropyError) -> Error {
    Error::Entropy
}
