//! Names of ciphers as dm-crypt spells them: `aes-xts-plain64`.

use core::fmt;

use crate::FormatError;

/// Longest name of a cipher with its mode, in bytes.
const LEN_MAX: usize = 63;

/// A cipher, its chaining mode and how sectors are numbered, by name. That it
/// is spelled well does not say that anybody can compute it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CipherSpec {
    cipher: String,
    mode: String,
}

impl CipherSpec {
    /// From the two names of LUKS1: `aes` and `xts-plain64`.
    ///
    /// # Errors
    /// [`FormatError::Text`] when one is empty, too long or has characters
    /// that no name has.
    pub fn new(cipher: &str, mode: &str) -> Result<CipherSpec, FormatError> {
        let whole = format!("{cipher}-{mode}");
        let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-:_()".contains(c);
        if cipher.is_empty()
            || cipher.contains('-')
            || mode.is_empty()
            || whole.len() > LEN_MAX
            || !whole.chars().all(fine)
        {
            return Err(FormatError::text("cipher name", whole.as_bytes()));
        }
        Ok(CipherSpec { cipher: cipher.to_owned(), mode: mode.to_owned() })
    }

    /// From one name: `aes-xts-plain64`.
    ///
    /// # Errors
    /// As [`CipherSpec::new`].
    pub fn parse(text: &str) -> Result<CipherSpec, FormatError> {
        match text.split_once('-') {
            Some((cipher, mode)) => CipherSpec::new(cipher, mode),
            None => Err(FormatError::text("cipher name", text.as_bytes())),
        }
    }

    /// The cipher alone: `aes`.
    #[must_use]
    pub fn cipher(&self) -> &str {
        &self.cipher
    }

    /// Chaining mode and sector numbering: `xts-plain64`, `cbc-essiv:sha256`.
    #[must_use]
    pub fn mode(&self) -> &str {
        &self.mode
    }
}

impl fmt::Display for CipherSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.cipher, self.mode)
    }
}

impl core::str::FromStr for CipherSpec {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<CipherSpec, FormatError> {
        CipherSpec::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_the_first_dash() {
        let spec = CipherSpec::parse("aes-cbc-essiv:sha256").expect("well spelled");
        assert_eq!((spec.cipher(), spec.mode()), ("aes", "cbc-essiv:sha256"));
        assert_eq!(spec.to_string(), "aes-cbc-essiv:sha256");
        for bad in ["", "aes", "aes-", "-xts", "AES-xts-plain64", "aes-xts plain", "aes-xts\n", "aes-\u{e9}"]
        {
            assert!(CipherSpec::parse(bad).is_err(), "{bad}");
        }
        assert!(CipherSpec::parse(&format!("aes-{}", "x".repeat(60))).is_err());
        assert!(CipherSpec::new("a-b", "c").is_err());
    }
}
