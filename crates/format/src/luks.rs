//! Headers of encrypted disks: LUKS1 (On-Disk Format Specification 1.2.3) and
//! LUKS2 (On-Disk Format Specification 1.1).
//!
//! Bytes to structs and back. What needs a hash or a cipher is done elsewhere:
//! the checksum of a LUKS2 header, digests, key slots. What this program does
//! not support is refused here by name. `docs/format/luks.md` says what is
//! read and written of both formats; `tests/luks_document.rs` holds it against
//! this code.

pub mod binary;
pub mod cipher;
pub mod kdf;
pub mod limits;
pub mod metadata;
pub mod phdr;

pub use binary::{BinaryHeader, Copy};
pub use cipher::CipherSpec;
pub use kdf::{Hash, Kdf};
pub use metadata::{Area, Config, Digest, Keyslot, Metadata, Segment};
pub use phdr::{Phdr, Slot};

use crate::FormatError;

/// The first bytes of a LUKS1 header and of the first copy of a LUKS2 header.
pub const MAGIC: [u8; 6] = *b"LUKS\xba\xbe";
/// The first bytes of the second copy of a LUKS2 header.
pub const MAGIC_SECOND: [u8; 6] = *b"SKUL\xba\xbe";

/// The unit of LUKS1 offsets and of sector numbers in tweaks: 512 bytes,
/// whatever the sector size of the volume.
pub const UNIT: u64 = 512;

/// The version of a header that begins here; none when nothing of LUKS does.
#[must_use]
pub fn version(bytes: &[u8]) -> Option<u16> {
    let version = bytes.get(6..8)?;
    bytes.starts_with(&MAGIC).then(|| u16::from_be_bytes([version[0], version[1]]))
}

/// Text in a field of fixed length, which ends at the first zero byte.
pub(crate) fn text(what: &'static str, bytes: &[u8]) -> Result<String, FormatError> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) if !text.chars().any(char::is_control) => Ok(text.to_owned()),
        _ => Err(FormatError::text(what, &bytes[..end])),
    }
}

/// Puts text into a field, with zeros behind it.
pub(crate) fn set_text(field: &mut [u8], text: &str) {
    let len = text.len().min(field.len() - 1);
    field.fill(0);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
}
