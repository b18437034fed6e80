//! What a tier is expected to do: a starting point for a scheduler, which
//! measures for itself.

use strongroom_engine::{Aead, Algorithm, BlockCipher, SectorCipher, SectorMode};

use crate::hardware::Tier;

/// Bytes per second of one thread with 64 KiB segments in cache, as measured
/// on a recent CPU. Of modes whose directions differ, the slower.
pub(crate) fn expected(tier: Tier, algorithm: Algorithm) -> u64 {
    let megabytes = match algorithm {
        Algorithm::Aead(Aead::XChaCha20Poly1305 | Aead::ChaCha20Poly1305) => 2_400,
        Algorithm::Aead(Aead::Aegis256X2) => [250, 10_000, 17_000][tier as usize],
        // Below VAES not measured: as with two lanes.
        Algorithm::Aead(Aead::Aegis256X4) => [250, 10_000, 40_000][tier as usize],
        Algorithm::Aead(Aead::XAes256Gcm | Aead::Aes256Gcm) => [400, 4_000, 15_000][tier as usize],
        // AMD EPYC (family 26, model 2); the portable tier has the kernels for AVX-512 too.
        Algorithm::Aead(Aead::Serpent256Poly1305) => [1_700, 510, 1_700][tier as usize],
        // The same; Twofish by tables on the two lower tiers.
        Algorithm::Aead(Aead::Cascade) => [240, 200, 1_100][tier as usize],
        Algorithm::Sector(SectorCipher { cipher, mode, .. }) => match (cipher, mode) {
            (BlockCipher::Aes, SectorMode::Cbc) => [700, 3_000, 6_000][tier as usize],
            (BlockCipher::Aes, _) => [900, 5_000, 18_000][tier as usize],
            (BlockCipher::Serpent, _) => [1_000, 600, 1_000][tier as usize],
            (BlockCipher::Twofish, _) => [200, 200, 1_000][tier as usize],
            (BlockCipher::Camellia, _) => [100, 1_000, 2_500][tier as usize],
        },
    };
    megabytes * 1_000_000
}
