//! Keys of LUKS disks: passphrase to area key ([`derive()`]), the anti-forensic
//! splitter ([`split`], [`merge`]), digests of the volume key ([`digest()`]).
//!
//! Encrypting a key slot's area needs a sector cipher and is the disk's. What
//! headers say has been checked by `format::luks` before it comes here, costs
//! included.

mod cost;
mod hash;
mod splitter;

pub use cost::{CostTarget, fit};
pub use hash::{digest, hash, pbkdf2};
pub use splitter::{merge, split};

use argon2::{Algorithm, Argon2, Params, Version};
use strongroom_format::luks::Kdf;
use strongroom_format::luks::kdf::Argon2Kind;

use crate::argon;
use crate::kdf::memory;
use crate::secret::SecretBytes;

/// This machine has not the memory that a key slot asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRefused {
    /// What it asks for, in KiB.
    pub memory_kib: u32,
}

impl std::fmt::Display for MemoryRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not enough memory to try the passphrase (Argon2 with {} KiB)", self.memory_kib)
    }
}

impl std::error::Error for MemoryRefused {}

/// The key of `len` bytes that `passphrase` gives.
///
/// # Errors
/// [`MemoryRefused`].
pub fn derive(kdf: Kdf, passphrase: &[u8], salt: &[u8], len: usize) -> Result<SecretBytes, MemoryRefused> {
    let mut key = SecretBytes::zeroed(len);
    match kdf {
        Kdf::Pbkdf2 { hash, iterations } => pbkdf2(hash, passphrase, salt, iterations, key.expose_mut()),
        Kdf::Argon2 { kind, passes, memory_kib, lanes } => {
            let refused = MemoryRefused { memory_kib };
            // Rather refuse than have the process killed for it.
            if memory::total_kib().is_some_and(|total| total < u64::from(memory_kib)) {
                return Err(refused);
            }
            let params = Params::new(memory_kib, passes, lanes, Some(len)).map_err(|_| refused)?;
            let algorithm = match kind {
                Argon2Kind::I => Algorithm::Argon2i,
                Argon2Kind::Id => Algorithm::Argon2id,
            };
            let argon2 = Argon2::new(algorithm, Version::V0x13, params);
            if !argon::hash(&argon2, lanes, passphrase, salt, key.expose_mut()) {
                return Err(refused);
            }
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;
    use strongroom_format::luks::Hash;

    #[test]
    fn argon2_takes_every_parameter() {
        let argon2 =
            |kind, passes, memory, lanes| Kdf::argon2(kind, passes, memory, lanes).expect("in bounds");
        let kdfs = [
            argon2(Argon2Kind::Id, 1, 32, 1),
            argon2(Argon2Kind::I, 1, 32, 1),
            argon2(Argon2Kind::Id, 2, 32, 1),
            argon2(Argon2Kind::Id, 1, 40, 1),
            argon2(Argon2Kind::Id, 1, 32, 2),
            Kdf::pbkdf2(Hash::Sha256, 10).expect("in bounds"),
            Kdf::pbkdf2(Hash::Sha256, 11).expect("in bounds"),
            Kdf::pbkdf2(Hash::Sha512, 10).expect("in bounds"),
        ];
        let mut keys = Vec::new();
        for kdf in kdfs {
            for (passphrase, salt) in [("a", [0; 32]), ("b", [0; 32]), ("a", [1; 32])] {
                let key = derive(kdf, passphrase.as_bytes(), &salt, 64).expect("little memory");
                keys.push(HEXLOWER.encode(key.expose()));
            }
        }
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn more_memory_than_there_is_is_refused() {
        let kdf = Kdf::Argon2 { kind: Argon2Kind::Id, passes: 1, memory_kib: u32::MAX, lanes: 1 };
        assert!(derive(kdf, b"", &[0; 16], 32).is_err());
    }
}
