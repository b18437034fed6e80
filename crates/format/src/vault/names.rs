//! How sealed names, directory records and attribute names are spelled in the
//! store, and how stored names are told apart (section 5).
//!
//! Spelling alone: what is sealed, and under which key, is another crate's.
//! Every text has one spelling; others are refused.

use std::sync::LazyLock;

use data_encoding::{BASE64URL_NOPAD, Encoding, HEXLOWER, Specification};

use super::{DirectoryId, FileId, WriteSession};
use crate::error::FormatError;

/// The longest name that a store takes, in bytes.
pub const STORED_NAME_MAX: usize = 255;
/// Bytes that AES-SIV adds.
pub const SIV_LEN: usize = 16;
/// Bytes of the mark of a directory record.
pub const RECORD_MAC_LEN: usize = 16;
/// Random bytes before a symlink target or an attribute's value, when sealed.
pub const SALT_LEN: usize = 16;

/// The vault's own directory, in its root.
pub const VAULT_DIRECTORY: &str = ".strongroom";
/// The directory record, in every directory but the root.
pub const DIRECTORY_RECORD: &str = ".id";
/// Attributes' stored names begin so.
pub const XATTR_PREFIX: &str = "user.strongroom.";

const LONG: char = '~';
/// What a name never begins with, lest a tool take it for an option, ...
const OPTION: char = '-';
/// ... and what stands there instead.
const NO_OPTION: char = '~';
/// Letters of a long name: [`LONG`] and those of its digest, the same number in
/// either spelling. No bytes are spelled in 33 letters, so that no short name
/// that begins with [`NO_OPTION`] is taken for one.
const LONG_LEN: usize = 33;
const SIDE_PREFIX: &str = ".n";
const JOURNAL_PREFIX: &str = "journal.";
/// What names begin with under which stores keep removed files that somebody has
/// open: libfuse (`hide_node` in its `lib/fuse.c`) and the kernel's client for NFS
/// (`fs/nfs/unlink.c`); and how many hexadecimal digits follow.
const REMAINS: [(&[u8], usize); 2] = [(b".fuse_hidden", 16), (b".nfs", 24)];

static BASE32HEX_LOWER_NOPAD: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str("0123456789abcdefghijklmnopqrstuv");
    specification.encoding().expect("32 different symbols")
});

/// How sealed names are spelled; the vault header says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameEncoding {
    /// Base64url without padding; `~` instead of `-` as first letter.
    Base64Url,
    /// Base32hex in lower case without padding, for stores that fold case.
    Base32Hex,
}

impl NameEncoding {
    /// The one that the vault header's flag stands for.
    #[must_use]
    pub const fn from_flag(base32: bool) -> NameEncoding {
        if base32 { NameEncoding::Base32Hex } else { NameEncoding::Base64Url }
    }

    fn encoding(self) -> &'static Encoding {
        static BASE64: Encoding = BASE64URL_NOPAD;
        match self {
            NameEncoding::Base64Url => &BASE64,
            NameEncoding::Base32Hex => &BASE32HEX_LOWER_NOPAD,
        }
    }

    fn spell(self, bytes: &[u8]) -> String {
        let mut text = self.encoding().encode(bytes);
        if text.starts_with(OPTION) {
            text.replace_range(..1, NO_OPTION.encode_utf8(&mut [0]));
        }
        text
    }

    /// `None` for what [`NameEncoding::spell`] does not make.
    fn unspell(self, text: &str) -> Option<Vec<u8>> {
        match text.strip_prefix(NO_OPTION) {
            Some(rest) => self.encoding().decode(format!("{OPTION}{rest}").as_bytes()).ok(),
            None if text.starts_with(OPTION) => None,
            None => self.encoding().decode(text.as_bytes()).ok(),
        }
    }

    /// The longest plain name whose stored name is not a long one, in bytes.
    #[must_use]
    pub const fn short_name_max(self) -> usize {
        let bits = match self {
            NameEncoding::Base64Url => 6,
            NameEncoding::Base32Hex => 5,
        };
        STORED_NAME_MAX * bits / 8 - SIV_LEN
    }

    /// Bytes of SHA-256 of the sealed name that a long name shows.
    #[must_use]
    pub const fn long_digest_len(self) -> usize {
        match self {
            NameEncoding::Base64Url => 24,
            NameEncoding::Base32Hex => 20,
        }
    }

    /// The stored name of a sealed name; `None` when it would be too long, and
    /// [`NameEncoding::long_name`] is its stored name.
    #[must_use]
    pub fn short_name(self, sealed: &[u8]) -> Option<String> {
        let fits = sealed.len() <= self.short_name_max() + SIV_LEN;
        fits.then(|| self.spell(sealed))
    }

    /// The stored name of a sealed name that is too long, from the SHA-256 of
    /// the sealed name.
    #[must_use]
    pub fn long_name(self, sha256: &[u8; 32]) -> String {
        let mut name = String::from(LONG);
        self.encoding().encode_append(&sha256[..self.long_digest_len()], &mut name);
        name
    }

    /// What a name in the store is.
    ///
    /// # Errors
    /// [`FormatError::Text`] for names that this format does not write.
    pub fn parse(self, stored: &[u8]) -> Result<StoredName, FormatError> {
        let malformed = || FormatError::text("stored name", stored);
        let text = core::str::from_utf8(stored).map_err(|_| malformed())?;
        if is_remains(stored) {
            return Ok(StoredName::Remains);
        }
        if let Some(long) = text.strip_prefix(SIDE_PREFIX) {
            return self.check_long(long).map(|()| StoredName::Side(long.to_owned())).ok_or_else(malformed);
        }
        match text {
            VAULT_DIRECTORY => Ok(StoredName::VaultDirectory),
            DIRECTORY_RECORD => Ok(StoredName::DirectoryRecord),
            _ if is_long_name(stored) => {
                self.check_long(text).map(|()| StoredName::Long).ok_or_else(malformed)
            }
            _ => self.decode_short(text).map(StoredName::Short).ok_or_else(malformed),
        }
    }

    fn decode_short(self, stored: &str) -> Option<Vec<u8>> {
        if stored.len() > STORED_NAME_MAX {
            return None;
        }
        let sealed = self.unspell(stored)?;
        // A plain name has at least one byte.
        (sealed.len() > SIV_LEN).then_some(sealed)
    }

    fn check_long(self, text: &str) -> Option<()> {
        let digest = self.encoding().decode(text.strip_prefix(LONG)?.as_bytes()).ok()?;
        (digest.len() == self.long_digest_len()).then_some(())
    }
}

/// What a name in the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredName {
    /// A user's entry: its sealed name.
    Short(Vec<u8>),
    /// A user's entry whose sealed name stands in the side file
    /// [`side_name`] of it.
    Long,
    /// The side file of the long name that is given.
    Side(String),
    /// [`VAULT_DIRECTORY`].
    VaultDirectory,
    /// [`DIRECTORY_RECORD`].
    DirectoryRecord,
    /// See [`is_remains`].
    Remains,
}

/// True for a name that a store itself gives to a removed file for as long as
/// somebody has it open: nobody's entry.
#[must_use]
pub fn is_remains(stored: &[u8]) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    REMAINS.iter().any(|(prefix, digits)| {
        stored.strip_prefix(*prefix).is_some_and(|rest| rest.len() == *digits && rest.iter().all(is_digit))
    })
}

/// True for the names of entries whose sealed names stand in side files, of
/// all names that [`NameEncoding::parse`] takes.
#[must_use]
pub fn is_long_name(stored: &[u8]) -> bool {
    stored.len() == LONG_LEN && stored.starts_with(b"~")
}

/// The name of the file that holds the sealed name of the entry `long_name`.
#[must_use]
pub fn side_name(long_name: &str) -> String {
    format!("{SIDE_PREFIX}{long_name}")
}

/// The long name of which a file of this name holds the sealed one; `None` for other
/// names. Whether it is a whole long name is not looked at.
#[must_use]
pub fn long_name_of(side: &[u8]) -> Option<&[u8]> {
    side.strip_prefix(SIDE_PREFIX.as_bytes()).filter(|long| long.starts_with(b"~"))
}

/// A directory record: the name of an empty file in the directory
/// [`DIRECTORY_RECORD`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryRecord {
    /// The directory's id.
    pub id: DirectoryId,
    /// Binds it to its parent and plain name.
    pub home: [u8; 16],
    /// Binds both to the vault.
    pub mac: [u8; RECORD_MAC_LEN],
}

impl DirectoryRecord {
    /// Bytes before they are spelled.
    const LEN: usize = DirectoryId::LEN + 16 + RECORD_MAC_LEN;

    /// The file's name.
    #[must_use]
    pub fn to_name(&self, encoding: NameEncoding) -> String {
        encoding.spell(&[self.id.0, self.home, self.mac].concat())
    }

    /// Reads a file's name.
    ///
    /// # Errors
    /// [`FormatError::Text`].
    pub fn parse(name: &[u8], encoding: NameEncoding) -> Result<DirectoryRecord, FormatError> {
        let malformed = || FormatError::text("directory record", name);
        let text = core::str::from_utf8(name).map_err(|_| malformed())?;
        let bytes = encoding.unspell(text).ok_or_else(malformed)?;
        let bytes: [u8; DirectoryRecord::LEN] = bytes.try_into().map_err(|_| malformed())?;
        let (parts, _) = bytes.as_chunks::<16>();
        Ok(DirectoryRecord { id: DirectoryId(parts[0]), home: parts[1], mac: parts[2] })
    }
}

/// The name of the file in `.strongroom/links/` that holds the target of the
/// symlink with this file id: lower case, so that it may be told apart where
/// the store folds case.
#[must_use]
pub fn link_name(file: FileId) -> String {
    HEXLOWER.encode(&file.0)
}

/// The file id in the name of a file in `.strongroom/links/`.
///
/// # Errors
/// [`FormatError::Text`].
pub fn parse_link_name(name: &[u8]) -> Result<FileId, FormatError> {
    let id = HEXLOWER.decode(name).ok().and_then(|id| id.try_into().ok());
    id.map(FileId).ok_or_else(|| FormatError::text("name of a link", name))
}

/// The longest attribute name that can be stored, in bytes.
pub const XATTR_NAME_MAX: usize = (STORED_NAME_MAX - XATTR_PREFIX.len()) * 6 / 8 - SIV_LEN;

/// The stored name of an attribute; `None` when it would be too long for a
/// store.
#[must_use]
pub fn xattr_name(sealed: &[u8]) -> Option<String> {
    let name = format!("{XATTR_PREFIX}{}", BASE64URL_NOPAD.encode(sealed));
    (name.len() <= STORED_NAME_MAX).then_some(name)
}

/// The sealed name of a stored attribute; `None` when it is none of the vault's.
///
/// # Errors
/// [`FormatError::Text`] when it has the vault's prefix and is malformed.
pub fn parse_xattr_name(stored: &[u8]) -> Result<Option<Vec<u8>>, FormatError> {
    let Some(text) = stored.strip_prefix(XATTR_PREFIX.as_bytes()) else { return Ok(None) };
    let sealed = BASE64URL_NOPAD.decode(text).ok().filter(|sealed| sealed.len() > SIV_LEN);
    match sealed {
        Some(sealed) if stored.len() <= STORED_NAME_MAX => Ok(Some(sealed)),
        _ => Err(FormatError::text("stored attribute name", stored)),
    }
}

/// The name in [`VAULT_DIRECTORY`] of a session's journal segment 0 or 1.
#[must_use]
pub fn journal_name(session: WriteSession, segment: u8) -> String {
    format!("{JOURNAL_PREFIX}{session}.{segment}")
}

/// The session and the segment in the name of a journal segment; `None` for
/// other names.
#[must_use]
pub fn parse_journal_name(name: &[u8]) -> Option<(WriteSession, u8)> {
    let rest = name.strip_prefix(JOURNAL_PREFIX.as_bytes())?;
    let (session, segment) = match rest {
        [session @ .., b'.', b'0'] => (session, 0),
        [session @ .., b'.', b'1'] => (session, 1),
        _ => return None,
    };
    let id = HEXLOWER.decode(session).ok()?.try_into().ok()?;
    Some((WriteSession(id), segment))
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
