//! The closed list of suites.

use core::fmt;
use core::str::FromStr;

use crate::error::FormatError;

/// What seals a vault's blocks, pages and journal (section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Suite {
    /// XAES-256-GCM (C2SP).
    Xaes256Gcm = 1,
    /// XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha).
    XChaCha20Poly1305 = 2,
    /// AEGIS-256X2 with a 16-byte tag (draft-irtf-cfrg-aegis-aead).
    Aegis256X2 = 3,
    /// AEGIS-256X4 with a 16-byte tag (draft-irtf-cfrg-aegis-aead).
    Aegis256X4 = 4,
    /// Serpent-256 in counter mode with Poly1305 (section 3.1).
    Serpent256Poly1305 = 5,
    /// AES-256, Twofish-256 and Serpent-256 in counter mode with Poly1305
    /// (section 3.1).
    Cascade = 6,
}

impl Suite {
    /// Every suite, by number.
    pub const ALL: [Suite; 6] = [
        Suite::Xaes256Gcm,
        Suite::XChaCha20Poly1305,
        Suite::Aegis256X2,
        Suite::Aegis256X4,
        Suite::Serpent256Poly1305,
        Suite::Cascade,
    ];

    /// What stands before the 24 bytes of the wire in a nonce of AEGIS-256.
    pub const AEGIS_NONCE_PREFIX: [u8; 8] = *b"strongrm";

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The suite with this number.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] for numbers that stand for none.
    pub fn from_number(number: u8) -> Result<Suite, FormatError> {
        Suite::ALL
            .into_iter()
            .find(|suite| suite.number() == number)
            .ok_or(FormatError::Unsupported { field: "suite", value: u64::from(number) })
    }

    /// The name that users type and read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Suite::Xaes256Gcm => "xaes-256-gcm",
            Suite::XChaCha20Poly1305 => "xchacha20-poly1305",
            Suite::Aegis256X2 => "aegis-256x2",
            Suite::Aegis256X4 => "aegis-256x4",
            Suite::Serpent256Poly1305 => "serpent-256-poly1305",
            Suite::Cascade => "cascade",
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Suite {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Suite, FormatError> {
        Suite::ALL
            .into_iter()
            .find(|suite| suite.name() == name)
            .ok_or_else(|| FormatError::text("suite", name.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_come_back_and_no_others_are_taken() {
        for suite in Suite::ALL {
            assert_eq!(Suite::from_number(suite.number()), Ok(suite));
            assert_eq!(suite.to_string().parse(), Ok(suite));
        }
        let known = (0..=255).filter(|&n| Suite::from_number(n).is_ok()).count();
        assert_eq!(known, Suite::ALL.len());
        assert!("null".parse::<Suite>().is_err());
        assert!("XAES-256-GCM".parse::<Suite>().is_err());
    }
}
