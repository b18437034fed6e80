//! ChaCha20 (RFC 8439) on many blocks at once.
//!
//! Large pieces lie in columns: register `i` has word `i` of sixteen blocks, and
//! the rounds move nothing. Small ones lie in rows: a register has one row of
//! four blocks, so that few blocks are not dearer than they are. Constant time:
//! no address and no branch depends on key or data.

use super::cpu::Avx512;
use super::vector::{Bits, V512, Vector, transpose_words};
use crate::chacha20::State;
use crate::kernel::Block;

/// Bytes of what [`columns`] takes.
const COLUMNS_LEN: usize = 1024;
/// Bytes of a set of rows.
const ROWS_LEN: usize = 256;

/// Counters beside each other.
const COUNT: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
/// Counters of blocks in rows.
const COUNT_ROWS: [u32; 16] = [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];

/// Sixteen blocks of ChaCha20, wiped when dropped.
#[repr(align(64))]
struct Pad([Block; 64]);

impl Pad {
    fn new() -> Pad {
        Pad([[0; 16]; 64])
    }

    fn bytes(&mut self) -> &mut [u8] {
        self.0.as_flattened_mut()
    }
}

impl Drop for Pad {
    fn drop(&mut self) {
        // By vectors, which wiping byte by byte would not be.
        self.0 = [[0; 16]; 64];
        zeroize::optimization_barrier(&self.0);
    }
}

/// RFC 8439 section 2.1.
#[inline(always)]
fn quarter_round(a: V512, b: V512, c: V512, d: V512) -> [V512; 4] {
    let a = a.add_words(b);
    let d = d.xor(a).rotate_left::<16, 16>();
    let c = c.add_words(d);
    let b = b.xor(c).rotate_left::<12, 20>();
    let a = a.add_words(b);
    let d = d.xor(a).rotate_left::<8, 24>();
    let c = c.add_words(d);
    let b = b.xor(c).rotate_left::<7, 25>();
    [a, b, c, d]
}

/// XORs a register onto the blocks from `at` on.
#[inline(always)]
fn xor_onto(token: Avx512, register: V512, data: &mut [Block], at: usize) {
    let data = &mut data[at..];
    V512::load(token, data).xor(register).store(data);
}

/// Sixteen blocks of ChaCha20, in columns.
#[inline(always)]
fn columns(token: Avx512, state: &State, counter: u32, data: &mut [Block]) {
    let words = state.words();
    let last = state.row_of(counter);
    let mut first = [V512::load_words(token, &COUNT).add_words(V512::splat(token, counter)); 16];
    for i in 0..12 {
        first[i] = V512::splat(token, words[i]);
    }
    for i in 1..4 {
        first[12 + i] = V512::splat(token, last[i]);
    }
    let mut x = first;
    macro_rules! quarter_round {
        ($a:literal $b:literal $c:literal $d:literal) => {
            [x[$a], x[$b], x[$c], x[$d]] = quarter_round(x[$a], x[$b], x[$c], x[$d]);
        };
    }
    for _ in 0..10 {
        quarter_round!(0 4 8 12);
        quarter_round!(1 5 9 13);
        quarter_round!(2 6 10 14);
        quarter_round!(3 7 11 15);
        quarter_round!(0 5 10 15);
        quarter_round!(1 6 11 12);
        quarter_round!(2 7 8 13);
        quarter_round!(3 4 9 14);
    }
    for i in 0..16 {
        x[i] = x[i].add_words(first[i]);
    }
    // Word rows of blocks; register `j` of a row has the blocks `4 n + j`.
    let a = transpose_words([x[0], x[1], x[2], x[3]]);
    let b = transpose_words([x[4], x[5], x[6], x[7]]);
    let c = transpose_words([x[8], x[9], x[10], x[11]]);
    let d = transpose_words([x[12], x[13], x[14], x[15]]);
    for j in 0..4 {
        let [first, second, third, fourth] = V512::by_rows([a[j], b[j], c[j], d[j]]);
        xor_onto(token, first, data, 4 * j);
        xor_onto(token, second, data, 4 * (4 + j));
        xor_onto(token, third, data, 4 * (8 + j));
        xor_onto(token, fourth, data, 4 * (12 + j));
    }
}

/// `4 SETS` blocks of ChaCha20, in rows.
#[inline(always)]
fn rows<const SETS: usize>(token: Avx512, state: &State, counter: u32, data: &mut [Block]) {
    let (words, _) = state.words().as_chunks::<4>();
    let mut first = [[
        V512::repeat(token, &words[0]),
        V512::repeat(token, &words[1]),
        V512::repeat(token, &words[2]),
        V512::load_words(token, &COUNT_ROWS),
    ]; SETS];
    for (set, [.., counters]) in first.iter_mut().enumerate() {
        let last = V512::repeat(token, &state.row_of(counter + (set * V512::BLOCKS) as u32));
        *counters = counters.add_words(last);
    }
    let mut x = first;
    for _ in 0..10 {
        for [a, b, c, d] in &mut x {
            [*a, *b, *c, *d] = quarter_round(*a, *b, *c, *d);
            [*b, *c, *d] = [b.reorder::<0x39>(), c.reorder::<0x4e>(), d.reorder::<0x93>()];
        }
        for [a, b, c, d] in &mut x {
            [*a, *b, *c, *d] = quarter_round(*a, *b, *c, *d);
            [*b, *c, *d] = [b.reorder::<0x93>(), c.reorder::<0x4e>(), d.reorder::<0x39>()];
        }
    }
    for (set, (x, first)) in x.into_iter().zip(first).enumerate() {
        let mut sum = x;
        for (word, first) in sum.iter_mut().zip(first) {
            *word = word.add_words(first);
        }
        for (at, register) in V512::by_rows(sum).into_iter().enumerate() {
            xor_onto(token, register, data, (4 * set + at) * V512::BLOCKS);
        }
    }
}

/// At most as many blocks as [`columns`] takes, whole sets of rows of them.
#[inline(always)]
fn sets(token: Avx512, state: &State, counter: u32, data: &mut [Block]) {
    match data.len() * 16 / ROWS_LEN {
        0 => {}
        1 => rows::<1>(token, state, counter, data),
        2 => rows::<2>(token, state, counter, data),
        3 => rows::<3>(token, state, counter, data),
        _ => columns(token, state, counter, data),
    }
}

/// XORs the keystream that begins at block `counter`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,ssse3,sse4.1")]
fn xor_avx512(token: Avx512, state: &State, mut counter: u32, data: &mut [u8]) {
    let (chunks, rest) = data.as_chunks_mut::<COLUMNS_LEN>();
    for chunk in chunks {
        columns(token, state, counter, chunk.as_chunks_mut().0);
        counter += 16;
    }
    if rest.len().is_multiple_of(ROWS_LEN) {
        return sets(token, state, counter, rest.as_chunks_mut().0);
    }
    let mut pad = Pad::new();
    pad.bytes()[..rest.len()].copy_from_slice(rest);
    let whole = rest.len().next_multiple_of(ROWS_LEN);
    sets(token, state, counter, &mut pad.0[..whole / 16]);
    rest.copy_from_slice(&pad.bytes()[..rest.len()]);
}

/// XORs the keystream that begins at block `counter`.
pub(crate) fn xor(token: Avx512, state: &State, counter: u32, data: &mut [u8]) {
    // SAFETY: the token proves the features that are enabled.
    unsafe { xor_avx512(token, state, counter, data) }
}
