//! Poly1305 (RFC 8439 section 2.5): a sum modulo 2^130 - 5, in three limbs on
//! any CPU. Kernels that add up many blocks at once begin and end with these
//! limbs.
//!
//! Constant time: no address and no branch depends on key or data.

use strongroom_engine::Tag;
use zeroize::Zeroize;

use crate::kernel::Block;

/// Bits of the first two limbs, and of the third.
const BITS: [u32; 3] = [44, 44, 42];
/// The low bits that belong to the limb.
const MASKS: [u64; 3] = [(1 << 44) - 1, (1 << 44) - 1, (1 << 42) - 1];
/// The bit that stands above a block's 128, in the third limb.
const ABOVE_BLOCK: u64 = 1 << 40;
/// The bits of r that may be set (RFC 8439 section 2.5.1).
const CLAMP: u128 = 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff;

/// A number modulo 2^130 - 5, of 44, 44 and 42 bits. The first two limbs have
/// no more than these; the third may be a little above.
#[derive(Clone, Copy, Default)]
pub(crate) struct Limbs(pub(crate) [u64; 3]);

impl Zeroize for Limbs {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl Limbs {
    /// The number below 2^128.
    pub(crate) fn of(number: u128) -> Limbs {
        Limbs([number as u64 & MASKS[0], (number >> 44) as u64 & MASKS[1], (number >> 88) as u64])
    }

    /// The number whose limbs these are before carries go up.
    pub(crate) fn carried([first, second, third]: [u128; 3]) -> Limbs {
        let second = second + (first >> BITS[0]);
        let third = third + (second >> BITS[1]);
        // What is above 2^130 counts five times at the bottom.
        let first = (first as u64 & MASKS[0]) as u128 + 5 * (third >> BITS[2]);
        let second = (second as u64 & MASKS[1]) + (first >> BITS[0]) as u64;
        let third = (third as u64 & MASKS[2]) + (second >> BITS[1]);
        Limbs([first as u64 & MASKS[0], second & MASKS[1], third])
    }

    /// The product. Limbs of `self` may be twice as large as they should.
    pub(crate) fn times(self, Limbs([b0, b1, b2]): Limbs) -> Limbs {
        let [a0, a1, a2] = self.0;
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        // 2^132 is four times 2^130.
        let (above1, above2) = (20 * b1, 20 * b2);
        Limbs::carried([
            product(a0, b0) + product(a1, above2) + product(a2, above1),
            product(a0, b1) + product(a1, b0) + product(a2, above2),
            product(a0, b2) + product(a1, b1) + product(a2, b0),
        ])
    }

    /// Its powers from the first to the `N`th.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn powers<const N: usize>(self) -> [Limbs; N] {
        let mut powers = [self; N];
        for i in 1..N {
            powers[i] = powers[(i - 1) / 2].times(powers[i / 2]);
        }
        powers
    }

    /// With these blocks added, each before a multiplication by `r`.
    pub(crate) fn absorb(self, r: Limbs, blocks: &[Block]) -> Limbs {
        blocks.iter().fold(self, |Limbs([s0, s1, s2]), block| {
            let Limbs([b0, b1, b2]) = Limbs::of(u128::from_le_bytes(*block));
            Limbs([s0 + b0, s1 + b1, s2 + b2 + ABOVE_BLOCK]).times(r)
        })
    }

    /// The number below 2^130 - 5 modulo 2^128.
    fn reduced(self) -> u128 {
        let Limbs([s0, s1, s2]) = Limbs::carried(self.0.map(u128::from));
        let [t0, t1, t2] = [s0 + 5, s1, s2];
        let t1 = t1 + (t0 >> BITS[0]);
        let t2 = t2 + (t1 >> BITS[1]);
        // All ones when the number was 2^130 - 5 or more.
        let above = (t2 >> BITS[2]).wrapping_neg();
        let choose = |s: u64, t: u64| u128::from(s & !above | t & above);
        let (low, middle) = (choose(s0, t0 & MASKS[0]), choose(s1, t1 & MASKS[1]));
        low | middle << 44 | choose(s2, t2) << 88
    }
}

/// A one-time key, wiped when dropped.
#[derive(Clone)]
pub(crate) struct Key {
    /// What is multiplied with.
    pub(crate) r: Limbs,
    pad: u128,
}

impl Drop for Key {
    fn drop(&mut self) {
        self.r.zeroize();
        self.pad.zeroize();
    }
}

impl Key {
    pub(crate) fn new(bytes: &[u8; 32]) -> Key {
        let [r, pad] = [0, 16].map(|at| {
            let half: [u8; 16] = bytes[at..at + 16].try_into().expect("sixteen bytes");
            u128::from_le_bytes(half)
        });
        Key { r: Limbs::of(r & CLAMP), pad }
    }

    /// The tag for what was added up.
    pub(crate) fn tag(&self, sum: Limbs) -> Tag {
        sum.reduced().wrapping_add(self.pad).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    fn key(r: &str, pad: &str) -> Key {
        Key::new(&HEXLOWER.decode(format!("{r}{pad}").as_bytes()).unwrap().try_into().unwrap())
    }

    fn tag(key: &Key, blocks: &[u128]) -> u128 {
        let blocks: Vec<Block> = blocks.iter().map(|block| block.to_le_bytes()).collect();
        u128::from_le_bytes(key.tag(Limbs::default().absorb(key.r, &blocks)))
    }

    /// RFC 8439 section 2.5.2, its whole blocks; the last has two bytes, which
    /// Poly1305 alone knows, so it is added by hand.
    #[test]
    fn the_example_of_the_rfc() {
        let key = key("85d6be7857556d337f4452fe42d506a8", "0103808afb0db2fd4abff6af4149f51b");
        let message = b"Cryptographic Forum Research Group";
        let (blocks, _) = message.as_chunks::<16>();
        let Limbs([s0, s1, s2]) = Limbs::default().absorb(key.r, blocks);
        let last = u64::from(u16::from_le_bytes(*b"up")) + (1 << 16);
        let sum = Limbs([s0 + last, s1, s2]).times(key.r);
        assert_eq!(HEXLOWER.encode(&key.tag(sum)), "a8061dc1305136c6c22b8baf0c0127a9");
    }

    /// RFC 8439 appendix A.3, vectors 7 to 9 and 11: sums at the modulus.
    #[test]
    fn sums_at_the_modulus() {
        let (zero, ones) = ("0".repeat(32), "f".repeat(32));
        let [one, two] = ["01", "02"].map(|byte| format!("{byte}{}", "0".repeat(30)));
        assert_eq!(tag(&key(&two, &zero), &[u128::MAX]), 3);
        assert_eq!(tag(&key(&two, &ones), &[2]), 3);
        assert_eq!(tag(&key(&one, &zero), &[u128::MAX, u128::MAX - 15, 17]), 5);
        assert_eq!(tag(&key(&two, &zero), &[u128::MAX - 2]), u128::MAX - 5);
        // Vector 10: exactly 2^130 - 5.
        assert_eq!(
            tag(&key(&one, &zero), &[u128::MAX, 0xfefe_fefe_fefe_fefe_fefe_fefe_fefe_fefb, u128::MAX / 255]),
            0
        );
    }
}
