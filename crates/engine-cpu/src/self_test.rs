//! Known-answer tests, run before an algorithm's first use: the library, the
//! compiler, the CPU or its microcode may be broken on this machine.
//!
//! Each is a published vector where the contract's nonces allow it. That of
//! AEGIS was made with the reference code of its draft, since the fixed nonce
//! prefix is ours. Where long messages have code of their own there is one such
//! besides, whose tag is the reference engine's.

mod sectors;

use strongroom_engine::{Aead, Algorithm, Operation, Tag};

use crate::engine::Cipher;
use crate::hardware::Tier;
use crate::process::AeadCipher;

/// A message and what sealing it must give.
struct AeadVector<const LEN: usize> {
    key: [u8; 32],
    nonce: [u8; 24],
    ad: &'static [u8],
    plaintext: [u8; LEN],
    ciphertext: [u8; LEN],
    tag: Tag,
    /// The tag of [`long_message`], for ciphers that have other code for such.
    long_tag: Option<Tag>,
}

/// Long enough for every kernel and every end of one.
const LONG_LEN: usize = 9001;

/// The tag of a message covers its ciphertext, so that it stands for both.
fn long_message() -> Vec<u8> {
    (0..LONG_LEN).map(|at| (at * 31) as u8).collect()
}

/// C2SP XAES-256-GCM, the vector whose subkey doubles with a carry.
const XAES: AeadVector<12> = AeadVector {
    key: [3; 32],
    nonce: *b"ABCDEFGHIJKLMNOPQRSTUVWX",
    ad: b"c2sp.org/XAES-256-GCM",
    plaintext: *b"XAES-256-GCM",
    ciphertext: hex("986ec1832593df5443a17943"),
    tag: hex("7fd083bf3fdb41abd740a21f71eb769d"),
    long_tag: Some(hex("8202ad2afc7b47e411a3eb3068a69b2e")),
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
    long_tag: Some(hex("9a4455c9b790940bcde5c51db37cfff3")),
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
    long_tag: Some(hex("2b1672cbcdcbfc136e191c6a9306a74c")),
};

/// With the contract's nonce prefix; by the draft's own reference code.
const AEGIS_X2: AeadVector<75> = AeadVector {
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
    long_tag: None,
};

/// The same message; the conformance suite's vector.
const AEGIS_X4: AeadVector<75> = AeadVector {
    ciphertext: hex("e8a6d0cdb176f56268b19e2df7be3d2a09a96370dfad1c61cc36b4327dba8f51\
                     1da99fc725aa2784b31b51b2f6e751d6e03c351454a825ce0816185dc17c19e8\
                     c3fd1373903388d9915322"),
    tag: hex("655cd3cb4daa7513e2a024fdc87a0eb5"),
    ..AEGIS_X2
};

/// Test case 16 of McGrew and Viega, "The Galois/Counter Mode of Operation".
const GCM: AeadVector<60> = AeadVector {
    key: hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"),
    nonce: hex("000000000000000000000000cafebabefacedbaddecaf888"),
    ad: &hex::<20>("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
    plaintext: hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                    1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"),
    ciphertext: hex("522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
                     8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"),
    tag: hex("76fc6ece0f4e1768cddf8853bb2d551b"),
    long_tag: Some(hex("267b193403d634421a23e8efaca85d90")),
};

/// The same message; the suites are ours, and so are the vectors
/// (docs/format/suites.json).
const SERPENT: AeadVector<75> = AeadVector {
    ciphertext: hex("bca4c13a46dce73184f5eb99fae56949446233166052cc70e9e3bc0b074324f0\
                     d80cf265ce4d2f0d3b6cce70cba2452848f073c859e3b1531c3e728ada5841bb\
                     a2e331c3b7d4e6346192a8"),
    tag: hex("2644895ff8941ad3dcaa847aba2ae8b8"),
    long_tag: Some(hex("081579c5217ef384274be304ba7b83c8")),
    ..AEGIS_X2
};

/// The same message.
const CASCADE: AeadVector<75> = AeadVector {
    ciphertext: hex("44603d4fac9210d81209a2506cf63f767654f6a1b6313e3bd18754011bddcc5f\
                     1218fbf32dff151af01301be43ca4119fe8f6fce1ccea88ccbe36cf1d39595b3\
                     dbdbfe8fbadaea3084bfb5"),
    tag: hex("f50078e8ddfd103c83a01a193c58ed58"),
    long_tag: Some(hex("a7cf612b56652a164ad5057a42eaa1d4")),
    ..AEGIS_X2
};

/// True when the tier computes the algorithm's vectors, both ways, and notices
/// a flipped bit.
pub(crate) fn passes(tier: Tier, algorithm: Algorithm) -> bool {
    match algorithm {
        Algorithm::Aead(Aead::XAes256Gcm) => XAES.passes(tier, algorithm),
        Algorithm::Aead(Aead::XChaCha20Poly1305) => XCHACHA.passes(tier, algorithm),
        Algorithm::Aead(Aead::Aegis256X2) => AEGIS_X2.passes(tier, algorithm),
        Algorithm::Aead(Aead::Aegis256X4) => AEGIS_X4.passes(tier, algorithm),
        Algorithm::Aead(Aead::Aes256Gcm) => GCM.passes(tier, algorithm),
        Algorithm::Aead(Aead::ChaCha20Poly1305) => CHACHA.passes(tier, algorithm),
        Algorithm::Aead(Aead::Serpent256Poly1305) => SERPENT.passes(tier, algorithm),
        Algorithm::Aead(Aead::Cascade) => CASCADE.passes(tier, algorithm),
        Algorithm::Sector(sector) => sectors::passes(tier, sector),
    }
}

impl<const LEN: usize> AeadVector<LEN> {
    fn passes(&self, tier: Tier, algorithm: Algorithm) -> bool {
        let keystream = algorithm.has(Operation::Keystream);
        match Cipher::new(tier, algorithm, &self.key) {
            Ok(Cipher::Xaes(cipher)) => self.holds_for(&*cipher, keystream),
            Ok(Cipher::Gcm(cipher)) => self.holds_for(&*cipher, keystream),
            Ok(Cipher::XChaCha(cipher)) => self.holds_for(&cipher, keystream),
            Ok(Cipher::AegisX2(cipher)) => self.holds_for(&cipher, keystream),
            Ok(Cipher::AegisX4(cipher)) => self.holds_for(&cipher, keystream),
            Ok(Cipher::ChaCha(cipher)) => self.holds_for(&cipher, keystream),
            Ok(Cipher::CounterPoly1305(cipher)) => self.holds_for(&*cipher, keystream),
            Ok(Cipher::Sectors(_)) | Err(_) => false,
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
            if data != self.ciphertext {
                return false;
            }
        }
        seals
            && notices
            && opens
            && self.long_tag.is_none_or(|tag| self.holds_for_long(cipher, &tag, keystream))
    }

    fn holds_for_long<C: AeadCipher>(&self, cipher: &C, expected: &Tag, keystream: bool) -> bool {
        let (plaintext, mut data, mut cursor) = (long_message(), long_message(), cipher.cursor());
        let tag = cipher.seal(&mut cursor, &self.nonce, self.ad, &mut data);
        let (mut forged, mut mask) = (data.clone(), data.clone());
        forged[LONG_LEN - 1] ^= 1;
        let notices = cipher.open(&mut cursor, &self.nonce, self.ad, &tag, &mut forged).is_err();
        if keystream {
            cipher.keystream(&mut cursor, &self.nonce, &mut mask);
            mask.iter_mut().zip(&plaintext).for_each(|(byte, plain)| *byte ^= plain);
            if mask != data {
                return false;
            }
        }
        let opens = cipher.open(&mut cursor, &self.nonce, self.ad, &tag, &mut data).is_ok();
        tag == *expected && notices && opens && data == plaintext
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
    use crate::ReferenceEngine;
    use strongroom_engine::{AssociatedData, Batch, Buffer, Engine, FreshNonce, Segment};

    #[test]
    fn long_messages_have_the_tags_of_the_reference() {
        long_tag_is_of_the_reference(Aead::XAes256Gcm, &XAES);
        long_tag_is_of_the_reference(Aead::Aes256Gcm, &GCM);
        long_tag_is_of_the_reference(Aead::XChaCha20Poly1305, &XCHACHA);
        long_tag_is_of_the_reference(Aead::ChaCha20Poly1305, &CHACHA);
        long_tag_is_of_the_reference(Aead::Serpent256Poly1305, &SERPENT);
        long_tag_is_of_the_reference(Aead::Cascade, &CASCADE);
    }

    fn long_tag_is_of_the_reference<const LEN: usize>(aead: Aead, vector: &AeadVector<LEN>) {
        let session = ReferenceEngine.session(Algorithm::Aead(aead), &vector.key).unwrap();
        let mut buffer = Buffer::new(LONG_LEN);
        buffer.copy_from_slice(&long_message());
        let nonce = FreshNonce::published(vector.nonce);
        let segment = Segment::seal(0, LONG_LEN, nonce, AssociatedData::new(vector.ad));
        let batch = Batch::new(Operation::Seal, buffer, vec![segment]);
        let sealed = ReferenceEngine.submit(&session, batch).unwrap().wait().unwrap();
        let tag = *sealed.batch.segments[0].tag();
        let digits: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(Some(tag), vector.long_tag, "{aead:?}: {digits}");
    }

    #[test]
    fn a_wrong_answer_is_noticed() {
        let algorithm = Algorithm::Aead(Aead::XAes256Gcm);
        let tier = Tier::best();
        assert!(XAES.passes(tier, algorithm));
        assert!(!AeadVector { tag: [0; 16], ..XAES }.passes(tier, algorithm));
        assert!(!AeadVector { ciphertext: [0; 12], ..XAES }.passes(tier, algorithm));
        assert!(!AeadVector { key: [2; 32], ..XAES }.passes(tier, algorithm));
        assert!(!AeadVector { long_tag: Some([0; 16]), ..XAES }.passes(tier, algorithm));
        let algorithm = Algorithm::Aead(Aead::XChaCha20Poly1305);
        assert!(XCHACHA.passes(tier, algorithm));
        assert!(!AeadVector { long_tag: Some([0; 16]), ..XCHACHA }.passes(tier, algorithm));
    }
}
