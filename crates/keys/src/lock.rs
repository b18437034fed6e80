//! Sealing of what a vault's lock says of its holder (section 9 of the format):
//! for this machine, whose programs ask before they have a secret, and for
//! whoever has the vault's key. Others see that the vault is in use.

use std::fs;

use hkdf::Hkdf;
use sha2::Sha256;
use strongroom_format::vault::VaultId;

use crate::hierarchy::RootKey;
use crate::machine::machine_id;
use crate::random::{self, EntropyError};
use crate::secret::Secret;
use crate::siv::{self, NotAuthentic};

const ASSOCIATED: &[u8] = b"lock";
const OF_MACHINE: &[u8] = b"strongroom lock of a machine";
const SALT_LEN: usize = 16;

/// Multiple of bytes to which a record is padded, so that its length tells no
/// more of a path than its magnitude.
const PADDED: usize = 512;

/// Seals records of a lock's holder, and opens them.
pub struct LockCipher {
    key: Secret<{ siv::KEY_LEN }>,
}

impl LockCipher {
    /// For whoever has the vault's key.
    #[must_use]
    pub fn of_vault(root: &RootKey, vault: VaultId) -> LockCipher {
        LockCipher { key: root.lock_key(vault) }
    }

    /// For programs of this machine: by its id, which is known on it and not to
    /// be told to others (machine-id(5)), or where it has none, by that of its
    /// start.
    #[must_use]
    pub fn of_machine() -> LockCipher {
        let of_start = || fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        LockCipher::of_machine_id(&machine_id().unwrap_or_else(of_start))
    }

    fn of_machine_id(id: &str) -> LockCipher {
        let hkdf = Hkdf::<Sha256>::new(None, id.trim().as_bytes());
        let key =
            Secret::build(|key| hkdf.expand(OF_MACHINE, key).expect("64 bytes are less than 255 hashes"));
        LockCipher { key }
    }

    /// Seals a JSON text, differently every time, padded with white space.
    ///
    /// # Errors
    /// [`EntropyError`].
    pub fn seal(&self, text: &[u8]) -> Result<Vec<u8>, EntropyError> {
        let mut plain = random::array::<SALT_LEN>()?.to_vec();
        plain.extend_from_slice(text);
        plain.resize(plain.len().next_multiple_of(PADDED), b' ');
        Ok(siv::seal(self.key.expose(), ASSOCIATED, &plain))
    }

    /// Opens what [`LockCipher::seal`] sealed, with its padding.
    ///
    /// # Errors
    /// [`NotAuthentic`].
    pub fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
        let mut plain = siv::open(self.key.expose(), ASSOCIATED, sealed)?;
        if plain.len() < SALT_LEN {
            return Err(NotAuthentic);
        }
        plain.drain(..SALT_LEN);
        Ok(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_opens_for_its_machine_or_vault_alone() {
        let root = RootKey::random().expect("entropy");
        let ciphers = [
            LockCipher::of_machine_id("a"),
            LockCipher::of_machine_id("b"),
            LockCipher::of_vault(&root, VaultId([1; 16])),
            LockCipher::of_vault(&root, VaultId([2; 16])),
        ];
        for (i, cipher) in ciphers.iter().enumerate() {
            let sealed = cipher.seal(b"{}").expect("entropy");
            assert_ne!(sealed, cipher.seal(b"{}").expect("entropy"), "equal records do not show");
            for (j, other) in ciphers.iter().enumerate() {
                let opened = other.open(&sealed).map(|text| text.trim_ascii_end().to_vec());
                assert_eq!(opened, if i == j { Ok(b"{}".to_vec()) } else { Err(NotAuthentic) });
            }
        }
        assert!(
            LockCipher::of_machine().open(&LockCipher::of_machine().seal(b"x").expect("entropy")).is_ok()
        );
    }

    #[test]
    fn lengths_show_roughly() {
        let cipher = LockCipher::of_machine_id("a");
        let len = |text: &[u8]| cipher.seal(text).expect("entropy").len();
        assert_eq!(len(b""), len(&[b'x'; 496]));
        assert!(len(&[b'x'; 497]) > len(b""));
    }
}
