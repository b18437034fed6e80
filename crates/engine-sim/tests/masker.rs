//! The device that makes masks alone: they are right, in order, and bounded.

use std::sync::Arc;

use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, Buffer, Engine, Mask, Masking, Message, Operation, Order,
    Refusal, Segment, Session, StoredNonce, client,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_engine_sim::Masker;

const SERPENT: Algorithm = Algorithm::Aead(Aead::Serpent256Poly1305);
const KEY: [u8; 32] = [3; 32];

fn masker() -> Masker {
    Masker::new(Arc::new(CpuEngine::new()), 2)
}

fn masks(device: &Masker, session: &Session, messages: Vec<(StoredNonce, usize)>) -> Vec<Mask<StoredNonce>> {
    let mut order = Order::place(device, session, messages).expect("it takes the order");
    loop {
        match order.poll() {
            Ok(masks) => return masks,
            Err(pending) => order = pending,
        }
        std::thread::yield_now();
    }
}

fn keystream(nonce: StoredNonce, len: usize) -> Vec<u8> {
    let engine = ReferenceEngine;
    let session = engine.session(SERPENT, &KEY).expect("it has Serpent");
    let segments = vec![Segment::keystream_again(0, len, nonce)];
    let batch = Batch::new(Operation::Keystream, Buffer::new(len), segments);
    client::execute(&engine, &session, batch).expect("keystream").batch.buffer.to_vec()
}

#[test]
fn it_has_keystream_and_nothing_else() {
    let device = masker();
    let session = device.session(SERPENT, &KEY).expect("it has Serpent");
    let nonce = StoredNonce::new([5; 24]);
    for operation in [Operation::Seal, Operation::Open] {
        assert!(device.capability(SERPENT, operation).is_none());
    }
    assert!(device.capability(SERPENT, Operation::Keystream).is_some_and(|capability| !capability.inline));
    let batch = |segment| Batch::new(Operation::Open, Buffer::new(100), vec![segment]);
    let opening = Segment::open(0, 100, nonce, AssociatedData::new(&[]), [0; 16]);
    let refused = device.submit(&session, batch(opening)).err().expect("it opens nothing");
    assert_eq!(refused.refusal, Refusal::Unsupported);
    let batch =
        Batch::new(Operation::Keystream, Buffer::new(100), vec![Segment::keystream_again(0, 100, nonce)]);
    let made = client::execute(&device, &session, batch).expect("keystream").batch.buffer;
    assert_eq!(made[..], keystream(nonce, 100));
}

#[test]
fn masks_are_keystream_in_the_order_of_their_messages() {
    let device = masker();
    let session = device.session(SERPENT, &KEY).expect("it has Serpent");
    // In several parts, of odd lengths, and memory that is used again.
    let nonce_of = |round: u8, at: usize| {
        let mut nonce = [round; 24];
        nonce[23] = at as u8;
        StoredNonce::new(nonce)
    };
    for round in 0..3 {
        let message = |at: usize| (nonce_of(round, at), 1 + 37 * (at % 9));
        let messages: Vec<_> = (0..250).map(message).collect();
        let made = masks(&device, &session, messages.clone());
        assert_eq!(made.len(), messages.len());
        for (mask, (nonce, len)) in made.into_iter().zip(messages) {
            assert_eq!((mask.nonce(), mask.len()), (&nonce, len));
            let expected = keystream(nonce, len);
            let mut segment = Segment::open(0, len, nonce, AssociatedData::new(&[]), [0; 16]);
            segment.bring(mask);
            let memory = segment.take_mask().expect("it is of this nonce");
            assert_eq!(memory.bytes(), expected);
        }
    }
}

#[test]
fn what_it_has_not_made_is_bounded_and_foreign_sessions_are_refused() {
    let device = masker();
    let session = device.session(SERPENT, &KEY).expect("it has Serpent");
    let large = |blocks| vec![Message { nonce: [1; 24], len: 1 << 20 }; blocks];
    assert!(device.order(&session, &large(1)).is_ok());
    assert!(matches!(device.order(&session, &large(65)), Err(Refusal::Busy)));
    let foreign = CpuEngine::new().session(SERPENT, &KEY).expect("it has Serpent");
    assert!(matches!(device.order(&foreign, &large(1)), Err(Refusal::Misuse(_))));
}
