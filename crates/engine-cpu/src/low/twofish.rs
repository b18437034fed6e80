//! Twofish on 64 blocks at once. The four key-dependent S-boxes lie in
//! registers, four to a box, and are looked up by permuting bytes; the matrix
//! is two affine maps. Constant time: no address and no branch depends on key
//! or data.

use std::arch::x86_64::*;

use super::cpu::Avx512Gfni;
use super::vector::{Bits, V512, Vector, transpose_words};
use crate::kernel::{Block, Code, Kernel, by_chunks};
use crate::twofish::schedule::Schedule;

/// Multiplication by 0x5b and 0xef in the field of MDS, as GFNI has matrices.
const TIMES_5B: i64 = 0x050b_1629_53a2_4182;
const TIMES_EF: i64 = 0x070f_1f39_72e3_c183;

/// Registers of one word of 64 blocks.
type Words = [V512; 4];

/// A key schedule and the proof of the instructions that use it.
pub(crate) struct Twofish {
    schedule: Schedule,
    token: Avx512Gfni,
}

impl Twofish {
    /// For a key of 16, 24 or 32 bytes.
    pub(crate) fn new(token: Avx512Gfni, key: &[u8]) -> Twofish {
        Twofish { schedule: Schedule::new(key), token }
    }
}

/// Every byte looked up in a box.
#[inline(always)]
fn look_up(_token: Avx512Gfni, table: &[u8; 256], index: V512) -> V512 {
    // SAFETY: the token proves AVX-512 with VBMI; the four loads read the 256
    // bytes of the table and need no alignment.
    V512(unsafe {
        let parts: *const __m512i = table.as_ptr().cast();
        let (first, second) = (_mm512_loadu_si512(parts), _mm512_loadu_si512(parts.add(1)));
        let (third, fourth) = (_mm512_loadu_si512(parts.add(2)), _mm512_loadu_si512(parts.add(3)));
        let low = _mm512_permutex2var_epi8(first, index.0, second);
        let high = _mm512_permutex2var_epi8(third, index.0, fourth);
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(index.0), low, high)
    })
}

#[inline(always)]
fn times<const MATRIX: i64>(_token: Avx512Gfni, bytes: V512) -> V512 {
    // SAFETY: the token proves AVX-512 with GFNI.
    V512(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(bytes.0, _mm512_set1_epi64(MATRIX)) })
}

#[inline(always)]
fn add(a: V512, b: V512) -> V512 {
    // SAFETY: a value of this type exists only with a token of AVX-512.
    V512(unsafe { _mm512_add_epi32(a.0, b.0) })
}

/// Byte `4a + b` of every block of 16 bytes to place `4b + a`.
#[inline(always)]
fn turn_bytes(words: V512) -> V512 {
    // SAFETY: a value of this type exists only with a token of AVX-512.
    V512(unsafe {
        let order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        _mm512_shuffle_epi8(words.0, _mm512_broadcast_i32x4(order))
    })
}

/// Four registers of words as four of bytes 0 to 3 of the words.
#[inline(always)]
fn to_planes(words: Words) -> Words {
    let [a, b, c, d] = words;
    transpose_words([turn_bytes(a), turn_bytes(b), turn_bytes(c), turn_bytes(d)])
}

#[inline(always)]
fn to_words(planes: Words) -> Words {
    let [a, b, c, d] = transpose_words(planes);
    [turn_bytes(a), turn_bytes(b), turn_bytes(c), turn_bytes(d)]
}

/// The function g on 64 words, whose bytes are turned by `TURN` places first.
#[inline(always)]
fn g<const TURN: usize>(token: Avx512Gfni, schedule: &Schedule, words: Words) -> Words {
    let planes = to_planes(words);
    let mut y = planes;
    let mut by_5b = planes;
    let mut by_ef = planes;
    let mut i = 0;
    while i < 4 {
        y[i] = look_up(token, &schedule.boxes[i], planes[(i + 4 - TURN) % 4]);
        by_5b[i] = times::<TIMES_5B>(token, y[i]);
        by_ef[i] = times::<TIMES_EF>(token, y[i]);
        i += 1;
    }
    to_words([
        xor4(y[0], by_ef[1], by_5b[2], by_5b[3]),
        xor4(by_5b[0], by_ef[1], by_ef[2], y[3]),
        xor4(by_ef[0], by_5b[1], y[2], by_ef[3]),
        xor4(by_ef[0], y[1], by_ef[2], by_5b[3]),
    ])
}

#[inline(always)]
fn xor4(a: V512, b: V512, c: V512, d: V512) -> V512 {
    V512::lut3::<0x96>(a, b, c).xor(d)
}

/// F, under the two subkeys of a round.
#[inline(always)]
fn f(token: Avx512Gfni, schedule: &Schedule, round: usize, first: Words, second: Words) -> [Words; 2] {
    let t0 = g::<0>(token, schedule, first);
    let t1 = g::<1>(token, schedule, second);
    let k0 = V512::splat(token.without_gfni(), schedule.subkeys[2 * round + 8]);
    let k1 = V512::splat(token.without_gfni(), schedule.subkeys[2 * round + 9]);
    let (mut f0, mut f1) = (t0, t1);
    let mut i = 0;
    while i < 4 {
        let sum = add(t0[i], t1[i]);
        f0[i] = add(sum, k0);
        f1[i] = add(add(sum, t1[i]), k1);
        i += 1;
    }
    [f0, f1]
}

/// One round of encryption onto words `c` and `d`.
#[inline(always)]
fn round(f: [Words; 2], c: &mut Words, d: &mut Words) {
    let mut i = 0;
    while i < 4 {
        c[i] = c[i].xor(f[0][i]).rotate_left::<31, 1>();
        d[i] = d[i].rotate_left::<1, 31>().xor(f[1][i]);
        i += 1;
    }
}

/// The round undone.
#[inline(always)]
fn unround(f: [Words; 2], c: &mut Words, d: &mut Words) {
    let mut i = 0;
    while i < 4 {
        c[i] = c[i].rotate_left::<1, 31>().xor(f[0][i]);
        d[i] = d[i].xor(f[1][i]).rotate_left::<31, 1>();
        i += 1;
    }
}

/// Words 0 to 3 of 64 blocks, whitened.
#[inline(always)]
fn load(token: Avx512Gfni, blocks: &[Block; 64], keys: &[u32]) -> [Words; 4] {
    let avx512 = token.without_gfni();
    let mut words = [[V512::splat(avx512, 0); 4]; 4];
    let mut group = 0;
    while group < 4 {
        let rows = &blocks[16 * group..];
        let of_group = transpose_words([
            V512::load(avx512, rows),
            V512::load(avx512, &rows[4..]),
            V512::load(avx512, &rows[8..]),
            V512::load(avx512, &rows[12..]),
        ]);
        let mut word = 0;
        while word < 4 {
            words[word][group] = of_group[word].xor(V512::splat(avx512, keys[word]));
            word += 1;
        }
        group += 1;
    }
    words
}

#[inline(always)]
fn store(token: Avx512Gfni, words: [Words; 4], keys: &[u32], blocks: &mut [Block; 64]) {
    let avx512 = token.without_gfni();
    let mut group = 0;
    while group < 4 {
        let mut of_group = [words[0][group], words[1][group], words[2][group], words[3][group]];
        let mut word = 0;
        while word < 4 {
            of_group[word] = of_group[word].xor(V512::splat(avx512, keys[word]));
            word += 1;
        }
        let rows = transpose_words(of_group);
        let mut i = 0;
        while i < 4 {
            rows[i].store(&mut blocks[16 * group + 4 * i..]);
            i += 1;
        }
        group += 1;
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni,avx2,ssse3,sse4.1")]
fn encrypt(token: Avx512Gfni, schedule: &Schedule, blocks: &mut [Block]) {
    by_chunks::<64>(blocks, |chunk| {
        let [mut a, mut b, mut c, mut d] = load(token, chunk, &schedule.subkeys[..4]);
        for pair in 0..8 {
            round(f(token, schedule, 2 * pair, a, b), &mut c, &mut d);
            round(f(token, schedule, 2 * pair + 1, c, d), &mut a, &mut b);
        }
        store(token, [c, d, a, b], &schedule.subkeys[4..8], chunk);
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni,avx2,ssse3,sse4.1")]
fn decrypt(token: Avx512Gfni, schedule: &Schedule, blocks: &mut [Block]) {
    by_chunks::<64>(blocks, |chunk| {
        let [mut c, mut d, mut a, mut b] = load(token, chunk, &schedule.subkeys[4..8]);
        for pair in (0..8).rev() {
            unround(f(token, schedule, 2 * pair + 1, c, d), &mut a, &mut b);
            unround(f(token, schedule, 2 * pair, a, b), &mut c, &mut d);
        }
        store(token, [a, b, c, d], &schedule.subkeys[..4], chunk);
    });
}

impl Kernel for Twofish {
    fn code(&self) -> Code {
        Code::constant_time("own, AVX-512 VBMI with GFNI")
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { encrypt(self.token, &self.schedule, blocks) }
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        // SAFETY: the token proves the features that the kernel enables.
        unsafe { decrypt(self.token, &self.schedule, blocks) }
    }
}
