//! Sealing of names and extended attributes by AES-SIV
//! (section 5 of the format). How the sealed bytes are spelled in the store is
//! `strongroom_format::vault::names`.
//!
//! Names are sealed deterministically, since a name must be found again by
//! sealing it; equal names in one directory are the same name. Values of
//! attributes carry 16 random bytes, so that equal ones do not show.

use sha2::{Digest, Sha256};
use strongroom_format::vault::DirectoryId;
use strongroom_format::vault::names::{NameEncoding, SALT_LEN};

use crate::hierarchy::VaultKeys;
use crate::random::{self, EntropyError};
use crate::secret::Secret;
use crate::siv;
pub use crate::siv::NotAuthentic;

const XATTR_NAME: &[u8] = b"xattr name";
const XATTR_VALUE: &[u8] = b"xattr value";

/// How a sealed name is spelled in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelling {
    /// The entry's stored name.
    pub name: String,
    /// It is a long name, whose sealed name stands in a side file.
    pub is_long: bool,
}

/// The stored name of a sealed name.
#[must_use]
pub fn spell(encoding: NameEncoding, sealed: &[u8]) -> Spelling {
    match encoding.short_name(sealed) {
        Some(name) => Spelling { name, is_long: false },
        None => Spelling { name: encoding.long_name(&Sha256::digest(sealed).into()), is_long: true },
    }
}

/// Seals and opens names.
pub struct NameCipher {
    key: Secret<{ siv::KEY_LEN }>,
}

impl NameCipher {
    /// Of a vault's keys.
    #[must_use]
    pub fn new(keys: &VaultKeys) -> NameCipher {
        NameCipher { key: Secret::build(|key| key.copy_from_slice(keys.names())) }
    }

    /// Seals a name in its directory. Always the same for the same name.
    #[must_use]
    pub fn seal_name(&self, directory: DirectoryId, name: &[u8]) -> Vec<u8> {
        siv::seal(self.key.expose(), &directory.0, name)
    }

    /// Opens a sealed name of a directory.
    ///
    /// # Errors
    /// [`NotAuthentic`] for names of other directories or vaults too.
    pub fn open_name(&self, directory: DirectoryId, sealed: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
        siv::open(self.key.expose(), &directory.0, sealed)
    }
}

/// Seals and opens names and values of extended attributes. `inode` is the file
/// id, the directory id, or zeros for the others.
pub struct XattrCipher {
    key: Secret<{ siv::KEY_LEN }>,
}

impl XattrCipher {
    /// Of a vault's keys.
    #[must_use]
    pub fn new(keys: &VaultKeys) -> XattrCipher {
        XattrCipher { key: Secret::build(|key| key.copy_from_slice(keys.xattrs())) }
    }

    /// Seals the name of an attribute of an inode. Always the same for the same
    /// name of the same inode, and for no other.
    #[must_use]
    pub fn seal_name(&self, inode: &[u8; 16], name: &[u8]) -> Vec<u8> {
        siv::seal(self.key.expose(), &name_context(inode), name)
    }

    /// Opens the sealed name of an inode's attribute.
    ///
    /// # Errors
    /// [`NotAuthentic`] for names of other inodes' attributes too.
    pub fn open_name(&self, inode: &[u8; 16], sealed: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
        siv::open(self.key.expose(), &name_context(inode), sealed)
    }

    /// Seals the value of attribute `name` of an inode, differently every time.
    ///
    /// # Errors
    /// [`EntropyError`].
    pub fn seal_value(&self, inode: &[u8; 16], name: &[u8], value: &[u8]) -> Result<Vec<u8>, EntropyError> {
        seal_salted(self.key.expose(), &value_context(inode, name), value)
    }

    /// Opens the sealed value of attribute `name` of an inode.
    ///
    /// # Errors
    /// [`NotAuthentic`] for values of other attributes or inodes too.
    pub fn open_value(&self, inode: &[u8; 16], name: &[u8], sealed: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
        open_salted(self.key.expose(), &value_context(inode, name), sealed)
    }
}

/// Bytes that sealing adds to an attribute's value.
pub const XATTR_VALUE_OVERHEAD: usize = strongroom_format::vault::names::SIV_LEN + SALT_LEN;

fn name_context(inode: &[u8; 16]) -> Vec<u8> {
    [XATTR_NAME, inode].concat()
}

fn value_context(inode: &[u8; 16], name: &[u8]) -> Vec<u8> {
    [XATTR_VALUE, inode, name].concat()
}

fn seal_salted(key: &[u8; siv::KEY_LEN], context: &[u8], plain: &[u8]) -> Result<Vec<u8>, EntropyError> {
    let salt = random::array::<SALT_LEN>()?;
    Ok(siv::seal(key, context, &[&salt[..], plain].concat()))
}

fn open_salted(key: &[u8; siv::KEY_LEN], context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
    let mut plain = siv::open(key, context, sealed)?;
    if plain.len() < SALT_LEN {
        return Err(NotAuthentic);
    }
    plain.drain(..SALT_LEN);
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::RootKey;
    use strongroom_format::vault::VaultId;
    use strongroom_format::vault::names::StoredName;

    fn keys() -> VaultKeys {
        VaultKeys::derive(&RootKey::random().expect("entropy"), VaultId([1; 16]))
    }

    const HERE: DirectoryId = DirectoryId([1; 16]);
    const THERE: DirectoryId = DirectoryId([2; 16]);

    #[test]
    fn a_name_opens_in_its_directory_alone() {
        let cipher = NameCipher::new(&keys());
        let sealed = cipher.seal_name(HERE, b"notes.txt");
        assert_eq!(sealed, cipher.seal_name(HERE, b"notes.txt"));
        assert_ne!(sealed, cipher.seal_name(THERE, b"notes.txt"));
        assert_eq!(cipher.open_name(HERE, &sealed), Ok(b"notes.txt".to_vec()));
        assert_eq!(cipher.open_name(THERE, &sealed), Err(NotAuthentic));
        assert_eq!(NameCipher::new(&keys()).open_name(HERE, &sealed), Err(NotAuthentic));
    }

    #[test]
    fn long_names_are_spelled_by_their_hash() {
        let cipher = NameCipher::new(&keys());
        for encoding in [NameEncoding::Base64Url, NameEncoding::Base32Hex] {
            let longest = vec![b'x'; encoding.short_name_max()];
            let sealed = cipher.seal_name(HERE, &longest);
            let spelling = spell(encoding, &sealed);
            assert!(!spelling.is_long);
            assert_eq!(encoding.parse(spelling.name.as_bytes()), Ok(StoredName::Short(sealed)));

            let sealed = cipher.seal_name(HERE, &[b'x'; 255]);
            let spelling = spell(encoding, &sealed);
            assert!(spelling.is_long);
            assert_eq!(encoding.parse(spelling.name.as_bytes()), Ok(StoredName::Long));
            assert_ne!(spelling, spell(encoding, &cipher.seal_name(THERE, &[b'x'; 255])));
        }
    }

    #[test]
    fn a_value_opens_for_its_attribute_of_its_inode_alone() {
        let cipher = XattrCipher::new(&keys());
        let name = cipher.seal_name(&[1; 16], b"user.comment");
        assert_eq!(cipher.open_name(&[1; 16], &name), Ok(b"user.comment".to_vec()));
        assert_eq!(cipher.open_name(&[2; 16], &name), Err(NotAuthentic));
        assert_ne!(cipher.seal_name(&[2; 16], b"user.comment"), name, "equal names do not show");
        let sealed = cipher.seal_value(&[1; 16], b"user.comment", b"text").expect("entropy");
        assert_eq!(sealed.len(), 4 + XATTR_VALUE_OVERHEAD);
        assert_ne!(sealed, cipher.seal_value(&[1; 16], b"user.comment", b"text").expect("entropy"));
        assert_eq!(cipher.open_value(&[1; 16], b"user.comment", &sealed), Ok(b"text".to_vec()));
        assert_eq!(cipher.open_value(&[2; 16], b"user.comment", &sealed), Err(NotAuthentic));
        assert_eq!(cipher.open_value(&[1; 16], b"user.other", &sealed), Err(NotAuthentic));
        assert_eq!(cipher.open_value(&[1; 16], b"user.comment", &name), Err(NotAuthentic));
    }
}
