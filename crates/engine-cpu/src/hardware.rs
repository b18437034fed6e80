//! What this CPU has.

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

/// How good this CPU is at AES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// AES on vectors of blocks.
    VectorAes,
    /// AES on single blocks.
    Aes,
    /// No instructions for AES.
    Portable,
}

impl Tier {
    /// Of the CPU this runs on.
    pub(crate) fn detect() -> Tier {
        match (aes_instructions(), vector_aes()) {
            (true, true) => Tier::VectorAes,
            (true, false) => Tier::Aes,
            (false, _) => Tier::Portable,
        }
    }

    pub(crate) fn engine_name(self) -> &'static str {
        match self {
            Tier::VectorAes => "cpu-vaes",
            Tier::Aes => "cpu-aes",
            Tier::Portable => "cpu",
        }
    }
}
