//! Poly1305 (RFC 8439) over eight blocks at once, in limbs of 44 bits by
//! multiplication of 52-bit integers. A register has one limb of a block in
//! each lane, every lane is a sum of its own in powers of `r^8`, and at the end
//! each is multiplied by the power of its place. Carries go up once for four
//! registers' worth of blocks. Constant time: no address and no branch depends
//! on key or data.

use std::arch::x86_64::*;

use zeroize::{Zeroize, Zeroizing};

use super::cpu::{Avx512, Avx512Ifma};
use super::vector::bytes::Bytes;
use super::vector::{V512, Vector};
use crate::kernel::Block;
use crate::poly1305::Limbs;

/// Blocks of a register.
pub(crate) const LANES: usize = 8;

/// Most registers of blocks between carries.
const GROUPS_MAX: usize = 4;

const MASK_44: u64 = (1 << 44) - 1;
const MASK_42: u64 = (1 << 42) - 1;

/// A factor's limbs, then twenty times the second and the third, which is what
/// they count for above 2^130.
const LIMBS: usize = 5;

/// Powers of a key, wiped when dropped.
pub(crate) struct Powers {
    /// By limb and lane, what is multiplied with at the end.
    lanes: [[u64; LANES]; LIMBS],
    /// `r^8`, `r^16`, `r^24` and `r^32`.
    strides: [[u64; LIMBS]; GROUPS_MAX],
}

impl Drop for Powers {
    fn drop(&mut self) {
        self.lanes.as_flattened_mut().zeroize();
        self.strides.as_flattened_mut().zeroize();
    }
}

fn with_multiples(Limbs([a, b, c]): Limbs) -> [u64; LIMBS] {
    [a, b, c, 20 * b, 20 * c]
}

impl Powers {
    pub(crate) fn new(r: Limbs) -> Powers {
        let first = Zeroizing::new(r.powers::<LANES>());
        let strides = Zeroizing::new(first[LANES - 1].powers::<GROUPS_MAX>());
        let mut powers = Powers { lanes: [[0; LANES]; LIMBS], strides: strides.map(with_multiples) };
        for lane in 0..LANES {
            // As `limbs` has blocks in lanes: the first half in the even ones.
            let block = lane / 2 + lane % 2 * LANES / 2;
            for (limb, value) in with_multiples(first[LANES - 1 - block]).into_iter().enumerate() {
                powers.lanes[limb][lane] = value;
            }
        }
        powers
    }

    /// `r^(8 stride)` in all lanes.
    #[inline(always)]
    fn stride(&self, token: Avx512, stride: usize) -> [V512; LIMBS] {
        let [a, b, c, d, e] = &self.strides[stride - 1];
        let splat = |limb: &u64| V512::splat_quad(token, *limb);
        [splat(a), splat(b), splat(c), splat(d), splat(e)]
    }

    /// What lanes are multiplied with at the end.
    #[inline(always)]
    fn at_end(&self, token: Avx512) -> [V512; LIMBS] {
        let [a, b, c, d, e] = &self.lanes;
        let load = |limb: &[u64; LANES]| V512::load_quads(token, limb);
        [load(a), load(b), load(c), load(d), load(e)]
    }
}

/// Low and high parts of three limbs, the high ones counting 2^52 times.
#[derive(Clone, Copy)]
struct Products {
    low: [V512; 3],
    high: [V512; 3],
}

/// Adds the low and the high 52 bits of the product of the low 52 bits.
#[inline(always)]
fn multiply_add(_token: Avx512Ifma, low: &mut V512, high: &mut V512, a: V512, b: V512) {
    // SAFETY: the token proves the instructions.
    unsafe {
        low.0 = _mm512_madd52lo_epu64(low.0, a.0, b.0);
        high.0 = _mm512_madd52hi_epu64(high.0, a.0, b.0);
    }
}

impl Products {
    /// Adds `a b`.
    #[inline(always)]
    fn add(
        &mut self,
        token: Avx512Ifma,
        [a0, a1, a2]: [V512; 3],
        [b0, b1, b2, above1, above2]: [V512; LIMBS],
    ) {
        let Products { low: [l0, l1, l2], high: [h0, h1, h2] } = self;
        multiply_add(token, l0, h0, a0, b0);
        multiply_add(token, l1, h1, a0, b1);
        multiply_add(token, l2, h2, a0, b2);
        multiply_add(token, l0, h0, a1, above2);
        multiply_add(token, l1, h1, a1, b0);
        multiply_add(token, l2, h2, a1, b1);
        multiply_add(token, l0, h0, a2, above1);
        multiply_add(token, l1, h1, a2, above2);
        multiply_add(token, l2, h2, a2, b0);
    }

    /// Their limbs, the first and third exact, the second less than a thousand
    /// above its 44 bits: with a block added all stay below 2^46, and a product
    /// of 52-bit integers takes them. Four products have low parts below 2^56
    /// and high ones below 2^46, so that nothing here leaves 64 bits.
    #[inline(always)]
    fn carried(self, token: Avx512) -> [V512; 3] {
        let Products { low: [l0, l1, l2], high: [h0, h1, h2] } = self;
        let mask_44 = V512::splat_quad(token, MASK_44);
        // 2^52 is 2^8 in the next limb; above the third it is 2^10.
        let l1 = l1.add_quads(h0.quads_left::<8>()).add_quads(l0.quads_right::<44>());
        let l2 = l2.add_quads(h1.quads_left::<8>()).add_quads(l1.quads_right::<44>());
        let above = h2.quads_left::<10>().add_quads(l2.quads_right::<42>());
        let l0 = l0.and(mask_44).add_quads(above).add_quads(above.quads_left::<2>());
        let l1 = l1.and(mask_44).add_quads(l0.quads_right::<44>());
        [l0.and(mask_44), l1, l2.and(V512::splat_quad(token, MASK_42))]
    }
}

/// The limbs of eight blocks.
#[inline(always)]
fn limbs(token: Avx512, blocks: &[Block; LANES]) -> [V512; 3] {
    let (first, second) = (V512::load(token, blocks), V512::load(token, &blocks[V512::BLOCKS..]));
    let (low, high) = (first.unpack_low_halves(second), first.unpack_high_halves(second));
    let mask = V512::splat_quad(token, MASK_44);
    let middle = low.quads_right::<44>().or(high.quads_left::<20>());
    [low.and(mask), middle.and(mask), high.quads_right::<24>().or(V512::splat_quad(token, 1 << 40))]
}

/// The sums times `r^(8 N)`, and `N` groups of blocks times the powers after
/// that, the last times one.
#[inline(always)]
fn step<const N: usize>(
    token: Avx512Ifma,
    powers: &Powers,
    sums: [V512; 3],
    groups: &[[Block; LANES]],
) -> [V512; 3] {
    let wide = token.without_ifma();
    let zero = V512::splat_quad(wide, 0);
    let mut products = Products { low: limbs(wide, &groups[N - 1]), high: [zero; 3] };
    for (at, group) in groups[..N - 1].iter().enumerate() {
        products.add(token, limbs(wide, group), powers.stride(wide, N - 1 - at));
    }
    // Last, since it is what has to be waited for.
    products.add(token, sums, powers.stride(wide, N));
    products.carried(wide)
}

#[target_feature(enable = "avx512ifma,avx512f,avx512bw,avx512dq,avx512vl,avx2,ssse3,sse4.1")]
fn sum_avx512(token: Avx512Ifma, powers: &Powers, sum: Limbs, blocks: &[[Block; LANES]]) -> Limbs {
    let wide = token.without_ifma();
    let Some((first, rest)) = blocks.split_first() else { return sum };
    // The first block is in the first lane.
    let mut sums = limbs(wide, first);
    for (limb, value) in sums.iter_mut().zip(sum.0) {
        *limb = limb.add_quads(V512::load_quads(wide, &[value, 0, 0, 0, 0, 0, 0, 0]));
    }
    let (uneven, fours) = rest.as_rchunks::<GROUPS_MAX>();
    sums = match uneven.len() {
        0 => sums,
        1 => step::<1>(token, powers, sums, uneven),
        2 => step::<2>(token, powers, sums, uneven),
        _ => step::<3>(token, powers, sums, uneven),
    };
    for four in fours {
        sums = step::<GROUPS_MAX>(token, powers, sums, four);
    }
    let zero = V512::splat_quad(wide, 0);
    let mut products = Products { low: [zero; 3], high: [zero; 3] };
    products.add(token, sums, powers.at_end(wide));
    let [a, b, c] = products.carried(wide);
    let total = |limb: V512| u128::from(limb.quads().into_iter().sum::<u64>());
    Limbs::carried([total(a), total(b), total(c)])
}

/// The sum with blocks added, [`LANES`] at a time.
pub(crate) fn sum(token: Avx512Ifma, powers: &Powers, sum: Limbs, blocks: &[[Block; LANES]]) -> Limbs {
    // SAFETY: the token proves the features that are enabled.
    unsafe { sum_avx512(token, powers, sum, blocks) }
}
