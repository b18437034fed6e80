//! Known-answer tests, run before an algorithm's first use: the library, the
//! compiler, the CPU or its microcode may be broken on this machine.
//!
//! Each is a published vector where the contract's nonces allow it. That of
//! AEGIS was made with the reference code of its draft, since the fixed nonce
//! prefix is ours.

use strongroom_engine::{Aead, Algorithm, Operation, SectorCipher, SectorNumbers, Tag};

use crate::engine::Cipher;
use crate::process::{self, AeadCipher};

/// A message and what sealing it must give.
struct AeadVector<const LEN: usize> {
    key: [u8; 32],
    nonce: [u8; 24],
    ad: &'static [u8],
    plaintext: [u8; LEN],
    ciphertext: [u8; LEN],
    tag: Tag,
}

/// C2SP XAES-256-GCM, the vector whose subkey doubles with a carry.
const XAES: AeadVector<12> = AeadVector {
    key: [3; 32],
    nonce: *b"ABCDEFGHIJKLMNOPQRSTUVWX",
    ad: b"c2sp.org/XAES-256-GCM",
    plaintext: *b"XAES-256-GCM",
    ciphertext: hex("986ec1832593df5443a17943"),
    tag: hex("7fd083bf3fdb41abd740a21f71eb769d"),
};

/// draft-irtf-cfrg-xchacha appendix A.3.1.
const XCHACHA: AeadVector<114> = AeadVector {
    key: hex("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"),
    nonce: hex("404142434445464748494a4b4c4d4e4f5051525354555657"),
    ad: &hex::<12>("50515253c0c1c2c3c4c5c6c7"),
    plaintext: *b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for \
                  the future, sunscreen would be it.",
    ciphertext: hex("bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb\
                     731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b452\
                     2f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9\
                     21f9664c97637da9768812f615c68b13b52e"),
    tag: hex("c0875924c1c7987947deafd8780acf49"),
};

/// RFC 8439 section 2.8.2.
const CHACHA: AeadVector<114> = AeadVector {
    key: hex("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"),
    nonce: hex("000000000000000000000000070000004041424344454647"),
    ad: &hex::<12>("50515253c0c1c2c3c4c5c6c7"),
    plaintext: XCHACHA.plaintext,
    ciphertext: hex("d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6\
                     3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36\
                     92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
                     3ff4def08e4b7a9de576d26586cec64b6116"),
    tag: hex("1ae10b594f09e26a7e902ecbd0600691"),
};

/// With the contract's nonce prefix; by the draft's own reference code.
const AEGIS: AeadVector<75> = AeadVector {
    key: hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
    nonce: hex("404142434445464748494a4b4c4d4e4f5051525354555657"),
    ad: b"associated data",
    plaintext: hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
                    202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f\
                    404142434445464748494a"),
    ciphertext: hex("6b0878133ddc94be78f939bd3189d88e234c83e8e9b90bc217681adf961ed837\
                     60da68956a3a4445157b51a13f1174318a5ab5a61f2671d5e028988c762fdb64\
                     fdc51c02713d87e3a78d25"),
    tag: hex("482a54fdce954c919279ae3afd490225"),
};

/// A sector and what encrypting it must give.
struct SectorVector<const KEY: usize> {
    key: [u8; KEY],
    number: u64,
    plaintext: [u8; 32],
    ciphertext: [u8; 32],
}

/// IEEE 1619 annex B, vector 2.
const XTS_128: SectorVector<32> = SectorVector {
    key: hex("1111111111111111111111111111111122222222222222222222222222222222"),
    number: 0x33_3333_3333,
    plaintext: [0x44; 32],
    ciphertext: hex("c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0"),
};

/// Wycheproof aes_xts, test 69.
const XTS_256: SectorVector<64> = SectorVector {
    key: hex("3ccdae78200c3c8dcbead3780b256453494fa49c9c2a9f27d0c2a9e6dfdbb662\
              e545d66e9b8598f32bb0cff6c8ebb82d9655af6c5df1163519e3d515638d2df0"),
    number: 0xc7db_b422_92e3_e416,
    plaintext: hex("edd06d38435806ed2856a58ebd5ef75e5df1ae65e70d3d9a7bf50070fa025426"),
    ciphertext: hex("e2e1e7d48d62a14aaf54eb915718aabf4682d846bf2b1e309697d9dd8416d685"),
};

/// True when the algorithm computes its vectors, both ways, and notices a
/// flipped bit.
pub(crate) fn passes(algorithm: Algorithm) -> bool {
    match algorithm {
        Algorithm::Aead(Aead::XAes256Gcm) => XAES.passes(algorithm),
        Algorithm::Aead(Aead::XChaCha20Poly1305) => XCHACHA.passes(algorithm),
        Algorithm::Aead(Aead::Aegis256X2) => AEGIS.passes(algorithm),
        Algorithm::Aead(Aead::ChaCha20Poly1305) => CHACHA.passes(algorithm),
        Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64) => XTS_128.passes() && XTS_256.passes(),
        Algorithm::Aead(Aead::Aes256Gcm) | Algorithm::Sector(_) => false,
    }
}

impl<const LEN: usize> AeadVector<LEN> {
    fn passes(&self, algorithm: Algorithm) -> bool {
        let keystream = algorithm.has(Operation::Keystream);
        match Cipher::new(algorithm, &self.key) {
            Ok(Cipher::Xaes(cipher)) => self.holds_for(&*cipher, keystream),
            Ok(Cipher::XChaCha(cipher)) => self.holds_for(&cipher, keystream),
            Ok(Cipher::Aegis(cipher)) => self.holds_for(&cipher, keystream),
            Ok(Cipher::ChaCha(cipher)) => self.holds_for(&cipher, keystream),
            Ok(Cipher::Xts(_)) | Err(_) => false,
        }
    }

    fn holds_for<C: AeadCipher>(&self, cipher: &C, keystream: bool) -> bool {
        let mut cursor = cipher.cursor();
        let mut data = self.plaintext;
        let tag = cipher.seal(&mut cursor, &self.nonce, self.ad, &mut data);
        let seals = data == self.ciphertext && tag == self.tag;

        let mut forged = self.ciphertext;
        forged[0] ^= 1;
        let notices = cipher.open(&mut cursor, &self.nonce, self.ad, &self.tag, &mut forged).is_err();

        let opened = cipher.open(&mut cursor, &self.nonce, self.ad, &self.tag, &mut data).is_ok();
        let opens = opened && data == self.plaintext;

        if keystream {
            cipher.keystream(&mut cursor, &self.nonce, &mut data);
            for (byte, plain) in data.iter_mut().zip(self.plaintext) {
                *byte ^= plain;
            }
            return seals && notices && opens && data == self.ciphertext;
        }
        seals && notices && opens
    }
}

impl<const KEY: usize> SectorVector<KEY> {
    fn passes(&self) -> bool {
        use process::SectorCipher as _;
        let algorithm = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
        let Ok(Cipher::Xts(cipher)) = Cipher::new(algorithm, &self.key) else {
            return false;
        };
        let mut data = self.plaintext;
        let mut run = |operation| {
            let numbers = SectorNumbers::from(self.number);
            let segment = process::SectorSegment { numbers, sector_len: data.len(), data: &mut data };
            cipher.sectors(operation, segment);
            data
        };
        let encrypts = run(Operation::EncryptSectors) == self.ciphertext;
        let data = run(Operation::DecryptSectors);
        encrypts && data == self.plaintext
    }
}

/// Hexadecimal digits as bytes, at compile time.
const fn hex<const LEN: usize>(digits: &str) -> [u8; LEN] {
    let digits = digits.as_bytes();
    assert!(digits.len() == 2 * LEN, "two digits a byte");
    let mut bytes = [0; LEN];
    let mut i = 0;
    while i < LEN {
        bytes[i] = value(digits[2 * i]) << 4 | value(digits[2 * i + 1]);
        i += 1;
    }
    bytes
}

const fn value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => panic!("a lower-case hexadecimal digit"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_is_noticed() {
        let algorithm = Algorithm::Aead(Aead::XAes256Gcm);
        assert!(XAES.passes(algorithm));
        assert!(!AeadVector { tag: [0; 16], ..XAES }.passes(algorithm));
        assert!(!AeadVector { ciphertext: [0; 12], ..XAES }.passes(algorithm));
        assert!(!AeadVector { key: [2; 32], ..XAES }.passes(algorithm));
        assert!(!SectorVector { number: 1, ..XTS_128 }.passes());
    }
}
