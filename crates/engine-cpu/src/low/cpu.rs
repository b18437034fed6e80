//! Proofs that this CPU has the instructions of a kernel.
//!
//! A token is made by detection alone. What is detected is what the `enable`
//! lists of the kernels name, so that calling one with its token is sound.

use std::arch::is_x86_feature_detected as has;

macro_rules! token {
    ($(#[$doc:meta])* $name:ident: $($feature:tt)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(());

        impl $name {
            /// `None` when the CPU or the system lacks one of them.
            pub(crate) fn detect() -> Option<$name> {
                ($(has!($feature))&&+).then_some($name(()))
            }
        }
    };
}

token!(
    /// AVX2, which implies SSSE3 and SSE4.1.
    Avx2: "avx2" "ssse3" "sse4.1"
);
token!(
    /// AVX-512 for words, double words and bytes.
    Avx512: "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx2" "ssse3" "sse4.1"
);
token!(
    /// AVX-512 with byte permutations and affine maps over GF(2^8).
    Avx512Gfni: "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vbmi" "gfni" "avx2" "ssse3" "sse4.1"
);
token!(
    /// AVX-512 with multiplication of 52-bit integers.
    Avx512Ifma: "avx512ifma" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx2" "ssse3" "sse4.1"
);
token!(
    /// AES on single blocks and carry-less multiplication.
    AesNi: "aes" "pclmulqdq" "ssse3" "sse4.1"
);
token!(
    /// AES on single blocks beside AVX2.
    AesAvx2: "aes" "pclmulqdq" "avx2" "ssse3" "sse4.1"
);
token!(
    /// AES and carry-less multiplication on two blocks of a register.
    Vaes256: "vaes" "vpclmulqdq" "aes" "pclmulqdq" "avx2" "ssse3" "sse4.1"
);
token!(
    /// AES and carry-less multiplication on four blocks of a register.
    Vaes512: "vaes" "vpclmulqdq" "aes" "pclmulqdq" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx2" "ssse3" "sse4.1"
);

impl Avx512Gfni {
    /// What it implies.
    #[inline(always)]
    pub(crate) fn without_gfni(self) -> Avx512 {
        Avx512(())
    }
}

impl Avx512Ifma {
    /// What it implies.
    #[inline(always)]
    pub(crate) fn without_ifma(self) -> Avx512 {
        Avx512(())
    }
}

impl AesAvx2 {
    /// What it implies.
    #[inline(always)]
    pub(crate) fn without_aes(self) -> Avx2 {
        Avx2(())
    }
}

impl From<Vaes256> for AesNi {
    #[inline(always)]
    fn from(_: Vaes256) -> AesNi {
        AesNi(())
    }
}

impl From<Vaes512> for AesNi {
    #[inline(always)]
    fn from(_: Vaes512) -> AesNi {
        AesNi(())
    }
}
