//! What can be wrong with stored bytes, with the field and the value that are.

use core::fmt;

/// Stored bytes that are not what the format allows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// A structure is not as long as it must be.
    Length {
        /// The structure.
        what: &'static str,
        /// Bytes that it must have.
        expected: usize,
        /// Bytes that there are.
        found: usize,
    },
    /// The magic bytes are those of something else.
    Magic {
        /// The structure.
        what: &'static str,
        /// The bytes in its place, at most 8.
        found: Vec<u8>,
    },
    /// A format version or a method that this program does not know. The
    /// store may be sound and newer than the program.
    Unsupported {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A method or feature, by its name in the header, that this program does
    /// not have.
    UnsupportedName {
        /// What it is: a hash, a requirement.
        what: &'static str,
        /// Its name, with everything unprintable escaped, cut at 80 bytes.
        name: String,
    },
    /// A field that must be zero is not.
    NotZero {
        /// The field.
        field: &'static str,
        /// Offset of the first byte that is not zero, in its structure.
        offset: usize,
    },
    /// A number outside its bounds.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// Smallest that is allowed.
        min: u64,
        /// Largest that is allowed.
        max: u64,
    },
    /// A member of a JSON object that is missing or of the wrong kind.
    Member {
        /// The object.
        object: &'static str,
        /// The member's name.
        member: &'static str,
    },
    /// Fields that contradict each other.
    Inconsistent {
        /// What does not fit together.
        what: &'static str,
    },
    /// A name or text that is not spelled as the format says.
    Text {
        /// What it should be.
        what: &'static str,
        /// The text, with everything unprintable escaped, cut at 80 bytes.
        found: String,
    },
}

impl FormatError {
    /// True when the bytes may be sound and this program too old for them.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self, FormatError::Unsupported { .. } | FormatError::UnsupportedName { .. })
    }

    pub(crate) fn unsupported_name(what: &'static str, name: &str) -> FormatError {
        let bytes = name.as_bytes();
        FormatError::UnsupportedName { what, name: bytes[..bytes.len().min(80)].escape_ascii().to_string() }
    }

    pub(crate) fn magic(what: &'static str, found: &[u8]) -> FormatError {
        FormatError::Magic { what, found: found[..found.len().min(8)].to_vec() }
    }

    pub(crate) fn text(what: &'static str, found: &[u8]) -> FormatError {
        FormatError::Text { what, found: found[..found.len().min(80)].escape_ascii().to_string() }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::Length { what, expected, found } => {
                write!(f, "{what}: {found} bytes long instead of {expected}")
            }
            FormatError::Magic { what, found } => {
                write!(f, "not a {what}: it begins with \"{}\"", found.escape_ascii())
            }
            FormatError::Unsupported { field, value } => {
                write!(f, "{field} {value} is not known to this version")
            }
            FormatError::UnsupportedName { what, name } => {
                write!(f, "the {what} `{name}` is not supported")
            }
            FormatError::NotZero { field, offset } => {
                write!(f, "{field}: byte {offset} should be zero")
            }
            FormatError::OutOfRange { field, value, min, max } => {
                write!(f, "{field} is {value}, outside {min} to {max}")
            }
            FormatError::Member { object, member } => {
                write!(f, "{object}: `{member}` is missing or not what it should be")
            }
            FormatError::Inconsistent { what } => f.write_str(what),
            FormatError::Text { what, found } => write!(f, "not a {what}: \"{found}\""),
        }
    }
}

impl std::error::Error for FormatError {}

/// Refuses bytes that should be zero; `base` is the offset of the first in its structure.
pub(crate) fn zero(field: &'static str, bytes: &[u8], base: usize) -> Result<(), FormatError> {
    match bytes.iter().position(|&b| b != 0) {
        None => Ok(()),
        Some(at) => Err(FormatError::NotZero { field, offset: base + at }),
    }
}

/// Refuses numbers outside `min..=max`.
pub(crate) fn within(field: &'static str, value: u64, min: u64, max: u64) -> Result<u64, FormatError> {
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(FormatError::OutOfRange { field, value, min, max })
    }
}

/// Refuses slices of another length, and gives the array.
pub(crate) fn exactly<'a, const N: usize>(
    what: &'static str,
    bytes: &'a [u8],
) -> Result<&'a [u8; N], FormatError> {
    bytes.try_into().map_err(|_| FormatError::Length { what, expected: N, found: bytes.len() })
}
