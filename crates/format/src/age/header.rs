//! The header: a version line, stanzas, and a MAC.

use super::base64;
use crate::FormatError;

/// The line that every file begins with.
pub const INTRO: &str = "age-encryption.org/v1\n";
/// Most bytes of a header: about 5,000 stanzas of hybrid recipients, or 80,000
/// of X25519.
pub const HEADER_LEN_MAX: usize = 8 << 20;

const STANZA: &[u8] = b"-> ";
const MAC: &[u8] = b"---";
const COLUMNS: usize = 64;

/// The file key, wrapped for one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stanza {
    /// The recipient's type, such as `X25519`.
    pub kind: String,
    /// What follows it in the line.
    pub arguments: Vec<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// In their order; one at least.
    pub stanzas: Vec<Stanza>,
    /// HMAC-SHA-256 of [`Header::authenticated`].
    pub mac: [u8; 32],
}

impl Header {
    /// What the MAC is made of: everything up to and with its `---`.
    #[must_use]
    pub fn authenticated(stanzas: &[Stanza]) -> Vec<u8> {
        let mut bytes = INTRO.as_bytes().to_vec();
        for stanza in stanzas {
            bytes.extend_from_slice(b"->");
            for word in std::iter::once(&stanza.kind).chain(&stanza.arguments) {
                bytes.push(b' ');
                bytes.extend_from_slice(word.as_bytes());
            }
            bytes.push(b'\n');
            let body = base64::encode(&stanza.body);
            for line in body.as_bytes().chunks(COLUMNS) {
                bytes.extend_from_slice(line);
                bytes.push(b'\n');
            }
            // The last line is a short one.
            if body.len().is_multiple_of(COLUMNS) {
                bytes.push(b'\n');
            }
        }
        bytes.extend_from_slice(MAC);
        bytes
    }

    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Header::authenticated(&self.stanzas);
        bytes.push(b' ');
        bytes.extend_from_slice(base64::encode(&self.mac).as_bytes());
        bytes.push(b'\n');
        bytes
    }

    /// Whether a line, without its newline, is the header's last.
    #[must_use]
    pub fn ends_with(line: &[u8]) -> bool {
        line.starts_with(MAC)
    }

    /// Reads a header that ends where `bytes` end.
    ///
    /// # Errors
    /// [`FormatError`] for whatever is not spelled as the specification says.
    pub fn decode(bytes: &[u8]) -> Result<Header, FormatError> {
        let rest = bytes
            .strip_prefix(INTRO.as_bytes())
            .ok_or_else(|| FormatError::magic("file in the format of age, version 1", bytes))?;
        let rest =
            rest.strip_suffix(b"\n").ok_or_else(|| FormatError::text("whole age header", tail(rest)))?;
        let mut lines = rest.split(|&byte| byte == b'\n');
        let mut stanzas = Vec::new();
        while let Some(line) = lines.next() {
            if let Some(words) = line.strip_prefix(STANZA) {
                stanzas.push(stanza(words, &mut lines)?);
            } else {
                let mac = mac(line)?;
                if stanzas.is_empty() || lines.next().is_some() {
                    return Err(FormatError::Inconsistent { what: "an age header without a stanza" });
                }
                return Ok(Header { stanzas, mac });
            }
        }
        Err(FormatError::Inconsistent { what: "an age header without its MAC" })
    }
}

fn tail(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len().saturating_sub(80)..]
}

fn stanza<'a>(words: &[u8], lines: &mut impl Iterator<Item = &'a [u8]>) -> Result<Stanza, FormatError> {
    let mut texts = words.split(|&byte| byte == b' ').map(|word| {
        let visible = !word.is_empty() && word.iter().all(|byte| (33..=126).contains(byte));
        if visible {
            Ok(String::from_utf8_lossy(word).into_owned())
        } else {
            Err(FormatError::text("stanza's line of words", words))
        }
    });
    let kind = texts.next().expect("split gives one at least")?;
    let arguments = texts.collect::<Result<Vec<_>, _>>()?;
    let mut body = Vec::new();
    loop {
        let line =
            lines.next().ok_or(FormatError::Inconsistent { what: "a stanza without its last line" })?;
        if line.len() > COLUMNS {
            return Err(FormatError::text("stanza's line of at most 64 columns", line));
        }
        body.extend_from_slice(&base64::decode(line)?);
        if line.len() < COLUMNS {
            return Ok(Stanza { kind, arguments, body });
        }
    }
}

fn mac(line: &[u8]) -> Result<[u8; 32], FormatError> {
    let text = line
        .strip_prefix(MAC)
        .and_then(|line| line.strip_prefix(b" "))
        .ok_or_else(|| FormatError::text("stanza or MAC of an age header", line))?;
    let bytes = base64::decode(text)?;
    crate::error::exactly("MAC of an age header", &bytes).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_stanza() -> impl Strategy<Value = Stanza> {
        let word = "[!-~]{1,20}";
        let body = proptest::collection::vec(any::<u8>(), 0..200);
        (word, proptest::collection::vec(word, 0..4), body).prop_map(|(kind, arguments, body)| Stanza {
            kind,
            arguments,
            body,
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_back(
            stanzas in proptest::collection::vec(any_stanza(), 1..5),
            mac: [u8; 32],
        ) {
            let header = Header { stanzas, mac };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }

        #[test]
        fn one_header_has_one_spelling(bytes in proptest::collection::vec(any::<u8>(), 0..100), at in 0usize..400) {
            let stanza = Stanza { kind: "X".into(), arguments: vec!["y".into()], body: vec![7; 100] };
            let mut encoded = Header { stanzas: vec![stanza], mac: [1; 32] }.encode();
            let at = at.min(encoded.len());
            encoded.splice(at..at, bytes);
            if let Ok(header) = Header::decode(&encoded) {
                prop_assert_eq!(header.encode(), encoded);
            }
        }
    }

    #[test]
    fn a_header_that_is_cut_is_refused() {
        let stanza = Stanza { kind: "X25519".into(), arguments: Vec::new(), body: vec![3; 48] };
        let encoded = Header { stanzas: vec![stanza], mac: [9; 32] }.encode();
        for len in 0..encoded.len() {
            assert!(Header::decode(&encoded[..len]).is_err(), "{len}");
        }
        assert!(Header::decode(&encoded).is_ok());
    }
}
