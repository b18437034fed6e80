//! Every device that is there, CPU drivers of OpenCL included, against the CPU engines: the conformance suite, and
//! keystream of every cipher and suite. Where there is none the tests say so and pass, unless the environment has
//! `STRONGROOM_GPU_REQUIRED`.

use std::sync::Arc;

use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, BlockCipher, Buffer, Engine, FreshNonce, Operation, Outcome,
    SectorCipher, SectorIv, SectorMode, Segment, Session, SessionError, conformance,
};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_engine_gpu::{Cipher, Completion, Context, GpuEngine, Options, OrderError, limits, survey};
use strongroom_sched::Scheduler;

const SUITES: [Aead; 6] = [
    Aead::XAes256Gcm,
    Aead::XChaCha20Poly1305,
    Aead::Aes256Gcm,
    Aead::ChaCha20Poly1305,
    Aead::Serpent256Poly1305,
    Aead::Cascade,
];

fn engines(options: Options) -> Vec<GpuEngine> {
    let survey = survey();
    survey.missing.iter().for_each(|missing| println!("skipped: {missing}"));
    let required = std::env::var_os("STRONGROOM_GPU_REQUIRED").is_some();
    assert!(!required || !survey.devices.is_empty(), "a device is required and there is none");
    let engine = |found: &strongroom_engine_gpu::Found| {
        println!("{}: {} by {}", found.name, found.info.name, found.info.driver);
        found.engine(options)
    };
    survey.devices.iter().map(engine).collect()
}

/// Bytes that look random (SplitMix64).
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95);
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)).to_le_bytes()
    };
    (0..len.div_ceil(8)).flat_map(|_| word()).take(len).collect()
}

/// Where the project's own conformance suite reaches: sectors in XTS, of every cipher, rule and length of key.
#[test]
fn the_conformance_suite() {
    for engine in engines(Options::default()) {
        conformance::run(&engine, &ReferenceEngine);
        for cipher in BlockCipher::ALL {
            for iv in SectorIv::ALL {
                let algorithm = Algorithm::Sector(SectorCipher::new(cipher, SectorMode::Xts, iv));
                let claims = |operation| engine.capability(algorithm, operation).is_some();
                assert!(
                    claims(Operation::EncryptSectors) && claims(Operation::DecryptSectors),
                    "{algorithm}"
                );
            }
        }
        assert!(!engine.is_lost());
    }
}

#[test]
fn what_it_does_not_have_is_said() {
    for engine in engines(Options::default()) {
        let cbc = SectorCipher::new(BlockCipher::Aes, SectorMode::Cbc, SectorIv::Plain64);
        let aegis = Algorithm::Aead(Aead::Aegis256X2);
        assert_eq!(engine.session(Algorithm::Sector(cbc), &[1; 32]).err(), Some(SessionError::Unsupported));
        assert_eq!(engine.session(aegis, &[1; 32]).err(), Some(SessionError::Unsupported));
        let xts = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
        assert_eq!(engine.session(xts, &[9; 64]).err(), Some(SessionError::Unsupported), "equal halves");
        for aead in SUITES {
            assert!(engine.capability(Algorithm::Aead(aead), Operation::Seal).is_none());
        }
    }
}

fn nonce(aead: Aead, seed: u64) -> FreshNonce {
    let mut nonce: [u8; 24] = bytes(seed, 24).try_into().expect("24 bytes");
    nonce[..24 - aead.nonce_len()].fill(0);
    FreshNonce::published(nonce)
}

fn run(engine: &dyn Engine, session: &Session, batch: Batch) -> Batch {
    let completed = engine.submit(session, batch).expect("a sound batch").wait().expect("an answer");
    assert_eq!(completed.outcome, Outcome::Done, "{}", engine.name());
    completed.batch
}

/// Segments of odd lengths at odd places, with nonces of some prefixes; what lies between stays.
fn keystream_batch(aead: Aead, lens: &[usize]) -> Batch {
    let mut end = 0;
    let segments = lens.iter().enumerate().map(|(at, &len)| {
        let start = end + at % 3;
        end = start + len;
        let mut bytes = nonce(aead, at as u64).bytes();
        if at % 4 != 0 && aead.nonce_len() == 24 {
            bytes[..16].copy_from_slice(&nonce(aead, at as u64 / 10).bytes()[..16]);
        }
        Segment::keystream(start, len, FreshNonce::published(bytes))
    });
    let segments: Vec<_> = segments.collect();
    Batch::new(Operation::Keystream, Buffer::copy_of(&bytes(77, end + 5)), segments)
}

#[test]
fn keystream_of_every_suite_is_the_references() {
    let lens: Vec<usize> = (0..70).chain([127, 128, 129, 255, 4095, 4096, 4097, 9000, 70_001]).collect();
    for completion in [Completion::Event, Completion::Poll] {
        for engine in engines(Options { completion, ..Options::default() }) {
            for aead in SUITES {
                let (algorithm, key) = (Algorithm::Aead(aead), bytes(5, 32));
                let session = engine.session(algorithm, &key).expect("a session");
                let found = run(&engine, &session, keystream_batch(aead, &lens));
                let session = ReferenceEngine.session(algorithm, &key).expect("a session");
                let expected = run(&ReferenceEngine, &session, keystream_batch(aead, &lens));
                assert!(found.buffer[..] == expected.buffer[..], "{}: {aead}", engine.name());
            }
        }
    }
}

/// Counter mode by the engines of the CPU: ChaCha20 and AES by the suites whose keystream they are, the others as
/// sectors of a disk, whose counter has 128 bits and so does not wrap at 32.
fn expected(cipher: Cipher, key: &[u8; 32], context: &Context) -> Vec<u8> {
    let block_len = if cipher == Cipher::ChaCha20 { 64 } else { 16 };
    let before_wrap = (u64::from(u32::MAX) + 1 - u64::from(context.counter)) * block_len;
    let first = context.len.min(usize::try_from(before_wrap).expect("64 bits"));
    let mut stream = expected_without_wrap(cipher, key, &Context { len: first, ..*context });
    if first < context.len {
        let rest = Context { counter: 0, len: context.len - first, ..*context };
        stream.extend(expected_without_wrap(cipher, key, &rest));
    }
    stream
}

fn expected_without_wrap(cipher: Cipher, key: &[u8; 32], context: &Context) -> Vec<u8> {
    let block_cipher = match cipher {
        Cipher::ChaCha20 => return expected_chacha20(key, context),
        Cipher::Aes => BlockCipher::Aes,
        Cipher::Serpent => BlockCipher::Serpent,
        Cipher::Twofish => BlockCipher::Twofish,
        Cipher::Camellia => BlockCipher::Camellia,
    };
    // A sector of counter mode, whose IV is the first counter block.
    let sector = SectorCipher::new(block_cipher, SectorMode::Ctr, SectorIv::Plain128);
    let session = ReferenceEngine.session(Algorithm::Sector(sector), key).expect("a session");
    let len = context.len.next_multiple_of(16);
    if len == 0 {
        return Vec::new();
    }
    let mut block = [0; 16];
    block[..12].copy_from_slice(&context.nonce);
    block[12..].copy_from_slice(&context.counter.to_be_bytes());
    let numbers = strongroom_engine::SectorNumbers { first: u128::from_le_bytes(block), step: 0 };
    let segment = Segment::numbered_sectors(0, len, numbers, len as u32);
    let batch = Batch::new(Operation::EncryptSectors, Buffer::new(len), vec![segment]);
    run(&ReferenceEngine, &session, batch).buffer[..context.len].to_vec()
}

/// The keystream that sealing uses begins at counter 1: what is before is skipped from there, or asked for as sealing
/// with an earlier start would be, so contexts for it begin at 1 or wrap to it.
fn expected_chacha20(key: &[u8; 32], context: &Context) -> Vec<u8> {
    let algorithm = Algorithm::Aead(Aead::ChaCha20Poly1305);
    let mut nonce = [0; 24];
    nonce[12..].copy_from_slice(&context.nonce);
    let skipped = 64 * (context.counter as usize - 1);
    let segment = Segment::keystream(0, skipped + context.len, FreshNonce::published(nonce));
    let buffer = Buffer::new(skipped + context.len);
    let session = ReferenceEngine.session(algorithm, key).expect("a session");
    let batch = Batch::new(Operation::Keystream, buffer, vec![segment]);
    run(&ReferenceEngine, &session, batch).buffer[skipped..].to_vec()
}

fn contexts(count: usize, keys: usize, len: impl Fn(usize) -> usize) -> Vec<Context> {
    let context = |at: usize| {
        let random = bytes(at as u64 + 1000, 16);
        Context {
            key: at * 7 % keys,
            nonce: random[..12].try_into().expect("12 bytes"),
            counter: 1 + u32::from(random[12] % 8),
            len: len(at),
        }
    };
    (0..count).map(context).collect()
}

fn check_contexts(engine: &GpuEngine, cipher: Cipher, keys: &[[u8; 32]], contexts: &[Context]) {
    let order = engine.keystream(cipher, keys, contexts).expect("an order");
    let masks = order.wait().expect("masks");
    assert_eq!(masks.len(), contexts.len());
    for (mask, context) in masks.into_iter().zip(contexts) {
        let mut data = vec![0; context.len];
        mask.xor_onto(&mut data);
        let expected = expected(cipher, &keys[context.key], context);
        assert!(data == expected, "{}: {cipher}: {context:?}", engine.name());
    }
}

fn keys(count: u64) -> Vec<[u8; 32]> {
    (0..count).map(|at| bytes(at + 40, 32).try_into().expect("32 bytes")).collect()
}

#[test]
fn contexts_of_odd_lengths_and_many_keys() {
    for engine in engines(Options::default()) {
        for cipher in Cipher::ALL {
            check_contexts(&engine, cipher, &keys(1), &contexts(1, 1, |_| 1));
            check_contexts(&engine, cipher, &keys(9), &contexts(120, 9, |at| at * 37 % 1500));
            check_contexts(&engine, cipher, &keys(2), &contexts(3, 2, |at| [0, 30_000, 17][at]));
            assert_eq!(engine.keystream(cipher, &[], &[]).expect("an order").wait().expect("none").len(), 0);
        }
    }
}

#[test]
fn four_thousand_contexts_in_one_launch() {
    for engine in engines(Options::default()) {
        for cipher in Cipher::ALL {
            let each = contexts(limits::CONTEXTS_MAX, limits::CONTEXTS_MAX, |at| 16 + at % 3);
            check_contexts(&engine, cipher, &keys(limits::CONTEXTS_MAX as u64), &each);
        }
        // As many of 4 KiB; some are compared.
        let (keys, each) = (keys(3), contexts(limits::CONTEXTS_MAX, 3, |_| 4096));
        let order = engine.keystream(Cipher::Serpent, &keys, &each).expect("an order");
        let masks = order.wait().expect("masks");
        for (mask, context) in masks.into_iter().zip(&each).step_by(97) {
            let mut data = vec![0; 4096];
            mask.xor_onto(&mut data);
            assert!(data == expected(Cipher::Serpent, &keys[context.key], context), "{context:?}");
        }
        let too_many = contexts(limits::CONTEXTS_MAX + 1, 1, |_| 1);
        let refused = engine.keystream(Cipher::Aes, &keys, &too_many).err();
        assert_eq!(refused, Some(OrderError::TooLarge));
    }
}

/// At 2^32, wherever a work-item or a piece ends there; the nonce stays.
#[test]
fn counters_wrap_without_a_carry() {
    for engine in engines(Options::default()) {
        for cipher in Cipher::ALL.into_iter().filter(|cipher| *cipher != Cipher::ChaCha20) {
            let mut each = contexts(40, 3, |at| 100 + 411 * at);
            for (at, context) in (0..).zip(&mut each) {
                context.counter = u32::MAX - 7 * at;
                context.nonce[8..].fill(0xff);
            }
            check_contexts(&engine, cipher, &keys(3), &each);
        }
        // RFC 8439 has no answer to that: the block after the last is that of counter 0.
        let at = |counter, len| Context { key: 0, nonce: [0xff; 12], counter, len };
        let each = [at(u32::MAX, 192), at(0, 128)];
        let masks = engine.keystream(Cipher::ChaCha20, &keys(1), &each).expect("an order").wait();
        let bytes: Vec<Vec<u8>> = masks
            .expect("masks")
            .into_iter()
            .map(|mask| {
                let mut bytes = vec![0; mask.len()];
                mask.xor_onto(&mut bytes);
                bytes
            })
            .collect();
        assert!(bytes[0][64..] == bytes[1][..] && bytes[0][..64] != bytes[0][64..128]);
    }
}

/// Threads that order and submit at the same time, with several launches in flight.
#[test]
fn threads_share_a_device() {
    for engine in engines(Options { lanes: 3, ..Options::default() }) {
        let session =
            engine.session(Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64), &bytes(3, 64)).expect("one");
        let reference = ReferenceEngine;
        let expected = reference.session(Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64), &bytes(3, 64));
        let expected = expected.expect("a session");
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (engine, session, expected) = (&engine, &session, &expected);
                scope.spawn(move || {
                    for round in 0..10 {
                        let data = bytes(thread * 100 + round, 8192);
                        let batch = || {
                            let segments = vec![Segment::sectors(0, 8192, thread * 1000 + round, 512)];
                            Batch::new(Operation::EncryptSectors, Buffer::copy_of(&data), segments)
                        };
                        let mut waiting = batch();
                        let done = loop {
                            match engine.submit(session, waiting) {
                                Ok(ticket) => break ticket.wait().expect("an answer"),
                                Err(refused) => waiting = refused.batch,
                            }
                            std::thread::yield_now();
                        };
                        let wanted = run(&ReferenceEngine, expected, batch());
                        assert!(done.batch.buffer[..] == wanted.buffer[..]);
                    }
                });
            }
        });
    }
}

/// Under a scheduler beside the CPU: sealing goes to the CPU, which alone has it; keystream and sectors go to either.
#[test]
fn beside_the_cpu_under_a_scheduler() {
    for engine in engines(Options::default()) {
        let cpu: Arc<dyn Engine> = Arc::new(CpuEngine::new());
        let engines = vec![cpu, Arc::new(engine) as Arc<dyn Engine>];
        let scheduler =
            Scheduler::new(engines, Arc::new(ReferenceEngine), strongroom_sched::Options::default());
        for aead in SUITES {
            let algorithm = Algorithm::Aead(aead);
            let session = scheduler.session(algorithm, &bytes(8, 32)).expect("a session");
            let expected = ReferenceEngine.session(algorithm, &bytes(8, 32)).expect("a session");
            for round in 0..8 {
                let sealing = || {
                    let ad = AssociatedData::new(b"beside");
                    let segment = Segment::seal(0, 4096, nonce(aead, round), ad);
                    Batch::new(Operation::Seal, Buffer::copy_of(&bytes(round, 4096)), vec![segment])
                };
                let (one, other) =
                    (run(&scheduler, &session, sealing()), run(&ReferenceEngine, &expected, sealing()));
                assert!(
                    one.buffer[..] == other.buffer[..] && one.segments[0].tag() == other.segments[0].tag()
                );
                let masks = || keystream_batch(aead, &[4096; 9]);
                let (one, other) =
                    (run(&scheduler, &session, masks()), run(&ReferenceEngine, &expected, masks()));
                assert!(one.buffer[..] == other.buffer[..], "{aead}");
            }
        }
    }
}
