//! Takes fields off the front of a message.

use std::fmt;

/// Why bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Shorter than its fields.
    Truncated,
    /// A string without its NUL.
    Unterminated,
    /// A name that is empty or holds a `/`.
    Name,
    /// A length that does not match what is there.
    Length,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseError::Truncated => "the request is shorter than its fields",
            ParseError::Unterminated => "a string of the request has no end",
            ParseError::Name => "a name of the request is empty or holds a slash",
            ParseError::Length => "a length of the request does not match its bytes",
        })
    }
}

impl std::error::Error for ParseError {}

/// The rest of a message that is still to be decoded.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// The next `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], ParseError> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(ParseError::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ParseError> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ParseError> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, ParseError> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Leaves out padding, or fields that are of no use here.
    pub(super) fn skip(&mut self, len: usize) -> Result<(), ParseError> {
        self.take(len).map(drop)
    }

    /// Bytes up to a NUL, which is taken too.
    pub(super) fn string(&mut self) -> Result<&'a [u8], ParseError> {
        let len = self.bytes.iter().position(|&byte| byte == 0).ok_or(ParseError::Unterminated)?;
        let string = self.take(len)?;
        self.skip(1)?;
        Ok(string)
    }

    /// A string that can be a name in a directory.
    pub(super) fn name(&mut self) -> Result<&'a [u8], ParseError> {
        let name = self.string()?;
        if name.is_empty() || name.contains(&b'/') { Err(ParseError::Name) } else { Ok(name) }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}
