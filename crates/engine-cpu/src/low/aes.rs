//! AES (FIPS 197) with the CPU's instructions for it, on one, two or four
//! blocks in a register, eight registers at a time. Constant time, as the
//! instructions are.

mod modes;
pub(super) mod vectors;

use std::arch::x86_64::*;

use strongroom_engine::SharedBytes;
use vectors::AesVector;

use super::cpu::{AesNi, Vaes256, Vaes512};
use super::vector::{V128, V256, V512};
use super::wipe::wipe;
use crate::kernel::{ACROSS_UNIT, Block, Code, Fused, Kernel, by_chunks};

/// Registers worked on side by side, to hide the latency of a round.
const REGISTERS: usize = 8;

/// Blocks that are not worth a wider register.
const FEW: usize = 8;

/// Round keys of both directions.
pub(crate) struct RoundKeys {
    /// As expanded, the first `rounds + 1` of them.
    encrypting: [Block; 15],
    /// For the equivalent inverse cipher (FIPS 197 section 5.3.5).
    decrypting: [Block; 15],
    rounds: usize,
}

impl Drop for RoundKeys {
    fn drop(&mut self) {
        wipe(&mut self.encrypting);
        wipe(&mut self.decrypting);
    }
}

impl RoundKeys {
    /// For a key of 16, 24 or 32 bytes.
    pub(super) fn new(token: AesNi, key: &[u8]) -> RoundKeys {
        // SAFETY: the token proves the features that are enabled.
        unsafe { expanded(token, key) }
    }

    #[inline(always)]
    fn encrypting(&self) -> &[Block] {
        &self.encrypting[..=self.rounds]
    }

    /// The first `K` of those that encrypt: all of them, when the key has so
    /// many.
    #[inline(always)]
    pub(super) fn first<const K: usize>(&self) -> &[Block; K] {
        self.encrypting.first_chunk().expect("no key has more than fifteen")
    }

    /// Rounds of the cipher: 10, 12 or 14.
    pub(super) fn rounds(&self) -> usize {
        self.rounds
    }

    #[inline(always)]
    fn decrypting(&self) -> &[Block] {
        &self.decrypting[..=self.rounds]
    }
}

/// FIPS 197 section 5.2.
#[target_feature(enable = "aes,pclmulqdq,ssse3,sse4.1")]
fn expanded(token: AesNi, key: &[u8]) -> RoundKeys {
    let key_words = key.len() / 4;
    let rounds = key_words + 6;
    let mut encrypting = [[0; 16]; 15];
    match key.len() {
        16 => expanded_128(token, key, &mut encrypting),
        32 => expanded_256(token, key, &mut encrypting),
        _ => word_by_word(token, key, rounds, &mut encrypting),
    }
    let mut decrypting = [[0; 16]; 15];
    for round in 0..=rounds {
        let key = encrypting[rounds - round];
        let outer = round == 0 || round == rounds;
        decrypting[round] = if outer { key } else { inverse_mix_columns(token, key) };
    }
    RoundKeys { encrypting, decrypting, rounds }
}

/// Four words from the four `before`, which are behind those `from` whose last
/// is substituted, and turned when they begin a key's length.
#[inline(always)]
fn next_words<const TURN: bool>(token: AesNi, before: V128, from: V128, constant: u8) -> V128 {
    // SAFETY: the token proves AES, SSSE3 and SSE2.
    unsafe {
        let last = match TURN {
            true => _mm_shuffle_epi8(from.0, _mm_set1_epi32(0x0c0f_0e0d)),
            false => _mm_shuffle_epi32::<0xff>(from.0),
        };
        let substituted = _mm_aesenclast_si128(last, _mm_set1_epi32(constant.into()));
        let sums = _mm_xor_si128(before.0, _mm_slli_si128::<4>(before.0));
        let sums = _mm_xor_si128(sums, _mm_slli_si128::<8>(sums));
        let _ = token;
        V128(_mm_xor_si128(sums, substituted))
    }
}

#[inline(always)]
fn expanded_128(token: AesNi, key: &[u8], encrypting: &mut [Block; 15]) {
    let (blocks, _) = key.as_chunks();
    let mut words = V128::load_blocks(token, blocks);
    let mut constant = 1u8;
    words.store_blocks(encrypting);
    let mut at = 1;
    while at <= 10 {
        words = next_words::<true>(token, words, words, constant);
        constant = (constant << 1) ^ ((constant >> 7) * 0x1b);
        words.store_blocks(&mut encrypting[at..]);
        at += 1;
    }
}

#[inline(always)]
fn expanded_256(token: AesNi, key: &[u8], encrypting: &mut [Block; 15]) {
    let (blocks, _) = key.as_chunks();
    let (mut even, mut odd) = (V128::load_blocks(token, blocks), V128::load_blocks(token, &blocks[1..]));
    let mut constant = 1u8;
    even.store_blocks(encrypting);
    odd.store_blocks(&mut encrypting[1..]);
    let mut at = 2;
    while at < 15 {
        even = next_words::<true>(token, even, odd, constant);
        constant <<= 1;
        even.store_blocks(&mut encrypting[at..]);
        if at + 1 < 15 {
            odd = next_words::<false>(token, odd, even, 0);
            odd.store_blocks(&mut encrypting[at + 1..]);
        }
        at += 2;
    }
}

/// For a key whose words are no whole blocks.
#[inline(always)]
fn word_by_word(token: AesNi, key: &[u8], rounds: usize, encrypting: &mut [Block; 15]) {
    let key_words = key.len() / 4;
    let mut words = [0u32; 60];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut constant = 1u8;
    for i in key_words..4 * (rounds + 1) {
        let mut word = words[i - 1];
        if i % key_words == 0 {
            word = substitute(token, word).rotate_right(8) ^ u32::from(constant);
            constant <<= 1;
        }
        words[i] = words[i - key_words] ^ word;
    }
    for (key, words) in encrypting.iter_mut().zip(words.as_chunks::<4>().0) {
        for (bytes, word) in key.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
    wipe(&mut words);
}

/// SubWord: the last round of AES leaves four equal columns where they are.
#[inline(always)]
fn substitute(_token: AesNi, word: u32) -> u32 {
    // SAFETY: the token proves AES and SSE2.
    unsafe {
        let columns = _mm_set1_epi32(word.cast_signed());
        _mm_cvtsi128_si32(_mm_aesenclast_si128(columns, _mm_setzero_si128())).cast_unsigned()
    }
}

#[inline(always)]
fn inverse_mix_columns(_token: AesNi, key: Block) -> Block {
    let mut mixed = [0; 16];
    // SAFETY: the token proves AES and SSE2; both pointers are to 16 bytes.
    unsafe {
        let key = _mm_loadu_si128(key.as_ptr().cast());
        _mm_storeu_si128(mixed.as_mut_ptr().cast(), _mm_aesimc_si128(key));
    }
    mixed
}

/// A key schedule and the proof of the instructions that use it.
pub(crate) struct Aes<Token> {
    keys: RoundKeys,
    token: Token,
}

impl<Token: Copy + Into<AesNi>> Aes<Token> {
    /// For a key of 16, 24 or 32 bytes.
    pub(crate) fn new(token: Token, key: &[u8]) -> Aes<Token> {
        Aes { keys: RoundKeys::new(token.into(), key), token }
    }
}

/// Encrypts the registers, each block by itself.
#[inline(always)]
pub(super) fn encrypt_registers<V: AesVector, const N: usize>(
    token: V::AesToken,
    keys: &[Block],
    state: &mut [V; N],
) {
    let last = keys.len() - 1;
    let key = V::splat_block(token, &keys[0]);
    for register in state.iter_mut() {
        *register = register.xor_with(key);
    }
    for key in &keys[1..last] {
        let key = V::splat_block(token, key);
        for register in state.iter_mut() {
            *register = register.encrypt_round(token, key);
        }
    }
    let key = V::splat_block(token, &keys[last]);
    for register in state.iter_mut() {
        *register = register.encrypt_last(token, key);
    }
}

/// Decrypts the registers, each block by itself.
#[inline(always)]
fn decrypt_registers<V: AesVector, const N: usize>(token: V::AesToken, keys: &[Block], state: &mut [V; N]) {
    let last = keys.len() - 1;
    let key = V::splat_block(token, &keys[0]);
    for register in state.iter_mut() {
        *register = register.xor_with(key);
    }
    for key in &keys[1..last] {
        let key = V::splat_block(token, key);
        for register in state.iter_mut() {
            *register = register.decrypt_round(token, key);
        }
    }
    let key = V::splat_block(token, &keys[last]);
    for register in state.iter_mut() {
        *register = register.decrypt_last(token, key);
    }
}

#[inline(always)]
fn load<V: AesVector>(token: V::AesToken, blocks: &[Block]) -> [V; REGISTERS] {
    let mut state = [V::load_blocks(token, blocks); REGISTERS];
    let mut i = 1;
    while i < REGISTERS {
        state[i] = V::load_blocks(token, &blocks[i * V::WIDTH..]);
        i += 1;
    }
    state
}

#[inline(always)]
fn store<V: AesVector>(state: [V; REGISTERS], blocks: &mut [Block]) {
    let mut i = 0;
    while i < REGISTERS {
        state[i].store_blocks(&mut blocks[i * V::WIDTH..]);
        i += 1;
    }
}

/// The blocks of [`REGISTERS`] registers, each by itself.
#[inline(always)]
fn each_block<V: AesVector>(token: V::AesToken, keys: &RoundKeys, encrypt: bool, blocks: &mut [Block]) {
    let mut state = load::<V>(token, blocks);
    match encrypt {
        true => encrypt_registers(token, keys.encrypting(), &mut state),
        false => decrypt_registers(token, keys.decrypting(), &mut state),
    }
    store(state, blocks);
}

/// The first `N` blocks, each by itself, in a register each.
#[inline(always)]
fn exactly<const N: usize>(token: AesNi, keys: &RoundKeys, encrypt: bool, blocks: &mut [Block]) {
    let mut state = [V128::load_blocks(token, blocks); N];
    let mut i = 1;
    while i < N {
        state[i] = V128::load_blocks(token, &blocks[i..]);
        i += 1;
    }
    match encrypt {
        true => encrypt_registers(token, keys.encrypting(), &mut state),
        false => decrypt_registers(token, keys.decrypting(), &mut state),
    }
    let mut i = 0;
    while i < N {
        state[i].store_blocks(&mut blocks[i..]);
        i += 1;
    }
}

/// The first `N` blocks in XTS, in a register each.
#[inline(always)]
fn masked<const N: usize>(
    token: AesNi,
    keys: &RoundKeys,
    encrypt: bool,
    tweak: &Block,
    blocks: &mut [Block],
) {
    let mut masks = [V128::splat_block(token, tweak); N];
    let mut state = [masks[0].xor_with(V128::load_blocks(token, blocks)); N];
    let mut i = 1;
    while i < N {
        masks[i] = masks[i - 1].times_x_width(token);
        state[i] = masks[i].xor_with(V128::load_blocks(token, &blocks[i..]));
        i += 1;
    }
    match encrypt {
        true => encrypt_registers(token, keys.encrypting(), &mut state),
        false => decrypt_registers(token, keys.decrypting(), &mut state),
    }
    let mut i = 0;
    while i < N {
        state[i].xor_with(masks[i]).store_blocks(&mut blocks[i..]);
        i += 1;
    }
}

/// The kernel for one width: the entry points enable the features, and are
/// reached with their token alone.
macro_rules! width {
    ($token:ident, $vector:ident, $blocks:literal, $features:literal, $names:ident, $code:literal) => {
        mod $names {
            use super::*;

            #[target_feature(enable = $features)]
            pub(super) fn each(token: $token, keys: &RoundKeys, encrypt: bool, blocks: &mut [Block]) {
                if $blocks > FEW && blocks.len() <= FEW {
                    return by_chunks::<FEW>(blocks, |chunk| {
                        each_block::<V128>(token.into(), keys, encrypt, chunk)
                    });
                }
                by_chunks::<$blocks>(blocks, |chunk| each_block::<$vector>(token, keys, encrypt, chunk));
            }

            #[target_feature(enable = $features)]
            pub(super) fn xts(
                token: $token,
                keys: &RoundKeys,
                encrypt: bool,
                tweak: &Block,
                sector: &mut [Block],
            ) {
                match encrypt {
                    true => modes::xts::<$vector, $blocks, true>(token, keys, tweak, sector),
                    false => modes::xts::<$vector, $blocks, false>(token, keys, tweak, sector),
                }
            }

            /// # Safety
            /// As [`modes::xts_across`].
            #[target_feature(enable = $features)]
            pub(super) unsafe fn xts_across(
                token: $token,
                keys: &RoundKeys,
                tweaks: &[Block],
                sector_blocks: usize,
                from: *const u8,
                to: &mut [Block],
            ) {
                // SAFETY: the caller's.
                unsafe { modes::xts_across::<$vector, $blocks>(token, keys, tweaks, sector_blocks, from, to) }
            }

            #[target_feature(enable = $features)]
            pub(super) fn cbc_decrypt(token: $token, keys: &RoundKeys, iv: &Block, sector: &mut [Block]) {
                modes::cbc_decrypt::<$vector, $blocks>(token, keys, iv, sector);
            }

            /// At most [`FEW`] blocks, no more work than they are.
            #[target_feature(enable = $features)]
            pub(super) fn few(token: $token, keys: &RoundKeys, encrypt: bool, blocks: &mut [Block]) {
                let token = token.into();
                match blocks.len() {
                    0 => {}
                    1 => exactly::<1>(token, keys, encrypt, blocks),
                    2 => exactly::<2>(token, keys, encrypt, blocks),
                    3 => exactly::<3>(token, keys, encrypt, blocks),
                    4 => exactly::<4>(token, keys, encrypt, blocks),
                    5 => exactly::<5>(token, keys, encrypt, blocks),
                    6 => exactly::<6>(token, keys, encrypt, blocks),
                    7 => exactly::<7>(token, keys, encrypt, blocks),
                    _ => exactly::<FEW>(token, keys, encrypt, blocks),
                }
            }

            /// XTS of at most [`FEW`] blocks, no more work than they are.
            #[target_feature(enable = $features)]
            pub(super) fn xts_few(
                token: $token,
                keys: &RoundKeys,
                encrypt: bool,
                tweak: &Block,
                blocks: &mut [Block],
            ) {
                let token = token.into();
                match blocks.len() {
                    0 => {}
                    1 => masked::<1>(token, keys, encrypt, tweak, blocks),
                    2 => masked::<2>(token, keys, encrypt, tweak, blocks),
                    3 => masked::<3>(token, keys, encrypt, tweak, blocks),
                    4 => masked::<4>(token, keys, encrypt, tweak, blocks),
                    5 => masked::<5>(token, keys, encrypt, tweak, blocks),
                    6 => masked::<6>(token, keys, encrypt, tweak, blocks),
                    7 => masked::<7>(token, keys, encrypt, tweak, blocks),
                    _ => masked::<FEW>(token, keys, encrypt, tweak, blocks),
                }
            }

            /// Serial, so that a wider register would be no faster.
            #[target_feature(enable = $features)]
            pub(super) fn cbc_encrypt(token: $token, keys: &RoundKeys, iv: &mut Block, sector: &mut [Block]) {
                modes::cbc_encrypt::<V128>(token.into(), keys, iv, sector);
            }

            #[target_feature(enable = $features)]
            pub(super) fn ctr(token: $token, keys: &RoundKeys, iv: &Block, sector: &mut [Block]) {
                modes::ctr::<$vector, $blocks>(token, keys, iv, sector);
            }
        }

        impl Kernel for Aes<$token> {
            fn code(&self) -> Code {
                Code::constant_time($code)
            }

            fn encrypt(&self, blocks: &mut [Block]) {
                // SAFETY: the token proves the features that are enabled.
                unsafe { $names::each(self.token, &self.keys, true, blocks) }
            }

            fn decrypt(&self, blocks: &mut [Block]) {
                // SAFETY: the token proves the features that are enabled.
                unsafe { $names::each(self.token, &self.keys, false, blocks) }
            }

            fn fused(&self) -> Option<&dyn Fused> {
                Some(self)
            }
        }

        impl Fused for Aes<$token> {
            fn xts(&self, encrypt: bool, tweak: &Block, sector: &mut [Block]) {
                // SAFETY: the token proves the features that are enabled.
                unsafe { $names::xts(self.token, &self.keys, encrypt, tweak, sector) }
            }

            fn xts_across(&self, tweaks: &[Block], sector_len: usize, from: SharedBytes<'_>, to: &mut [u8]) {
                const { assert!(ACROSS_UNIT.is_multiple_of($blocks * 16)) };
                assert!(sector_len.is_multiple_of(ACROSS_UNIT) && to.len() == tweaks.len() * sector_len);
                assert_eq!(from.len(), to.len(), "both sides have the same length");
                let (to, _) = to.as_chunks_mut();
                // SAFETY: the token proves the features that are enabled. At
                // `from` are as many bytes as `to` has, as just seen.
                unsafe {
                    $names::xts_across(self.token, &self.keys, tweaks, sector_len / 16, from.as_ptr(), to)
                }
            }

            fn cbc_decrypt(&self, iv: &Block, sector: &mut [Block]) {
                // SAFETY: the token proves the features that are enabled.
                unsafe { $names::cbc_decrypt(self.token, &self.keys, iv, sector) }
            }

            fn few(&self, encrypt: bool, blocks: &mut [Block]) {
                assert!(blocks.len() <= FEW, "a few blocks");
                // SAFETY: the token proves the features that are enabled.
                unsafe { $names::few(self.token, &self.keys, encrypt, blocks) }
            }

            fn xts_few(&self, encrypt: bool, tweak: &Block, blocks: &mut [Block]) {
                assert!(blocks.len() <= FEW, "a few blocks");
                // SAFETY: the token proves the features that are enabled.
                unsafe { $names::xts_few(self.token, &self.keys, encrypt, tweak, blocks) }
            }

            fn cbc_encrypt(&self, iv: &mut Block, sector: &mut [Block]) {
                // SAFETY: the token proves the features that are enabled.
                unsafe { $names::cbc_encrypt(self.token, &self.keys, iv, sector) }
            }

            fn ctr(&self, iv: &Block, sector: &mut [Block]) {
                // SAFETY: the token proves the features that are enabled.
                unsafe { $names::ctr(self.token, &self.keys, iv, sector) }
            }
        }
    };
}

width!(AesNi, V128, 8, "aes,pclmulqdq,ssse3,sse4.1", by_one, "own, AES-NI");
width!(Vaes256, V256, 16, "vaes,vpclmulqdq,aes,pclmulqdq,avx2,ssse3,sse4.1", by_two, "own, VAES with AVX2");
width!(
    Vaes512,
    V512,
    32,
    "vaes,vpclmulqdq,aes,pclmulqdq,avx512f,avx512bw,avx512dq,avx512vl,avx2,ssse3,sse4.1",
    by_four,
    "own, VAES with AVX-512"
);
