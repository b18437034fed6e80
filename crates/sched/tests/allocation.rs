//! The inline path allocates nothing: neither the scheduler nor the CPU
//! engine, whatever the suite and the number of segments.

use std::alloc::System;
use std::sync::Arc;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, Buffer, Engine, FreshNonce, Operation, Outcome, SectorCipher,
    Segment, Session, StoredNonce,
};
use strongroom_engine_cpu::CpuEngine;
use strongroom_sched::{Options, Scheduler};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SEGMENTS: usize = 32;
const SEGMENT_LEN: usize = 4096;

/// A batch of every kind, over segments in ascending order.
fn batch(operation: Operation) -> Batch {
    let segments = (0..SEGMENTS).map(|i| {
        let start = i * SEGMENT_LEN;
        let mut nonce = [7; 24];
        nonce[23] = i as u8;
        let (fresh, ad) = (FreshNonce::published(nonce), AssociatedData::new(&[1; 40]));
        match operation {
            Operation::Seal => Segment::seal(start, SEGMENT_LEN, fresh, ad),
            Operation::Open => Segment::open(start, SEGMENT_LEN, StoredNonce::new(nonce), ad, [0; 16]),
            Operation::Keystream => Segment::keystream(start, SEGMENT_LEN, fresh),
            _ => Segment::sectors(start, SEGMENT_LEN, i as u64, 4096),
        }
    });
    let segments = segments.collect();
    Batch::new(operation, Buffer::new(SEGMENTS * SEGMENT_LEN), segments)
}

fn submit(engine: &Scheduler, session: &Session, batch: Batch) -> Outcome {
    let completed = engine.submit(session, batch).expect("a sound batch").wait().expect("inline");
    let outcome = completed.outcome;
    std::mem::forget(completed.batch);
    outcome
}

/// One test, which prints what the harness would.
fn main() {
    an_inline_batch_allocates_nothing();
    println!("test an_inline_batch_allocates_nothing ... ok");
    println!("test result: ok. 1 passed; 0 failed; 0 ignored");
}

fn an_inline_batch_allocates_nothing() {
    let cpu = || -> Arc<dyn Engine> { Arc::new(CpuEngine::new()) };
    // Alone, and chosen by a policy from two.
    for engines in [vec![cpu()], vec![cpu(), cpu()]] {
        let scheduler = Scheduler::new(engines, cpu(), Options::default());
        // Its thread has begun by then.
        std::thread::sleep(std::time::Duration::from_secs(1));
        allocates_nothing(&scheduler);
    }
}

fn allocates_nothing(engine: &Scheduler) {
    let aead = |aead| (Algorithm::Aead(aead), 32);
    let algorithms = [
        aead(Aead::XAes256Gcm),
        aead(Aead::XChaCha20Poly1305),
        aead(Aead::Aegis256X2),
        aead(Aead::Aegis256X4),
        aead(Aead::Serpent256Poly1305),
        aead(Aead::Cascade),
        (Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64), 32),
        (Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64), 64),
    ];
    let operations = [
        Operation::Seal,
        Operation::Open,
        Operation::Keystream,
        Operation::EncryptSectors,
        Operation::DecryptSectors,
    ];
    for (algorithm, key_len) in algorithms {
        let key: Vec<u8> = (0..key_len).collect();
        let session = engine.session(algorithm, &key).expect("the engine has every algorithm");
        for operation in operations {
            if engine.capability(algorithm, operation).is_none() {
                continue;
            }
            let expected = match operation {
                Operation::Open => Outcome::AuthenticationFailed,
                _ => Outcome::Done,
            };
            // The first batch on each engine may derive keys, which are kept.
            for _ in 0..4 {
                assert_eq!(submit(engine, &session, batch(operation)), expected);
            }
            let second = batch(operation);
            let region = Region::new(ALLOCATOR);
            let outcome = submit(engine, &session, second);
            let change = region.change();
            assert_eq!(outcome, expected);
            assert_eq!(change.allocations + change.reallocations, 0, "{algorithm:?} {operation:?}");
        }
    }
}
