//! Sealing of special records by AES-SIV (section 4.3 of the format): the slots
//! of symlinks, FIFOs, sockets and device nodes, and the targets of symlinks.

use strongroom_format::vault::FileId;
use strongroom_format::vault::names::SALT_LEN;
use strongroom_format::vault::special::{SLOT_LEN, head, slot};

use crate::hierarchy::VaultKeys;
use crate::random::{self, EntropyError};
use crate::secret::Secret;
use crate::siv::{self, NotAuthentic};

const SLOT: &[u8] = b"special slot";
const BODY: &[u8] = b"special body";

/// Seals and opens the slots and bodies of special records.
pub struct SpecialCipher {
    key: Secret<{ siv::KEY_LEN }>,
}

impl SpecialCipher {
    /// Of a vault's keys.
    #[must_use]
    pub fn new(keys: &VaultKeys) -> SpecialCipher {
        SpecialCipher { key: Secret::build(|key| key.copy_from_slice(keys.specials())) }
    }

    /// Seals slot `index` of the record with this head.
    #[must_use]
    pub fn seal_slot(&self, index: u8, head: &[u8; head::LEN], plain: &[u8; slot::LEN]) -> [u8; SLOT_LEN] {
        let sealed = siv::seal(self.key.expose(), &slot_context(index, head), plain);
        sealed.try_into().expect("a sealed slot's length")
    }

    /// Opens slot `index` of the record with this head.
    ///
    /// # Errors
    /// [`NotAuthentic`] for the other slot, and slots of other records, too.
    pub fn open_slot(
        &self,
        index: u8,
        head: &[u8; head::LEN],
        sealed: &[u8; SLOT_LEN],
    ) -> Result<Vec<u8>, NotAuthentic> {
        siv::open(self.key.expose(), &slot_context(index, head), sealed)
    }

    /// Seals a symlink's target, differently every time. The first 16 bytes
    /// are the tag by which a slot names it.
    ///
    /// # Errors
    /// [`EntropyError`].
    pub fn seal_body(&self, file: FileId, target: &[u8]) -> Result<Vec<u8>, EntropyError> {
        let salt = random::array::<SALT_LEN>()?;
        Ok(siv::seal(self.key.expose(), &body_context(file), &[&salt[..], target].concat()))
    }

    /// Opens the sealed target of the symlink `file`.
    ///
    /// # Errors
    /// [`NotAuthentic`] for targets of other symlinks too.
    pub fn open_body(&self, file: FileId, sealed: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
        let mut plain = siv::open(self.key.expose(), &body_context(file), sealed)?;
        if plain.len() < SALT_LEN {
            return Err(NotAuthentic);
        }
        plain.drain(..SALT_LEN);
        Ok(plain)
    }
}

fn slot_context(index: u8, head: &[u8; head::LEN]) -> Vec<u8> {
    [SLOT, &[index], &head[..]].concat()
}

fn body_context(file: FileId) -> Vec<u8> {
    [BODY, &file.0[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::RootKey;
    use strongroom_format::vault::VaultId;

    fn cipher() -> SpecialCipher {
        let root = RootKey::random().expect("entropy");
        SpecialCipher::new(&VaultKeys::derive(&root, VaultId([1; 16])))
    }

    #[test]
    fn a_slot_opens_in_its_place_of_its_record_alone() {
        let cipher = cipher();
        let sealed = cipher.seal_slot(0, &[1; 40], &[7; 72]);
        assert_eq!(cipher.open_slot(0, &[1; 40], &sealed), Ok(vec![7; 72]));
        assert_eq!(cipher.open_slot(1, &[1; 40], &sealed), Err(NotAuthentic));
        assert_eq!(cipher.open_slot(0, &[2; 40], &sealed), Err(NotAuthentic));
        assert_eq!(super::tests::cipher().open_slot(0, &[1; 40], &sealed), Err(NotAuthentic));
    }

    #[test]
    fn a_target_opens_for_its_symlink_alone_and_equal_ones_do_not_show() {
        let cipher = cipher();
        let sealed = cipher.seal_body(FileId([1; 16]), b"/etc/passwd").expect("entropy");
        assert_ne!(sealed, cipher.seal_body(FileId([1; 16]), b"/etc/passwd").expect("entropy"));
        assert_eq!(cipher.open_body(FileId([1; 16]), &sealed), Ok(b"/etc/passwd".to_vec()));
        assert_eq!(cipher.open_body(FileId([2; 16]), &sealed), Err(NotAuthentic));
    }

    #[test]
    fn slots_and_targets_are_not_taken_for_one_another() {
        let cipher = cipher();
        let slot = cipher.seal_slot(0, &[1; 40], &[7; 72]);
        assert_eq!(cipher.open_body(FileId([1; 16]), &slot), Err(NotAuthentic));
    }
}
