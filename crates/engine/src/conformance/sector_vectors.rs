//! Published vectors of the block ciphers and their modes.
//!
//! Vectors of a bare block cipher are one block of CBC with an IV of zero;
//! IVs and counter blocks that are no sector number go through `plain128`.

use crate::{BlockCipher, SectorCipher, SectorIv, SectorMode};

pub(super) struct Vector {
    pub(super) sector: SectorCipher,
    pub(super) key: &'static str,
    /// The first bytes of the IV as the rule makes it; zeros follow.
    pub(super) iv: &'static str,
    pub(super) plaintext: &'static str,
    pub(super) ciphertext: &'static str,
}

const fn block(
    cipher: BlockCipher,
    key: &'static str,
    plaintext: &'static str,
    ciphertext: &'static str,
) -> Vector {
    let sector = SectorCipher::new(cipher, SectorMode::Cbc, SectorIv::Plain64);
    Vector { sector, key, iv: "", plaintext, ciphertext }
}

const fn aes(mode: SectorMode, key: &'static str, iv: &'static str, ciphertext: &'static str) -> Vector {
    let sector = SectorCipher::new(BlockCipher::Aes, mode, SectorIv::Plain128);
    Vector { sector, key, iv, plaintext: SP_800_38A, ciphertext }
}

const fn xts(key: &'static str, plaintext: &'static str, ciphertext: &'static str) -> Vector {
    Vector { sector: SectorCipher::AES_XTS_PLAIN64, key, iv: "3333333333", plaintext, ciphertext }
}

const ZERO: &str = "00000000000000000000000000000000";

/// The plaintext of all of NIST SP 800-38A appendix F.
const SP_800_38A: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                          30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";

pub(super) const VECTORS: &[Vector] = &[
    // FIPS 197 appendix C.
    block(
        BlockCipher::Aes,
        "000102030405060708090a0b0c0d0e0f",
        "00112233445566778899aabbccddeeff",
        "69c4e0d86a7b0430d8cdb78070b4c55a",
    ),
    block(
        BlockCipher::Aes,
        "000102030405060708090a0b0c0d0e0f1011121314151617",
        "00112233445566778899aabbccddeeff",
        "dda97ca4864cdfe06eaf70a0ec0d7191",
    ),
    block(
        BlockCipher::Aes,
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "00112233445566778899aabbccddeeff",
        "8ea2b7ca516745bfeafc49904b496089",
    ),
    // NIST SP 800-38A F.2.1, F.5.1 and F.5.5.
    aes(
        SectorMode::Cbc,
        "2b7e151628aed2a6abf7158809cf4f3c",
        "000102030405060708090a0b0c0d0e0f",
        "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
         73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
    ),
    aes(
        SectorMode::Ctr,
        "2b7e151628aed2a6abf7158809cf4f3c",
        "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
        "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff\
         5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee",
    ),
    aes(
        SectorMode::Ctr,
        "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
         2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
    ),
    // IEEE 1619 annex B, vectors 2 and 3.
    xts(
        "1111111111111111111111111111111122222222222222222222222222222222",
        "4444444444444444444444444444444444444444444444444444444444444444",
        "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0",
    ),
    xts(
        "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f022222222222222222222222222222222",
        "4444444444444444444444444444444444444444444444444444444444444444",
        "af85336b597afc1a900b2eb21ec949d292df4c047e0b21532186a5971a227a89",
    ),
    // NESSIE, Serpent, set 1 vector 0 of each key length.
    block(BlockCipher::Serpent, "80000000000000000000000000000000", ZERO, "264e5481eff42a4606abda06c0bfda3d"),
    block(
        BlockCipher::Serpent,
        "800000000000000000000000000000000000000000000000",
        ZERO,
        "9e274ead9b737bb21efcfca548602689",
    ),
    block(
        BlockCipher::Serpent,
        "8000000000000000000000000000000000000000000000000000000000000000",
        ZERO,
        "a223aa1288463c0e2be38ebd825616c0",
    ),
    // The Twofish paper, section B.2 ("full encryptions").
    block(BlockCipher::Twofish, ZERO, ZERO, "9f589f5cf6122c32b6bfec2f2ae8c35a"),
    block(
        BlockCipher::Twofish,
        "0123456789abcdeffedcba98765432100011223344556677",
        ZERO,
        "cfd1d2e5a9be9cdf501f13b892bd2248",
    ),
    block(
        BlockCipher::Twofish,
        "0123456789abcdeffedcba987654321000112233445566778899aabbccddeeff",
        ZERO,
        "37527be0052334b89f0cfccae87cfa20",
    ),
    // RFC 3713 appendix A.
    block(
        BlockCipher::Camellia,
        "0123456789abcdeffedcba9876543210",
        "0123456789abcdeffedcba9876543210",
        "67673138549669730857065648eabe43",
    ),
    block(
        BlockCipher::Camellia,
        "0123456789abcdeffedcba98765432100011223344556677",
        "0123456789abcdeffedcba9876543210",
        "b4993401b3e996f84ee5cee7d79b09b9",
    ),
    block(
        BlockCipher::Camellia,
        "0123456789abcdeffedcba987654321000112233445566778899aabbccddeeff",
        "0123456789abcdeffedcba9876543210",
        "9acc237dff16d76c20ef7c919e3a7509",
    ),
];
