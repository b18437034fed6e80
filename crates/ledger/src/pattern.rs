//! Contents that name their writer.

/// Bytes of one piece.
const WORD: usize = 8;

/// The piece that the action `tag` writes at `position`, in units of 8 bytes.
fn word(tag: u64, position: u64) -> u64 {
    let mut mixed = (tag ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x2545_f491_4f6c_dd1d);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The bytes that the action `tag` writes to `offset..offset + len` of a file.
pub fn bytes(tag: u64, offset: u64, len: usize) -> Vec<u8> {
    let first = offset / WORD as u64;
    let skip = (offset % WORD as u64) as usize;
    let words = (skip + len).div_ceil(WORD);
    let mut bytes = Vec::with_capacity(words * WORD);
    for position in first..first + words as u64 {
        bytes.extend_from_slice(&word(tag, position).to_le_bytes());
    }
    bytes.truncate(skip + len);
    bytes.drain(..skip);
    bytes
}

/// Which of `tags` wrote the first whole piece of `bytes`, which stand at `offset`.
pub fn writer_of(bytes: &[u8], offset: u64, tags: impl IntoIterator<Item = u64>) -> Option<u64> {
    let skip = offset.next_multiple_of(WORD as u64) - offset;
    let piece: [u8; WORD] = bytes.get(skip as usize..skip as usize + WORD)?.try_into().ok()?;
    let found = u64::from_le_bytes(piece);
    tags.into_iter().find(|&tag| word(tag, (offset + skip) / WORD as u64) == found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_same_as_in_the_whole() {
        let whole = bytes(7, 0, 100);
        for (offset, len) in [(0, 100), (1, 50), (8, 8), (13, 87), (99, 1)] {
            assert_eq!(bytes(7, offset, len), whole[offset as usize..offset as usize + len]);
        }
    }

    #[test]
    fn the_writer_is_recognised() {
        assert_eq!(writer_of(&bytes(7, 4090, 512), 4090, [5, 6, 7]), Some(7));
        assert_eq!(writer_of(&bytes(7, 4096, 512), 4096, [5, 6]), None);
        assert_eq!(writer_of(&[0; 3], 0, [5, 6]), None);
    }
}
