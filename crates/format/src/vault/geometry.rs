//! Where pages and blocks stand in a stored file (section 4). Pure arithmetic.
//!
//! Indices past the largest file are no places; the functions then give some
//! offset without overflowing, and [`Geometry::has_block`] tells beforehand.

use strongroom_units::{
    BlockIndex, BlockSize, GROUP_BLOCKS, GroupIndex, MAX_PLAIN_LEN, PAGE_LEN, PlainLen, StoredLen,
    StoredOffset,
};

use super::page::PageKind;

/// Pages that a map page tells of.
pub const MAP_SLOTS: u64 = 512;

/// Groups that the maps below one middle map tell of.
const MIDDLE_GROUPS: u64 = MAP_SLOTS * MAP_SLOTS;

/// Blocks of the largest file, at the smallest block size.
pub const MAX_BLOCKS: u64 = MAX_PLAIN_LEN >> BlockSize::MIN.shift();

/// Groups of the largest file, at the smallest block size.
pub const MAX_GROUPS: u64 = MAX_BLOCKS / GROUP_BLOCKS;

/// Map pages of the largest file, at the smallest block size.
pub const MAX_MAPS: u64 = MAX_GROUPS.div_ceil(MAP_SLOTS);

/// Middle map pages of the largest file, at the smallest block size.
pub const MAX_MIDDLE_MAPS: u64 = MAX_MAPS.div_ceil(MAP_SLOTS);

const PAGE: u64 = PAGE_LEN as u64;

const _: () = assert!(MAX_MIDDLE_MAPS <= MAP_SLOTS);
// The largest index at the largest block size stays inside a file offset.
const _: () = assert!(MAX_BLOCKS.checked_mul(2 * BlockSize::MAX.bytes()).is_some());

/// The places of a stored file of a given block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    size: BlockSize,
}

impl Geometry {
    /// For files of blocks of `size`.
    #[must_use]
    pub const fn new(size: BlockSize) -> Geometry {
        Geometry { size }
    }

    /// The block size.
    #[must_use]
    pub const fn block_size(self) -> BlockSize {
        self.size
    }

    /// Plain bytes of a group.
    #[must_use]
    pub const fn group_len(self) -> u64 {
        GROUP_BLOCKS << self.size.shift()
    }

    /// Stored bytes of a group with its node page.
    const fn stride(self) -> u64 {
        PAGE + self.group_len()
    }

    /// True when the largest file has this block.
    #[must_use]
    pub const fn has_block(self, block: BlockIndex) -> bool {
        block.0 < MAX_PLAIN_LEN >> self.size.shift()
    }

    /// Where a group's node page begins; the header page's place for group 0.
    #[must_use]
    pub const fn node_offset(self, group: GroupIndex) -> StoredOffset {
        let maps = maps_before(group.0).saturating_mul(PAGE);
        StoredOffset(group.0.saturating_mul(self.stride()).saturating_add(maps))
    }

    /// Where a block begins.
    #[must_use]
    pub const fn block_offset(self, block: BlockIndex) -> StoredOffset {
        let within = PAGE + ((block.entry() as u64) << self.size.shift());
        StoredOffset(self.node_offset(block.group()).0.saturating_add(within))
    }

    /// Where map page `map` begins: before the node of the first group that it
    /// tells of; of map 0, which the header stands before, that is group 1.
    const fn map_offset(self, map: u64) -> StoredOffset {
        let first = if map == 0 { 1 } else { map.saturating_mul(MAP_SLOTS) };
        StoredOffset(self.node_offset(GroupIndex(first)).0 - PAGE)
    }

    /// Where middle map page `middle` begins: before the first map that only it
    /// tells of.
    const fn middle_map_offset(self, middle: u64) -> StoredOffset {
        let first = if middle == 0 { MAP_SLOTS } else { middle.saturating_mul(MIDDLE_GROUPS) };
        StoredOffset(self.node_offset(GroupIndex(first)).0 - 2 * PAGE)
    }

    /// Where the root map page begins: before middle map 1.
    const fn root_map_offset(self) -> StoredOffset {
        StoredOffset(self.node_offset(GroupIndex(MIDDLE_GROUPS)).0 - 3 * PAGE)
    }

    /// Where a page begins; `number` is ignored for the header and the root map.
    #[must_use]
    pub const fn page_offset(self, kind: PageKind, number: u64) -> StoredOffset {
        match kind {
            PageKind::Header => StoredOffset(0),
            PageKind::Node => self.node_offset(GroupIndex(number)),
            PageKind::Map => self.map_offset(number),
            PageKind::MiddleMap => self.middle_map_offset(number),
            PageKind::RootMap => self.root_map_offset(),
        }
    }

    /// The stored length of a file of plain length `len`, at most
    /// [`MAX_PLAIN_LEN`].
    #[must_use]
    pub const fn stored_len(self, len: PlainLen) -> StoredLen {
        if len.0 == 0 {
            return StoredLen(PAGE);
        }
        let last = self.size.block_of(strongroom_units::PlainOffset(len.0 - 1));
        let tail = self.size.block_len(last, len) as u64;
        StoredLen(self.block_offset(last).0.saturating_add(tail))
    }

    /// The plain length of a stored file of `len`: the exact inverse of
    /// [`Geometry::stored_len`]. `None` when `len` is no plain length's image.
    #[must_use]
    pub const fn plain_len(self, len: StoredLen) -> Option<PlainLen> {
        if len.0 <= PAGE {
            return if len.0 == PAGE { Some(PlainLen(0)) } else { None };
        }
        let Some((group, within)) = self.group_at(len.0 - 1) else { return None };
        if within < PAGE {
            return None;
        }
        let plain = group * self.group_len() + (within - PAGE) + 1;
        if plain <= MAX_PLAIN_LEN { Some(PlainLen(plain)) } else { None }
    }

    /// The group in whose node or blocks the byte at `offset` lies, and how far
    /// behind the node's beginning; `None` inside a map or past the largest file.
    const fn group_at(self, offset: u64) -> Option<(u64, u64)> {
        // The last group that begins at or before the offset.
        let (mut group, mut beyond) = (0, MAX_GROUPS);
        if offset < self.stride() {
            return Some((0, offset));
        }
        while group + 1 < beyond {
            let middle = group.midpoint(beyond);
            if self.node_offset(GroupIndex(middle)).0 <= offset {
                group = middle;
            } else {
                beyond = middle;
            }
        }
        let within = offset - self.node_offset(GroupIndex(group)).0;
        if within < self.stride() { Some((group, within)) } else { None }
    }
}

/// Map pages of all kinds that stand before a group's node.
const fn maps_before(group: u64) -> u64 {
    if group == 0 {
        return 0;
    }
    let maps = group / MAP_SLOTS + 1;
    let middle = if group >= MAP_SLOTS { group / MIDDLE_GROUPS + 1 } else { 0 };
    let root = if group >= MIDDLE_GROUPS { 1 } else { 0 };
    maps + middle + root
}

/// The page that holds a page's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// The header page, in one of its [`HEADER_SLOTS`].
    Header {
        /// Which.
        slot: usize,
    },
    /// A map page of some kind.
    Map {
        /// `Map`, `MiddleMap` or `RootMap`.
        kind: PageKind,
        /// Its number.
        number: u64,
        /// Where in it, below [`MAP_SLOTS`].
        slot: usize,
    },
}

/// Tokens in the header page: of map 0, of middle map 0, of the root map.
pub const HEADER_SLOTS: usize = 3;

/// The page that holds the token of another; `None` for the header page.
///
/// As an inode's single, double and triple indirect blocks: the first of each
/// kind hangs from the header page, so that small files have short ways.
#[must_use]
pub const fn parent_of(kind: PageKind, number: u64) -> Option<Parent> {
    let (above, slot) = ((number / MAP_SLOTS), (number % MAP_SLOTS) as usize);
    match kind {
        PageKind::Header => None,
        PageKind::Node => Some(Parent::Map { kind: PageKind::Map, number: above, slot }),
        PageKind::Map if number == 0 => Some(Parent::Header { slot: 0 }),
        PageKind::Map => Some(Parent::Map { kind: PageKind::MiddleMap, number: above, slot }),
        PageKind::MiddleMap if number == 0 => Some(Parent::Header { slot: 1 }),
        PageKind::MiddleMap => Some(Parent::Map { kind: PageKind::RootMap, number: above, slot }),
        PageKind::RootMap => Some(Parent::Header { slot: 2 }),
    }
}

/// The first group that a page tells of. Group 0 is the header page's own.
#[must_use]
pub const fn first_group_of(kind: PageKind, number: u64) -> GroupIndex {
    GroupIndex(match kind {
        PageKind::Header => 0,
        PageKind::Node => number,
        PageKind::Map if number == 0 => 1,
        PageKind::Map => number.saturating_mul(MAP_SLOTS),
        PageKind::MiddleMap if number == 0 => MAP_SLOTS,
        PageKind::MiddleMap => number.saturating_mul(MIDDLE_GROUPS),
        PageKind::RootMap => MIDDLE_GROUPS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn geometries() -> impl Iterator<Item = Geometry> {
        (12..=20).map(|shift| Geometry::new(BlockSize::from_shift(shift).expect("in range")))
    }

    fn geometry() -> impl Strategy<Value = Geometry> {
        (12u8..=20).prop_map(|shift| Geometry::new(BlockSize::from_shift(shift).expect("in range")))
    }

    /// Plain lengths of every size, and those around the borders of blocks,
    /// groups and maps.
    fn plain_len() -> impl Strategy<Value = u64> {
        let near = |unit: u64| {
            (0..=MAX_PLAIN_LEN / unit, -2i64..=2).prop_map(move |(n, d)| (n * unit).saturating_add_signed(d))
        };
        prop_oneof![
            (0u32..=46).prop_flat_map(|bits| 0..=1u64 << bits),
            near(1 << 12),
            near(1 << 19),
            near(1 << 27),
            (0u64..4096, 12u8..=20, -2i64..=2).prop_map(|(map, shift, d)| {
                (map * MAP_SLOTS * (GROUP_BLOCKS << shift)).saturating_add_signed(d)
            }),
        ]
        .prop_map(|len| len.min(MAX_PLAIN_LEN))
    }

    #[test]
    fn the_first_places_are_where_the_document_draws_them() {
        for g in geometries() {
            let b = g.block_size().bytes();
            let stride = 4096 + 128 * b;
            assert_eq!(g.node_offset(GroupIndex(0)).0, 0);
            assert_eq!(g.block_offset(BlockIndex(0)).0, 4096);
            assert_eq!(g.block_offset(BlockIndex(127)).0, 4096 + 127 * b);
            assert_eq!(g.map_offset(0).0, stride);
            assert_eq!(g.node_offset(GroupIndex(1)).0, stride + 4096);
            assert_eq!(g.node_offset(GroupIndex(511)).0, 511 * stride + 4096);
            assert_eq!(g.middle_map_offset(0).0, 512 * stride + 4096);
            assert_eq!(g.map_offset(1).0, 512 * stride + 8192);
            assert_eq!(g.node_offset(GroupIndex(512)).0, 512 * stride + 12288);
            let second = 512 * 512;
            assert_eq!(g.root_map_offset().0, second * stride + 513 * 4096);
            assert_eq!(g.middle_map_offset(1).0, g.root_map_offset().0 + 4096);
            assert_eq!(g.map_offset(512).0, g.root_map_offset().0 + 8192);
            assert_eq!(g.node_offset(GroupIndex(second)).0, g.root_map_offset().0 + 12288);
        }
    }

    #[test]
    fn stored_lengths_of_small_files() {
        let g = Geometry::new(BlockSize::MIN);
        assert_eq!(g.stored_len(PlainLen(0)), StoredLen(4096));
        assert_eq!(g.stored_len(PlainLen(1)), StoredLen(4097));
        assert_eq!(g.stored_len(PlainLen(4096)), StoredLen(8192));
        assert_eq!(g.stored_len(PlainLen(128 * 4096)), StoredLen(129 * 4096));
        assert_eq!(g.stored_len(PlainLen(128 * 4096 + 1)), StoredLen(131 * 4096 + 1));
        for not_an_image in [0, 1, 4095, 129 * 4096 + 1, 130 * 4096, 131 * 4096] {
            assert_eq!(g.plain_len(StoredLen(not_an_image)), None, "{not_an_image}");
        }
    }

    #[test]
    fn every_stored_length_of_the_first_groups_and_around_the_maps_is_an_image_or_not() {
        let g = Geometry::new(BlockSize::MIN);
        let border = g.middle_map_offset(0).0;
        let next_map = g.root_map_offset().0;
        let ranges =
            [0..300_000, 520_000..540_000, border - 5000..border + 20_000, next_map - 5000..next_map + 9000];
        for range in ranges {
            let images = range.clone().filter(|&s| g.plain_len(StoredLen(s)).is_some()).count();
            for stored in range.clone() {
                if let Some(plain) = g.plain_len(StoredLen(stored)) {
                    assert_eq!(g.stored_len(plain), StoredLen(stored));
                }
            }
            assert!(images > 0, "{range:?}");
        }
    }

    #[test]
    fn the_largest_file_has_an_image_and_nothing_larger_has() {
        for g in geometries() {
            let most = g.stored_len(PlainLen(MAX_PLAIN_LEN));
            assert_eq!(g.plain_len(most), Some(PlainLen(MAX_PLAIN_LEN)));
            assert_eq!(g.plain_len(StoredLen(most.0 + 4097)), None);
            assert_eq!(g.plain_len(StoredLen(u64::MAX)), None);
            assert!(i64::try_from(most.0).is_ok());
            let _ = g.block_offset(BlockIndex(u64::MAX));
            PageKind::ALL.iter().for_each(|&kind| _ = g.page_offset(kind, u64::MAX));
        }
    }

    proptest! {
        #[test]
        fn plain_len_inverts_stored_len(g in geometry(), len in plain_len()) {
            prop_assert_eq!(g.plain_len(g.stored_len(PlainLen(len))), Some(PlainLen(len)));
        }

        #[test]
        fn stored_len_inverts_plain_len(g in geometry(), stored in 0u64..1 << 48) {
            if let Some(plain) = g.plain_len(StoredLen(stored)) {
                prop_assert_eq!(g.stored_len(plain), StoredLen(stored));
            }
        }

        #[test]
        fn longer_files_are_stored_longer(g in geometry(), a in plain_len(), b in plain_len()) {
            let (sa, sb) = (g.stored_len(PlainLen(a)), g.stored_len(PlainLen(b)));
            prop_assert_eq!(a.cmp(&b), sa.cmp(&sb));
        }

        #[test]
        fn places_of_a_group_and_its_neighbours_are_disjoint(g in geometry(), group in 0..MAX_GROUPS) {
            // A group's node, its first and last block, and the next group's
            // node, with whatever map stands between, follow each other.
            let node = g.node_offset(GroupIndex(group)).0;
            let first = g.block_offset(BlockIndex(group * GROUP_BLOCKS)).0;
            let last = g.block_offset(BlockIndex(group * GROUP_BLOCKS + GROUP_BLOCKS - 1)).0;
            let end = last + g.block_size().bytes();
            prop_assert_eq!(node + 4096, first);
            prop_assert_eq!(end, node + 4096 + g.group_len());
            let next = g.node_offset(GroupIndex(group + 1)).0;
            let mut between = 0;
            if group + 1 == MIDDLE_GROUPS {
                prop_assert_eq!(g.root_map_offset().0, end);
                between += 4096;
            }
            if (group + 1) % MIDDLE_GROUPS == 0 || group + 1 == MAP_SLOTS {
                let middle = (group + 1) / MIDDLE_GROUPS;
                prop_assert_eq!(g.middle_map_offset(middle).0, end + between);
                between += 4096;
            }
            if (group + 1) % MAP_SLOTS == 0 || group == 0 {
                prop_assert_eq!(g.map_offset((group + 1) / MAP_SLOTS).0, end + between);
                between += 4096;
            }
            prop_assert_eq!(next, end + between);
        }

        #[test]
        fn every_way_to_the_header_is_short_and_goes_forward(g in geometry(), group in 1..MAX_GROUPS) {
            let mut at = (PageKind::Node, group);
            for step in 0.. {
                prop_assert!(step < 4);
                prop_assert!(at.0.check_number(at.1).is_ok());
                let Some(Parent::Map { kind, number, slot }) = parent_of(at.0, at.1) else { break };
                prop_assert!((slot as u64) < MAP_SLOTS);
                prop_assert!(first_group_of(kind, number).0 <= group);
                prop_assert!(g.page_offset(kind, number) < g.node_offset(GroupIndex(group)));
                at = (kind, number);
            }
            let hangs_from_header = matches!(parent_of(at.0, at.1), Some(Parent::Header { .. }));
            prop_assert!(hangs_from_header);
        }
    }

    #[test]
    fn all_places_around_the_first_maps_are_disjoint() {
        for g in geometries() {
            let mut places = vec![(g.root_map_offset().0, 4096)];
            places.extend([0, 1].map(|middle| (g.middle_map_offset(middle).0, 4096)));
            places.extend([0, 1, 511, 512].map(|map| (g.map_offset(map).0, 4096)));
            let around = |group: u64| group - 3..group + 3;
            for group in (0..200).chain(around(MAP_SLOTS)).chain(around(MIDDLE_GROUPS)) {
                places.push((g.node_offset(GroupIndex(group)).0, 4096));
                for block in [0, 1, 126, 127] {
                    let at = g.block_offset(BlockIndex(group * GROUP_BLOCKS + block)).0;
                    places.push((at, g.block_size().bytes()));
                }
            }
            places.sort_unstable();
            assert!(places.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        }
    }
}
