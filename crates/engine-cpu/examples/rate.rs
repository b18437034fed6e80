//! Prints the rate of every algorithm on this machine: `cargo run --release
//! -p strongroom-engine-cpu --example rate`. GB is 10^9 bytes; one thread,
//! batches of 64 KiB that stay in cache; the median
//! batch, so that other work on the machine disturbs little.

use std::time::{Duration, Instant};

use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, BatchNonces, Buffer, Engine, FreshNonce, NonceSource, Operation,
    Outcome, SectorCipher, SectorIv, SectorMode, Segment, StoredNonce, StreamNonces,
};
use strongroom_engine_cpu::{CpuEngine, Tier};

const BATCH_LEN: usize = 64 * 1024;
const TIME: Duration = Duration::from_millis(100);

fn main() {
    for engine in Tier::ALL.into_iter().filter_map(CpuEngine::of_tier) {
        println!("engine {}, GB/s{:>40}{:>10}", engine.name(), "4 KiB", "64 KiB");
        for aead in Aead::ALL {
            for operation in [Operation::Seal, Operation::Open, Operation::Keystream] {
                print_rates(&engine, Algorithm::Aead(aead), operation, 32);
            }
        }
        for sector in SectorCipher::all().filter(|sector| sector.iv == SectorIv::Plain64) {
            for operation in [Operation::EncryptSectors, Operation::DecryptSectors] {
                let key_len = if sector.mode == SectorMode::Xts { 64 } else { 32 };
                print_rates(&engine, Algorithm::Sector(sector), operation, key_len);
            }
        }
    }
}

fn print_rates(engine: &CpuEngine, algorithm: Algorithm, operation: Operation, key_len: usize) {
    if engine.capability(algorithm, operation).is_none() {
        return;
    }
    let key: Vec<u8> = (1..=key_len as u8).collect();
    let rate = |segment_len| measure(engine, algorithm, operation, &key, segment_len);
    let operation = format!("{operation:?}");
    println!("{algorithm:<32}{operation:<16}{:>8.2}{:>10.2}", rate(4096), rate(BATCH_LEN));
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
        let mut nonces = Nonces::of(algorithm, &source);
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

/// Nonces that fit the algorithm.
enum Nonces {
    Drawn(BatchNonces),
    Short(StreamNonces),
}

impl Nonces {
    fn of(algorithm: Algorithm, source: &NonceSource) -> Nonces {
        match algorithm {
            Algorithm::Aead(aead) if aead.nonce_len() == 12 => Nonces::Short(StreamNonces::for_fresh_key()),
            _ => Nonces::Drawn(source.batch(BATCH_LEN).expect("the kernel gives random bytes")),
        }
    }

    fn draw(&mut self) -> FreshNonce {
        match self {
            Nonces::Drawn(nonces) => nonces.draw(),
            Nonces::Short(nonces) => nonces.draw(false),
        }
    }
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
