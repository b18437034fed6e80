//! Does the time of a cipher depend on secrets? `cargo xtask dudect`, or
//! `cargo run --release -p strongroom-engine-cpu --example dudect [CALLS [NAME]]`.
//!
//! Each kernel runs on inputs of two classes that differ in secrets alone, in
//! random order, and Welch's t-test says whether their times have one mean
//! (Reparaz, Balasch, Verbauwhede: "Dude, is my code constant time?", DATE
//! 2017). As there, slow measurements are cut off at several quantiles, since
//! interrupts hide what is sought, and the largest |t| counts. Below 4.5
//! nothing was seen; above 10 there is a dependence, or something on the
//! machine that changes with the class. Nothing seen is no proof.
//!
//! The classes: equal data against random data; one key against random keys,
//! spread over equally many sessions; a wrong tag that differs in its first
//! byte against one that differs in its last. Two controls have to be seen: a
//! comparison that ends at the first difference, and a table look-up.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use strongroom_engine::{
    Aead, Algorithm, AssociatedData, Batch, BlockCipher, Buffer, Engine, NonceSource, Operation,
    SectorCipher, SectorIv, SectorMode, Segment, Session, StoredNonce,
};
use strongroom_engine_cpu::{CpuEngine, Tier};

/// Above this |t| the classes differ.
const DIFFERS: f64 = 10.0;
/// Above this |t| it is worth measuring once more.
const DOUBTFUL: f64 = 4.5;
/// Bytes of a call: as few as the code for long messages is used for.
const LEN: usize = 1024;
/// Inputs of each class that are made before, so that both are read alike.
const INPUTS: usize = 64;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Times of two classes, in nanoseconds.
type Times = [Vec<f64>; 2];

/// Measures `call(class, input)` in random order.
fn measure(calls: usize, rng: &mut Rng, mut call: impl FnMut(usize, usize) -> f64) -> Times {
    let mut times = Times::default();
    for at in 0..calls + calls / 10 {
        let drawn = rng.next();
        let class = (drawn & 1) as usize;
        let time = call(class, (drawn >> 8) as usize % INPUTS);
        // The first tenth warms the caches.
        if at >= calls / 10 {
            times[class].push(time);
        }
    }
    times
}

fn mean_and_variance(times: &[f64]) -> (f64, f64) {
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    (mean, squares / (times.len() as f64 - 1.0))
}

/// Welch's t of both classes.
fn welch(times: &Times) -> f64 {
    if times.iter().any(|class| class.len() < 100) {
        return 0.0;
    }
    let [(a, var_a), (b, var_b)] = [mean_and_variance(&times[0]), mean_and_variance(&times[1])];
    let spread = var_a / times[0].len() as f64 + var_b / times[1].len() as f64;
    if spread == 0.0 { 0.0 } else { (a - b) / spread.sqrt() }
}

/// The largest |t| of the times below several quantiles of all times.
fn largest_t(times: &Times) -> f64 {
    let mut all: Vec<f64> = times.concat();
    all.sort_unstable_by(f64::total_cmp);
    let quantile = |part: f64| all[((all.len() - 1) as f64 * part) as usize];
    [0.5, 0.75, 0.9, 0.95, 0.99, 1.0]
        .into_iter()
        .map(|part| {
            let limit = quantile(part);
            let below = times
                .each_ref()
                .map(|class| class.iter().copied().filter(|&time| time <= limit).collect::<Vec<f64>>());
            welch(&below).abs()
        })
        .fold(0.0, f64::max)
}

/// One kernel under test.
struct Kernel<'a> {
    engine: &'a CpuEngine,
    algorithm: Algorithm,
    operation: Operation,
}

impl Kernel<'_> {
    fn session(&self, key: &[u8]) -> Session {
        self.engine.session(self.algorithm, key).expect("the engine has the algorithm")
    }

    fn key_len(&self) -> usize {
        *self.algorithm.key_lens().last().expect("every algorithm has a key")
    }

    fn segment(&self, nonces: &NonceSource) -> Segment {
        match self.operation {
            Operation::Seal => {
                let nonce = nonces.batch(LEN).expect("random bytes").draw();
                Segment::seal(0, LEN, nonce, AssociatedData::new(&[7; 16]))
            }
            _ => Segment::sectors(0, LEN, 9, LEN as u32),
        }
    }

    /// The time of one call.
    fn time(&self, session: &Session, buffer: &mut Buffer, segment: Segment) -> f64 {
        let batch = Batch::new(self.operation, buffer.take(), vec![segment]);
        let started = Instant::now();
        let ticket = self.engine.submit(black_box(session), black_box(batch)).expect("a sound batch");
        let taken = started.elapsed();
        *buffer = ticket.wait().expect("an inline engine answers").batch.buffer;
        taken.as_nanos() as f64
    }

    fn of_data(&self, calls: usize, rng: &mut Rng) -> Times {
        let session = self.session(&rng.bytes(self.key_len()));
        let fixed = rng.bytes(LEN);
        let inputs = [vec![fixed; INPUTS], (0..INPUTS).map(|_| rng.bytes(LEN)).collect()];
        let (nonces, mut buffer) = (NonceSource::new().expect("random bytes"), Buffer::new(LEN));
        measure(calls, rng, |class, input| {
            buffer.copy_from_slice(&inputs[class][input]);
            self.time(&session, &mut buffer, self.segment(&nonces))
        })
    }

    fn of_key(&self, calls: usize, rng: &mut Rng) -> Times {
        let fixed = rng.bytes(self.key_len());
        // Made in turn, so that neither class lies better in memory.
        let mut sessions: [Vec<Session>; 2] = Default::default();
        for _ in 0..INPUTS {
            sessions[0].push(self.session(&fixed));
            sessions[1].push(self.session(&rng.bytes(self.key_len())));
        }
        let (nonces, mut buffer) = (NonceSource::new().expect("random bytes"), Buffer::new(LEN));
        let data = rng.bytes(LEN);
        measure(calls, rng, |class, input| {
            buffer.copy_from_slice(&data);
            self.time(&sessions[class][input], &mut buffer, self.segment(&nonces))
        })
    }

    /// Opening under tags that are wrong in the first byte, or in the last.
    fn of_tag(&self, calls: usize, rng: &mut Rng) -> Times {
        let session = self.session(&rng.bytes(self.key_len()));
        let nonces = NonceSource::new().expect("random bytes");
        let mut buffer = Buffer::new(LEN);
        buffer.copy_from_slice(&rng.bytes(LEN));
        let sealing = Kernel { operation: Operation::Seal, ..*self };
        let batch = Batch::new(Operation::Seal, buffer, vec![sealing.segment(&nonces)]);
        let sealed = self.engine.submit(&session, batch).expect("sound").wait().expect("inline").batch;
        let (nonce, tag) = (*sealed.segments[0].nonce(), *sealed.segments[0].tag());
        let ciphertext = sealed.buffer.to_vec();
        let mut buffer = Buffer::new(LEN);
        measure(calls, rng, |class, _| {
            buffer.copy_from_slice(&ciphertext);
            let mut wrong = tag;
            let at = if class == 0 { 0 } else { wrong.len() - 1 };
            wrong[at] ^= 1;
            let ad = AssociatedData::new(&[7; 16]);
            self.time(&session, &mut buffer, Segment::open(0, LEN, StoredNonce::new(nonce), ad, wrong))
        })
    }
}

/// A comparison that ends at the first difference.
fn early_exit(calls: usize, rng: &mut Rng) -> Times {
    let right = rng.bytes(256);
    measure(calls, rng, |class, _| {
        let mut wrong = right.clone();
        wrong[if class == 0 { 0 } else { 255 }] ^= 1;
        let started = Instant::now();
        black_box(black_box(&right).iter().zip(black_box(&wrong)).all(|(a, b)| black_box(a) == black_box(b)));
        started.elapsed().as_nanos() as f64
    })
}

/// Look-ups in a table larger than the first caches, at addresses that the
/// data give.
fn table(calls: usize, rng: &mut Rng) -> Times {
    let table = rng.bytes(8 << 20);
    let inputs: [Vec<Vec<u64>>; 2] = [
        vec![vec![rng.next(); 32]; INPUTS],
        (0..INPUTS).map(|_| (0..32).map(|_| rng.next()).collect()).collect(),
    ];
    measure(calls, rng, |class, input| {
        let started = Instant::now();
        let sum = inputs[class][input].iter().map(|&at| u64::from(table[at as usize % table.len()]));
        black_box(sum.sum::<u64>());
        started.elapsed().as_nanos() as f64
    })
}

fn verdict(t: f64) -> &'static str {
    match t {
        t if t > DIFFERS => "differs",
        t if t > DOUBTFUL => "doubtful",
        _ => "nothing seen",
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let calls = words.next().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let only = words.next().unwrap_or_default();
    let mut rng = Rng(Instant::now().elapsed().as_nanos() as u64 ^ 0x5eed);
    let line = |what: &str, class: &str, t: f64| println!("{what:<52}{class:<8}{t:>9.1}  {}", verdict(t));
    println!("{calls} calls of {LEN} bytes for each line\n{:<52}{:<8}{:>9}", "what", "secret", "|t|");
    let controls = [
        ("control: comparison with an early end", largest_t(&early_exit(calls, &mut rng))),
        ("control: table of 8 MiB", largest_t(&table(calls, &mut rng))),
    ];
    controls.iter().for_each(|(what, t)| line(what, "data", *t));
    for engine in Tier::ALL.into_iter().filter_map(CpuEngine::of_tier) {
        let sectors = [BlockCipher::Aes, BlockCipher::Serpent, BlockCipher::Twofish, BlockCipher::Camellia]
            .map(|cipher| SectorCipher { cipher, mode: SectorMode::Xts, iv: SectorIv::Plain64 });
        for algorithm in sectors.map(Algorithm::Sector) {
            for operation in [Operation::EncryptSectors, Operation::DecryptSectors] {
                let what = format!("{} {algorithm} {operation:?}", engine.name());
                if engine.capability(algorithm, operation).is_some() && what.contains(&only) {
                    let kernel = Kernel { engine: &engine, algorithm, operation };
                    line(&what, "data", largest_t(&kernel.of_data(calls, &mut rng)));
                    line(&what, "key", largest_t(&kernel.of_key(calls, &mut rng)));
                }
            }
        }
        for algorithm in Aead::ALL.into_iter().filter(|aead| aead.nonce_len() == 24).map(Algorithm::Aead) {
            let what = format!("{} {algorithm}", engine.name());
            if engine.capability(algorithm, Operation::Seal).is_some() && what.contains(&only) {
                let seal = Kernel { engine: &engine, algorithm, operation: Operation::Seal };
                line(&what, "data", largest_t(&seal.of_data(calls, &mut rng)));
                let open = Kernel { operation: Operation::Open, ..seal };
                line(&what, "tag", largest_t(&open.of_tag(calls, &mut rng)));
            }
        }
    }
    // A measurement that sees nothing where there is something says nothing.
    match controls.iter().all(|&(_, t)| t > DIFFERS) {
        true => ExitCode::SUCCESS,
        false => {
            eprintln!("the controls were not seen: the machine is too busy, or the calls too few");
            ExitCode::FAILURE
        }
    }
}
