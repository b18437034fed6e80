//! POLYVAL (RFC 8452 section 3) over blocks in the byte order of GHASH, and
//! its portable form, constant-time by integer multiplication: carries are
//! kept apart by splitting the bits of a word into four sets with holes
//! between them.

use zeroize::Zeroize;

use crate::kernel::Block;

/// A hash key.
pub(crate) trait Polyval: Send + Sync {
    /// Hashes whole blocks, each as a big-endian number, into `state`.
    fn update(&self, state: &mut u128, blocks: &[Block]);
}

/// A hash key on any CPU.
pub(crate) struct Portable {
    key: u128,
}

impl Drop for Portable {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl Portable {
    pub(crate) fn new(key: u128) -> Portable {
        Portable { key }
    }
}

impl Polyval for Portable {
    fn update(&self, state: &mut u128, blocks: &[Block]) {
        for block in blocks {
            *state = dot(*state ^ u128::from_be_bytes(*block), self.key);
        }
    }
}

/// The hash key of GHASH as one of POLYVAL (RFC 8452 appendix A).
pub(crate) fn times_x(key: u128) -> u128 {
    key << 1 ^ (key >> 127).wrapping_neg() & 0xc200_0000_0000_0000_0000_0000_0000_0001
}

/// The product of POLYVAL: `a b x^-128` in its field.
pub(crate) fn dot(a: u128, b: u128) -> u128 {
    let (a_low, a_high) = (a as u64, (a >> 64) as u64);
    let (b_low, b_high) = (b as u64, (b >> 64) as u64);
    let low = carryless(a_low, b_low);
    let high = carryless(a_high, b_high);
    let middle = carryless(a_low ^ a_high, b_low ^ b_high) ^ low ^ high;
    reduce(low ^ middle << 64, high ^ middle >> 64)
}

/// `(high x^128 + low) x^-128`: a word at a time, x^64 times the word is
/// taken off with the polynomial x^128 + x^127 + x^126 + x^121 + 1.
fn reduce(low: u128, high: u128) -> u128 {
    let fold = |value: u128| {
        let word = u128::from(value as u64);
        value >> 64 ^ word << 64 ^ word << 63 ^ word << 62 ^ word << 57
    };
    fold(fold(low)) ^ high
}

/// The product of two words as polynomials over GF(2).
fn carryless(a: u64, b: u64) -> u128 {
    // Sets of every fifth bit: at most 13 ones meet in a sum, which the four
    // bits up to the next of the set hold.
    const FIFTH: u128 = 0x2108_4210_8421_0842_1084_2108_4210_8421;
    let masks = [0, 1, 2, 3, 4].map(|i| FIFTH << i);
    let part = |word: u64, i: usize| u128::from(word & masks[i] as u64);
    let mut product = 0;
    for (sum, mask) in masks.iter().enumerate() {
        let mut of_sum = 0;
        for i in 0..5 {
            of_sum ^= part(a, i).wrapping_mul(part(b, (sum + 5 - i) % 5));
        }
        product |= of_sum & mask;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8452 appendix A.
    #[test]
    fn the_example_of_the_rfc() {
        let hash_key = 0x25629347589242761d31f826ba4b757b_u128.swap_bytes();
        let blocks = [0x4f4f95668c83dfb6401762bb2d01a262_u128, 0xd1a24ddd2721d006bbe45f20d3c9f362];
        let mut state = 0;
        for block in blocks {
            state = dot(state ^ block.swap_bytes(), hash_key);
        }
        assert_eq!(state.swap_bytes(), 0xf7a3b47b846119fae5b7866cf5e5b77e);
    }

    #[test]
    fn carryless_products_are_those_bit_by_bit() {
        let mut a = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..1000 {
            let b = a.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ a >> 31;
            let expected = (0..64).filter(|bit| b >> bit & 1 == 1).fold(0, |p, bit| p ^ u128::from(a) << bit);
            assert_eq!(carryless(a, b), expected);
            a = b;
        }
        assert_eq!(carryless(u64::MAX, u64::MAX), 0x5555_5555_5555_5555_5555_5555_5555_5555);
    }
}
