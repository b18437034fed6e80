//! What batches leave on the stack: no part of a key. What stays there would be
//! copied to the heap, with values whose room is not initialised.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use strongroom_engine::{Algorithm, AssociatedData, Batch, Buffer, Engine, FreshNonce, Operation, Segment};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine, Tier};

/// More than any cipher uses.
const DEPTH: usize = 96 << 10;
/// Two blocks of a vault and a rest.
const LEN: usize = 8192 + 512;

/// The stack of this thread below the caller.
#[inline(never)]
fn below() -> Vec<u8> {
    let here = 0_u8;
    let end = (&raw const *black_box(&here)).addr();
    let mut bytes = vec![0; DEPTH];
    let memory = File::open("/proc/self/mem").expect("one's own");
    memory.read_exact_at(&mut bytes, (end - DEPTH) as u64).expect("a thread's stack is mapped");
    bytes
}

/// Bytes that occur nowhere else.
fn key(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 151 + at * at * 7 + 29) as u8).collect()
}

fn holds_part_of(bytes: &[u8], key: &[u8]) -> bool {
    key.chunks_exact(16).any(|part| bytes.windows(16).any(|window| window == part))
}

fn batch(algorithm: Algorithm) -> Batch {
    let (operation, segment) = match algorithm {
        Algorithm::Aead(_) => {
            // Shorter ones stand behind zeros.
            let nonce = FreshNonce::published(std::array::from_fn(|at| if at < 12 { 0 } else { 5 }));
            (Operation::Seal, Segment::seal(0, LEN, nonce, AssociatedData::new(b"where")))
        }
        Algorithm::Sector(_) => (Operation::EncryptSectors, Segment::sectors(0, LEN, 3, 512)),
    };
    Batch::new(operation, Buffer::new(LEN), vec![segment])
}

/// Whether a batch of `algorithm` leaves a part of its key on a new thread's
/// stack; `None` when the engine lacks it.
fn leaves_key(engine: &(dyn Engine + Sync), algorithm: Algorithm, key: &[u8]) -> Option<bool> {
    let work = || {
        let session = engine.session(algorithm, key).ok()?;
        let submitted = engine.submit(&session, batch(algorithm));
        let ticket = submitted.unwrap_or_else(|refused| panic!("{algorithm}: {:?}", refused.refusal));
        let left = below();
        assert!(ticket.wait().is_ok());
        Some(holds_part_of(&left, key))
    };
    std::thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}

#[test]
fn no_part_of_a_key_stays() {
    let tiers = Tier::ALL.into_iter().filter_map(CpuEngine::of_tier).map(|engine| Box::new(engine) as Box<_>);
    let engines: Vec<Box<dyn Engine + Sync>> = tiers.chain([Box::new(ReferenceEngine) as Box<_>]).collect();
    let mut tried = 0;
    for engine in &engines {
        for algorithm in Algorithm::all() {
            let key = key(algorithm.key_lens()[0]);
            let Some(leaves) = leaves_key(&**engine, algorithm, &key) else { continue };
            assert!(!leaves, "{} {algorithm}", engine.name());
            tried += 1;
        }
    }
    assert!(tried >= 2 * Algorithm::all().count(), "{tried}");
}

#[test]
fn a_key_that_stays_is_found() {
    #[inline(never)]
    fn spill(key: &[u8]) {
        // Deeper than what reading takes.
        let mut spilled = [0; 16 << 10];
        spilled[16..48].copy_from_slice(key);
        black_box(&mut spilled);
    }
    let key = key(32);
    spill(&key);
    assert!(holds_part_of(&below(), &key));
}
