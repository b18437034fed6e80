//! Equality with the reference engine, and of batches with single segments.

use super::exercise::{Exerciser, Sealed, aligned, bytes, fitting, framed, nonce, unframed};
use crate::{
    Algorithm, AssociatedData, Batch, Buffer, FreshNonce, Operation, Outcome, Segment, Session, Verdict,
};

const AD_LENS: [usize; 12] = [0, 1, 12, 13, 15, 16, 17, 31, 32, 33, 64, 96];

/// Every length up to a few vectors, then around the edges that unrolled
/// loops have.
fn lengths() -> impl Iterator<Item = usize> {
    let edges = [128, 256, 512, 768, 1024, 2048, 4096, 16384].into_iter();
    (0..=100).chain(edges.flat_map(|edge| edge - 1..=edge + 1)).chain([65536])
}

pub(super) fn lengths_and_alignments(engine: Exerciser<'_>, reference: Exerciser<'_>, algorithm: Algorithm) {
    let key = bytes(1, 32);
    let session = engine.session(algorithm, &key);
    let expected_session = reference.session(algorithm, &key);
    let capability = engine.capability(algorithm, Operation::Seal);
    for (case, len) in lengths().enumerate() {
        let ad = bytes(2, AD_LENS[case % AD_LENS.len()]);
        let plaintext = bytes(3, len);
        let nonce = nonce(case as u64);
        let start = aligned(case % 67, capability);
        let context =
            format!("{}: {algorithm:?} {len} bytes at {start}, ad {}", engine.engine.name(), ad.len());
        let sealed = engine.seal(&session, nonce, &ad, &plaintext, start);
        let expected = reference.seal(&expected_session, nonce, &ad, &plaintext, 0);
        assert!(sealed == expected, "{context}: sealed otherwise than the reference");
        assert!(engine.open(&session, &expected, start) == Some(plaintext), "{context}: opened wrongly");
    }
    for ad_len in 0..=96 {
        let (ad, plaintext, nonce) = (bytes(4, ad_len), bytes(5, 48), nonce(1000 + ad_len as u64));
        let sealed = engine.seal(&session, nonce, &ad, &plaintext, 0);
        let expected = reference.seal(&expected_session, nonce, &ad, &plaintext, 0);
        assert!(sealed == expected, "{}: {algorithm:?} ad of {ad_len}", engine.engine.name());
    }
}

/// Messages of many lengths; the first half share a nonce prefix, as blocks
/// sealed in one write session do.
fn messages(algorithm: Algorithm) -> Vec<(Sealed, Vec<u8>)> {
    let messages = (0..48u64).map(|i| {
        let mut nonce = nonce(i);
        if i < 24 {
            nonce[..16].fill(7);
            nonce[12..16].fill(i as u8);
        }
        let nonce = fitting(algorithm, nonce);
        let len = [0, 1, 16, 33, 100, 512, 4096][i as usize % 7];
        let sealed = Sealed { nonce, ad: bytes(i, AD_LENS[i as usize % 12]), data: Vec::new(), tag: [0; 16] };
        (sealed, bytes(100 + i, len))
    });
    messages.collect()
}

pub(super) fn batch_equals_singles(engine: Exerciser<'_>, reference: Exerciser<'_>, algorithm: Algorithm) {
    let key = bytes(6, 32);
    let session = engine.session(algorithm, &key);
    let expected_session = reference.session(algorithm, &key);
    let capability = engine.capability(algorithm, Operation::Seal);
    let messages = messages(algorithm);
    let name = engine.engine.name();
    for descending in [false, true] {
        let mut starts = Vec::new();
        let mut end = 0;
        for (_, plaintext) in &messages {
            starts.push(aligned(end, capability));
            end = aligned(end, capability) + plaintext.len() + 3;
        }
        let mut buffer = Buffer::new(end);
        let mut segments = Vec::new();
        for ((message, plaintext), &start) in messages.iter().zip(&starts) {
            buffer[start..start + plaintext.len()].copy_from_slice(plaintext);
            let nonce = FreshNonce::published(message.nonce);
            segments.push(Segment::seal(start, plaintext.len(), nonce, AssociatedData::new(&message.ad)));
        }
        if descending {
            segments.reverse();
        }
        let completed = engine.execute(&session, Batch::new(Operation::Seal, buffer, segments));
        assert_eq!(completed.outcome, Outcome::Done, "{name}");
        let mut segments = completed.batch.segments;
        if descending {
            segments.reverse();
        }
        let mut opening = Vec::new();
        for (segment, (message, plaintext)) in segments.iter().zip(&messages) {
            assert_eq!(segment.verdict(), Verdict::Done, "{name}");
            let single = reference.seal(&expected_session, message.nonce, &message.ad, plaintext, 0);
            assert!(
                completed.batch.buffer[segment.range()] == single.data[..],
                "{name}: {algorithm:?} {segment:?}"
            );
            assert_eq!(*segment.tag(), single.tag, "{name}: {algorithm:?} {segment:?}");
            opening.push(single.open_segment(segment.start()));
        }
        let batch = Batch::new(Operation::Open, completed.batch.buffer, opening);
        let completed = engine.execute(&session, batch);
        assert_eq!(completed.outcome, Outcome::Done, "{name}");
        for (segment, (_, plaintext)) in completed.batch.segments.iter().zip(&messages) {
            assert!(
                completed.batch.buffer[segment.range()] == plaintext[..],
                "{name}: {algorithm:?} {segment:?}"
            );
        }
    }
}

/// More nonce prefixes than a cache of derived keys holds, twice over.
pub(super) fn many_prefixes(engine: Exerciser<'_>, reference: Exerciser<'_>, algorithm: Algorithm) {
    let key = bytes(7, 32);
    let session = engine.session(algorithm, &key);
    let expected_session = reference.session(algorithm, &key);
    for _ in 0..2 {
        for seed in 0..200 {
            let sealed = engine.seal(&session, nonce(seed), b"prefix", b"a short message", 0);
            let expected = reference.seal(&expected_session, nonce(seed), b"prefix", b"a short message", 0);
            assert_eq!(sealed, expected, "{}: {algorithm:?} prefix {seed}", engine.engine.name());
        }
    }
}

pub(super) fn large(engine: Exerciser<'_>, reference: Exerciser<'_>, algorithm: Algorithm) {
    let key = bytes(8, 32);
    let len = engine.capability(algorithm, Operation::Seal).batch_bytes_max.min((1 << 20) + 64) - 64;
    let plaintext = bytes(9, len);
    let session = engine.session(algorithm, &key);
    let sealed = engine.seal(&session, nonce(9), b"large", &plaintext, 0);
    let expected = reference.seal(&reference.session(algorithm, &key), nonce(9), b"large", &plaintext, 0);
    assert!(sealed == expected, "{}: {algorithm:?} {len} bytes", engine.engine.name());
    assert!(engine.open(&session, &sealed, 0) == Some(plaintext), "{}: {algorithm:?}", engine.engine.name());
}

pub(super) fn keystream(engine: Exerciser<'_>, reference: Exerciser<'_>, algorithm: Algorithm) {
    let key = bytes(10, 32);
    let session = engine.session(algorithm, &key);
    let expected_session = reference.session(algorithm, &key);
    let capability = engine.capability(algorithm, Operation::Keystream);
    for (case, len) in lengths().enumerate() {
        let nonce = fitting(algorithm, nonce(case as u64));
        let plaintext = bytes(11, len);
        let start = aligned(case % 67, capability);
        let mask = keystream_of(engine, &session, nonce, len, start);
        let context = format!("{}: {algorithm:?} keystream of {len} at {start}", engine.engine.name());
        assert!(mask == keystream_of(reference, &expected_session, nonce, len, 0), "{context}");
        let sealed = engine.seal(&session, nonce, &[], &plaintext, 0);
        let masked: Vec<u8> = plaintext.iter().zip(&mask).map(|(byte, mask)| byte ^ mask).collect();
        assert!(masked == sealed.data, "{context} is not what sealing XORs");
    }
}

/// The segment holds something else before: engines must not XOR onto it.
fn keystream_of(
    engine: Exerciser<'_>,
    session: &Session,
    nonce: [u8; 24],
    len: usize,
    start: usize,
) -> Vec<u8> {
    let segment = Segment::keystream(start, len, FreshNonce::published(nonce));
    let batch = framed(Operation::Keystream, segment, &bytes(12, len));
    let completed = engine.execute(session, batch);
    assert_eq!(completed.outcome, Outcome::Done, "{}", engine.engine.name());
    unframed(&completed, engine.engine.name())
}
