//! One block in a register of NEON, which every AArch64 CPU has: there is no
//! token to ask for.

use std::arch::aarch64::*;

use super::lut3::{self, Gates};
use super::{Bits, Vector};
use crate::kernel::Block;

/// The proof of NEON, which the architecture gives to all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon;

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct VNeon(uint32x4_t);

/// Declares a method that is one intrinsic of NEON.
macro_rules! intrinsic {
    ($name:ident($($argument:ident),*) = $body:expr) => {
        #[inline(always)]
        fn $name(self, $($argument: VNeon),*) -> VNeon {
            // SAFETY: NEON is part of AArch64.
            VNeon(unsafe { $body(self.0, $($argument.0),*) })
        }
    };
}

impl Gates for VNeon {
    intrinsic!(and(other) = vandq_u32);
    intrinsic!(or(other) = vorrq_u32);
    intrinsic!(xor(other) = veorq_u32);
    intrinsic!(and_not(other) = vbicq_u32);
    intrinsic!(not() = vmvnq_u32);
}

impl Bits for VNeon {
    #[inline(always)]
    fn lut3<const TABLE: i32>(a: VNeon, b: VNeon, c: VNeon) -> VNeon {
        lut3::by_operations::<VNeon, TABLE>(a, b, c)
    }

    #[inline(always)]
    fn xor(self, other: VNeon) -> VNeon {
        Gates::xor(self, other)
    }

    #[inline(always)]
    fn rotate_left<const N: i32, const M: i32>(self) -> VNeon {
        // SAFETY: NEON is part of AArch64.
        VNeon(unsafe { vsriq_n_u32::<M>(vshlq_n_u32::<N>(self.0), self.0) })
    }

    #[inline(always)]
    fn shift_left<const N: u32>(self) -> VNeon {
        // SAFETY: NEON is part of AArch64.
        VNeon(unsafe { vshlq_u32(self.0, vdupq_n_s32(N as i32)) })
    }
}

impl Vector for VNeon {
    type Token = Neon;
    const BLOCKS: usize = 1;

    #[inline(always)]
    fn load(_token: Neon, blocks: &[Block]) -> VNeon {
        assert!(!blocks.is_empty(), "a register's worth of blocks");
        // SAFETY: NEON is part of AArch64; 16 bytes are readable, as just seen.
        VNeon(unsafe { vreinterpretq_u32_u8(vld1q_u8(blocks.as_ptr().cast())) })
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        assert!(!blocks.is_empty(), "a register's worth of blocks");
        // SAFETY: NEON is part of AArch64; 16 bytes are writable, as just seen.
        unsafe { vst1q_u8(blocks.as_mut_ptr().cast(), vreinterpretq_u8_u32(self.0)) }
    }

    #[inline(always)]
    fn splat(_token: Neon, word: u32) -> VNeon {
        // SAFETY: NEON is part of AArch64.
        VNeon(unsafe { vdupq_n_u32(word) })
    }

    intrinsic!(unpack_low_words(other) = vzip1q_u32);
    intrinsic!(unpack_high_words(other) = vzip2q_u32);
    intrinsic!(unpack_low_halves(other) = low_halves);
    intrinsic!(unpack_high_halves(other) = high_halves);
}

#[inline]
#[target_feature(enable = "neon")]
fn low_halves(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
    vreinterpretq_u32_u64(vzip1q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)))
}

#[inline]
#[target_feature(enable = "neon")]
fn high_halves(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
    vreinterpretq_u32_u64(vzip2q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)))
}
