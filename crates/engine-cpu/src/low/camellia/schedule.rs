//! The key schedule of Camellia (RFC 3713 section 2.2), once for a key, with
//! the S-boxes computed and not looked up.

use zeroize::Zeroize;

use super::Spread;
use super::boxes::{AFTER, Affine, BEFORE};
use crate::galois::aes_inverse;

/// The constants of the schedule (RFC 3713 section 2.2).
const SIGMA: [u64; 6] = [
    0xa09e_667f_3bcc_908b,
    0xb67a_e858_4caa_73b2,
    0xc6ef_372f_e94f_82be,
    0x54ff_53a5_f1d3_6f1c,
    0x10e5_27fa_de68_2d1d,
    0xb056_88c2_b3e6_c1fd,
];

/// Six rounds, as three pairs.
type SixRounds = [[Spread; 2]; 3];

/// The subkeys of one direction.
pub(super) struct Subkeys {
    /// XORed onto both halves before the rounds.
    pub(super) before: [Spread; 2],
    rounds: [SixRounds; 4],
    sixes: usize,
    /// Of FL and FLINV between six rounds.
    pub(super) layers: [[Spread; 2]; 3],
    /// XORed onto both halves after the rounds.
    pub(super) after: [Spread; 2],
}

impl Drop for Subkeys {
    fn drop(&mut self) {
        self.before.as_flattened_mut().zeroize();
        self.rounds.as_flattened_mut().as_flattened_mut().as_flattened_mut().zeroize();
        self.layers.as_flattened_mut().as_flattened_mut().zeroize();
        self.after.as_flattened_mut().zeroize();
    }
}

/// 128 bits rotated left.
fn rotated(value: u128, bits: u32) -> [u64; 2] {
    let value = value.rotate_left(bits);
    [(value >> 64) as u64, value as u64]
}

impl Subkeys {
    /// # Panics
    /// If the key has not 16, 24 or 32 bytes.
    pub(super) fn new(key: &[u8]) -> Subkeys {
        let (left, right) = key.split_at(16);
        let kl = u128::from_be_bytes(left.try_into().expect("sixteen bytes"));
        let mut kr = [0; 16];
        kr[..right.len()].copy_from_slice(right);
        if right.len() == 8 {
            for i in 0..8 {
                kr[i + 8] = !right[i];
            }
        }
        let kr = u128::from_be_bytes(kr);
        let ka = mixed(mixed(kl ^ kr, SIGMA[0], SIGMA[1]) ^ kl, SIGMA[2], SIGMA[3]);
        if right.is_empty() {
            return Subkeys::of_18_rounds(kl, ka);
        }
        let kb = mixed(ka ^ kr, SIGMA[4], SIGMA[5]);
        Subkeys::of_24_rounds(kl, kr, ka, kb)
    }

    fn of_18_rounds(kl: u128, ka: u128) -> Subkeys {
        let tenth = [rotated(ka, 45)[0], rotated(kl, 60)[1]];
        let rounds = [
            [ka.into_halves(), rotated(kl, 15), rotated(ka, 15)],
            [rotated(kl, 45), tenth, rotated(ka, 60)],
            [rotated(kl, 94), rotated(ka, 94), rotated(kl, 111)],
        ];
        let layers = [rotated(ka, 30), rotated(kl, 77)];
        Subkeys::assembled(kl, &rounds, &layers, rotated(ka, 111))
    }

    fn of_24_rounds(kl: u128, kr: u128, ka: u128, kb: u128) -> Subkeys {
        let rounds = [
            [kb.into_halves(), rotated(kr, 15), rotated(ka, 15)],
            [rotated(kb, 30), rotated(kl, 45), rotated(ka, 45)],
            [rotated(kr, 60), rotated(kb, 60), rotated(kl, 77)],
            [rotated(kr, 94), rotated(ka, 94), rotated(kl, 111)],
        ];
        let layers = [rotated(kr, 30), rotated(kl, 60), rotated(ka, 77)];
        Subkeys::assembled(kl, &rounds, &layers, rotated(kb, 111))
    }

    fn assembled(before: u128, rounds: &[[[u64; 2]; 3]], layers: &[[u64; 2]], after: [u64; 2]) -> Subkeys {
        let mut subkeys = Subkeys {
            before: before.into_halves().map(spread),
            rounds: [[[[0; 8]; 2]; 3]; 4],
            sixes: rounds.len(),
            layers: [[[0; 8]; 2]; 3],
            after: after.map(spread),
        };
        for (to, from) in subkeys.rounds.iter_mut().zip(rounds) {
            *to = from.map(|pair| pair.map(spread));
        }
        for (to, from) in subkeys.layers.iter_mut().zip(layers) {
            *to = from.map(spread);
        }
        subkeys
    }

    /// Six rounds at a time.
    pub(super) fn rounds(&self) -> &[SixRounds] {
        &self.rounds[..self.sixes]
    }

    /// For decryption: the same rounds with the subkeys from the last on.
    pub(super) fn reversed(&self) -> Subkeys {
        let mut rounds = self.rounds;
        let pairs = rounds[..self.sixes].as_flattened_mut();
        pairs.reverse();
        pairs.as_flattened_mut().chunks_exact_mut(2).for_each(<[_]>::reverse);
        let mut layers = self.layers;
        let between = &mut layers[..self.sixes - 1];
        between.reverse();
        between.iter_mut().for_each(|pair| pair.reverse());
        Subkeys { before: self.after, rounds, sixes: self.sixes, layers, after: self.before }
    }
}

trait Halves {
    fn into_halves(self) -> [u64; 2];
}

impl Halves for u128 {
    fn into_halves(self) -> [u64; 2] {
        rotated(self, 0)
    }
}

/// Each byte repeated four times.
fn spread(subkey: u64) -> Spread {
    subkey.to_be_bytes().map(|byte| u32::from_be_bytes([byte; 4]))
}

/// Two rounds of the schedule.
fn mixed(value: u128, first: u64, second: u64) -> u128 {
    let [mut left, mut right] = value.into_halves();
    right ^= f(left, first);
    left ^= f(right, second);
    u128::from(left) << 64 | u128::from(right)
}

/// The F-function (RFC 3713 section 2.4.1).
fn f(value: u64, key: u64) -> u64 {
    let [t1, t2, t3, t4, t5, t6, t7, t8] = (value ^ key).to_be_bytes();
    let s2 = |byte| s1(byte).rotate_left(1);
    let s3 = |byte| s1(byte).rotate_right(1);
    let s4 = |byte: u8| s1(byte.rotate_left(1));
    let [z1, z2, z3, z4] = [s1(t1), s2(t2), s3(t3), s4(t4)];
    let [z5, z6, z7, z8] = [s2(t5), s3(t6), s4(t7), s1(t8)];
    u64::from_be_bytes([
        z1 ^ z3 ^ z4 ^ z6 ^ z7 ^ z8,
        z1 ^ z2 ^ z4 ^ z5 ^ z7 ^ z8,
        z1 ^ z2 ^ z3 ^ z5 ^ z6 ^ z8,
        z2 ^ z3 ^ z4 ^ z5 ^ z6 ^ z7,
        z1 ^ z2 ^ z6 ^ z7 ^ z8,
        z2 ^ z3 ^ z5 ^ z7 ^ z8,
        z3 ^ z4 ^ z5 ^ z6 ^ z8,
        z1 ^ z4 ^ z5 ^ z6 ^ z7,
    ])
}

pub(super) fn s1(byte: u8) -> u8 {
    affine(&AFTER, aes_inverse(affine(&BEFORE, byte)))
}

fn affine(map: &Affine, byte: u8) -> u8 {
    let rows = map.0.to_be_bytes();
    let mut image = map.1 as u8;
    for (bit, row) in rows.into_iter().rev().enumerate() {
        image ^= (((row & byte).count_ones() & 1) as u8) << (7 - bit);
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3713 section 2.4.4, the first and last entries of the table.
    #[test]
    fn the_computed_box_is_that_of_the_rfc() {
        assert_eq!([0, 1, 2, 3, 254, 255].map(s1), [112, 130, 44, 236, 128, 158]);
        let image: std::collections::BTreeSet<u8> = (0..=255).map(s1).collect();
        assert_eq!(image.len(), 256);
    }
}
