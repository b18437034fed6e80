//! Pure arithmetic: which blocks a range touches, and how much of each.

use strongroom_units::{BlockIndex, BlockSize, PlainLen, PlainOffset};

/// The part of one block that a range covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Which block.
    pub(crate) block: BlockIndex,
    /// First byte covered inside the block.
    pub(crate) from: usize,
    /// Byte after the last covered inside the block.
    pub(crate) to: usize,
    /// Where the piece begins in the range.
    pub(crate) at: usize,
}

impl Piece {
    /// Bytes covered.
    pub(crate) fn len(&self) -> usize {
        self.to - self.from
    }
}

/// The pieces of `len` bytes from `offset` on, in order.
pub(crate) fn pieces(size: BlockSize, offset: PlainOffset, len: usize) -> impl Iterator<Item = Piece> {
    let end = offset.0 + len as u64;
    let first = offset.0 >> size.shift();
    let last = if len == 0 { first } else { ((end - 1) >> size.shift()) + 1 };
    (first..last).map(move |block| {
        let start = block << size.shift();
        let from = offset.0.max(start);
        let to = end.min(start + size.bytes());
        Piece {
            block: BlockIndex(block),
            from: (from - start) as usize,
            to: (to - start) as usize,
            at: (from - offset.0) as usize,
        }
    })
}

/// How a piece is written: as it comes, or merged with what the block held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// The piece is all that the block will hold.
    Whole,
    /// The block's other bytes stay, or are zeros.
    Partial,
}

/// Decides [`Merge`] for a piece of a file that will be `len` bytes long.
pub(crate) fn merge(size: BlockSize, piece: &Piece, len: PlainLen) -> Merge {
    if piece.from == 0 && piece.to == size.block_len(piece.block, len) {
        Merge::Whole
    } else {
        Merge::Partial
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_range_once_and_in_order() {
        let size = BlockSize::MIN;
        for (offset, len) in [(0, 0), (0, 1), (0, 4096), (1, 4096), (4095, 2), (5000, 100_000), (4096, 8192)]
        {
            let mut at = 0;
            for piece in pieces(size, PlainOffset(offset), len) {
                assert_eq!(piece.at, at);
                assert_eq!(size.start_of(piece.block).0 + piece.from as u64, offset + at as u64);
                assert!(piece.len() > 0 && piece.to <= 4096);
                at += piece.len();
            }
            assert_eq!(at, len);
        }
    }

    #[test]
    fn a_piece_is_whole_when_nothing_else_of_its_block_lies_inside_the_file() {
        let size = BlockSize::MIN;
        let piece = |offset, len| pieces(size, PlainOffset(offset), len).next().unwrap();
        assert_eq!(merge(size, &piece(0, 4096), PlainLen(9000)), Merge::Whole);
        assert_eq!(merge(size, &piece(0, 100), PlainLen(100)), Merge::Whole);
        assert_eq!(merge(size, &piece(0, 100), PlainLen(101)), Merge::Partial);
        assert_eq!(merge(size, &piece(1, 99), PlainLen(100)), Merge::Partial);
    }
}
