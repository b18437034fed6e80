//! Masks: lent, used once, wiped.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, Buffer, Engine, FreshNonce, Mask, Operation, Order, Segment,
};
use strongroom_engine_cpu::ReferenceEngine;

use super::fake::Fault;
use super::faults::{batch, engine};
use crate::{Cipher, Context, Failure, Options, OrderError, limits};

fn contexts(lens: &[usize]) -> Vec<Context> {
    (0..).zip(lens).map(|(counter, &len)| Context { key: 0, nonce: [3; 12], counter, len }).collect()
}

#[test]
fn what_is_out_of_bounds_is_refused() {
    let (engine, _) = engine(Options::default());
    let order = |keys: &[[u8; 32]], lens: &[usize]| {
        engine.keystream(Cipher::ChaCha20, keys, &contexts(lens)).map(drop)
    };
    assert!(matches!(order(&[], &[1]), Err(OrderError::Misuse(_))));
    assert_eq!(order(&[[1; 32]], &[1; limits::CONTEXTS_MAX + 1]), Err(OrderError::TooLarge));
    assert_eq!(order(&[[1; 32]], &[limits::LAUNCH_BYTES_MAX, 1]), Err(OrderError::TooLarge));
    assert_eq!(order(&[[1; 32]], &[usize::MAX, 1]), Err(OrderError::TooLarge));
    assert_eq!(order(&[[1; 32]], &[limits::LAUNCH_BYTES_MAX]), Ok(()));
    let aes = engine.keystream(Cipher::Aes, &[[1; 32]], &contexts(&[1]));
    assert_eq!(aes.err(), Some(OrderError::Unsupported));
}

#[test]
fn pinned_memory_is_lent_until_the_last_mask_is_gone() {
    let (engine, _) = engine(Options::default());
    let order = || engine.keystream(Cipher::ChaCha20, &[[1; 32]], &contexts(&[64, 0, 100]));
    let mut lent = Vec::new();
    loop {
        match order() {
            Ok(order) => lent.push(order.wait().expect("masks")),
            Err(why) => {
                assert_eq!(why, OrderError::Busy);
                break;
            }
        }
        assert!(lent.len() <= 100, "memory is bounded");
    }
    assert!(lent.len() >= limits::LENT_MAX);
    let mut first = lent.swap_remove(0);
    assert_eq!(first.iter().map(crate::Mask::len).collect::<Vec<_>>(), [64, 0, 100]);
    let last = first.pop();
    drop(first);
    assert_eq!(order().map(drop), Err(OrderError::Busy));
    drop(last);
    order().expect("a block came back").wait().expect("masks");
}

/// Blocks come back without a trace of keys or masks, whatever becomes of a launch and its masks. What is lent next is
/// looked at as a block, before anything is put into it.
#[test]
fn blocks_come_back_wiped() {
    let (engine, knobs) = engine(Options { lanes: 1, ..Options::default() });
    let order = || engine.keystream(Cipher::ChaCha20, &[[0xee; 32]], &contexts(&[5, 4096, 77])).unwrap();
    let is_clean = || engine.launcher().begin().unwrap().block().iter().all(|&byte| byte == 0);
    let mut masks = order().wait().unwrap();
    let mut data = [0; 5];
    masks.remove(0).xor_onto(&mut data);
    assert_ne!(data, [0; 5]);
    drop(masks);
    assert!(is_clean(), "a mask used and others dropped");
    drop(order());
    let session = engine.session(Algorithm::Aead(Aead::ChaCha20Poly1305), &[7; 32]).unwrap();
    engine.submit(&session, batch(1, 5000)).unwrap().wait().unwrap();
    assert!(is_clean(), "an order that nobody waited for, and a batch");
    let mut begun = engine.launcher().begin().unwrap();
    begun.block().fill(9);
    drop(begun);
    assert!(is_clean(), "a launch that never was");
    assert!(knobs.launches.load(SeqCst) > 0);
}

#[test]
fn an_order_tells_of_its_failure() {
    let (engine, knobs) = engine(Options::default());
    assert!(engine.passes(Cipher::ChaCha20));
    knobs.plant(Fault::Ends, 1);
    let order = engine.keystream(Cipher::ChaCha20, &[[1; 32]], &contexts(&[64])).unwrap();
    assert!(matches!(order.wait(), Err(Failure::Call { .. })));
    *knobs.takes.lock().unwrap() = Duration::from_millis(100);
    let order = engine.keystream(Cipher::ChaCha20, &[[1; 32]], &contexts(&[64])).unwrap();
    let order = order.poll().expect_err("it takes longer");
    assert_eq!(order.wait().unwrap().len(), 1);
}

/// A mask is what sealing under its nonce XORs onto the data.
#[test]
fn masks_are_what_sealing_needs() {
    let (engine, _) = engine(Options::default());
    for aead in [Aead::ChaCha20Poly1305, Aead::XChaCha20Poly1305] {
        let algorithm = Algorithm::Aead(aead);
        let session = engine.session(algorithm, &[7; 32]).unwrap();
        let nonce = |number: u8| {
            let mut nonce = [number; 24];
            nonce[..24 - aead.nonce_len()].fill(0);
            FreshNonce::published(nonce)
        };
        let wanted = (1..4).map(|number| (nonce(number), 1000)).collect();
        for (number, mask) in (1..).zip(made(Order::place(&engine, &session, wanted).unwrap())) {
            let mut data = vec![number; 1000];
            let segment = Segment::seal(0, 1000, nonce(number), AssociatedData::new(&[]));
            let sealing = Batch::new(Operation::Seal, Buffer::copy_of(&data), vec![segment]);
            let session = ReferenceEngine.session(algorithm, &[7; 32]).unwrap();
            let sealed = ReferenceEngine.submit(&session, sealing).unwrap().wait().unwrap();
            let mut segment = Segment::seal_masked(0, 1000, mask, AssociatedData::new(&[]));
            let mask = segment.take_mask().expect("it brought one");
            data.iter_mut().zip(mask.bytes()).for_each(|(byte, mask)| *byte ^= mask);
            assert_eq!(sealed.batch.buffer[..], data);
        }
    }
}

fn made(order: Order<FreshNonce>) -> Vec<Mask<FreshNonce>> {
    let mut order = order;
    loop {
        match order.poll() {
            Ok(masks) => return masks,
            Err(waiting) => order = waiting,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[should_panic(expected = "shorter")]
fn a_mask_covers_what_it_is_used_for() {
    let (engine, _) = engine(Options::default());
    let order = engine.keystream(Cipher::ChaCha20, &[[1; 32]], &contexts(&[64])).unwrap();
    order.wait().unwrap().remove(0).xor_onto(&mut [0; 65]);
}
