//! The clear part of a page (section 4.1): what it is, and how it is sealed.
//!
//! The sealed part is [`super::node`] or [`super::map`].

use strongroom_units::{BlockSize, PAGE_LEN};

use super::geometry::{MAX_GROUPS, MAX_MAPS, MAX_MIDDLE_MAPS};
use super::{FileId, NONCE_LEN, Suite, TAG_LEN, VERSION};
use crate::error::{FormatError, within, zero};
use crate::layout::layout;

layout! {
    /// A page as stored.
    stored: super::PAGE_LEN;
    MAGIC = 0, 4, "magic `SRpg`";
    KIND = 4, 1, "page kind";
    VERSION = 5, 1, "format version";
    SUITE = 6, 1, "suite";
    SHIFT = 7, 1, "binary logarithm of the block size";
    GENERATION = 8, 4, "key generation";
    ZERO = 12, 4, "zero";
    FILE = 16, 16, "file id";
    NONCE = 32, 24, "nonce";
    TAG = 56, 16, "tag";
    SEALED = 72, 4024, "sealed part";
}

/// The magic of a page.
pub const MAGIC: [u8; 4] = *b"SRpg";
/// Bytes of the clear part: header, nonce and tag.
pub const CLEAR_LEN: usize = stored::SEALED.offset;
/// Bytes of the clear part that the associated data repeat.
pub const BOUND_LEN: usize = stored::TAG.offset;
/// Bytes of the sealed part.
pub const SEALED_LEN: usize = stored::SEALED.len;
/// Bytes of the associated data: the bound clear part and the page's number.
pub const ASSOCIATED_LEN: usize = BOUND_LEN + 8;

const _: () = assert!(stored::NONCE.len == NONCE_LEN && stored::TAG.len == TAG_LEN);

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum PageKind {
    /// The header page, which is node 0 too.
    Header = 1,
    /// The node of a group other than the first.
    Node = 2,
    /// Tokens of 512 node pages.
    Map = 3,
    /// Tokens of 512 map pages.
    MiddleMap = 4,
    /// Tokens of the middle map pages.
    RootMap = 5,
}

impl PageKind {
    /// Every kind, by number.
    pub const ALL: [PageKind; 5] =
        [PageKind::Header, PageKind::Node, PageKind::Map, PageKind::MiddleMap, PageKind::RootMap];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// True for the kinds whose sealed part is a [`super::map::Map`].
    #[must_use]
    pub const fn is_map(self) -> bool {
        matches!(self, PageKind::Map | PageKind::MiddleMap | PageKind::RootMap)
    }

    /// The kind with this number.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] for numbers that stand for none.
    pub fn from_number(number: u8) -> Result<PageKind, FormatError> {
        PageKind::ALL
            .into_iter()
            .find(|kind| kind.number() == number)
            .ok_or(FormatError::Unsupported { field: "page kind", value: u64::from(number) })
    }

    /// Refuses a page number that no page of this kind has in any file.
    ///
    /// # Errors
    /// [`FormatError::OutOfRange`].
    pub fn check_number(self, number: u64) -> Result<u64, FormatError> {
        let (min, max) = match self {
            PageKind::Header | PageKind::RootMap => (0, 0),
            PageKind::Node => (1, MAX_GROUPS - 1),
            PageKind::Map => (0, MAX_MAPS - 1),
            PageKind::MiddleMap => (0, MAX_MIDDLE_MAPS - 1),
        };
        within("page number", number, min, max)
    }
}

/// The clear part of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// What the page is.
    pub kind: PageKind,
    /// What sealed it.
    pub suite: Suite,
    /// The file's block size.
    pub block_size: BlockSize,
    /// Generation of the keys that sealed it, from 1.
    pub generation: u32,
    /// The file that it belongs to.
    pub file: FileId,
    /// Its nonce.
    pub nonce: [u8; NONCE_LEN],
    /// Its tag.
    pub tag: [u8; TAG_LEN],
}

impl PageHeader {
    /// Reads the clear part. Nothing of it is authenticated until the page has
    /// been opened with [`associated_data`].
    ///
    /// # Errors
    /// [`FormatError`] when a field is none that this format writes.
    pub fn decode(clear: &[u8; CLEAR_LEN]) -> Result<PageHeader, FormatError> {
        if stored::MAGIC.of(clear) != MAGIC {
            return Err(FormatError::magic("page", stored::MAGIC.of(clear)));
        }
        let version = stored::VERSION.byte(clear);
        if version != VERSION {
            return Err(FormatError::Unsupported { field: "page format version", value: u64::from(version) });
        }
        zero("page header", stored::ZERO.of(clear), stored::ZERO.offset)?;
        let shift = stored::SHIFT.byte(clear);
        let generation = stored::GENERATION.u32(clear);
        within("key generation", u64::from(generation), 1, u64::from(u32::MAX))?;
        Ok(PageHeader {
            kind: PageKind::from_number(stored::KIND.byte(clear))?,
            suite: Suite::from_number(stored::SUITE.byte(clear))?,
            block_size: block_size(shift)?,
            generation,
            file: FileId(stored::FILE.array(clear)),
            nonce: stored::NONCE.array(clear),
            tag: stored::TAG.array(clear),
        })
    }

    /// The clear part as stored.
    #[must_use]
    pub fn encode(&self) -> [u8; CLEAR_LEN] {
        let mut clear = [0; CLEAR_LEN];
        stored::MAGIC.set(&mut clear, &MAGIC);
        stored::KIND.set(&mut clear, &[self.kind.number()]);
        stored::VERSION.set(&mut clear, &[VERSION]);
        stored::SUITE.set(&mut clear, &[self.suite.number()]);
        stored::SHIFT.set(&mut clear, &[self.block_size.shift()]);
        stored::GENERATION.set(&mut clear, &self.generation.to_le_bytes());
        stored::FILE.set(&mut clear, &self.file.0);
        stored::NONCE.set(&mut clear, &self.nonce);
        stored::TAG.set(&mut clear, &self.tag);
        clear
    }

    /// What the page's seal covers besides its sealed part. The tag is not
    /// part of it, so it can be computed before sealing.
    #[must_use]
    pub fn associated_data(&self, number: u64) -> [u8; ASSOCIATED_LEN] {
        let clear = self.encode();
        associated_data(clear[..BOUND_LEN].try_into().expect("the bound part is a prefix"), number)
    }
}

/// Associated data of a page: its first 56 bytes and its number, which is the
/// group for a node, the map's number for a map, and 0 for the others.
#[must_use]
pub fn associated_data(bound: &[u8; BOUND_LEN], number: u64) -> [u8; ASSOCIATED_LEN] {
    let mut data = [0; ASSOCIATED_LEN];
    data[..BOUND_LEN].copy_from_slice(bound);
    data[BOUND_LEN..].copy_from_slice(&number.to_le_bytes());
    data
}

/// The block size with this binary logarithm, as stored in pages and the vault header.
pub(crate) fn block_size(shift: u8) -> Result<BlockSize, FormatError> {
    BlockSize::from_shift(shift).ok_or(FormatError::OutOfRange {
        field: "binary logarithm of the block size",
        value: u64::from(shift),
        min: u64::from(BlockSize::MIN.shift()),
        max: u64::from(BlockSize::MAX.shift()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> PageHeader {
        PageHeader {
            kind: PageKind::Node,
            suite: Suite::Xaes256Gcm,
            block_size: BlockSize::MIN,
            generation: 1,
            file: FileId([3; 16]),
            nonce: [4; 24],
            tag: [5; 16],
        }
    }

    #[test]
    fn every_byte_that_is_not_free_is_checked() {
        let good = header().encode();
        assert_eq!(PageHeader::decode(&good), Ok(header()));
        for (at, bad) in [
            (0, 0),
            (4, 0),
            (4, 6),
            (5, 0),
            (5, VERSION - 1),
            (5, VERSION + 1),
            (6, 0),
            (6, Suite::ALL.len() as u8 + 1),
            (7, 11),
            (7, 21),
            (8, 0),
            (12, 1),
            (15, 1),
        ] {
            let mut bytes = good;
            bytes[at] = bad;
            assert!(PageHeader::decode(&bytes).is_err(), "byte {at} = {bad}");
        }
        assert!(PageHeader::decode(&[0; CLEAR_LEN]).is_err());
    }

    #[test]
    fn the_number_and_every_bound_field_change_the_associated_data() {
        let base = header().associated_data(1);
        assert_ne!(base, header().associated_data(2));
        assert_ne!(base, PageHeader { kind: PageKind::Map, ..header() }.associated_data(1));
        assert_ne!(base, PageHeader { file: FileId([9; 16]), ..header() }.associated_data(1));
        assert_eq!(base, PageHeader { tag: [0; 16], ..header() }.associated_data(1));
        assert_eq!(base[56..], 1u64.to_le_bytes());
    }

    #[test]
    fn numbers_that_no_page_has_are_refused() {
        assert!(PageKind::Header.check_number(1).is_err());
        assert!(PageKind::RootMap.check_number(1).is_err());
        assert!(PageKind::Node.check_number(0).is_err());
        assert!(PageKind::Node.check_number(MAX_GROUPS).is_err());
        assert!(PageKind::Map.check_number(MAX_MAPS).is_err());
        assert!(PageKind::MiddleMap.check_number(MAX_MIDDLE_MAPS).is_err());
        assert_eq!(PageKind::Node.check_number(MAX_GROUPS - 1), Ok(MAX_GROUPS - 1));
    }

    proptest! {
        #[test]
        fn whatever_decodes_encodes_to_the_same_bytes(at in 0..CLEAR_LEN, byte: u8) {
            let mut bytes = header().encode();
            bytes[at] = byte;
            if let Ok(decoded) = PageHeader::decode(&bytes) {
                prop_assert_eq!(decoded.encode(), bytes);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), CLEAR_LEN)) {
            let _ = PageHeader::decode(bytes.as_slice().try_into().expect("the length is fixed"));
        }
    }
}
