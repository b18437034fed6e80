//! The sealed part of a map or root map page (section 4.1): which groups, or
//! which map pages, are present.

use super::geometry::MAP_BITS;
use super::page::{PageKind, SEALED_LEN};
use crate::error::{FormatError, zero};
use crate::layout::layout;

layout! {
    /// The sealed part of a map page.
    sealed: super::SEALED_LEN;
    SEQUENCE = 0, 8, "sequence number";
    PRESENCE = 8, 2048, "presence";
    ZERO = 2056, 1968, "zero";
}

/// Bits of a map page.
pub const BITS: usize = MAP_BITS as usize;

const _: () = assert!(sealed::PRESENCE.len * 8 == BITS);

/// A map or root map page in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    raw: Box<[u8; SEALED_LEN]>,
}

impl Map {
    /// A map of nothing, with sequence number 0.
    #[must_use]
    pub fn new() -> Map {
        Map { raw: Box::new([0; SEALED_LEN]) }
    }

    /// Reads the opened sealed part of a page of `kind`, which is `Map` or
    /// `RootMap`.
    ///
    /// # Errors
    /// [`FormatError`] when it is not as this format writes it.
    pub fn decode(kind: PageKind, bytes: &[u8; SEALED_LEN]) -> Result<Map, FormatError> {
        if !matches!(kind, PageKind::Map | PageKind::RootMap) {
            return Err(FormatError::Inconsistent { what: "a node page was read as a map page" });
        }
        zero("map page", sealed::ZERO.of(bytes), sealed::ZERO.offset)?;
        Ok(Map { raw: Box::new(*bytes) })
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

    /// True when the group or map of `bit` is present.
    ///
    /// # Panics
    /// When `bit` is not below [`BITS`].
    #[must_use]
    pub fn is_present(&self, bit: usize) -> bool {
        self.presence()[bit / 8] & (1 << (bit % 8)) != 0
    }

    /// Sets whether the group or map of `bit` is present.
    ///
    /// # Panics
    /// When `bit` is not below [`BITS`].
    pub fn set_present(&mut self, bit: usize, present: bool) {
        let byte = &mut self.raw[sealed::PRESENCE.range()][bit / 8];
        if present {
            *byte |= 1 << (bit % 8);
        } else {
            *byte &= !(1 << (bit % 8));
        }
    }

    /// The bits that are set, lowest first.
    pub fn present(&self) -> impl Iterator<Item = usize> + '_ {
        let bytes = self.presence().iter().enumerate().filter(|&(_, &byte)| byte != 0);
        bytes.flat_map(|(at, &byte)| {
            (0..8).filter(move |bit| byte & (1 << bit) != 0).map(move |bit| at * 8 + bit)
        })
    }

    /// How many bits are set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.presence().iter().map(|byte| byte.count_ones() as usize).sum()
    }

    fn presence(&self) -> &[u8] {
        sealed::PRESENCE.of(&self.raw[..])
    }
}

impl Default for Map {
    fn default() -> Map {
        Map::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_rest_of_the_page_must_be_zero_and_the_kind_a_map() {
        let mut bytes = *Map::new().encoded();
        assert!(Map::decode(PageKind::Map, &bytes).is_ok());
        assert!(Map::decode(PageKind::Node, &bytes).is_err());
        bytes[SEALED_LEN - 1] = 1;
        assert!(Map::decode(PageKind::Map, &bytes).is_err());
    }

    #[test]
    fn bit_0_is_the_lowest_of_the_first_byte() {
        let mut map = Map::new();
        map.set_present(0, true);
        map.set_present(9, true);
        assert_eq!(map.encoded()[8..10], [1, 2]);
    }

    proptest! {
        #[test]
        fn a_map_is_a_set(changes in proptest::collection::vec((0..BITS, any::<bool>()), 0..200), sequence: u64) {
            let mut map = Map::new();
            let mut model = BTreeSet::new();
            for (bit, present) in changes {
                map.set_present(bit, present);
                if present { model.insert(bit); } else { model.remove(&bit); }
                prop_assert_eq!(map.is_present(bit), present);
            }
            map.set_sequence(sequence);
            let again = Map::decode(PageKind::RootMap, map.encoded()).expect("well-formed");
            prop_assert_eq!(again.sequence(), sequence);
            prop_assert_eq!(again.count(), model.len());
            prop_assert!(again.present().eq(model.iter().copied()));
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
