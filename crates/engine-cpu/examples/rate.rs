//! Prints the rate of every algorithm on this machine: `cargo run --release
//! -p strongroom-engine-cpu --example rate`. GB is 10^9 bytes; one thread,
//! batches of 64 KiB that stay in cache; the median
//! batch, so that other work on the machine disturbs little.

use std::time::{Duration, Instant};

use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, Buffer, Engine, NonceSource, Operation, Outcome, SectorCipher,
    Segment, StoredNonce,
};
use strongroom_engine_cpu::CpuEngine;

const BATCH_LEN: usize = 64 * 1024;
const TIME: Duration = Duration::from_millis(400);

fn main() {
    let engine = CpuEngine::new();
    println!("engine {}, GB/s{:>29}{:>10}", engine.name(), "4 KiB", "64 KiB");
    let aeads = [("XAES-256-GCM", Aead::XAes256Gcm), ("XChaCha20-Poly1305", Aead::XChaCha20Poly1305)];
    for (name, aead) in [&aeads[..], &[("AEGIS-256X2", Aead::Aegis256X2)]].concat() {
        for operation in [Operation::Seal, Operation::Open, Operation::Keystream] {
            print_rates(&engine, name, Algorithm::Aead(aead), operation, 32);
        }
    }
    for (name, key_len) in [("AES-256-XTS", 64), ("AES-128-XTS", 32)] {
        for operation in [Operation::EncryptSectors, Operation::DecryptSectors] {
            print_rates(&engine, name, Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64), operation, key_len);
        }
    }
}

fn print_rates(engine: &CpuEngine, name: &str, algorithm: Algorithm, operation: Operation, key_len: usize) {
    if engine.capability(algorithm, operation).is_none() {
        return;
    }
    let key: Vec<u8> = (1..=key_len as u8).collect();
    let rate = |segment_len| measure(engine, algorithm, operation, &key, segment_len);
    let operation = format!("{operation:?}");
    println!("{name:<20}{operation:<16}{:>8.1}{:>10.1}", rate(4096), rate(BATCH_LEN));
}

/// Bytes per nanosecond, submission included, the building of segments not.
fn measure(
    engine: &CpuEngine,
    algorithm: Algorithm,
    operation: Operation,
    key: &[u8],
    segment_len: usize,
) -> f64 {
    let session = engine.session(algorithm, key).expect("the engine has the algorithm");
    let source = NonceSource::new().expect("the kernel gives random bytes");
    let mut buffer = Buffer::new(BATCH_LEN);
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < TIME {
        let mut nonces = source.batch(BATCH_LEN).expect("the kernel gives random bytes");
        let segments = (0..BATCH_LEN)
            .step_by(segment_len)
            .map(|start| match operation {
                Operation::Seal | Operation::Open => {
                    Segment::seal(start, segment_len, nonces.draw(), AssociatedData::new(&[7; 32]))
                }
                Operation::Keystream => Segment::keystream(start, segment_len, nonces.draw()),
                _ => Segment::sectors(start, segment_len, start as u64, 4096),
            })
            .collect();
        let mut batch = Batch::new(operation, buffer.take(), segments);
        if operation == Operation::Open {
            batch = sealed(engine, &session, batch);
        }
        let started = Instant::now();
        let ticket = engine.submit(&session, batch).expect("a sound batch");
        times.push(started.elapsed());
        let completed = ticket.wait().expect("an inline engine answers");
        assert_eq!(completed.outcome, Outcome::Done);
        buffer = completed.batch.buffer;
    }
    times.sort_unstable();
    BATCH_LEN as f64 / times[times.len() / 2].as_nanos() as f64
}

/// Seals a batch and makes the batch that opens it.
fn sealed(engine: &CpuEngine, session: &strongroom_engine::Session, mut batch: Batch) -> Batch {
    batch.operation = Operation::Seal;
    let ticket = engine.submit(session, batch).expect("a sound batch");
    let batch = ticket.wait().expect("an inline engine answers").batch;
    let segments = batch
        .segments
        .iter()
        .map(|segment| {
            let ad = AssociatedData::new(segment.associated_data());
            Segment::open(
                segment.start(),
                segment.len(),
                StoredNonce::new(*segment.nonce()),
                ad,
                *segment.tag(),
            )
        })
        .collect();
    Batch::new(Operation::Open, batch.buffer, segments)
}
