//! The S-boxes of Serpent and their inverses as circuits of three-input
//! Boolean functions, which AVX-512 has an instruction for. Those of seven and
//! eight gates were found by a search over all of that size; a test holds every
//! one against the tables of the proposal.

use crate::low::vector::Bits;

#[inline(always)]
pub(super) fn s0<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x36>(x0, x1, x3);
    let t5 = B::lut3::<0x66>(x0, x2, t4);
    let t6 = B::lut3::<0x96>(x0, x2, x3);
    let t7 = B::lut3::<0xb8>(x0, x1, x3);
    let t8 = B::lut3::<0x35>(t5, t6, t7);
    let t9 = B::lut3::<0x96>(t6, t7, t8);
    let t10 = B::lut3::<0x78>(t4, t6, t7);
    [t8, t9, t10, t5]
}

#[inline(always)]
pub(super) fn s1<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0xd8>(x0, x1, x3);
    let t5 = B::lut3::<0x6a>(x0, x1, x3);
    let t6 = B::lut3::<0x69>(x1, x2, t5);
    let t7 = B::lut3::<0x6c>(x0, x2, t5);
    let t8 = B::lut3::<0xc9>(t4, t5, t7);
    let t9 = B::lut3::<0x56>(t4, t6, t7);
    let t10 = B::lut3::<0x4b>(t4, t8, t9);
    [t10, t8, t6, t9]
}

#[inline(always)]
pub(super) fn s2<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0xda>(x0, x1, x2);
    let t5 = B::lut3::<0x65>(x1, x3, t4);
    let t6 = B::lut3::<0x36>(x0, x1, x3);
    let t7 = B::lut3::<0x6a>(x0, x2, x3);
    let t8 = B::lut3::<0x96>(x1, x2, t7);
    let t9 = B::lut3::<0x65>(t5, t6, t7);
    let t10 = B::lut3::<0xa6>(t5, t6, t7);
    [t8, t9, t10, t5]
}

#[inline(always)]
pub(super) fn s3<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0xa6>(x2, x1, x0);
    let t5 = B::lut3::<0x63>(x2, x1, x0);
    let t6 = B::lut3::<0xca>(x3, t5, t4);
    let t7 = B::lut3::<0xc6>(x2, x1, x0);
    let t8 = B::lut3::<0xb4>(x2, x1, x0);
    let t9 = B::lut3::<0xca>(x3, t8, t7);
    let t10 = B::lut3::<0x52>(x2, x1, x0);
    let t11 = B::lut3::<0xe9>(x2, x1, x0);
    let t12 = B::lut3::<0xca>(x3, t11, t10);
    let t13 = B::lut3::<0x3e>(x2, x1, x0);
    let t14 = B::lut3::<0x91>(x2, x1, x0);
    let t15 = B::lut3::<0xca>(x3, t14, t13);
    [t6, t9, t12, t15]
}

#[inline(always)]
pub(super) fn s4<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x4b>(x2, x1, x0);
    let t5 = B::lut3::<0xd2>(x2, x1, x0);
    let t6 = B::lut3::<0xca>(x3, t5, t4);
    let t7 = B::lut3::<0xca>(x2, x1, x0);
    let t8 = B::lut3::<0x69>(x2, x1, x0);
    let t9 = B::lut3::<0xca>(x3, t8, t7);
    let t10 = B::lut3::<0x92>(x2, x1, x0);
    let t11 = B::lut3::<0xe6>(x2, x1, x0);
    let t12 = B::lut3::<0xca>(x3, t11, t10);
    let t13 = B::lut3::<0x56>(x2, x1, x0);
    let t14 = B::lut3::<0xb8>(x2, x1, x0);
    let t15 = B::lut3::<0xca>(x3, t14, t13);
    [t6, t9, t12, t15]
}

#[inline(always)]
pub(super) fn s5<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x56>(x0, x1, x2);
    let t5 = B::lut3::<0x96>(x0, x1, x3);
    let t6 = B::lut3::<0x9c>(x0, t4, t5);
    let t7 = B::lut3::<0x59>(x1, t5, t6);
    let t8 = B::lut3::<0x36>(x3, t5, t7);
    let t9 = B::lut3::<0x93>(t4, t5, t7);
    let t10 = B::lut3::<0x87>(x3, t4, t6);
    [t7, t8, t9, t10]
}

#[inline(always)]
pub(super) fn s6<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x56>(x0, x1, x3);
    let t5 = B::lut3::<0x36>(x0, x2, t4);
    let t6 = B::lut3::<0x69>(x1, t4, t5);
    let t7 = B::lut3::<0x1e>(x0, x1, t5);
    let t8 = B::lut3::<0xb4>(t4, t6, t7);
    let t9 = B::lut3::<0x9c>(t4, t5, t7);
    let t10 = B::lut3::<0x1e>(t7, t8, t9);
    [t10, t6, t8, t9]
}

#[inline(always)]
pub(super) fn s7<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x87>(x2, x1, x0);
    let t5 = B::lut3::<0x71>(x2, x1, x0);
    let t6 = B::lut3::<0xca>(x3, t5, t4);
    let t7 = B::lut3::<0xd4>(x2, x1, x0);
    let t8 = B::lut3::<0xa9>(x2, x1, x0);
    let t9 = B::lut3::<0xca>(x3, t8, t7);
    let t10 = B::lut3::<0x16>(x2, x1, x0);
    let t11 = B::lut3::<0xc7>(x2, x1, x0);
    let t12 = B::lut3::<0xca>(x3, t11, t10);
    let t13 = B::lut3::<0xb6>(x2, x1, x0);
    let t14 = B::lut3::<0x1c>(x2, x1, x0);
    let t15 = B::lut3::<0xca>(x3, t14, t13);
    [t6, t9, t12, t15]
}

#[inline(always)]
pub(super) fn inverse_s0<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x78>(x0, x1, x3);
    let t5 = B::lut3::<0x56>(x0, x1, x2);
    let t6 = B::lut3::<0x99>(x0, x3, t5);
    let t7 = B::lut3::<0x4e>(x0, x1, x3);
    let t8 = B::lut3::<0x1e>(t4, t6, t7);
    let t9 = B::lut3::<0xb1>(t5, t7, t8);
    let t10 = B::lut3::<0x96>(t5, t7, t8);
    [t8, t9, t6, t10]
}

#[inline(always)]
pub(super) fn inverse_s1<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0xc2>(x0, x1, x3);
    let t5 = B::lut3::<0x1e>(x2, x3, t4);
    let t6 = B::lut3::<0xd0>(x0, x1, x3);
    let t7 = B::lut3::<0x1e>(x2, t4, t6);
    let t8 = B::lut3::<0x7a>(x1, x2, t5);
    let t9 = B::lut3::<0x2a>(x0, x3, t8);
    let t10 = B::lut3::<0x69>(t5, t6, t9);
    let t11 = B::lut3::<0x4e>(t4, t5, t10);
    [t10, t9, t11, t7]
}

#[inline(always)]
pub(super) fn inverse_s2<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x96>(x1, x2, x3);
    let t5 = B::lut3::<0xd2>(x0, x1, x2);
    let t6 = B::lut3::<0x9a>(x1, x3, t5);
    let t7 = B::lut3::<0x72>(x1, x2, x3);
    let t8 = B::lut3::<0xd2>(t4, t6, t7);
    let t9 = B::lut3::<0x69>(x0, t7, t8);
    let t10 = B::lut3::<0x93>(t6, t7, t9);
    [t6, t8, t9, t10]
}

#[inline(always)]
pub(super) fn inverse_s3<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x9a>(x2, x1, x0);
    let t5 = B::lut3::<0xc3>(x2, x1, x0);
    let t6 = B::lut3::<0xca>(x3, t5, t4);
    let t7 = B::lut3::<0x7c>(x2, x1, x0);
    let t8 = B::lut3::<0x49>(x2, x1, x0);
    let t9 = B::lut3::<0xca>(x3, t8, t7);
    let t10 = B::lut3::<0xe8>(x2, x1, x0);
    let t11 = B::lut3::<0x56>(x2, x1, x0);
    let t12 = B::lut3::<0xca>(x3, t11, t10);
    let t13 = B::lut3::<0xb6>(x2, x1, x0);
    let t14 = B::lut3::<0x64>(x2, x1, x0);
    let t15 = B::lut3::<0xca>(x3, t14, t13);
    [t6, t9, t12, t15]
}

#[inline(always)]
pub(super) fn inverse_s4<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x56>(x0, x1, x2);
    let t5 = B::lut3::<0xb4>(x1, x3, t4);
    let t6 = B::lut3::<0x78>(x0, x3, t5);
    let t7 = B::lut3::<0x87>(t4, t5, t6);
    let t8 = B::lut3::<0x96>(x3, t4, t6);
    let t9 = B::lut3::<0x2d>(t6, t7, t8);
    let t10 = B::lut3::<0xe1>(t5, t6, t9);
    [t7, t10, t9, t8]
}

#[inline(always)]
pub(super) fn inverse_s5<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x26>(x0, x1, x2);
    let t5 = B::lut3::<0x95>(x0, x3, t4);
    let t6 = B::lut3::<0xc6>(x0, x2, x3);
    let t7 = B::lut3::<0xd2>(x0, x1, t5);
    let t8 = B::lut3::<0x69>(x1, t6, t7);
    let t9 = B::lut3::<0x93>(t5, t6, t7);
    let t10 = B::lut3::<0x2d>(t7, t8, t9);
    [t8, t9, t10, t5]
}

#[inline(always)]
pub(super) fn inverse_s6<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x9c>(x0, x1, x2);
    let t5 = B::lut3::<0x66>(x0, x2, x3);
    let t6 = B::lut3::<0x69>(x0, t4, t5);
    let t7 = B::lut3::<0x4e>(x0, x2, x3);
    let t8 = B::lut3::<0x87>(t4, t6, t7);
    let t9 = B::lut3::<0x96>(x3, t4, t7);
    let t10 = B::lut3::<0x39>(x1, t7, t9);
    let t11 = B::lut3::<0x66>(x0, t9, t10);
    [t10, t6, t8, t11]
}

#[inline(always)]
pub(super) fn inverse_s7<B: Bits>([x0, x1, x2, x3]: [B; 4]) -> [B; 4] {
    let t4 = B::lut3::<0x6e>(x0, x1, x2);
    let t5 = B::lut3::<0x46>(x0, x2, x3);
    let t6 = B::lut3::<0x4b>(x0, t4, t5);
    let t7 = B::lut3::<0xe0>(x1, x2, x3);
    let t8 = B::lut3::<0x69>(x0, t5, t7);
    let t9 = B::lut3::<0x6c>(x0, x3, t6);
    let t10 = B::lut3::<0x62>(t4, t8, t9);
    let t11 = B::lut3::<0xd2>(t5, t7, t9);
    [t6, t8, t10, t11]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proposal, appendix A.5.
    const BOXES: [[u8; 16]; 8] = [
        [3, 8, 15, 1, 10, 6, 5, 11, 14, 13, 4, 2, 7, 0, 9, 12],
        [15, 12, 2, 7, 9, 0, 5, 10, 1, 11, 14, 8, 6, 13, 3, 4],
        [8, 6, 7, 9, 3, 12, 10, 15, 13, 1, 14, 4, 0, 11, 5, 2],
        [0, 15, 11, 8, 12, 9, 6, 3, 13, 1, 2, 4, 10, 7, 5, 14],
        [1, 15, 8, 3, 12, 0, 11, 6, 2, 5, 4, 10, 9, 14, 7, 13],
        [15, 5, 2, 11, 4, 10, 9, 12, 0, 3, 14, 8, 13, 6, 7, 1],
        [7, 2, 12, 5, 8, 4, 6, 11, 14, 9, 1, 15, 13, 3, 10, 0],
        [1, 13, 15, 0, 14, 8, 2, 11, 7, 4, 12, 10, 9, 3, 5, 6],
    ];

    type Circuit = fn([u32; 4]) -> [u32; 4];

    /// What a circuit makes of each of the 16 nibbles.
    fn table(circuit: Circuit) -> [u8; 16] {
        std::array::from_fn(|nibble| {
            let input = std::array::from_fn(|bit| (nibble as u32 >> bit & 1).wrapping_neg());
            circuit(input).iter().enumerate().map(|(bit, word)| ((word & 1) as u8) << bit).sum()
        })
    }

    #[test]
    fn circuits_are_the_boxes_and_their_inverses() {
        let circuits: [Circuit; 8] = [s0, s1, s2, s3, s4, s5, s6, s7];
        let inverses: [Circuit; 8] =
            [inverse_s0, inverse_s1, inverse_s2, inverse_s3, inverse_s4, inverse_s5, inverse_s6, inverse_s7];
        for ((expected, circuit), inverse) in BOXES.iter().zip(circuits).zip(inverses) {
            assert_eq!(table(circuit), *expected);
            let undone = table(inverse);
            assert!((0..16).all(|nibble| undone[usize::from(expected[nibble])] == nibble as u8));
        }
    }
}
