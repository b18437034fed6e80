//! What this CPU has, and which kernels each tier takes for it.

use std::sync::Arc;

use strongroom_engine::{Aead, Algorithm, BlockCipher};

use crate::by_block;
use crate::chacha20_poly1305::ChaCha20Poly1305;
use crate::counter_poly1305;
use crate::gcm::{GcmKey, OnePass};
use crate::kernel::{Code, Kernel};
#[cfg(target_arch = "aarch64")]
use crate::low::{serpent::Serpent, vector::Neon};
use crate::polyval::{self, Polyval};
use crate::stream::gcm::GcmRuns;
use crate::twofish;

/// True when the CPU has instructions for AES and for the carry-less
/// multiplication of GCM. Without them AES is slow and needs tables or
/// bitslicing to stay constant-time; XChaCha20-Poly1305 is the better suite.
#[must_use]
pub fn aes_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    let present =
        std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let present =
        std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let present = false;
    present
}

/// True when AES works on several blocks of one vector register.
fn vector_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    let present =
        std::arch::is_x86_feature_detected!("vaes") && std::arch::is_x86_feature_detected!("vpclmulqdq");
    #[cfg(not(target_arch = "x86_64"))]
    let present = false;
    present
}

/// How good a CPU is at AES. Every CPU can do what lower tiers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// No instructions for AES, carry-less multiplication or GF(2^8).
    Portable,
    /// AES on single blocks: AES-NI, or the extension of ARMv8.
    Aes,
    /// AES on vectors of blocks: VAES, with AVX2 or AVX-512.
    VectorAes,
}

impl Tier {
    /// Every tier, the best first.
    pub const ALL: [Tier; 3] = [Tier::VectorAes, Tier::Aes, Tier::Portable];

    /// The best of this CPU.
    #[must_use]
    pub fn best() -> Tier {
        match (aes_instructions(), vector_aes()) {
            (true, true) => Tier::VectorAes,
            (true, false) => Tier::Aes,
            (false, _) => Tier::Portable,
        }
    }

    /// The name of the tier's engine.
    #[must_use]
    pub const fn engine_name(self) -> &'static str {
        match self {
            Tier::VectorAes => "cpu-vaes",
            Tier::Aes => "cpu-aes",
            Tier::Portable => "cpu-portable",
        }
    }

    /// The instructions that it needs, in the words of this architecture.
    #[must_use]
    pub const fn requirement(self) -> &'static str {
        match self {
            Tier::VectorAes if cfg!(target_arch = "x86_64") => "VAES and VPCLMULQDQ with AVX2 or AVX-512",
            Tier::VectorAes => "VAES and VPCLMULQDQ, which x86-64 alone has",
            Tier::Aes if cfg!(target_arch = "x86_64") => "AES-NI and PCLMULQDQ",
            Tier::Aes if cfg!(target_arch = "aarch64") => {
                "FEAT_AES and FEAT_PMULL of the ARMv8 cryptography extension"
            }
            Tier::Aes => "AES instructions of x86-64 or of ARMv8 in AArch64",
            Tier::Portable => "nothing",
        }
    }

    /// What code that takes several of its kernels is called.
    pub(crate) const fn kernels(self) -> &'static str {
        match self {
            Tier::VectorAes => "own, the kernels with VAES and GFNI",
            Tier::Aes => "own, the kernels with AES-NI",
            Tier::Portable => "own, the portable kernels",
        }
    }

    /// True when the tier has the algorithm, if its self-test passes. libaegis
    /// picks its instructions by the CPU, so that only the best tier has it.
    pub(crate) fn has(self, algorithm: Algorithm) -> bool {
        let by_libaegis = matches!(algorithm, Algorithm::Aead(Aead::Aegis256X2 | Aead::Aegis256X4));
        !by_libaegis || self == Tier::best()
    }

    /// Which code computes the algorithm on this tier, here; `None` when it
    /// does not have it.
    pub(crate) fn code(self, algorithm: Algorithm) -> Option<Code> {
        if !self.has(algorithm) {
            return None;
        }
        match algorithm {
            Algorithm::Aead(Aead::XChaCha20Poly1305 | Aead::ChaCha20Poly1305) => {
                Some(ChaCha20Poly1305::of_this_cpu().code())
            }
            Algorithm::Aead(Aead::Aegis256X2 | Aead::Aegis256X4) => Some(Code::LIBAEGIS),
            Algorithm::Aead(Aead::XAes256Gcm | Aead::Aes256Gcm) => Some(GcmKey::new(self, &[0; 32]).code()),
            Algorithm::Aead(Aead::Serpent256Poly1305) => counter_poly1305::SERPENT.code(self),
            Algorithm::Aead(Aead::Cascade) => counter_poly1305::CASCADE.code(self),
            Algorithm::Sector(sector) => self.kernel(sector.cipher, &[0; 32]).map(|kernel| kernel.code()),
        }
    }

    /// Sets a key of POLYVAL.
    pub(crate) fn polyval(self, key: u128) -> Box<dyn Polyval> {
        #[cfg(target_arch = "x86_64")]
        if let Some(polyval) = x86_64::polyval(self, key) {
            return polyval;
        }
        Box::new(polyval::Portable::new(key))
    }

    /// Sets a key of AES-256-GCM on the tier's code that does it in one pass.
    pub(crate) fn gcm_in_one_pass(self, key: &[u8; 32]) -> Option<Box<dyn OnePass>> {
        #[cfg(target_arch = "x86_64")]
        return x86_64::gcm_in_one_pass(self, key);
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = key;
            None
        }
    }

    /// Sets a key of AES-GCM of any length on the tier's code that does runs
    /// of it in one pass.
    pub(crate) fn gcm_runs(self, key: &[u8]) -> Option<Arc<dyn GcmRuns>> {
        #[cfg(target_arch = "x86_64")]
        return x86_64::gcm_runs(self, key);
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = key;
            None
        }
    }

    /// Sets a key of a block cipher on this tier's kernel.
    pub(crate) fn kernel(self, cipher: BlockCipher, key: &[u8]) -> Option<Box<dyn Kernel>> {
        #[cfg(target_arch = "x86_64")]
        if let Some(kernel) = x86_64::kernel(self, cipher, key) {
            return Some(kernel);
        }
        #[cfg(target_arch = "aarch64")]
        if cipher == BlockCipher::Serpent {
            return Some(Box::new(Serpent::new(Neon, key)));
        }
        match cipher {
            BlockCipher::Aes => by_block::aes(key),
            BlockCipher::Serpent => by_block::serpent(key),
            BlockCipher::Twofish => Some(Box::new(twofish::Tables::new(key))),
            BlockCipher::Camellia => by_block::camellia(key),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Arc, BlockCipher, GcmRuns, Kernel, OnePass, Polyval, Tier};
    use crate::low::aes::Aes;
    use crate::low::bitsliced::Bitsliced;
    use crate::low::camellia::Camellia;
    use crate::low::cpu::{AesAvx2, AesNi, Avx2, Avx512, Avx512Gfni, Vaes256, Vaes512};
    use crate::low::gcm::{Gcm512, Runs512};
    use crate::low::polyval::Pclmul;
    use crate::low::serpent::Serpent;
    use crate::low::twofish::Twofish;

    /// The own kernel for a cipher, where the CPU has its instructions.
    pub(super) fn kernel(tier: Tier, cipher: BlockCipher, key: &[u8]) -> Option<Box<dyn Kernel>> {
        match (cipher, tier) {
            (BlockCipher::Aes, Tier::VectorAes) => {
                wide(|| Vaes512::detect().map(|token| Aes::new(token, key)))
                    .or_else(|| wide(|| Vaes256::detect().map(|token| Aes::new(token, key))))
            }
            (BlockCipher::Aes, Tier::Aes) => wide(|| AesNi::detect().map(|token| Aes::new(token, key))),
            (BlockCipher::Aes, Tier::Portable) => {
                wide(|| Avx512::detect().map(|token| Bitsliced::new(token, key)))
                    .or_else(|| wide(|| Avx2::detect().map(|token| Bitsliced::new(token, key))))
            }
            (BlockCipher::Serpent, Tier::Aes) => serpent_avx2(key),
            (BlockCipher::Serpent, _) => {
                wide(|| Avx512::detect().map(|token| Serpent::new(token, key))).or_else(|| serpent_avx2(key))
            }
            (BlockCipher::Twofish, Tier::VectorAes) => {
                wide(|| Avx512Gfni::detect().map(|token| Twofish::new(token, key)))
            }
            (BlockCipher::Twofish, _) => None,
            (BlockCipher::Camellia, Tier::VectorAes) => {
                wide(|| Avx512Gfni::detect().map(|token| Camellia::new(token, key)))
                    .or_else(|| camellia_avx2(key))
            }
            (BlockCipher::Camellia, Tier::Aes) => camellia_avx2(key),
            (BlockCipher::Camellia, Tier::Portable) => None,
        }
    }

    pub(super) fn polyval(tier: Tier, key: u128) -> Option<Box<dyn Polyval>> {
        match tier {
            Tier::Portable => None,
            Tier::Aes | Tier::VectorAes => {
                AesNi::detect().map(|token| Box::new(Pclmul::new(token, key)) as Box<dyn Polyval>)
            }
        }
    }

    pub(super) fn gcm_in_one_pass(tier: Tier, key: &[u8; 32]) -> Option<Box<dyn OnePass>> {
        match tier {
            Tier::VectorAes => Vaes512::detect().map(|token| Gcm512::new(token, key) as Box<dyn OnePass>),
            Tier::Aes | Tier::Portable => None,
        }
    }

    pub(super) fn gcm_runs(tier: Tier, key: &[u8]) -> Option<Arc<dyn GcmRuns>> {
        match tier {
            Tier::VectorAes => {
                let runs: Arc<dyn GcmRuns> = Runs512::new(Vaes512::detect()?, key);
                Some(runs)
            }
            Tier::Aes | Tier::Portable => None,
        }
    }

    fn wide<K: Kernel + 'static>(make: impl FnOnce() -> Option<K>) -> Option<Box<dyn Kernel>> {
        make().map(|kernel| Box::new(kernel) as Box<dyn Kernel>)
    }

    fn serpent_avx2(key: &[u8]) -> Option<Box<dyn Kernel>> {
        wide(|| Avx2::detect().map(|token| Serpent::new(token, key)))
    }

    fn camellia_avx2(key: &[u8]) -> Option<Box<dyn Kernel>> {
        wide(|| AesAvx2::detect().map(|token| Camellia::new(token, key)))
    }
}
