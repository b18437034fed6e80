//! What binds a sealed block to its place (section 4.2).

use strongroom_units::{BlockIndex, BlockSize};

use super::{FileId, Suite};
use crate::layout::layout;

layout! {
    /// Associated data of a block.
    context: 36;
    MAGIC = 0, 4, "`SRbk`";
    SUITE = 4, 1, "suite";
    SHIFT = 5, 1, "binary logarithm of the block size";
    ZERO = 6, 2, "zero";
    GENERATION = 8, 4, "key generation";
    FILE = 12, 16, "file id";
    INDEX = 28, 8, "block index";
}

/// The magic of a block's associated data.
pub const MAGIC: [u8; 4] = *b"SRbk";

/// A file's part of the associated data of its blocks, made once per file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockContext([u8; context::LEN]);

impl BlockContext {
    /// For the blocks of `file`, sealed under keys of `generation`.
    #[must_use]
    pub fn new(suite: Suite, size: BlockSize, generation: u32, file: FileId) -> BlockContext {
        let mut bytes = [0; context::LEN];
        context::MAGIC.set(&mut bytes, &MAGIC);
        context::SUITE.set(&mut bytes, &[suite.number()]);
        context::SHIFT.set(&mut bytes, &[size.shift()]);
        context::GENERATION.set(&mut bytes, &generation.to_le_bytes());
        context::FILE.set(&mut bytes, &file.0);
        BlockContext(bytes)
    }

    /// The generation of the keys under which they are sealed.
    #[must_use]
    pub fn generation(&self) -> u32 {
        context::GENERATION.u32(&self.0)
    }

    /// The associated data of one block.
    #[must_use]
    pub fn at(&self, block: BlockIndex) -> [u8; context::LEN] {
        let mut bytes = self.0;
        context::INDEX.set(&mut bytes, &block.0.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let made =
            BlockContext::new(Suite::Aegis256X2, BlockSize::MIN, 1, FileId([7; 16])).at(BlockIndex(0x0102));
        let mut expected = b"SRbk\x03\x0c\0\0\x01\0\0\0".to_vec();
        expected.extend([7; 16]);
        expected.extend([2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(made.to_vec(), expected);
    }
}
