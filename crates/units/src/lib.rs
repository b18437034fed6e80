//! Newtypes for offsets, lengths and indices, so that a plain offset is never
//! added to a stored one by accident.
//!
//! No I/O, no dependencies. Arithmetic that can overflow is checked; the
//! largest file is [`MAX_PLAIN_LEN`].
#![forbid(unsafe_code)]

mod shared;

use core::fmt;

pub use shared::SharedBytes;

/// Bytes of a page, the unit of everything in the store but block data.
pub const PAGE_LEN: usize = 4096;

/// Blocks in a group: the entries that one node page holds.
pub const GROUP_BLOCKS: u64 = 128;

/// Largest plain length of a file, in bytes: 64 TiB. The presence maps reach
/// further, and every stored offset stays far inside `i64`.
pub const MAX_PLAIN_LEN: u64 = 1 << 46;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// Length in bytes of a file as its user sees it.
    PlainLen
}
number! {
    /// Length in bytes of the stored file.
    StoredLen
}
number! {
    /// Byte offset in a file as its user sees it.
    PlainOffset
}
number! {
    /// Byte offset in the stored file.
    StoredOffset
}
number! {
    /// Index of a block in its file, from 0.
    BlockIndex
}
number! {
    /// Index of a group of [`GROUP_BLOCKS`] blocks in its file, from 0.
    GroupIndex
}

impl BlockIndex {
    /// The group that holds this block.
    #[must_use]
    pub const fn group(self) -> GroupIndex {
        GroupIndex(self.0 / GROUP_BLOCKS)
    }

    /// The entry of this block in its group's node page, below [`GROUP_BLOCKS`].
    #[must_use]
    pub const fn entry(self) -> usize {
        (self.0 % GROUP_BLOCKS) as usize
    }
}

/// Size of a block in bytes: a power of two from 4 KiB to 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockSize(u8);

impl BlockSize {
    /// 4 KiB, the default.
    pub const MIN: BlockSize = BlockSize(12);
    /// 1 MiB.
    pub const MAX: BlockSize = BlockSize(20);

    /// From the binary logarithm, as stored; `None` outside 12 to 20.
    #[must_use]
    pub const fn from_shift(shift: u8) -> Option<BlockSize> {
        if shift >= Self::MIN.0 && shift <= Self::MAX.0 { Some(BlockSize(shift)) } else { None }
    }

    /// From a number of bytes; `None` unless a power of two from 4 KiB to 1 MiB.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Option<BlockSize> {
        if bytes.is_power_of_two() { Self::from_shift(bytes.trailing_zeros() as u8) } else { None }
    }

    /// The binary logarithm.
    #[must_use]
    pub const fn shift(self) -> u8 {
        self.0
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self.0
    }

    /// The block that holds a plain offset.
    #[must_use]
    pub const fn block_of(self, offset: PlainOffset) -> BlockIndex {
        BlockIndex(offset.0 >> self.0)
    }

    /// Where a block begins in the plain file.
    #[must_use]
    pub const fn start_of(self, block: BlockIndex) -> PlainOffset {
        PlainOffset(block.0 << self.0)
    }

    /// Blocks that a file of this plain length spans.
    #[must_use]
    pub const fn blocks_in(self, len: PlainLen) -> u64 {
        len.0.div_ceil(1 << self.0)
    }

    /// Bytes of `block` inside a file of `len`, 0 when it lies past the end.
    #[must_use]
    pub const fn block_len(self, block: BlockIndex, len: PlainLen) -> usize {
        let start = self.start_of(block).0;
        if start >= len.0 {
            0
        } else if len.0 - start > self.bytes() {
            self.bytes() as usize
        } else {
            (len.0 - start) as usize
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_size_is_a_power_of_two_from_4_kib_to_1_mib() {
        assert_eq!(BlockSize::from_bytes(4096), Some(BlockSize::MIN));
        assert_eq!(BlockSize::from_bytes(1 << 20), Some(BlockSize::MAX));
        for bad in [0, 1, 2048, 4097, 6144, 2 << 20] {
            assert_eq!(BlockSize::from_bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_last_block_is_as_long_as_what_is_left() {
        let size = BlockSize::MIN;
        assert_eq!(size.block_len(BlockIndex(0), PlainLen(0)), 0);
        assert_eq!(size.block_len(BlockIndex(0), PlainLen(1)), 1);
        assert_eq!(size.block_len(BlockIndex(0), PlainLen(4097)), 4096);
        assert_eq!(size.block_len(BlockIndex(1), PlainLen(4097)), 1);
        assert_eq!(size.block_len(BlockIndex(2), PlainLen(4097)), 0);
    }
}
