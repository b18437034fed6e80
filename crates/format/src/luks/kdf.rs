//! Hashes and key derivation functions by the names that headers give them,
//! with the bounds on what a header may make a machine do.

use core::fmt;

use super::limits;
use crate::FormatError;
use crate::error::within;

/// A hash function that LUKS headers in use name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// SHA-1 (FIPS 180-4): the default of old LUKS1 headers.
    Sha1,
    /// SHA-224 (FIPS 180-4).
    Sha224,
    /// SHA-256 (FIPS 180-4): the default today.
    Sha256,
    /// SHA-384 (FIPS 180-4).
    Sha384,
    /// SHA-512 (FIPS 180-4).
    Sha512,
    /// RIPEMD-160 (ISO/IEC 10118-3).
    Ripemd160,
    /// Whirlpool (ISO/IEC 10118-3).
    Whirlpool,
}

impl Hash {
    /// Every hash.
    pub const ALL: [Hash; 7] = [
        Hash::Sha1,
        Hash::Sha224,
        Hash::Sha256,
        Hash::Sha384,
        Hash::Sha512,
        Hash::Ripemd160,
        Hash::Whirlpool,
    ];

    /// Its name in headers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Hash::Sha1 => "sha1",
            Hash::Sha224 => "sha224",
            Hash::Sha256 => "sha256",
            Hash::Sha384 => "sha384",
            Hash::Sha512 => "sha512",
            Hash::Ripemd160 => "ripemd160",
            Hash::Whirlpool => "whirlpool",
        }
    }

    /// Bytes of its digest.
    #[must_use]
    pub const fn digest_len(self) -> usize {
        match self {
            Hash::Sha1 | Hash::Ripemd160 => 20,
            Hash::Sha224 => 28,
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 | Hash::Whirlpool => 64,
        }
    }

    /// By its name in a header.
    ///
    /// # Errors
    /// [`FormatError::UnsupportedName`] for a hash that is not among these.
    pub fn parse(name: &str) -> Result<Hash, FormatError> {
        Hash::ALL
            .into_iter()
            .find(|hash| hash.name() == name)
            .ok_or_else(|| FormatError::unsupported_name("hash", name))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl core::str::FromStr for Hash {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Hash, FormatError> {
        Hash::parse(name)
    }
}

/// Which Argon2 (RFC 9106).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argon2Kind {
    /// Argon2i.
    I,
    /// Argon2id.
    Id,
}

impl Argon2Kind {
    /// Its name in headers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Argon2Kind::I => "argon2i",
            Argon2Kind::Id => "argon2id",
        }
    }
}

/// How a key is derived from a passphrase, with what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kdf {
    /// PBKDF2 with HMAC (RFC 8018).
    Pbkdf2 {
        /// The hash under the HMAC.
        hash: Hash,
        /// Iterations.
        iterations: u32,
    },
    /// Argon2 (RFC 9106), version 0x13.
    Argon2 {
        /// Which one.
        kind: Argon2Kind,
        /// Passes over the memory.
        passes: u32,
        /// Memory in KiB.
        memory_kib: u32,
        /// Lanes.
        lanes: u32,
    },
}

impl Kdf {
    /// PBKDF2 within the bounds.
    ///
    /// # Errors
    /// [`FormatError::OutOfRange`].
    pub fn pbkdf2(hash: Hash, iterations: u64) -> Result<Kdf, FormatError> {
        within("PBKDF2 iterations", iterations, 1, limits::PBKDF2_ITERATIONS_MAX)?;
        Ok(Kdf::Pbkdf2 { hash, iterations: iterations as u32 })
    }

    /// Argon2 within the bounds.
    ///
    /// # Errors
    /// [`FormatError::OutOfRange`].
    pub fn argon2(kind: Argon2Kind, passes: u64, memory_kib: u64, lanes: u64) -> Result<Kdf, FormatError> {
        within("Argon2 lanes", lanes, 1, limits::ARGON2_LANES_MAX)?;
        within("Argon2 memory in KiB", memory_kib, 8 * lanes, limits::ARGON2_MEMORY_MAX)?;
        within("Argon2 passes", passes, 1, limits::ARGON2_WORK_MAX / memory_kib)?;
        Ok(Kdf::Argon2 { kind, passes: passes as u32, memory_kib: memory_kib as u32, lanes: lanes as u32 })
    }

    /// Its name in LUKS2 headers.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Kdf::Pbkdf2 { .. } => "pbkdf2",
            Kdf::Argon2 { kind, .. } => kind.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_known_by_their_names() {
        for hash in Hash::ALL {
            assert_eq!(Hash::parse(hash.name()), Ok(hash));
        }
        assert!(Hash::parse("md5").is_err_and(|error| error.is_unsupported()));
    }

    #[test]
    fn costs_have_bounds() {
        assert!(Kdf::pbkdf2(Hash::Sha256, 0).is_err());
        assert!(Kdf::pbkdf2(Hash::Sha256, limits::PBKDF2_ITERATIONS_MAX).is_ok());
        assert!(Kdf::pbkdf2(Hash::Sha256, limits::PBKDF2_ITERATIONS_MAX + 1).is_err());
        let argon2 = |passes, memory, lanes| Kdf::argon2(Argon2Kind::Id, passes, memory, lanes);
        assert!(argon2(4, 1 << 20, 4).is_ok());
        assert!(argon2(32, 4 << 20, 1).is_ok());
        assert!(argon2(33, 4 << 20, 1).is_err());
        assert!(argon2(1, (4 << 20) + 1, 1).is_err());
        assert!(argon2(1, 31, 4).is_err());
        assert!(argon2(1, 1024, 65).is_err());
        assert!(argon2(0, 1024, 1).is_err());
        assert!(argon2(1, 1024, 0).is_err());
    }
}
