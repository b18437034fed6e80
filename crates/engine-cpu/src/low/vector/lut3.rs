//! Three-input Boolean functions by functions of two inputs, where the CPU has
//! no instruction for them.

/// Bits combined two by two.
pub(super) trait Gates: Copy {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// `self` where `other` is not.
    fn and_not(self, other: Self) -> Self;
    fn not(self) -> Self;
}

/// The function whose value for bits `a`, `b`, `c` is bit `4a + 2b + c` of
/// `TABLE`, with the fewest operations that there are.
///
/// # Panics
/// When compiled for a table that no circuit here uses.
#[inline(always)]
pub(super) fn by_operations<G: Gates, const TABLE: i32>(a: G, b: G, c: G) -> G {
    match TABLE {
        0x16 => a.or(b).xor(c.or(a.and(b))),
        0x1c => a.xor(b).and_not(a.and(c)),
        0x1e => a.xor(b.or(c)),
        0x26 => b.xor(c).and_not(a.and(b)),
        0x2a => c.and_not(a.and(b)),
        0x2d => a.not().xor(c.and_not(b)),
        0x35 => a.and_not(b).or(a.not().and_not(c)),
        0x36 => b.xor(a.or(c)),
        0x39 => b.not().xor(c.and_not(a)),
        0x3e => a.xor(b).or(c.and_not(a)),
        0x46 => b.xor(c).and_not(a.and_not(b)),
        0x49 => a.and(b.or(c.not())).xor(c.xor(b.not())),
        0x4b => a.not().xor(b.and_not(c)),
        0x4e => a.xor(c.or(a.xor(b))),
        0x52 => a.xor(c).and_not(b.and_not(a)),
        0x56 => c.xor(a.or(b)),
        0x59 => c.xor(a.or(b.not())),
        0x62 => a.or(c).and(b.xor(c)),
        0x63 => b.xor(c.or(a.not())),
        0x64 => a.or(b).and(b.xor(c)),
        0x65 => c.xor(b.or(a.not())),
        0x66 => b.xor(c),
        0x69 => a.not().xor(b.xor(c)),
        0x6a => c.xor(a.and(b)),
        0x6c => b.xor(a.and(c)),
        0x6e => b.and_not(a).or(b.xor(c)),
        0x71 => a.and(b.xor(c)).xor(b.not().and_not(c)),
        0x72 => b.xor(c.or(a.xor(b))),
        0x78 => a.xor(b.and(c)),
        0x7a => a.and_not(b).or(a.xor(c)),
        0x7c => a.xor(b).or(a.and_not(c)),
        0x87 => a.not().xor(b.and(c)),
        0x91 => a.or(b.not()).and_not(b.xor(c)),
        0x92 => a.or(c).and(c.xor(a.xor(b))),
        0x93 => a.and(c).xor(b.not()),
        0x95 => a.and(b).xor(c.not()),
        0x96 => c.xor(a.xor(b)),
        0x99 => c.xor(b.not()),
        0x9a => c.xor(a.and_not(b)),
        0x9c => b.xor(a.and_not(c)),
        0xa6 => c.xor(b.and_not(a)),
        0xa9 => c.xor(a.not().and_not(b)),
        0xb1 => a.not().xor(c.or(a.xor(b))),
        0xb4 => a.xor(b.and_not(c)),
        0xb6 => a.and_not(b).or(c.xor(a.xor(b))),
        0xb8 => a.or(b).xor(b.and_not(c)),
        0xc2 => a.or(c).and_not(a.xor(b)),
        0xc3 => b.xor(a.not()),
        0xc6 => b.xor(c.and_not(a)),
        0xc7 => a.not().xor(b.and(a.or(c))),
        0xc9 => b.xor(a.not().and_not(c)),
        0xca => a.and(b).or(c.and_not(a)),
        0xd0 => a.and_not(c.and_not(b)),
        0xd2 => a.xor(c.and_not(b)),
        0xd4 => a.or(b).and_not(c.and_not(a.and(b))),
        0xd8 => a.xor(c.and(a.xor(b))),
        0xda => a.and(b).or(a.xor(c)),
        0xe0 => a.and(b.or(c)),
        0xe1 => a.not().xor(b.or(c)),
        0xe6 => a.and(b).or(b.xor(c)),
        0xe8 => a.or(b).and(c.or(a.and(b))),
        0xe9 => a.and(b.and(c).not()).xor(c.xor(b.not())),
        _ => unreachable!("every table of the circuits is here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_compute_their_tables() {
        let tables = [
            (by_operations::<u32, 0x16>(0xf0, 0xcc, 0xaa), 0x16),
            (by_operations::<u32, 0x1c>(0xf0, 0xcc, 0xaa), 0x1c),
            (by_operations::<u32, 0x1e>(0xf0, 0xcc, 0xaa), 0x1e),
            (by_operations::<u32, 0x26>(0xf0, 0xcc, 0xaa), 0x26),
            (by_operations::<u32, 0x2a>(0xf0, 0xcc, 0xaa), 0x2a),
            (by_operations::<u32, 0x2d>(0xf0, 0xcc, 0xaa), 0x2d),
            (by_operations::<u32, 0x35>(0xf0, 0xcc, 0xaa), 0x35),
            (by_operations::<u32, 0x36>(0xf0, 0xcc, 0xaa), 0x36),
            (by_operations::<u32, 0x39>(0xf0, 0xcc, 0xaa), 0x39),
            (by_operations::<u32, 0x3e>(0xf0, 0xcc, 0xaa), 0x3e),
            (by_operations::<u32, 0x46>(0xf0, 0xcc, 0xaa), 0x46),
            (by_operations::<u32, 0x49>(0xf0, 0xcc, 0xaa), 0x49),
            (by_operations::<u32, 0x4b>(0xf0, 0xcc, 0xaa), 0x4b),
            (by_operations::<u32, 0x4e>(0xf0, 0xcc, 0xaa), 0x4e),
            (by_operations::<u32, 0x52>(0xf0, 0xcc, 0xaa), 0x52),
            (by_operations::<u32, 0x56>(0xf0, 0xcc, 0xaa), 0x56),
            (by_operations::<u32, 0x59>(0xf0, 0xcc, 0xaa), 0x59),
            (by_operations::<u32, 0x62>(0xf0, 0xcc, 0xaa), 0x62),
            (by_operations::<u32, 0x63>(0xf0, 0xcc, 0xaa), 0x63),
            (by_operations::<u32, 0x64>(0xf0, 0xcc, 0xaa), 0x64),
            (by_operations::<u32, 0x65>(0xf0, 0xcc, 0xaa), 0x65),
            (by_operations::<u32, 0x66>(0xf0, 0xcc, 0xaa), 0x66),
            (by_operations::<u32, 0x69>(0xf0, 0xcc, 0xaa), 0x69),
            (by_operations::<u32, 0x6a>(0xf0, 0xcc, 0xaa), 0x6a),
            (by_operations::<u32, 0x6c>(0xf0, 0xcc, 0xaa), 0x6c),
            (by_operations::<u32, 0x6e>(0xf0, 0xcc, 0xaa), 0x6e),
            (by_operations::<u32, 0x71>(0xf0, 0xcc, 0xaa), 0x71),
            (by_operations::<u32, 0x72>(0xf0, 0xcc, 0xaa), 0x72),
            (by_operations::<u32, 0x78>(0xf0, 0xcc, 0xaa), 0x78),
            (by_operations::<u32, 0x7a>(0xf0, 0xcc, 0xaa), 0x7a),
            (by_operations::<u32, 0x7c>(0xf0, 0xcc, 0xaa), 0x7c),
            (by_operations::<u32, 0x87>(0xf0, 0xcc, 0xaa), 0x87),
            (by_operations::<u32, 0x91>(0xf0, 0xcc, 0xaa), 0x91),
            (by_operations::<u32, 0x92>(0xf0, 0xcc, 0xaa), 0x92),
            (by_operations::<u32, 0x93>(0xf0, 0xcc, 0xaa), 0x93),
            (by_operations::<u32, 0x95>(0xf0, 0xcc, 0xaa), 0x95),
            (by_operations::<u32, 0x96>(0xf0, 0xcc, 0xaa), 0x96),
            (by_operations::<u32, 0x99>(0xf0, 0xcc, 0xaa), 0x99),
            (by_operations::<u32, 0x9a>(0xf0, 0xcc, 0xaa), 0x9a),
            (by_operations::<u32, 0x9c>(0xf0, 0xcc, 0xaa), 0x9c),
            (by_operations::<u32, 0xa6>(0xf0, 0xcc, 0xaa), 0xa6),
            (by_operations::<u32, 0xa9>(0xf0, 0xcc, 0xaa), 0xa9),
            (by_operations::<u32, 0xb1>(0xf0, 0xcc, 0xaa), 0xb1),
            (by_operations::<u32, 0xb4>(0xf0, 0xcc, 0xaa), 0xb4),
            (by_operations::<u32, 0xb6>(0xf0, 0xcc, 0xaa), 0xb6),
            (by_operations::<u32, 0xb8>(0xf0, 0xcc, 0xaa), 0xb8),
            (by_operations::<u32, 0xc2>(0xf0, 0xcc, 0xaa), 0xc2),
            (by_operations::<u32, 0xc3>(0xf0, 0xcc, 0xaa), 0xc3),
            (by_operations::<u32, 0xc6>(0xf0, 0xcc, 0xaa), 0xc6),
            (by_operations::<u32, 0xc7>(0xf0, 0xcc, 0xaa), 0xc7),
            (by_operations::<u32, 0xc9>(0xf0, 0xcc, 0xaa), 0xc9),
            (by_operations::<u32, 0xca>(0xf0, 0xcc, 0xaa), 0xca),
            (by_operations::<u32, 0xd0>(0xf0, 0xcc, 0xaa), 0xd0),
            (by_operations::<u32, 0xd2>(0xf0, 0xcc, 0xaa), 0xd2),
            (by_operations::<u32, 0xd4>(0xf0, 0xcc, 0xaa), 0xd4),
            (by_operations::<u32, 0xd8>(0xf0, 0xcc, 0xaa), 0xd8),
            (by_operations::<u32, 0xda>(0xf0, 0xcc, 0xaa), 0xda),
            (by_operations::<u32, 0xe0>(0xf0, 0xcc, 0xaa), 0xe0),
            (by_operations::<u32, 0xe1>(0xf0, 0xcc, 0xaa), 0xe1),
            (by_operations::<u32, 0xe6>(0xf0, 0xcc, 0xaa), 0xe6),
            (by_operations::<u32, 0xe8>(0xf0, 0xcc, 0xaa), 0xe8),
            (by_operations::<u32, 0xe9>(0xf0, 0xcc, 0xaa), 0xe9),
        ];
        for (computed, table) in tables {
            assert_eq!(computed & 0xff, table);
        }
    }
}
