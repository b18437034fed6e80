//! What the scheduler adds to a batch that an inline engine computes:
//! `cargo run --release -p strongroom-sched --example overhead`. Times of the
//! bare engine and of the scheduler alternate; the medians are compared.

use std::sync::Arc;
use std::time::Instant;

use strongroom_engine::{Batch, Buffer, Engine, Operation, SectorCipher, Segment, Session};
use strongroom_engine_cpu::CpuEngine;
use strongroom_engine_sim::{Faults, Model, SimEngine};
use strongroom_sched::{Options, Policy, Scheduler, Settings};

const ROUNDS: usize = 200;
const BATCHES: u32 = 2_000;
const LEN: usize = 512;

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

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let cpu = || -> Arc<dyn Engine> { Arc::new(CpuEngine::new()) };
    let algorithm = strongroom_engine::Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
    let key: Vec<u8> = (0..64).collect();
    let bare = cpu();
    let bare_session = bare.session(algorithm, &key).expect("XTS");
    for policy in [Policy::Fixed, Policy::Size, Policy::Aca, Policy::Adaptive] {
        let device = Arc::new(SimEngine::new(cpu(), Model::moderate(), Faults::default(), 1));
        let settings = Settings { policy, beta_bytes: 1 << 20, ..Settings::default() };
        let options = Options { settings, ..Options::default() };
        let scheduler = Scheduler::new(vec![cpu(), device], cpu(), options);
        let session = scheduler.session(algorithm, &key).expect("XTS");
        let mut buffer = Buffer::new(LEN);
        let mut segments = vec![Segment::sectors(0, LEN, 1, LEN as u32)];
        let (mut alone, mut scheduled) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            alone.push(nanoseconds(&*bare, &bare_session, &mut segments, &mut buffer));
            scheduled.push(nanoseconds(&scheduler, &session, &mut segments, &mut buffer));
        }
        let (alone, scheduled) = (median(alone), median(scheduled));
        println!(
            "{:<9} {alone:6.0} ns alone, {scheduled:6.0} ns scheduled, {:5.0} ns more",
            policy.name(),
            scheduled - alone
        );
    }
}
