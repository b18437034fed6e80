//! AES and the arithmetic of its modes on registers of each width.

use std::arch::x86_64::*;

use crate::kernel::Block;
use crate::low::cpu::{AesNi, Vaes256, Vaes512};
use crate::low::vector::{V128, V256, V512};

/// Loads of memory that others may write at the same time.
///
/// As plain accesses these would be data races. Each is one instruction in
/// assembly, which the compiler cannot split, repeat or leave out, and does what
/// a relaxed atomic access of each byte would be allowed to do. That is the size
/// at which safe code accesses such memory (`SharedBytes`), so no sizes mix.
mod shared {
    macro_rules! shared {
        ($register:ident, $class:ident, $type:ident, $feature:literal, $move:literal) => {
            pub(super) mod $register {
                use std::arch::{asm, x86_64::$type};

                /// # Safety
                /// A register's bytes are readable there; they need no alignment.
                #[inline]
                #[target_feature(enable = $feature)]
                pub(in super::super) unsafe fn load(from: *const u8) -> $type {
                    let value;
                    // SAFETY: it reads what the caller says is readable, and
                    // touches neither stack nor flags.
                    unsafe {
                        asm!(
                            concat!($move, " {}, [{}]"),
                            out($class) value,
                            in(reg) from,
                            options(nostack, preserves_flags, readonly),
                        );
                    }
                    value
                }
            }
        };
    }

    shared!(xmm, xmm_reg, __m128i, "sse2", "movdqu");
    shared!(ymm, ymm_reg, __m256i, "avx", "vmovdqu");
    shared!(zmm, zmm_reg, __m512i, "avx512f", "vmovdqu64");
}

/// A register of [`AesVector::WIDTH`] blocks.
pub(in crate::low) trait AesVector: Copy {
    /// The proof of its instructions.
    type AesToken: Copy;

    /// Blocks of a register.
    const WIDTH: usize;

    /// The first blocks of `blocks`.
    ///
    /// # Panics
    /// If there are fewer than [`AesVector::WIDTH`].
    fn load_blocks(token: Self::AesToken, blocks: &[Block]) -> Self;
    /// Writes the first blocks of `blocks`.
    ///
    /// # Panics
    /// If there are fewer than [`AesVector::WIDTH`].
    fn store_blocks(self, blocks: &mut [Block]);
    /// The blocks at a place that others may write meanwhile.
    ///
    /// # Safety
    /// [`AesVector::WIDTH`] blocks are readable there.
    unsafe fn load_from(token: Self::AesToken, from: *const u8) -> Self;
    /// The block in every place.
    fn splat_block(token: Self::AesToken, block: &Block) -> Self;
    fn xor_with(self, other: Self) -> Self;
    fn encrypt_round(self, token: Self::AesToken, key: Self) -> Self;
    fn encrypt_last(self, token: Self::AesToken, key: Self) -> Self;
    fn decrypt_round(self, token: Self::AesToken, key: Self) -> Self;
    fn decrypt_last(self, token: Self::AesToken, key: Self) -> Self;
    /// Sums of 64-bit words.
    fn add_words(self, other: Self) -> Self;
    /// Every block with its bytes from last to first.
    fn reversed(self, token: Self::AesToken) -> Self;
    /// Every block, a tweak of XTS, times x to the power of its place.
    fn times_x_place(self, token: Self::AesToken) -> Self;
    /// Every block, a tweak of XTS, times x^WIDTH.
    fn times_x_width(self, token: Self::AesToken) -> Self;
    /// Every block, a tweak of XTS, times x^(8 WIDTH).
    fn times_x_8_width(self, token: Self::AesToken) -> Self;
}

macro_rules! aes_vector {
    ($vector:ident, $register:ident, $token:ident, $width:literal, $carry:literal, $rest:literal,
     $load:ident $store:ident $splat:expr, $xor:ident
     $enc:ident $enclast:ident $dec:ident $declast:ident
     $add:ident $shuffle:ident $swap:expr, $and:ident
     $shift_left:ident $shift_right:ident $bytes_left:ident $bytes_right:ident $multiply:ident $by_place:expr) => {
        impl AesVector for $vector {
            type AesToken = $token;
            const WIDTH: usize = $width;

            #[inline(always)]
            fn load_blocks(_token: $token, blocks: &[Block]) -> Self {
                assert!(blocks.len() >= Self::WIDTH, "a register's worth of blocks");
                // SAFETY: the token proves the instruction; the bytes are
                // readable, as just seen, and need no alignment.
                $vector(unsafe { $load(blocks.as_ptr().cast()) })
            }

            #[inline(always)]
            fn store_blocks(self, blocks: &mut [Block]) {
                assert!(blocks.len() >= Self::WIDTH, "a register's worth of blocks");
                // SAFETY: a value of this type exists only with a token; the
                // bytes are writable, as just seen, and need no alignment.
                unsafe { $store(blocks.as_mut_ptr().cast(), self.0) }
            }

            #[inline(always)]
            unsafe fn load_from(_token: $token, from: *const u8) -> Self {
                // SAFETY: the token proves the instruction; the caller, that
                // the bytes are readable.
                $vector(unsafe { shared::$register::load(from) })
            }

            #[inline(always)]
            fn splat_block(_token: $token, block: &Block) -> Self {
                // SAFETY: the token proves the instructions; 16 bytes are read.
                $vector(unsafe { $splat(_mm_loadu_si128(block.as_ptr().cast())) })
            }

            #[inline(always)]
            fn xor_with(self, other: Self) -> Self {
                // SAFETY: a value of this type exists only with a token.
                $vector(unsafe { $xor(self.0, other.0) })
            }

            #[inline(always)]
            fn encrypt_round(self, _token: $token, key: Self) -> Self {
                // SAFETY: the token proves the instruction.
                $vector(unsafe { $enc(self.0, key.0) })
            }

            #[inline(always)]
            fn encrypt_last(self, _token: $token, key: Self) -> Self {
                // SAFETY: the token proves the instruction.
                $vector(unsafe { $enclast(self.0, key.0) })
            }

            #[inline(always)]
            fn decrypt_round(self, _token: $token, key: Self) -> Self {
                // SAFETY: the token proves the instruction.
                $vector(unsafe { $dec(self.0, key.0) })
            }

            #[inline(always)]
            fn decrypt_last(self, _token: $token, key: Self) -> Self {
                // SAFETY: the token proves the instruction.
                $vector(unsafe { $declast(self.0, key.0) })
            }

            #[inline(always)]
            fn add_words(self, other: Self) -> Self {
                // SAFETY: a value of this type exists only with a token.
                $vector(unsafe { $add(self.0, other.0) })
            }

            #[inline(always)]
            fn reversed(self, token: $token) -> Self {
                let order = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f_u128.to_le_bytes();
                // SAFETY: the token proves the instruction.
                $vector(unsafe { $shuffle(self.0, Self::splat_block(token, &order).0) })
            }

            #[inline(always)]
            fn times_x_place(self, token: $token) -> Self {
                let high = Self::splat_block(token, &(u128::MAX << 64).to_le_bytes()).0;
                let polynomial = Self::splat_block(token, &0x87_u128.to_le_bytes()).0;
                // SAFETY: the token proves the instructions.
                $vector(unsafe {
                    let (shifted, shifted_out) = $by_place(self.0);
                    let carried = $swap(shifted_out);
                    let reduced = $multiply::<0>(carried, polynomial);
                    $xor($xor(shifted, $and(carried, high)), reduced)
                })
            }

            #[inline(always)]
            fn times_x_width(self, token: $token) -> Self {
                let high = Self::splat_block(token, &(u128::MAX << 64).to_le_bytes()).0;
                let polynomial = Self::splat_block(token, &0x87_u128.to_le_bytes()).0;
                // SAFETY: the token proves the instructions.
                $vector(unsafe {
                    let carried = $swap($shift_right::<$rest>(self.0));
                    let reduced = $multiply::<0>(carried, polynomial);
                    let within = $xor($shift_left::<$carry>(self.0), $and(carried, high));
                    $xor(within, reduced)
                })
            }

            #[inline(always)]
            fn times_x_8_width(self, token: $token) -> Self {
                let polynomial = Self::splat_block(token, &0x87_u128.to_le_bytes()).0;
                // SAFETY: the token proves the instructions.
                $vector(unsafe {
                    let carried = $bytes_right::<{ 16 - $width }>(self.0);
                    $xor($bytes_left::<$width>(self.0), $multiply::<0>(carried, polynomial))
                })
            }
        }
    };
}

aes_vector!(
    V128, xmm, AesNi, 1, 1, 63,
    _mm_loadu_si128 _mm_storeu_si128 |block| block, _mm_xor_si128
    _mm_aesenc_si128 _mm_aesenclast_si128 _mm_aesdec_si128 _mm_aesdeclast_si128
    _mm_add_epi64 _mm_shuffle_epi8 |v| _mm_shuffle_epi32::<0x4e>(v), _mm_and_si128
    _mm_slli_epi64 _mm_srli_epi64 _mm_bslli_si128 _mm_bsrli_si128 _mm_clmulepi64_si128
    |block| (block, _mm_setzero_si128())
);
aes_vector!(
    V256, ymm, Vaes256, 2, 2, 62,
    _mm256_loadu_si256 _mm256_storeu_si256 |block| _mm256_broadcastsi128_si256(block), _mm256_xor_si256
    _mm256_aesenc_epi128 _mm256_aesenclast_epi128 _mm256_aesdec_epi128 _mm256_aesdeclast_epi128
    _mm256_add_epi64 _mm256_shuffle_epi8 |v| _mm256_shuffle_epi32::<0x4e>(v), _mm256_and_si256
    _mm256_slli_epi64 _mm256_srli_epi64 _mm256_bslli_epi128 _mm256_bsrli_epi128 _mm256_clmulepi64_epi128
    |block| (
        _mm256_sllv_epi64(block, _mm256_set_epi64x(1, 1, 0, 0)),
        _mm256_srlv_epi64(block, _mm256_set_epi64x(63, 63, 64, 64))
    )
);
aes_vector!(
    V512, zmm, Vaes512, 4, 4, 60,
    _mm512_loadu_si512 _mm512_storeu_si512 |block| _mm512_broadcast_i32x4(block), _mm512_xor_si512
    _mm512_aesenc_epi128 _mm512_aesenclast_epi128 _mm512_aesdec_epi128 _mm512_aesdeclast_epi128
    _mm512_add_epi64 _mm512_shuffle_epi8 |v| _mm512_shuffle_epi32::<0x4e>(v), _mm512_and_si512
    _mm512_slli_epi64 _mm512_srli_epi64 _mm512_bslli_epi128 _mm512_bsrli_epi128 _mm512_clmulepi64_epi128
    |block| (
        _mm512_sllv_epi64(block, _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0)),
        _mm512_srlv_epi64(block, _mm512_set_epi64(61, 61, 62, 62, 63, 63, 64, 64))
    )
);
