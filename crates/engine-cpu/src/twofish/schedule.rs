//! The key schedule of Twofish (section 4.3 of its paper): subkeys and the
//! four key-dependent S-boxes. Constant time: q0 and q1 are computed from
//! nibble tables held in words, and not looked up in memory.

use zeroize::Zeroize;

use crate::galois::multiply;

/// The polynomial of the matrix MDS, x^8 + x^6 + x^5 + x^3 + 1.
const MDS_POLYNOMIAL: u8 = 0x69;

/// The polynomial of the matrix RS, x^8 + x^6 + x^3 + x^2 + 1.
const RS_POLYNOMIAL: u8 = 0x4d;

/// Section 4.2.
pub(crate) const MDS: [[u8; 4]; 4] =
    [[0x01, 0xef, 0x5b, 0x5b], [0x5b, 0xef, 0xef, 0x01], [0xef, 0x5b, 0x01, 0xef], [0xef, 0x01, 0xef, 0x5b]];

/// Section 4.3.
const RS: [[u8; 8]; 4] = [
    [0x01, 0xa4, 0x55, 0x87, 0x5a, 0x58, 0xdb, 0x9e],
    [0xa4, 0x56, 0x82, 0xf3, 0x1e, 0xc6, 0x68, 0xe5],
    [0x02, 0xa1, 0xfc, 0xc1, 0x47, 0xae, 0x3d, 0x19],
    [0xa4, 0x55, 0x87, 0x5a, 0x58, 0xdb, 0x9e, 0x03],
];

/// A table of 16 nibbles, entry 0 in the lowest.
type Nibbles = u64;

/// The tables t0 to t3 of section 4.3.5.
const Q: [[Nibbles; 4]; 2] = [
    [0x4ace_95b0_23f6_d718, 0xd907_6a4f_5321_8bce, 0x1742_3f8c_09d6_e5ab, 0xac58_03b9_e621_4f7d],
    [0x5ca0_4913_e67f_db82, 0x809f_5ad6_73c4_b2e1, 0xf3b2_8de0_a961_57c4, 0xa802_f746_ed3c_159b],
];

/// Which of q0 and q1 stands where in h: by byte, for the layers from the one
/// that only 256-bit keys have to the last.
const LAYERS: [[usize; 4]; 5] = [[1, 0, 0, 1], [1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 1], [1, 0, 1, 0]];

/// What a key becomes.
pub(crate) struct Schedule {
    /// K0 to K39: whitening before and after, then two of each round.
    pub(crate) subkeys: [u32; 40],
    /// The S-boxes of g by byte, without the matrix.
    pub(crate) boxes: Box<[[u8; 256]; 4]>,
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.subkeys.zeroize();
        self.boxes.as_flattened_mut().zeroize();
    }
}

impl Schedule {
    /// For a key of 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Schedule {
        let (words, _) = key.as_chunks::<4>();
        let (mut even, mut odd, mut vector) = (Vec::new(), Vec::new(), Vec::new());
        for pair in words.chunks_exact(2) {
            even.push(pair[0]);
            odd.push(pair[1]);
        }
        for eight in key.chunks_exact(8) {
            vector.push(reed_solomon(eight));
        }
        vector.reverse();
        let mut schedule = Schedule { subkeys: [0; 40], boxes: Box::new([[0; 256]; 4]) };
        for (i, pair) in (0u8..).step_by(2).zip(schedule.subkeys.chunks_exact_mut(2)) {
            let a = h([i; 4], &even);
            let b = h([i + 1; 4], &odd).rotate_left(8);
            pair[0] = a.wrapping_add(b);
            pair[1] = pair[0].wrapping_add(b).rotate_left(9);
        }
        for byte in 0..=255u8 {
            let substituted = substitute([byte; 4], &vector);
            for (table, substituted) in schedule.boxes.iter_mut().zip(substituted) {
                table[usize::from(byte)] = substituted;
            }
        }
        for list in [&mut even, &mut odd, &mut vector] {
            list.iter_mut().for_each(Zeroize::zeroize);
        }
        schedule
    }
}

/// The function h (section 4.3.2).
fn h(bytes: [u8; 4], list: &[[u8; 4]]) -> u32 {
    let substituted = substitute(bytes, list);
    (0..4).map(|column| matrix_column(column, substituted[column])).fold(0, |word, part| word ^ part)
}

/// h before its matrix.
fn substitute(mut bytes: [u8; 4], list: &[[u8; 4]]) -> [u8; 4] {
    let layers = LAYERS[4 - list.len()..].iter();
    let keys = list.iter().rev().map(Some).chain([None]);
    for (layer, key) in layers.zip(keys) {
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = q(layer[i], *byte) ^ key.map_or(0, |key| key[i]);
        }
    }
    bytes
}

/// Column `column` of MDS times `byte`, as a word.
pub(crate) fn matrix_column(column: usize, byte: u8) -> u32 {
    u32::from_le_bytes(MDS.map(|row| multiply(row[column], byte, MDS_POLYNOMIAL)))
}

fn reed_solomon(eight: &[u8]) -> [u8; 4] {
    RS.map(|row| {
        let products = row.iter().zip(eight).map(|(&factor, &byte)| multiply(factor, byte, RS_POLYNOMIAL));
        products.fold(0, |sum, product| sum ^ product)
    })
}

/// The permutations q0 and q1 (section 4.3.5).
fn q(which: usize, byte: u8) -> u8 {
    let look_up = |table: Nibbles, nibble: u8| (table >> (4 * nibble)) as u8 & 15;
    let mix = |a: u8, b: u8| (a ^ b, (a ^ (b >> 1 | b << 3) ^ a << 3) & 15);
    let [t0, t1, t2, t3] = Q[which];
    let (a, b) = mix(byte >> 4, byte & 15);
    let (a, b) = mix(look_up(t0, a), look_up(t1, b));
    look_up(t3, b) << 4 | look_up(t2, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q0_and_q1_are_permutations_as_published() {
        assert_eq!([0, 1, 2, 255].map(|x| q(0, x)), [0xa9, 0x67, 0xb3, 0xe0]);
        assert_eq!([0, 1, 2, 255].map(|x| q(1, x)), [0x75, 0xf3, 0xc6, 0x91]);
        for which in 0..2 {
            let image: std::collections::BTreeSet<u8> = (0..=255).map(|x| q(which, x)).collect();
            assert_eq!(image.len(), 256);
        }
    }
}
