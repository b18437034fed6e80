//! Prints what each engine does with each sector cipher in memory, as `cryptsetup benchmark` does: one line
//! for each, with blanks between engine, cipher, bits of the key, `encrypt` or `decrypt`, and bytes in a second.
//!
//! ```text
//! cargo run --release -p strongroom-disk --example memory -- [MILLISECONDS [ENGINE [CIPHER]]]
//! ```
//!
//! One thread, batches of 64 KiB in sectors of 512 bytes that stay in cache; the median batch, so that other
//! work on the machine disturbs little. Names may be parts of names.

use std::time::{Duration, Instant};

use strongroom_engine::{
    Algorithm, Batch, Buffer, Engine, Operation, Outcome, SectorCipher, SectorMode, Segment,
};
use strongroom_engine_cpu::{CpuEngine, Tier};

const BATCH_LEN: usize = 64 << 10;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let time = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(50);
    let (engine, cipher) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    for tier in Tier::ALL.into_iter().filter_map(CpuEngine::of_tier) {
        if !tier.name().contains(&engine) {
            continue;
        }
        for known in ciphers().filter(|known| known.to_string().contains(&cipher)) {
            // Keys of a length in between are as fast as those around them.
            let lens = Algorithm::Sector(known).key_lens();
            for len in [lens[0], lens[lens.len() - 1]] {
                for (operation, name) in
                    [(Operation::EncryptSectors, "encrypt"), (Operation::DecryptSectors, "decrypt")]
                {
                    let rate = rate(&tier, known, len, operation, Duration::from_millis(time));
                    println!("{} {known} {} {name} {rate:.0}", tier.name(), len * 8);
                }
            }
        }
    }
}

/// Those that a LUKS header can name.
fn ciphers() -> impl Iterator<Item = SectorCipher> {
    SectorCipher::all().filter(|cipher| {
        let name = cipher.to_string();
        let spec = strongroom_format::luks::CipherSpec::parse(&name);
        let is_pair = cipher.mode == SectorMode::Cbc || !name.contains("essiv");
        is_pair && spec.is_ok_and(|spec| strongroom_disk::cipher::algorithm(&spec).is_some())
    })
}

/// Bytes in a second.
fn rate(
    engine: &CpuEngine,
    cipher: SectorCipher,
    key_len: usize,
    operation: Operation,
    time: Duration,
) -> f64 {
    let key: Vec<u8> = (1..=key_len as u8).collect();
    let session = engine.session(Algorithm::Sector(cipher), &key).expect("an engine has every sector cipher");
    let mut buffer = Buffer::new(BATCH_LEN);
    let mut segments = Vec::with_capacity(1);
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < time || times.len() < 3 {
        segments.clear();
        segments.push(Segment::sectors(0, BATCH_LEN, 1, 512));
        let batch = Batch::new(operation, buffer.take(), std::mem::take(&mut segments));
        let started = Instant::now();
        let ticket = engine.submit(&session, batch).expect("a sound batch");
        times.push(started.elapsed());
        let completed = ticket.wait().expect("an inline engine answers");
        assert_eq!(completed.outcome, Outcome::Done);
        (buffer, segments) = (completed.batch.buffer, completed.batch.segments);
    }
    times.sort_unstable();
    BATCH_LEN as f64 / times[times.len() / 2].as_secs_f64()
}
