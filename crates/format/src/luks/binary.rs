//! The binary header of LUKS2: the first 4096 bytes of each of its two copies
//! (LUKS2, 2.1). Numbers are big-endian. A JSON area follows, and the checksum
//! covers both; computing it is the caller's.

use super::{MAGIC, MAGIC_SECOND, limits, set_text, text};
use crate::FormatError;
use crate::layout::layout;

layout! {
    /// The binary header (LUKS2, figure 2).
    header: 4096;
    MAGIC = 0, 6, "magic";
    VERSION = 6, 2, "version";
    HDR_SIZE = 8, 8, "header size";
    SEQID = 16, 8, "sequence number";
    LABEL = 24, 48, "label";
    CHECKSUM_ALGORITHM = 72, 32, "checksum algorithm";
    SALT = 104, 64, "salt";
    UUID = 168, 40, "UUID";
    SUBSYSTEM = 208, 48, "subsystem";
    HDR_OFFSET = 256, 8, "header offset";
    PADDING = 264, 184, "padding";
    CHECKSUM = 448, 64, "checksum";
    PADDING_4096 = 512, 3584, "padding to 4096";
}

/// The only checksum in use (LUKS2, 2.1).
pub const CHECKSUM: &str = "sha256";
/// Its bytes.
pub const CHECKSUM_LEN: usize = 32;
/// Longest label and subsystem in bytes.
pub const LABEL_LEN_MAX: usize = 47;

/// Which copy of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// At the beginning.
    First,
    /// Behind the first.
    Second,
}

impl Copy {
    fn magic(self) -> &'static [u8; 6] {
        match self {
            Copy::First => &MAGIC,
            Copy::Second => &MAGIC_SECOND,
        }
    }
}

/// The binary header of one copy, without its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinaryHeader {
    /// Which copy it is.
    pub copy: Copy,
    /// Bytes of the copy: this header and the JSON area.
    pub size: u64,
    /// Grows with every change; of two sound copies the larger counts.
    pub sequence: u64,
    /// Label, for people.
    pub label: String,
    /// Random bytes that make each copy's checksum its own.
    pub salt: [u8; 64],
    /// UUID, as text.
    pub uuid: String,
    /// A second label.
    pub subsystem: String,
}

impl BinaryHeader {
    /// Reads the binary header of `copy`, which stands at the beginning of
    /// `bytes`. Its checksum is not looked at.
    ///
    /// # Errors
    /// What is wrong with it, or not supported.
    pub fn decode(bytes: &[u8], copy: Copy) -> Result<BinaryHeader, FormatError> {
        let found = bytes.len();
        let bytes = bytes.get(..header::LEN).ok_or(FormatError::Length {
            what: "LUKS2 binary header",
            expected: header::LEN,
            found,
        })?;
        if header::MAGIC.of(bytes) != copy.magic() {
            return Err(FormatError::magic("LUKS2 header", header::MAGIC.of(bytes)));
        }
        let version = u16::from_be_bytes(header::VERSION.array(bytes));
        if version != 2 {
            return Err(FormatError::Unsupported { field: "LUKS version", value: version.into() });
        }
        let size = u64::from_be_bytes(header::HDR_SIZE.array(bytes));
        if !limits::HEADER_SIZES.contains(&size) {
            let (min, max) = (limits::HEADER_SIZES[0], limits::HEADER_SIZES[8]);
            return Err(FormatError::OutOfRange { field: "header size", value: size, min, max });
        }
        let offset = u64::from_be_bytes(header::HDR_OFFSET.array(bytes));
        let expected = if copy == Copy::First { 0 } else { size };
        if offset != expected {
            return Err(FormatError::Inconsistent { what: "a LUKS2 header is not where it says that it is" });
        }
        let algorithm = text("checksum algorithm", header::CHECKSUM_ALGORITHM.of(bytes))?;
        if algorithm != CHECKSUM {
            return Err(FormatError::unsupported_name("header checksum", &algorithm));
        }
        Ok(BinaryHeader {
            copy,
            size,
            sequence: u64::from_be_bytes(header::SEQID.array(bytes)),
            label: text("label", header::LABEL.of(bytes))?,
            salt: header::SALT.array(bytes),
            uuid: text("UUID", header::UUID.of(bytes))?,
            subsystem: text("subsystem", header::SUBSYSTEM.of(bytes))?,
        })
    }

    /// The header's bytes with zeros for the checksum.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; header::LEN];
        header::MAGIC.set(&mut bytes, self.copy.magic());
        header::VERSION.set(&mut bytes, &2u16.to_be_bytes());
        header::HDR_SIZE.set(&mut bytes, &self.size.to_be_bytes());
        header::SEQID.set(&mut bytes, &self.sequence.to_be_bytes());
        set_text(&mut bytes[header::LABEL.range()], &self.label);
        set_text(&mut bytes[header::CHECKSUM_ALGORITHM.range()], CHECKSUM);
        header::SALT.set(&mut bytes, &self.salt);
        set_text(&mut bytes[header::UUID.range()], &self.uuid);
        set_text(&mut bytes[header::SUBSYSTEM.range()], &self.subsystem);
        let offset = if self.copy == Copy::First { 0 } else { self.size };
        header::HDR_OFFSET.set(&mut bytes, &offset.to_be_bytes());
        bytes
    }

    /// The same header as the other copy; its salt is to be drawn anew.
    #[must_use]
    pub fn as_copy(&self, copy: Copy, salt: [u8; 64]) -> BinaryHeader {
        BinaryHeader { copy, salt, ..self.clone() }
    }
}

/// Takes the checksum out of a copy's bytes, leaving zeros, over which and the
/// rest it is computed.
///
/// # Panics
/// If there is no whole binary header.
pub fn take_checksum(bytes: &mut [u8]) -> [u8; CHECKSUM_LEN] {
    let field = &mut bytes[header::CHECKSUM.range()];
    let checksum = field[..CHECKSUM_LEN].try_into().expect("it is shorter than the field");
    field.fill(0);
    checksum
}

/// Puts a checksum into a copy's bytes.
///
/// # Panics
/// If there is no whole binary header.
pub fn set_checksum(bytes: &mut [u8], checksum: &[u8; CHECKSUM_LEN]) {
    bytes[header::CHECKSUM.range()][..CHECKSUM_LEN].copy_from_slice(checksum);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(copy: Copy) -> BinaryHeader {
        BinaryHeader {
            copy,
            size: 0x4000,
            sequence: 3,
            label: "backup disk".to_owned(),
            salt: [9; 64],
            uuid: "0b2b3c4d-0000-4000-8000-123456789abc".to_owned(),
            subsystem: String::new(),
        }
    }

    #[test]
    fn both_copies_come_back() {
        for copy in [Copy::First, Copy::Second] {
            let header = sample(copy);
            assert_eq!(BinaryHeader::decode(&header.encode(), copy), Ok(header));
        }
        assert!(BinaryHeader::decode(&sample(Copy::First).encode(), Copy::Second).is_err());
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let change = |at: usize, value: u8| {
            let mut bytes = sample(Copy::Second).encode();
            bytes[at] = value;
            BinaryHeader::decode(&bytes, Copy::Second)
        };
        assert!(change(15, 1).is_err(), "header size");
        assert!(change(263, 1).is_err(), "header offset");
        assert!(change(7, 9).is_err_and(|error| error.is_unsupported()), "version");
        assert!(change(72, b'x').is_err_and(|error| error.is_unsupported()), "checksum");
        assert!(change(24, 7).is_err(), "a control character in the label");
        assert!(BinaryHeader::decode(&[0; 4095], Copy::First).is_err());
    }

    #[test]
    fn checksums_are_taken_out_and_put_back() {
        let mut bytes = sample(Copy::First).encode();
        set_checksum(&mut bytes, &[5; 32]);
        assert_eq!(take_checksum(&mut bytes), [5; 32]);
        assert_eq!(bytes, sample(Copy::First).encode());
    }
}
