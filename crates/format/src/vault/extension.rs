//! Extensions of the vault header (section 8): room for what later versions of
//! the program add without a new format.
//!
//! A reader keeps an extension that it does not know, and refuses a header with
//! one that it would have to know: a *critical* one. None is defined yet.

use crate::error::{FormatError, zero};

/// Bytes before an extension's content: its type and its length.
const HEAD: usize = 4;
/// The bit of a type that says that whoever does not know it must not go on.
pub const CRITICAL: u16 = 0x8000;

/// One extension, of a type that this program does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Its type: neither zero nor critical.
    pub kind: u16,
    /// Its content.
    pub content: Vec<u8>,
}

/// Reads the extensions that `area` holds, in their order.
///
/// # Errors
/// [`FormatError::Unsupported`] for a critical one; [`FormatError`] where one
/// goes beyond the area, or what follows the last is not zero.
pub(crate) fn decode(area: &[u8]) -> Result<Vec<Extension>, FormatError> {
    let mut extensions = Vec::new();
    let mut rest = area;
    while let Some((head, after)) = rest.split_first_chunk::<HEAD>() {
        let kind = u16::from_le_bytes([head[0], head[1]]);
        if kind == 0 {
            break;
        }
        if kind & CRITICAL != 0 {
            return Err(FormatError::Unsupported { field: "critical extension", value: u64::from(kind) });
        }
        let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let content = after.get(..len).ok_or(FormatError::Inconsistent {
            what: "an extension of the vault header goes beyond its area",
        })?;
        extensions.push(Extension { kind, content: content.to_vec() });
        rest = &after[len..];
    }
    zero("extensions", rest, area.len() - rest.len())?;
    Ok(extensions)
}

/// Writes extensions into `area`, which is all zero.
///
/// # Panics
/// When they do not fit, which those that were read from an area do.
pub(crate) fn encode(extensions: &[Extension], area: &mut [u8]) {
    let mut at = 0;
    for Extension { kind, content } in extensions {
        let len = u16::try_from(content.len()).expect("an extension is shorter than its area");
        area[at..at + 2].copy_from_slice(&kind.to_le_bytes());
        area[at + 2..at + HEAD].copy_from_slice(&len.to_le_bytes());
        area[at + HEAD..at + HEAD + content.len()].copy_from_slice(content);
        at += HEAD + content.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(extensions: &[Extension]) -> Vec<u8> {
        let mut area = vec![0; 64];
        encode(extensions, &mut area);
        area
    }

    #[test]
    fn what_is_not_known_is_kept_in_its_order() {
        let extensions = [
            Extension { kind: 7, content: b"later".to_vec() },
            Extension { kind: 2, content: Vec::new() },
            Extension { kind: 7, content: vec![0; 3] },
        ];
        assert_eq!(decode(&area(&extensions)), Ok(extensions.to_vec()));
        assert_eq!(decode(&[0; 64]), Ok(Vec::new()));
        let full = [Extension { kind: 1, content: vec![9; 60] }];
        assert_eq!(decode(&area(&full)), Ok(full.to_vec()));
    }

    #[test]
    fn a_critical_one_is_refused_by_its_number() {
        let mut bytes = area(&[Extension { kind: 7, content: b"later".to_vec() }]);
        bytes[1] |= 0x80;
        assert_eq!(
            decode(&bytes),
            Err(FormatError::Unsupported { field: "critical extension", value: 0x8007 })
        );
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let mut beyond = area(&[]);
        beyond[..4].copy_from_slice(&[1, 0, 61, 0]);
        assert!(matches!(decode(&beyond), Err(FormatError::Inconsistent { .. })));
        let mut behind = area(&[Extension { kind: 1, content: b"x".to_vec() }]);
        behind[40] = 1;
        assert!(matches!(decode(&behind), Err(FormatError::NotZero { offset: 40, .. })));
        let mut headless = area(&[Extension { kind: 1, content: vec![1; 58] }]);
        headless[62] = 1;
        assert!(decode(&headless).is_err(), "no room for a head");
    }
}
