//! Forgeries: each is noticed, its bytes are zeroed, its neighbours are good.

use super::exercise::{Exerciser, Sealed, bytes, nonce};
use crate::{Algorithm, Batch, Buffer, Operation, Outcome, Session, Verdict};

/// Bytes of each message, and where the engine's alignment puts them.
const LEN: usize = 100;
const STRIDE: usize = 4096;

/// A part of a message that an attacker may change.
type Region = fn(&mut Sealed) -> &mut [u8];

fn sealed_messages(engine: Exerciser<'_>, session: &Session) -> [Sealed; 3] {
    [0, 1, 2].map(|i| engine.seal(session, nonce(i), &bytes(20 + i, 20), &bytes(30 + i, LEN), 0))
}

/// One bit of every byte of data, tag, nonce and associated data.
pub(super) fn every_byte(engine: Exerciser<'_>, algorithm: Algorithm) {
    let session = engine.session(algorithm, &bytes(21, 32));
    let nonce_len = match algorithm {
        Algorithm::Aead(aead) => aead.nonce_len(),
        Algorithm::Sector(_) => 0,
    };
    let messages = sealed_messages(engine, &session);
    let regions: [(&str, Region); 4] = [
        ("data", |message| &mut message.data),
        ("tag", |message| &mut message.tag),
        ("nonce", |message| &mut message.nonce),
        ("associated data", |message| &mut message.ad),
    ];
    for (region, of) in regions {
        let len = of(&mut messages[1].clone()).len();
        let first = if region == "nonce" { len - nonce_len } else { 0 };
        for byte in first..len {
            let mut tampered = messages.clone();
            of(&mut tampered[1])[byte] ^= 1 << (byte % 8);
            let context = format!("{}: {algorithm:?} {region} byte {byte}", engine.engine.name());
            check_middle_forged(engine, &session, &tampered, &context);
        }
    }
}

fn check_middle_forged(engine: Exerciser<'_>, session: &Session, messages: &[Sealed; 3], context: &str) {
    let mut buffer = Buffer::new(3 * STRIDE);
    let mut segments = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        buffer[i * STRIDE..][..LEN].copy_from_slice(&message.data);
        segments.push(message.open_segment(i * STRIDE));
    }
    let completed = engine.execute(session, Batch::new(Operation::Open, buffer, segments));
    assert_eq!(completed.outcome, Outcome::AuthenticationFailed, "{context}");
    for (i, segment) in completed.batch.segments.iter().enumerate() {
        let data = &completed.batch.buffer[segment.range()];
        if i == 1 {
            assert_eq!(segment.verdict(), Verdict::Forged, "{context}: accepted");
            assert!(data.iter().all(|&byte| byte == 0), "{context}: not zeroed");
        } else {
            assert_eq!(segment.verdict(), Verdict::Done, "{context}: its neighbour was refused");
            assert!(data == bytes(30 + i as u64, LEN), "{context}: its neighbour was harmed");
        }
    }
}

/// Truncation, extension, exchange, and forgeries of nothing.
pub(super) fn lengths_and_places(engine: Exerciser<'_>, algorithm: Algorithm) {
    let session = engine.session(algorithm, &bytes(22, 32));
    let [first, second, _] = sealed_messages(engine, &session);
    let forgeries = [
        ("truncated", Sealed { data: first.data[..LEN - 1].to_vec(), ..first.clone() }),
        ("emptied", Sealed { data: Vec::new(), ..first.clone() }),
        ("extended", Sealed { data: [&first.data[..], &[0]].concat(), ..first.clone() }),
        ("zeroed", Sealed { data: vec![0; LEN], ..first.clone() }),
        ("zeroed with its tag", Sealed { data: vec![0; LEN], tag: [0; 16], ..first.clone() }),
        ("of another message", Sealed { data: second.data.clone(), ..first.clone() }),
        ("with the tag of another", Sealed { tag: second.tag, ..first.clone() }),
        ("with less associated data", Sealed { ad: first.ad[..19].to_vec(), ..first.clone() }),
        ("with more associated data", Sealed { ad: [&first.ad[..], &[0]].concat(), ..first.clone() }),
        ("with data moved to associated data", {
            let (ad, data) = first.data.split_at(16);
            Sealed { ad: [&first.ad[..], ad].concat(), data: data.to_vec(), ..first.clone() }
        }),
    ];
    for (what, forgery) in forgeries {
        let opened = engine.open(&session, &forgery, 0);
        assert_eq!(opened, None, "{}: {algorithm:?} a message {what} was accepted", engine.engine.name());
    }
    let empty = engine.seal(&session, nonce(5), b"empty", &[], 0);
    assert_eq!(engine.open(&session, &empty, 0), Some(Vec::new()));
    let forged = Sealed { ad: b"other".to_vec(), ..empty };
    assert_eq!(engine.open(&session, &forged, 0), None, "{}: {algorithm:?} empty", engine.engine.name());
}
