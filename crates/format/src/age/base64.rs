//! Base64 without padding, canonical (RFC 4648 section 3.5).

use data_encoding::BASE64_NOPAD;

use crate::FormatError;

/// The bytes in base64.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    BASE64_NOPAD.encode(bytes)
}

/// The bytes of a text.
///
/// # Errors
/// Padding, other characters, bits after the end that are not zero.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, FormatError> {
    BASE64_NOPAD.decode(text).map_err(|_| FormatError::text("base64 text without padding", text))
}
