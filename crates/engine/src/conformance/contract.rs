//! What the contract says of refusals, sessions, keys and threads.

use super::exercise::{Exerciser, bytes, fitting, nonce};
use crate::{
    Algorithm, AssociatedData, Batch, Buffer, FreshNonce, Operation, Refusal, Segment, SessionError,
};

fn sealing(algorithm: Algorithm, start: usize, len: usize) -> Segment {
    let nonce = FreshNonce::published(fitting(algorithm, nonce(start as u64)));
    Segment::seal(start, len, nonce, AssociatedData::new(b"refused"))
}

fn batch(operation: Operation, segments: Vec<Segment>) -> Batch {
    Batch::new(operation, Buffer::copy_of(&bytes(40, 8192)), segments)
}

pub(super) fn refusals(engine: Exerciser<'_>, reference: Exerciser<'_>, algorithm: Algorithm) {
    let session = engine.session(algorithm, &bytes(41, 32));
    let name = engine.engine.name();
    let sealing = |start, len| sealing(algorithm, start, len);
    let processed = || {
        let mut segment = sealing(0, 16);
        segment.set_done(None);
        segment
    };
    let cases = [
        ("overlap", batch(Operation::Seal, vec![sealing(0, 5000), sealing(4096, 100)])),
        ("overlap out of order", batch(Operation::Seal, vec![sealing(4096, 100), sealing(0, 5000)])),
        ("outside", batch(Operation::Seal, vec![sealing(0, 100), sealing(4096, 4097)])),
        ("far outside", batch(Operation::Seal, vec![sealing(1 << 40, 0)])),
        ("overflowing", batch(Operation::Seal, vec![sealing(usize::MAX - 4095, 8192)])),
        ("sealed before", batch(Operation::Seal, vec![processed()])),
        ("made for another operation", batch(Operation::Open, vec![sealing(0, 16)])),
    ];
    for (what, batch) in cases {
        let refusal = engine.refusal(&session, batch);
        assert!(matches!(refusal, Refusal::Misuse(_)), "{name}: {algorithm:?} {what}: {refusal:?}");
    }
    let sectors = vec![Segment::sectors(0, 512, 0, 512)];
    let refusal = engine.refusal(&session, batch(Operation::EncryptSectors, sectors));
    assert_eq!(refusal, Refusal::Unsupported, "{name}: {algorithm:?} sectors");
    if engine.engine.name() != reference.engine.name() {
        let foreign = reference.session(algorithm, &bytes(41, 32));
        let refusal = engine.refusal(&foreign, batch(Operation::Seal, vec![sealing(0, 16)]));
        assert!(matches!(refusal, Refusal::Misuse(_)), "{name}: took the session of another engine");
    }
    let nothing = engine.execute(&session, batch(Operation::Seal, Vec::new()));
    assert_eq!(nothing.batch.buffer[..], bytes(40, 8192), "{name}: an empty batch changed its buffer");
}

/// Sessions of different keys used in turn, and keys of wrong lengths.
pub(super) fn keys(engine: Exerciser<'_>, algorithm: Algorithm) {
    let name = engine.engine.name();
    for len in [0, 16, 31, 33, 64] {
        let error = engine.engine.session(algorithm, &bytes(42, len)).err();
        assert_eq!(error, Some(SessionError::KeyLength), "{name}: {algorithm:?} key of {len}");
    }
    let one = engine.session(algorithm, &bytes(43, 32));
    let other = engine.session(algorithm, &bytes(44, 32));
    for seed in 0..8 {
        let by_one = engine.seal(&one, nonce(seed), b"", b"which key?", 0);
        let by_other = engine.seal(&other, nonce(seed), b"", b"which key?", 0);
        assert_ne!(by_one, by_other, "{name}: {algorithm:?} the key makes no difference");
        assert_eq!(engine.open(&other, &by_one, 0), None, "{name}: {algorithm:?} opened by another key");
        assert_eq!(engine.open(&one, &by_one, 0).as_deref(), Some(&b"which key?"[..]), "{name}");
    }
    let clone = one.clone();
    drop(one);
    let sealed = engine.seal(&clone, nonce(0), b"", b"a clone", 0);
    assert_eq!(engine.open(&clone, &sealed, 0).as_deref(), Some(&b"a clone"[..]), "{name}: a clone died");
}

/// Batches that are submitted one after the other and flushed together.
pub(super) fn together(engine: Exerciser<'_>, reference: Exerciser<'_>, algorithm: Algorithm) {
    let key = bytes(46, 32);
    let (session, expected) = (engine.session(algorithm, &key), reference.session(algorithm, &key));
    let batches = || {
        let messages = (0..40).map(|index: usize| sealing(algorithm, index % 2 * 4096, 16 + 100 * index));
        messages.map(|message| batch(Operation::Seal, vec![message])).collect::<Vec<_>>()
    };
    engine.engine.flush();
    let found = engine.execute_together(&session, batches());
    let expected = reference.execute_together(&expected, batches());
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let is_same = found.batch.buffer[..] == expected.batch.buffer[..]
            && found.batch.segments[0].tag() == expected.batch.segments[0].tag();
        assert!(is_same, "{}: {algorithm:?} batch {index} of several", engine.engine.name());
    }
}

/// Buffers of the engine's are like all others, whoever had them before.
pub(super) fn buffers(engine: Exerciser<'_>, algorithm: Algorithm) {
    let session = engine.session(algorithm, &bytes(47, 32));
    let name = engine.engine.name();
    let most = engine.capability(algorithm, Operation::Seal).batch_bytes_max;
    for len in [4096, 0, 1, 65_541, 4096].map(|len: usize| len.min(most)) {
        for round in 0..3 {
            let mut buffer = engine.engine.buffer(&session, len);
            assert_eq!(buffer.len(), len, "{name}: a buffer's length");
            assert!(buffer.iter().all(|&byte| byte == 0), "{name}: a buffer of {len} is not zero");
            assert_eq!(buffer.as_ptr().align_offset(4096), 0, "{name}: a buffer is not page-aligned");
            buffer.copy_from_slice(&bytes(round, len));
            let sealed = Batch::new(Operation::Seal, buffer, vec![sealing(algorithm, 0, len)]);
            let plain = sealed.duplicate();
            let (one, other) = (engine.execute(&session, sealed), engine.execute(&session, plain));
            let is_same = one.batch.buffer[..] == other.batch.buffer[..]
                && one.batch.segments[0].tag() == other.batch.segments[0].tag();
            assert!(is_same, "{name}: {algorithm:?} differs in a buffer of its own");
        }
    }
}

/// Threads on one session.
pub(super) fn threads(engine: Exerciser<'_>, reference: Exerciser<'_>, algorithm: Algorithm) {
    let key = bytes(45, 32);
    let session = engine.session(algorithm, &key);
    let expected_session = reference.session(algorithm, &key);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (session, expected_session) = (&session, &expected_session);
            scope.spawn(move || {
                for round in 0..40 {
                    let seed = thread * 1000 + round;
                    let plaintext = bytes(seed, 64 + 7 * round as usize);
                    let sealed = engine.seal(session, nonce(seed), b"thread", &plaintext, 0);
                    let expected = reference.seal(expected_session, nonce(seed), b"thread", &plaintext, 0);
                    let context = format!("{}: {algorithm:?} thread {thread}", engine.engine.name());
                    assert!(sealed == expected, "{context}: sealed wrongly");
                    assert!(engine.open(session, &sealed, 0) == Some(plaintext), "{context}: opened wrongly");
                }
            });
        }
    });
}
