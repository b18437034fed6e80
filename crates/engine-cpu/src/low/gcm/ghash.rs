//! GHASH as POLYVAL (RFC 8452 appendix A) on four blocks in a register. The
//! products of a whole group of blocks are added before they are reduced.

use std::arch::x86_64::*;

use strongroom_engine::Tag;

use super::{HASHING, LONG, SHORT, Stride, WIDTH};
use crate::kernel::Block;
use crate::low::aes::vectors::AesVector;
use crate::low::cpu::Vaes512;
use crate::low::polyval::reduced;
use crate::low::vector::{V128, V512};
use crate::low::wipe::wipe;
use crate::polyval::times_x;

/// Blocks whose products are added before they are reduced: of whole strides, in
/// which as many registers are hashed after each round.
const GROUP: usize = 128;
const _: () = assert!(GROUP.is_multiple_of(LONG * WIDTH) && LONG.is_multiple_of(SHORT));
const _: () = assert!(SHORT.is_multiple_of(HASHING));
/// The place of the first power.
const FIRST_POWER: usize = GROUP;
/// Powers and zeros.
const POWERS: usize = FIRST_POWER + 1 + SHORT * WIDTH;

/// Powers of the hash key: one for each block of a group and for the lengths
/// behind it, the highest first, and zeros, by which what a short stride does
/// not have is multiplied. Numbers are little-endian, as the CPU is. Aligned as
/// registers are, so that those of a group of 128 blocks lie in a line of the
/// cache each.
#[repr(align(64))]
pub(super) struct Powers {
    whole: [Block; POWERS],
    /// The sum of both halves in the lower one (Karatsuba's middle factor).
    middle: [Block; POWERS],
}

impl Drop for Powers {
    fn drop(&mut self) {
        wipe(&mut self.whole);
        wipe(&mut self.middle);
    }
}

impl Powers {
    /// Room for them.
    pub(super) fn none() -> Powers {
        Powers { whole: [[0; 16]; POWERS], middle: [[0; 16]; POWERS] }
    }

    /// Those of a hash key: in their place, so that no copy stays on the stack.
    #[inline(always)]
    pub(super) fn fill(&mut self, token: Vaes512, hash_key: &Block) {
        let mut powers = first_powers(token, hash_key);
        let sixteenth = V512::splat_block(token, &block_of(powers[3], 0));
        for place in (1..=FIRST_POWER).rev().skip(15).step_by(16) {
            for (register, four) in powers.iter().enumerate() {
                let place = place + 16 - WIDTH - register * WIDTH;
                four.store_blocks(&mut self.whole[place..]);
                halves_added(token, *four).store_blocks(&mut self.middle[place..]);
            }
            // A closure would not be compiled with the kernel's features.
            for four in &mut powers {
                *four = times_each(token, *four, sixteenth);
            }
        }
        // One more than whole registers.
        self.whole[0] = block_of(powers[0], WIDTH - 1);
        self.middle[0] = block_of(halves_added(token, powers[0]), WIDTH - 1);
    }
}

/// Sixteen powers of a hash key from the first on, the lowest last in the first
/// register.
#[inline(always)]
fn first_powers(token: Vaes512, hash_key: &Block) -> [V512; 4] {
    let four = first_four(token, hash_key);
    let fourth = V512::splat_block(token, &block_of(four, 0));
    let eight = times_each(token, four, fourth);
    let eighth = V512::splat_block(token, &block_of(eight, 0));
    [four, eight, times_each(token, four, eighth), times_each(token, eight, eighth)]
}

/// The fourth power to the first.
#[inline(always)]
fn first_four(token: Vaes512, hash_key: &Block) -> V512 {
    let key = times_x(u128::from_be_bytes(*hash_key));
    let first = V128::splat_block(token.into(), &key.to_le_bytes());
    let second = times(token, first, first);
    let mut powers = [[0; 16]; WIDTH];
    first.store_blocks(&mut powers[3..]);
    second.store_blocks(&mut powers[2..]);
    times(token, second, first).store_blocks(&mut powers[1..]);
    times(token, second, second).store_blocks(&mut powers);
    V512::load_blocks(token, &powers)
}

#[inline(always)]
fn block_of(four: V512, place: usize) -> Block {
    let mut blocks = [[0; 16]; WIDTH];
    four.store_blocks(&mut blocks);
    blocks[place]
}

/// In each block's lower half the sum of both (Karatsuba's middle factor).
#[inline(always)]
fn halves_added(_token: Vaes512, four: V512) -> V512 {
    // SAFETY: the token proves the instructions.
    unsafe {
        let sums = _mm512_xor_si512(four.0, _mm512_shuffle_epi32::<0x4e>(four.0));
        V512(_mm512_maskz_mov_epi64(0x55, sums))
    }
}

/// The products of POLYVAL, block by block.
#[inline(always)]
fn times_each(_token: Vaes512, a: V512, b: V512) -> V512 {
    let polynomial = 0xc200_0000_0000_0000_u64.cast_signed();
    // SAFETY: the token proves the instructions.
    unsafe {
        let polynomial = _mm512_set_epi64(polynomial, 1, polynomial, 1, polynomial, 1, polynomial, 1);
        let low = _mm512_clmulepi64_epi128::<0x00>(a.0, b.0);
        let high = _mm512_clmulepi64_epi128::<0x11>(a.0, b.0);
        let middle = _mm512_xor_si512(
            _mm512_clmulepi64_epi128::<0x01>(a.0, b.0),
            _mm512_clmulepi64_epi128::<0x10>(a.0, b.0),
        );
        let low = _mm512_xor_si512(low, _mm512_bslli_epi128::<8>(middle));
        let high = _mm512_xor_si512(high, _mm512_bsrli_epi128::<8>(middle));
        let product = _mm512_clmulepi64_epi128::<0x10>(low, polynomial);
        let folded = _mm512_xor_si512(_mm512_shuffle_epi32::<0x4e>(low), product);
        let product = _mm512_clmulepi64_epi128::<0x10>(folded, polynomial);
        let folded = _mm512_xor_si512(_mm512_shuffle_epi32::<0x4e>(folded), product);
        V512(_mm512_xor_si512(high, folded))
    }
}

/// Eight powers of a hash key, the highest first, and zeros behind them: what
/// short messages take.
pub(super) struct FewPowers {
    whole: [Block; FEW_POWERS + WIDTH],
    middle: [Block; FEW_POWERS + WIDTH],
}

/// Blocks whose products are added before they are reduced, where few powers
/// are there.
pub(super) const FEW_POWERS: usize = 8;

impl Drop for FewPowers {
    fn drop(&mut self) {
        wipe(&mut self.whole);
        wipe(&mut self.middle);
    }
}

impl FewPowers {
    /// Room for them.
    pub(super) fn none() -> FewPowers {
        FewPowers { whole: [[0; 16]; FEW_POWERS + WIDTH], middle: [[0; 16]; FEW_POWERS + WIDTH] }
    }

    #[inline(always)]
    fn from(&self, token: Vaes512, place: usize) -> [V512; 2] {
        let whole = V512::load_blocks(token, &self.whole[place..]);
        [whole, V512::load_blocks(token, &self.middle[place..])]
    }

    /// Those of a hash key: in their place, so that no copy stays on the stack.
    #[inline(always)]
    pub(super) fn fill(&mut self, token: Vaes512, hash_key: &Block) {
        let four = first_four(token, hash_key);
        let eight = times_each(token, four, V512::splat_block(token, &block_of(four, 0)));
        for (place, register) in [(0, eight), (WIDTH, four)] {
            register.store_blocks(&mut self.whole[place..]);
            halves_added(token, register).store_blocks(&mut self.middle[place..]);
        }
    }
}

/// The product of POLYVAL.
#[inline(always)]
fn times(token: Vaes512, a: V128, b: V128) -> V128 {
    // SAFETY: the token proves the instructions.
    unsafe {
        let low = _mm_clmulepi64_si128::<0x00>(a.0, b.0);
        let high = _mm_clmulepi64_si128::<0x11>(a.0, b.0);
        let crossed = [_mm_clmulepi64_si128::<0x01>(a.0, b.0), _mm_clmulepi64_si128::<0x10>(a.0, b.0)];
        V128(reduced(token.into(), low, _mm_xor_si128(crossed[0], crossed[1]), high))
    }
}

/// Products that are not reduced yet, of four blocks side by side.
#[derive(Clone, Copy)]
struct Products {
    low: V512,
    middle: V512,
    high: V512,
}

impl Products {
    #[inline(always)]
    fn none(token: Vaes512) -> Products {
        let zero = V512::splat_block(token, &[0; 16]);
        Products { low: zero, middle: zero, high: zero }
    }

    /// Adds those of four blocks with their powers, `onto` being added to the
    /// first block.
    #[inline(always)]
    fn add(&mut self, token: Vaes512, blocks: V512, [whole, middle]: [V512; 2], onto: V128) {
        let blocks = blocks.reversed(token);
        // SAFETY: the token proves the instructions.
        unsafe {
            let blocks = _mm512_xor_si512(blocks.0, first_of_four(token, onto).0);
            let halves = _mm512_xor_si512(blocks, _mm512_shuffle_epi32::<0x4e>(blocks));
            let low = _mm512_clmulepi64_epi128::<0x00>(blocks, whole.0);
            let high = _mm512_clmulepi64_epi128::<0x11>(blocks, whole.0);
            let middle = _mm512_clmulepi64_epi128::<0x00>(halves, middle.0);
            self.low = self.low.xor_with(V512(low));
            self.high = self.high.xor_with(V512(high));
            self.middle = self.middle.xor_with(V512(middle));
        }
    }

    /// The sum of all four, reduced.
    #[inline(always)]
    fn hash(&self, token: Vaes512) -> V128 {
        // SAFETY: the token proves the instructions.
        unsafe {
            let low = lanes_added(token, self.low);
            let high = lanes_added(token, self.high);
            let middle = lanes_added(token, self.middle);
            let middle = _mm_xor_si128(middle, _mm_xor_si128(low, high));
            V128(reduced(token.into(), low, middle, high))
        }
    }
}

#[inline(always)]
fn lanes_added(_token: Vaes512, lanes: V512) -> __m128i {
    // SAFETY: the token proves the instructions.
    unsafe {
        let half = _mm256_xor_si256(_mm512_castsi512_si256(lanes.0), _mm512_extracti64x4_epi64::<1>(lanes.0));
        _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
    }
}

/// The block, and zeros behind it.
#[inline(always)]
fn first_of_four(_token: Vaes512, block: V128) -> V512 {
    // SAFETY: the token proves the instructions.
    V512(unsafe { _mm512_zextsi128_si512(block.0) })
}

/// Adds whole blocks to a hash.
#[inline(always)]
pub(super) fn absorbed(token: Vaes512, powers: &FewPowers, hash: u128, blocks: &[Block]) -> u128 {
    let zero = V128::splat_block(token.into(), &[0; 16]);
    let mut state = V128::splat_block(token.into(), &hash.to_le_bytes());
    for group in blocks.chunks(FEW_POWERS) {
        let mut sum = Products::none(token);
        let mut place = FEW_POWERS - group.len();
        let (fours, rest) = group.as_chunks::<WIDTH>();
        for four in fours {
            sum.add(token, V512::load_blocks(token, four), powers.from(token, place), state);
            (place, state) = (place + WIDTH, zero);
        }
        if !rest.is_empty() {
            // Zeros stand behind the first power, and nothing comes of them.
            sum.add(token, loaded_behind(token, 0, rest.as_flattened()), powers.from(token, place), state);
        }
        state = sum.hash(token);
    }
    let mut hash = [[0; 16]];
    state.store_blocks(&mut hash);
    u128::from_le_bytes(hash[0])
}

/// At most four blocks of bytes behind so many zeros, with zeros behind them.
///
/// # Panics
/// If there are none, or they are too many.
#[inline(always)]
fn loaded_behind(_token: Vaes512, zeros: usize, bytes: &[u8]) -> V512 {
    assert!(!bytes.is_empty() && zeros + bytes.len() <= WIDTH * 16, "a part of a register");
    let places = u64::MAX >> (64 - bytes.len()) << zeros;
    // SAFETY: the token proves the instruction. It reads at `places` alone,
    // which are those of `bytes`, as just seen.
    V512(unsafe { _mm512_maskz_loadu_epi8(places, bytes.as_ptr().wrapping_sub(zeros).cast()) })
}

/// Four blocks, and their powers and middle factors.
pub(super) type Register<'a> = (&'a [Block; WIDTH], &'a [Block; WIDTH], &'a [Block; WIDTH]);

/// A stride to be hashed, with the powers of its blocks.
pub(super) struct Pending<'a, const R: usize> {
    blocks: &'a Stride<R>,
    whole: &'a Stride<R>,
    middle: &'a Stride<R>,
    /// What is added to its first block.
    pub(super) onto: V128,
}

impl<'a, const R: usize> Pending<'a, R> {
    #[inline(always)]
    pub(super) fn registers(&self) -> impl Iterator<Item = Register<'a>> + use<'a, R> {
        let registers = self.blocks.iter().zip(self.whole).zip(self.middle);
        registers.map(|((blocks, whole), middle)| (blocks, whole, middle))
    }
}

/// The hash of one message, a group of blocks at a time.
pub(super) struct Hash<'k> {
    token: Vaes512,
    powers: &'k Powers,
    /// Of the groups that are complete, and of the associated data.
    state: V128,
    /// Of the group that is not.
    sum: Products,
    /// Blocks of the message.
    blocks: usize,
    /// Blocks that come behind these: the lengths, or none.
    behind: usize,
    /// Those before the stride that comes next.
    done: usize,
}

impl<'k> Hash<'k> {
    /// Begins with the associated data, zeros behind its last block.
    #[inline(always)]
    pub(super) fn begin(token: Vaes512, powers: &'k Powers, ad: &[u8], data_len: usize) -> Hash<'k> {
        let zero = V128::splat_block(token.into(), &[0; 16]);
        let sum = Products::none(token);
        let mut hash =
            Hash { token, powers, state: zero, sum, blocks: data_len.div_ceil(16), behind: 1, done: 0 };
        // Four blocks at a time; those that are missing stand before the first.
        let blocks = ad.len().div_ceil(16);
        let mut missing = (blocks.next_multiple_of(WIDTH) - blocks) * 16;
        let mut rest = ad;
        while !rest.is_empty() {
            let (four, others) = rest.split_at(rest.len().min(WIDTH * 16 - missing));
            let mut sum = Products::none(token);
            // Where blocks are missing nothing was hashed before.
            let powers = hash.powers_from(FIRST_POWER + 1 - WIDTH);
            sum.add(token, loaded_behind(token, missing, four), powers, hash.state);
            hash.state = sum.hash(token);
            (rest, missing) = (others, 0);
        }
        hash
    }

    /// Goes on from a hash, with so many whole blocks and no lengths behind.
    #[inline(always)]
    pub(super) fn resume(token: Vaes512, powers: &'k Powers, hash: u128, blocks: usize) -> Hash<'k> {
        let state = V128::splat_block(token.into(), &hash.to_le_bytes());
        Hash { token, powers, state, sum: Products::none(token), blocks, behind: 0, done: 0 }
    }

    /// The hash, once all blocks have been added, of which there are some.
    #[inline(always)]
    pub(super) fn paused(&self) -> u128 {
        let mut hash = [[0; 16]];
        self.sum.hash(self.token).store_blocks(&mut hash);
        u128::from_le_bytes(hash[0])
    }

    #[inline(always)]
    fn powers_from(&self, place: usize) -> [V512; 2] {
        [&self.powers.whole, &self.powers.middle]
            .map(|powers| V512::load_blocks(self.token, &powers[place..]))
    }

    /// The stride that comes next; zeros stand behind a short one.
    #[inline(always)]
    pub(super) fn next<'a, const R: usize>(&self, blocks: &'a Stride<R>) -> Pending<'a, R>
    where
        'k: 'a,
    {
        let in_group = self.done % GROUP;
        let left = self.blocks - (self.done - in_group);
        // Behind the last group come the lengths.
        let place =
            if left <= GROUP { FIRST_POWER + 1 - self.behind - left } else { FIRST_POWER + 1 - GROUP }
                + in_group;
        let [whole, middle] = [&self.powers.whole, &self.powers.middle].map(|powers| {
            let (registers, _) = powers[place..].as_chunks();
            registers.first_chunk().expect("zeros stand behind")
        });
        let zero = V128::splat_block(self.token.into(), &[0; 16]);
        Pending { blocks, whole, middle, onto: if in_group == 0 { self.state } else { zero } }
    }

    /// Adds the products of one register of a stride. `onto` is zero after it.
    #[inline(always)]
    pub(super) fn add(&mut self, (blocks, whole, middle): Register<'_>, onto: &mut V128) {
        let token = self.token;
        let powers = [V512::load_blocks(token, whole), V512::load_blocks(token, middle)];
        self.sum.add(token, V512::load_blocks(token, blocks), powers, *onto);
        *onto = V128::splat_block(token.into(), &[0; 16]);
    }

    /// All products of a stride of so many registers have been added.
    #[inline(always)]
    pub(super) fn added(&mut self, registers: usize) {
        self.done += registers * WIDTH;
        if self.done.is_multiple_of(GROUP) && self.done < self.blocks {
            self.state = self.sum.hash(self.token);
            self.sum = Products::none(self.token);
        }
    }

    /// Adds a stride with nothing beside it.
    #[inline(always)]
    pub(super) fn add_alone<const R: usize>(&mut self, blocks: &Stride<R>) {
        let mut pending = self.next(blocks);
        for register in pending.registers() {
            self.add(register, &mut pending.onto);
        }
        self.added(R);
    }

    /// The tag, once everything has been added.
    #[inline(always)]
    pub(super) fn tag(mut self, mask: &Block, ad_len: usize, data_len: usize) -> Tag {
        let lengths = ((ad_len as u128 * 8) << 64) | (data_len as u128 * 8);
        let lengths = first_of_four(self.token, V128::splat_block(self.token.into(), &lengths.to_be_bytes()));
        let zero = V128::splat_block(self.token.into(), &[0; 16]);
        let onto = if self.blocks == 0 { self.state } else { zero };
        // Zeros stand behind the first power.
        let powers = self.powers_from(FIRST_POWER);
        self.sum.add(self.token, lengths, powers, onto);
        let mut hash = [[0; 16]];
        self.sum.hash(self.token).store_blocks(&mut hash);
        (u128::from_le_bytes(hash[0]) ^ u128::from_be_bytes(*mask)).to_be_bytes()
    }
}
