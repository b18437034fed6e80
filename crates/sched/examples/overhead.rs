//! What the scheduler adds to a batch that an inline engine computes: alone, as
//! on mounts with one engine, and beside a device under each policy.
//! `cargo run --release -p strongroom-sched --example overhead`. Times of the
//! bare engine and of the scheduler alternate; the medians are compared, and
//! the middle half of the differences is shown.

use std::sync::Arc;
use std::time::Instant;

use strongroom_engine::{Batch, Buffer, Engine, Operation, SectorCipher, Segment, Session};
use strongroom_engine_cpu::CpuEngine;
use strongroom_engine_sim::{Faults, Model, SimEngine};
use strongroom_sched::{Options, Policy, Scheduler, Settings};

const ROUNDS: usize = 200;
const BATCHES: u32 = 2_000;
/// A sector, and a block of a vault.
const LENS: [usize; 2] = [512, 4096];

fn nanoseconds(
    engine: &dyn Engine,
    session: &Session,
    segments: &mut Vec<Segment>,
    buffer: &mut Buffer,
) -> f64 {
    let began = Instant::now();
    for _ in 0..BATCHES {
        segments[0].set_pending();
        let batch = Batch::new(Operation::EncryptSectors, buffer.take(), std::mem::take(segments));
        let completed = engine.submit(session, batch).expect("a sound batch").wait().expect("an answer");
        *buffer = completed.batch.buffer;
        *segments = completed.batch.segments;
    }
    began.elapsed().as_nanos() as f64 / f64::from(BATCHES)
}

/// The value below which this share of a sample is.
fn quantile(sample: &[f64], share: f64) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn cpu() -> Arc<dyn Engine> {
    Arc::new(CpuEngine::new())
}

/// Prints a line for these engines under a policy, by batches of `len` bytes.
fn compare(name: &str, engines: Vec<Arc<dyn Engine>>, policy: Policy, len: usize) {
    let algorithm = strongroom_engine::Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
    let key: Vec<u8> = (0..64).collect();
    let bare = cpu();
    let bare_session = bare.session(algorithm, &key).expect("XTS");
    let settings = Settings { policy, beta_bytes: 1 << 20, ..Settings::default() };
    let options = Options { settings, ..Options::default() };
    let scheduler = Scheduler::new(engines, cpu(), options);
    let session = scheduler.session(algorithm, &key).expect("XTS");
    let mut buffer = Buffer::new(len);
    let mut segments = vec![Segment::sectors(0, len, 1, 512)];
    let (mut alone, mut more) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let bare = nanoseconds(&*bare, &bare_session, &mut segments, &mut buffer);
        let scheduled = nanoseconds(&scheduler, &session, &mut segments, &mut buffer);
        alone.push(bare);
        more.push(scheduled - bare);
    }
    let [alone, more, from, to] =
        [(&alone, 0.5), (&more, 0.5), (&more, 0.25), (&more, 0.75)].map(|(of, share)| quantile(of, share));
    println!("{name:<12} {len:5} bytes: {alone:6.0} ns alone, {more:5.1} ns more ({from:.1} to {to:.1})");
}

fn main() {
    for len in LENS {
        compare("one engine", vec![cpu()], Policy::Adaptive, len);
        for policy in [Policy::Fixed, Policy::Size, Policy::Aca, Policy::Adaptive] {
            let device = Arc::new(SimEngine::new(cpu(), Model::moderate(), Faults::default(), 1));
            compare(policy.name(), vec![cpu(), device], policy, len);
        }
    }
}
