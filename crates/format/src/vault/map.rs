//! The sealed part of a map page of any kind (section 4.1): the tokens of the
//! pages below it.

use super::TAG_LEN;
use super::geometry::MAP_SLOTS;
use super::page::{PageKind, SEALED_LEN};
use crate::error::{FormatError, zero};
use crate::layout::layout;

layout! {
    /// The sealed part of a map page.
    sealed: super::SEALED_LEN;
    SEQUENCE = 0, 8, "sequence number";
    TOKENS = 8, 3584, "tokens";
    ZERO = 3592, 432, "zero";
}

/// Tokens of a map page.
pub const SLOTS: usize = MAP_SLOTS as usize;

const _: () = assert!(sealed::TOKENS.len == SLOTS * Token::LEN);

/// What tells a page's image from every other image of the page: 55 bits of
/// its tag.
///
/// A token stands in the parent of the page, so that the header page vouches
/// for every other, and for one image of it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token([u8; Token::LEN]);

impl Token {
    /// Bytes of a token.
    pub const LEN: usize = 7;

    /// The token of the image with this tag.
    #[must_use]
    pub const fn of(tag: &[u8; TAG_LEN]) -> Token {
        let [a, b, c, d, e, f, g, ..] = *tag;
        // Never zero, which stands for a page that is not there.
        Token([a | 1, b, c, d, e, f, g])
    }

    /// Whether this is the token of the image with this tag.
    #[must_use]
    pub fn is_of(&self, tag: &[u8; TAG_LEN]) -> bool {
        *self == Token::of(tag)
    }
}

/// What a page knows of one below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Child {
    /// There is none: all blocks that it would tell of are holes.
    #[default]
    Absent,
    /// There is one in memory that has not been sealed yet. No sealed page
    /// says so.
    Unsealed,
    /// This image of it.
    Sealed(Token),
}

impl Child {
    /// True unless absent.
    #[must_use]
    pub fn is_present(self) -> bool {
        self != Child::Absent
    }

    /// Reads a token, or zeros.
    pub(super) fn decode(bytes: &[u8]) -> Result<Child, FormatError> {
        let token: [u8; Token::LEN] = bytes.try_into().expect("a token has seven bytes");
        match token {
            [0, 0, 0, 0, 0, 0, 0] => Ok(Child::Absent),
            [first, ..] if first & 1 == 0 => Err(FormatError::Inconsistent { what: "a token is even" }),
            _ => Ok(Child::Sealed(Token(token))),
        }
    }

    /// As stored: a page that was never sealed is in no stored page.
    pub(super) fn encode(self) -> [u8; Token::LEN] {
        match self {
            Child::Sealed(token) => token.0,
            Child::Absent | Child::Unsealed => [0; Token::LEN],
        }
    }
}

/// A map page in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    raw: Box<[u8; SEALED_LEN]>,
    /// Bit `i`: the page of slot `i` is there and has not been sealed.
    unsealed: [u64; SLOTS / 64],
}

impl Map {
    /// A map of nothing, with sequence number 0.
    #[must_use]
    pub fn new() -> Map {
        Map { raw: Box::new([0; SEALED_LEN]), unsealed: [0; SLOTS / 64] }
    }

    /// Reads the opened sealed part of a page of `kind`.
    ///
    /// # Errors
    /// [`FormatError`] when it is not as this format writes it, or `kind` is
    /// none of a map.
    pub fn decode(kind: PageKind, bytes: &[u8; SEALED_LEN]) -> Result<Map, FormatError> {
        if !kind.is_map() {
            return Err(FormatError::Inconsistent { what: "a node page was read as a map page" });
        }
        zero("map page", sealed::ZERO.of(bytes), sealed::ZERO.offset)?;
        sealed::TOKENS
            .of(bytes)
            .chunks_exact(Token::LEN)
            .try_for_each(|token| Child::decode(token).map(drop))?;
        Ok(Map { raw: Box::new(*bytes), ..Map::new() })
    }

    /// The sealed part, to be copied and sealed.
    #[must_use]
    pub fn encoded(&self) -> &[u8; SEALED_LEN] {
        &self.raw
    }

    /// How often the page has been sealed.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        sealed::SEQUENCE.u64(&self.raw[..])
    }

    /// Sets the sequence number.
    pub fn set_sequence(&mut self, sequence: u64) {
        sealed::SEQUENCE.set(&mut self.raw[..], &sequence.to_le_bytes());
    }

    /// What is known of the page of `slot`.
    ///
    /// # Panics
    /// When `slot` is not below [`SLOTS`].
    #[must_use]
    pub fn child(&self, slot: usize) -> Child {
        if self.unsealed[slot / 64] >> (slot % 64) & 1 == 1 {
            return Child::Unsealed;
        }
        Child::decode(&self.raw[token_range(slot)]).expect("checked when it came in")
    }

    /// Sets what is known of the page of `slot`.
    ///
    /// # Panics
    /// When `slot` is not below [`SLOTS`].
    pub fn set_child(&mut self, slot: usize, child: Child) {
        let bit = 1 << (slot % 64);
        match child {
            Child::Unsealed => self.unsealed[slot / 64] |= bit,
            Child::Absent | Child::Sealed(_) => self.unsealed[slot / 64] &= !bit,
        }
        self.raw[token_range(slot)].copy_from_slice(&child.encode());
    }

    /// The slots whose pages are there, lowest first.
    pub fn present(&self) -> impl Iterator<Item = usize> + '_ {
        (0..SLOTS).filter(|&slot| self.child(slot).is_present())
    }

    /// How many pages are there.
    #[must_use]
    pub fn count(&self) -> usize {
        self.present().count()
    }
}

impl Default for Map {
    fn default() -> Map {
        Map::new()
    }
}

fn token_range(slot: usize) -> core::ops::Range<usize> {
    assert!(slot < SLOTS, "a map page has 512 slots");
    let start = sealed::TOKENS.offset + slot * Token::LEN;
    start..start + Token::LEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_rest_of_the_page_must_be_zero_and_the_kind_a_map() {
        let mut bytes = *Map::new().encoded();
        assert!(Map::decode(PageKind::Map, &bytes).is_ok());
        assert!(Map::decode(PageKind::MiddleMap, &bytes).is_ok());
        assert!(Map::decode(PageKind::Node, &bytes).is_err());
        assert!(Map::decode(PageKind::Header, &bytes).is_err());
        bytes[SEALED_LEN - 1] = 1;
        assert!(Map::decode(PageKind::Map, &bytes).is_err());
    }

    #[test]
    fn a_token_is_odd_and_zero_is_none() {
        let mut map = Map::new();
        map.set_child(1, Child::Sealed(Token::of(&[6; 16])));
        assert_eq!(map.encoded()[8..22], [0, 0, 0, 0, 0, 0, 0, 7, 6, 6, 6, 6, 6, 6]);
        let mut bytes = *map.encoded();
        bytes[15] = 6;
        assert!(Map::decode(PageKind::Map, &bytes).is_err());
    }

    #[test]
    fn what_was_never_sealed_is_there_in_memory_alone() {
        let mut map = Map::new();
        map.set_child(70, Child::Unsealed);
        assert!(map.present().eq([70]));
        let stored = Map::decode(PageKind::Map, map.encoded()).expect("well-formed");
        assert_eq!(stored.child(70), Child::Absent);
    }

    fn child() -> impl Strategy<Value = Child> {
        prop_oneof![
            Just(Child::Absent),
            Just(Child::Unsealed),
            any::<[u8; 16]>().prop_map(|tag| Child::Sealed(Token::of(&tag))),
        ]
    }

    proptest! {
        #[test]
        fn a_map_holds_what_it_was_given(
            changes in proptest::collection::vec((0..SLOTS, child()), 0..200),
            sequence: u64,
        ) {
            let mut map = Map::new();
            let mut model = BTreeMap::new();
            for (slot, child) in changes {
                map.set_child(slot, child);
                model.insert(slot, child);
                prop_assert_eq!(map.child(slot), child);
            }
            model.retain(|_, child| child.is_present());
            prop_assert!(map.present().eq(model.keys().copied()));
            map.set_sequence(sequence);
            let again = Map::decode(PageKind::RootMap, map.encoded()).expect("well-formed");
            prop_assert_eq!(again.sequence(), sequence);
            model.retain(|_, child| *child != Child::Unsealed);
            prop_assert!(again.present().eq(model.keys().copied()));
        }

        #[test]
        fn changed_bytes_never_panic(at in 0..SEALED_LEN, byte: u8) {
            let mut bytes = *Map::new().encoded();
            bytes[at] = byte;
            for kind in PageKind::ALL {
                if let Ok(map) = Map::decode(kind, &bytes) {
                    prop_assert_eq!(map.encoded(), &bytes);
                }
            }
        }
    }
}
