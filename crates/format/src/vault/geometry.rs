//! Where pages and blocks stand in a stored file (section 4). Pure arithmetic.
//!
//! Indices past the largest file are no places; the functions then give some
//! offset without overflowing, and [`Geometry::has_block`] tells beforehand.

use strongroom_units::{
    BlockIndex, BlockSize, GROUP_BLOCKS, GroupIndex, MAX_PLAIN_LEN, PAGE_LEN, PlainLen, StoredLen,
    StoredOffset,
};

use super::page::PageKind;

/// Groups whose presence stands in the header page rather than in a map.
pub const HEADER_GROUPS: u64 = 64;

/// Groups that a map page tells of, and map pages that the root map tells of.
pub const MAP_BITS: u64 = 16384;

/// Blocks of the largest file, at the smallest block size.
pub const MAX_BLOCKS: u64 = MAX_PLAIN_LEN >> BlockSize::MIN.shift();

/// Groups of the largest file, at the smallest block size.
pub const MAX_GROUPS: u64 = MAX_BLOCKS / GROUP_BLOCKS;

/// Map pages of the largest file, at the smallest block size.
pub const MAX_MAPS: u64 = (MAX_GROUPS - HEADER_GROUPS).div_ceil(MAP_BITS);

const PAGE: u64 = PAGE_LEN as u64;

const _: () = assert!(MAX_MAPS <= MAP_BITS);
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
        let maps = match map_of(group) {
            None => 0,
            Some((map, _)) => 2 + map,
        };
        StoredOffset(group.0.saturating_mul(self.stride()).saturating_add(maps.saturating_mul(PAGE)))
    }

    /// Where a block begins.
    #[must_use]
    pub const fn block_offset(self, block: BlockIndex) -> StoredOffset {
        let within = PAGE + ((block.entry() as u64) << self.size.shift());
        StoredOffset(self.node_offset(block.group()).0.saturating_add(within))
    }

    /// Where map page `map` begins.
    #[must_use]
    pub const fn map_offset(self, map: u64) -> StoredOffset {
        let first = HEADER_GROUPS.saturating_add(map.saturating_mul(MAP_BITS));
        StoredOffset(self.node_offset(GroupIndex(first)).0 - PAGE)
    }

    /// Where the root map page begins.
    #[must_use]
    pub const fn root_map_offset(self) -> StoredOffset {
        StoredOffset(self.map_offset(0).0 - PAGE)
    }

    /// Where a page begins; `number` is ignored for the header and the root map.
    #[must_use]
    pub const fn page_offset(self, kind: PageKind, number: u64) -> StoredOffset {
        match kind {
            PageKind::Header => StoredOffset(0),
            PageKind::Node => self.node_offset(GroupIndex(number)),
            PageKind::Map => self.map_offset(number),
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
        let plain_part = HEADER_GROUPS * self.stride();
        if offset < plain_part {
            return Some((offset / self.stride(), offset % self.stride()));
        }
        let behind = offset - plain_part;
        if behind < PAGE {
            return None;
        }
        let period = PAGE + MAP_BITS * self.stride();
        let (map, rest) = ((behind - PAGE) / period, (behind - PAGE) % period);
        if rest < PAGE || map >= MAX_MAPS {
            return None;
        }
        let in_map = rest - PAGE;
        Some((HEADER_GROUPS + map * MAP_BITS + in_map / self.stride(), in_map % self.stride()))
    }
}

/// The map page and the bit in it that tell of `group`; `None` for the groups
/// that the header tells of.
#[must_use]
pub const fn map_of(group: GroupIndex) -> Option<(u64, usize)> {
    if group.0 < HEADER_GROUPS {
        return None;
    }
    let behind = group.0 - HEADER_GROUPS;
    Some((behind / MAP_BITS, (behind % MAP_BITS) as usize))
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
                ((HEADER_GROUPS + map * MAP_BITS) * (GROUP_BLOCKS << shift)).saturating_add_signed(d)
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
            assert_eq!(g.node_offset(GroupIndex(1)).0, stride);
            assert_eq!(g.node_offset(GroupIndex(63)).0, 63 * stride);
            assert_eq!(g.root_map_offset().0, 64 * stride);
            assert_eq!(g.map_offset(0).0, 64 * stride + 4096);
            assert_eq!(g.node_offset(GroupIndex(64)).0, 64 * stride + 8192);
            let second = 64 + 16384;
            assert_eq!(g.map_offset(1).0, second * stride + 8192);
            assert_eq!(g.node_offset(GroupIndex(second)).0, second * stride + 12288);
        }
    }

    #[test]
    fn stored_lengths_of_small_files() {
        let g = Geometry::new(BlockSize::MIN);
        assert_eq!(g.stored_len(PlainLen(0)), StoredLen(4096));
        assert_eq!(g.stored_len(PlainLen(1)), StoredLen(4097));
        assert_eq!(g.stored_len(PlainLen(4096)), StoredLen(8192));
        assert_eq!(g.stored_len(PlainLen(128 * 4096)), StoredLen(129 * 4096));
        assert_eq!(g.stored_len(PlainLen(128 * 4096 + 1)), StoredLen(130 * 4096 + 1));
        for not_an_image in [0, 1, 4095, 129 * 4096 + 1, 130 * 4096] {
            assert_eq!(g.plain_len(StoredLen(not_an_image)), None, "{not_an_image}");
        }
    }

    #[test]
    fn every_stored_length_of_the_first_groups_and_around_the_maps_is_an_image_or_not() {
        let g = Geometry::new(BlockSize::MIN);
        let border = g.root_map_offset().0;
        let next_map = g.map_offset(1).0;
        let ranges =
            [0..300_000, 520_000..540_000, border - 5000..border + 15_000, next_map - 99..next_map + 9000];
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
            let _ = g.map_offset(u64::MAX);
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
            let between = if group + 1 == 64 {
                prop_assert_eq!(g.root_map_offset().0, end);
                prop_assert_eq!(g.map_offset(0).0, end + 4096);
                8192
            } else if group + 1 > 64 && (group + 1 - 64) % MAP_BITS == 0 {
                prop_assert_eq!(g.map_offset((group + 1 - 64) / MAP_BITS).0, end);
                4096
            } else {
                0
            };
            prop_assert_eq!(next, end + between);
        }

        #[test]
        fn the_map_of_a_group_stands_before_it(g in geometry(), group in 0..MAX_GROUPS) {
            match map_of(GroupIndex(group)) {
                None => prop_assert!(group < 64),
                Some((map, bit)) => {
                    prop_assert_eq!(64 + map * MAP_BITS + bit as u64, group);
                    prop_assert!(g.map_offset(map) < g.node_offset(GroupIndex(group)));
                    prop_assert!(g.map_offset(map + 1) > g.node_offset(GroupIndex(group)));
                }
            }
        }
    }

    #[test]
    fn all_places_around_the_first_two_maps_are_disjoint() {
        for g in geometries() {
            let mut places =
                vec![(g.root_map_offset().0, 4096), (g.map_offset(0).0, 4096), (g.map_offset(1).0, 4096)];
            for group in (0..200).chain(64 + MAP_BITS - 3..64 + MAP_BITS + 3) {
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
