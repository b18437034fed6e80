//! The recovery key: 32 random bytes that can be printed, written down, and
//! typed in again (section 8 of the format).

use std::fmt;

use sha2::{Digest, Sha256};
use strongroom_memory::in_wiped_stack;

use crate::random::EntropyError;
use crate::secret::{Secret, SecretBytes};

/// Crockford's base32: no I, L, O or U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const KEY_LEN: usize = 32;
const KEY_CHARS: usize = (KEY_LEN * 8).div_ceil(5);
const GROUP: usize = 4;
const CHARS: usize = KEY_CHARS + GROUP;
/// Characters of a printed key, dashes between groups included.
const TEXT_LEN: usize = CHARS + CHARS / GROUP - 1;
const CHECK_CONTEXT: &[u8] = b"strongroom recovery key";

const _: () = assert!(KEY_CHARS == 52 && CHARS.is_multiple_of(GROUP));

/// A recovery key.
pub struct RecoveryKey(Secret<KEY_LEN>);

/// Text that is no recovery key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryError {
    /// Not as many characters as a recovery key has, besides spaces and dashes.
    Length {
        /// How many there are.
        found: usize,
    },
    /// A character that a recovery key never has, at this byte of the text.
    Character {
        /// Bytes before it.
        at: usize,
    },
    /// Every character is possible, but some are not the ones that were printed.
    Mistyped,
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryError::Length { found } => {
                write!(f, "a recovery key has {CHARS} characters, not {found}")
            }
            RecoveryError::Character { at } => {
                write!(f, "character {} cannot be part of a recovery key", at + 1)
            }
            RecoveryError::Mistyped => {
                f.write_str("the recovery key is mistyped: its check group does not match")
            }
        }
    }
}

impl std::error::Error for RecoveryError {}

impl RecoveryKey {
    /// A new one.
    ///
    /// # Errors
    /// [`EntropyError`].
    pub fn random() -> Result<RecoveryKey, EntropyError> {
        Secret::random().map(RecoveryKey)
    }

    pub(crate) fn expose(&self) -> &[u8; KEY_LEN] {
        self.0.expose()
    }

    /// The key as printed: 13 groups of 4 characters and a check group, with
    /// dashes between them, in ASCII.
    #[must_use]
    pub fn to_text(&self) -> SecretBytes {
        let digits = Secret::<CHARS>::build(|digits| {
            for (i, digit) in digits[..KEY_CHARS].iter_mut().enumerate() {
                *digit = digit_at(self.expose(), i);
            }
            digits[KEY_CHARS..].copy_from_slice(&check_group(self.expose()));
        });
        let mut text = SecretBytes::zeroed(TEXT_LEN);
        let groups = text.expose_mut().chunks_mut(GROUP + 1).zip(digits.expose().chunks(GROUP));
        for (printed, group) in groups {
            for (character, &digit) in printed.iter_mut().zip(group) {
                *character = ALPHABET[usize::from(digit)];
            }
            if let Some(dash) = printed.get_mut(GROUP) {
                *dash = b'-';
            }
        }
        text
    }

    /// Reads a printed key. Case, spaces and dashes do not matter; O is taken
    /// for 0, I and L for 1.
    ///
    /// # Errors
    /// [`RecoveryError`].
    pub fn parse(text: &[u8]) -> Result<RecoveryKey, RecoveryError> {
        let mut found = 0;
        let mut outcome = Ok(());
        let digits = Secret::<CHARS>::build(|digits| {
            for (at, &character) in text.iter().enumerate() {
                if character == b'-' || character.is_ascii_whitespace() {
                    continue;
                }
                let Some(digit) = digit_of(character) else {
                    outcome = outcome.and(Err(RecoveryError::Character { at }));
                    continue;
                };
                if let Some(place) = digits.get_mut(found) {
                    *place = digit;
                }
                found += 1;
            }
        });
        outcome?;
        if found != CHARS {
            return Err(RecoveryError::Length { found });
        }
        let (digits, check) = digits.expose().split_at(KEY_CHARS);
        let key = Secret::build(|key| digits.iter().enumerate().for_each(|(i, &d)| put_digit(key, i, d)));
        // The last digit has one bit of the key, before four that are zero.
        if digits[KEY_CHARS - 1] & 0b1111 != 0 || check_group(key.expose()) != check {
            return Err(RecoveryError::Mistyped);
        }
        Ok(RecoveryKey(key))
    }
}

/// The first 20 bits of the key's hash, as digits.
fn check_group(key: &[u8; KEY_LEN]) -> [u8; GROUP] {
    in_wiped_stack(|| {
        let hash = Sha256::new().chain_update(CHECK_CONTEXT).chain_update(key).finalize();
        core::array::from_fn(|i| digit_at(&hash, i))
    })
}

/// Five bits from bit `5 i` on, the highest of the first byte being bit 0;
/// zeros behind the end.
fn digit_at(bytes: &[u8], i: usize) -> u8 {
    let (byte, shift) = (5 * i / 8, 5 * i % 8);
    let pair = [bytes[byte], bytes.get(byte + 1).copied().unwrap_or(0)];
    ((u16::from_be_bytes(pair) << shift) >> 11) as u8
}

/// The inverse of [`digit_at`], on bytes that are zero there.
fn put_digit(bytes: &mut [u8], i: usize, digit: u8) {
    let (byte, shift) = (5 * i / 8, 5 * i % 8);
    let pair = ((u16::from(digit) << 11) >> shift).to_be_bytes();
    bytes[byte] |= pair[0];
    if let Some(next) = bytes.get_mut(byte + 1) {
        *next |= pair[1];
    }
}

fn digit_of(character: u8) -> Option<u8> {
    let plain = match character.to_ascii_uppercase() {
        b'O' => b'0',
        b'I' | b'L' => b'1',
        other => other,
    };
    ALPHABET.iter().position(|&c| c == plain).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key_of(byte: u8) -> RecoveryKey {
        RecoveryKey(Secret::build(|key| key.fill(byte)))
    }

    fn text_of(key: &RecoveryKey) -> String {
        String::from_utf8(key.to_text().expose().to_vec()).expect("ASCII")
    }

    /// Computed once with another implementation.
    #[test]
    fn known_keys_are_printed_so() {
        assert_eq!(
            text_of(&key_of(0)),
            "0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-Y06P"
        );
        assert_eq!(
            text_of(&key_of(0xff)),
            "ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZG-AAMF"
        );
    }

    #[test]
    fn spaces_dashes_case_and_lookalikes_do_not_matter() {
        let key = key_of(1);
        let text = text_of(&key);
        assert!(text.contains('0') && text.contains('1'));
        let other =
            text.to_lowercase().replace('-', " ").replace('0', "o").replacen('1', "l", 1).replace('1', "I");
        for spelling in [text.clone(), text.replace('-', ""), format!(" {other}\n")] {
            let read = RecoveryKey::parse(spelling.as_bytes()).expect(&spelling);
            assert!(key.0.equals(read.expose()));
        }
    }

    #[test]
    fn every_wrong_character_is_noticed() {
        let text = text_of(&key_of(0x5a));
        for (at, _) in text.char_indices().filter(|&(_, c)| c != '-') {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'7' { b'8' } else { b'7' };
            assert_eq!(RecoveryKey::parse(&wrong).err(), Some(RecoveryError::Mistyped), "character {at}");
            wrong[at] = b'U';
            assert_eq!(RecoveryKey::parse(&wrong).err(), Some(RecoveryError::Character { at }));
        }
        assert_eq!(
            RecoveryKey::parse(&text.as_bytes()[1..]).err(),
            Some(RecoveryError::Length { found: 55 })
        );
        assert_eq!(RecoveryKey::parse(b"").err(), Some(RecoveryError::Length { found: 0 }));
        let long = format!("{text}-0000");
        assert_eq!(RecoveryKey::parse(long.as_bytes()).err(), Some(RecoveryError::Length { found: 60 }));
    }

    proptest! {
        #[test]
        fn keys_come_back(bytes: [u8; 32]) {
            let key = RecoveryKey(Secret::build(|key| key.copy_from_slice(&bytes)));
            let read = RecoveryKey::parse(key.to_text().expose()).expect("as printed");
            prop_assert!(read.0.equals(&bytes));
        }

        #[test]
        fn arbitrary_text_never_panics(text in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = RecoveryKey::parse(&text);
        }
    }
}
