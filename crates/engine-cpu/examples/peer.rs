//! The engines of this crate behind the protocol of `cargo xtask bench
//! crypto-peers`, as `crates/compare/src/crypto_peers/peer.c` has it for other
//! libraries: `peer cpu-vaes` reads lines `ALGORITHM DIRECTION MILLISECONDS`,
//! works on one message of 64 KiB for that long, and answers `BYTES
//! NANOSECONDS CHECKSUM`, the time being the CPU's, or `-`.

use std::io::{BufRead, Write};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, BlockCipher, Buffer, Engine, FreshNonce, Operation, Outcome,
    SectorCipher, SectorIv, SectorMode, Segment, Session,
};
use strongroom_engine_cpu::{CpuEngine, Tier};

const LEN: usize = 64 * 1024;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let tier = Tier::ALL.into_iter().find(|tier| tier.engine_name() == name).unwrap_or_else(Tier::best);
    let engine = CpuEngine::of_tier(tier).expect("this CPU has the tier");
    println!("strongroom {} ({})", env!("CARGO_PKG_VERSION"), engine.name());
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        let [algorithm, direction, milliseconds] = words[..] else { break };
        let time = Duration::from_millis(milliseconds.parse().expect("a count"));
        let answer = match algorithm_of(algorithm) {
            Some(algorithm) => measure(&engine, algorithm, direction == "encrypt", time),
            None => None,
        };
        match answer {
            Some((bytes, took, checksum)) => println!("{bytes} {} {checksum:016x}", took.as_nanos()),
            None => println!("-"),
        }
        std::io::stdout().flush().expect("somebody reads");
    }
}

fn algorithm_of(name: &str) -> Option<Algorithm> {
    match name {
        "aes-gcm" => Some(Algorithm::Aead(Aead::Aes256Gcm)),
        "chacha20-poly1305" => Some(Algorithm::Aead(Aead::ChaCha20Poly1305)),
        _ => {
            let (cipher, mode) = name.split_once('-')?;
            let cipher = BlockCipher::ALL.into_iter().find(|known| known.to_string() == cipher)?;
            let mode = SectorMode::ALL.into_iter().find(|known| known.to_string() == mode)?;
            Some(Algorithm::Sector(SectorCipher::new(cipher, mode, SectorIv::Plain64)))
        }
    }
}

/// Bytes, time, and what the first message became.
fn measure(
    engine: &CpuEngine,
    algorithm: Algorithm,
    encrypt: bool,
    time: Duration,
) -> Option<(u64, Duration, u64)> {
    let operation = match (algorithm, encrypt) {
        (Algorithm::Aead(_), true) => Operation::Seal,
        (Algorithm::Aead(_), false) => return None,
        (Algorithm::Sector(_), true) => Operation::EncryptSectors,
        (Algorithm::Sector(_), false) => Operation::DecryptSectors,
    };
    let key: Vec<u8> = (1..=*algorithm.key_lens().last()?).map(|byte| byte as u8).collect();
    let session = engine.session(algorithm, &key).ok()?;
    let mut buffer = Buffer::new(LEN);
    buffer.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31) as u8);
    let segment = match operation {
        // The nonce that the other libraries have; the key is public.
        Operation::Seal => {
            Segment::seal(0, LEN, FreshNonce::published([0; 24]), AssociatedData::new(&[7; 32]))
        }
        _ => Segment::sectors(0, LEN, 0, LEN as u32),
    };
    let mut segments = vec![segment];
    once(engine, &session, operation, &mut buffer, &mut segments);
    let checksum = buffer.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let (began, mut bytes) = (cpu_time(), 0);
    loop {
        for _ in 0..4 {
            once(engine, &session, operation, &mut buffer, &mut segments);
        }
        bytes += 4 * LEN as u64;
        let took = cpu_time().saturating_sub(began);
        if took >= time {
            return Some((bytes, took, checksum));
        }
    }
}

/// What this process has computed: clock_gettime(2). Other work on the machine
/// is not in it.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn once(
    engine: &CpuEngine,
    session: &Session,
    operation: Operation,
    buffer: &mut Buffer,
    segments: &mut Vec<Segment>,
) {
    segments[0].set_pending();
    let batch = Batch::new(operation, buffer.take(), std::mem::take(segments));
    let ticket = engine.submit(session, batch).expect("a sound batch");
    let completed = ticket.wait().expect("an inline engine answers");
    assert_eq!(completed.outcome, Outcome::Done);
    (*buffer, *segments) = (completed.batch.buffer, completed.batch.segments);
}
