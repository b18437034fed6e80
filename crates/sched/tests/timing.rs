//! What batches on the caller's thread are taken to cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Duration;

use strongroom_engine::client::execute;
use strongroom_engine::{
    Algorithm, Batch, Buffer, Cross, Crossing, Engine, Layer, Operation, Refusal, Refused, SectorCipher,
    Segment, Session, Ticket,
};
use strongroom_engine_cpu::CpuEngine;
use strongroom_engine_sim::{Faults, Model, SimEngine};
use strongroom_sched::{Options, Policy, Scheduler, Settings};

const NAP: Duration = Duration::from_millis(2);
/// One in so many batches naps; no divisor of how many are timed.
const NAPS: u64 = 7;
const BATCHES: u64 = 2400;
const LEN: usize = 512;

/// Computes on the CPU, and leaves it to others for a while at times.
struct Napping {
    cpu: CpuEngine,
    batches: AtomicU64,
}

impl Layer for Napping {
    fn inner(&self) -> &dyn Engine {
        &self.cpu
    }

    fn pass(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        if self.batches.fetch_add(1, Relaxed).is_multiple_of(NAPS) {
            sleep(NAP);
        }
        self.cpu.submit(session, batch)
    }

    fn pass_crossing(
        &self,
        inner: &dyn Cross,
        session: &Session,
        crossing: Crossing<'_>,
    ) -> Result<(), Refusal> {
        inner.cross(session, crossing)
    }
}

#[test]
fn who_else_has_the_cpu_does_not_count_as_cost() {
    let device =
        Arc::new(SimEngine::new(Arc::new(CpuEngine::new()), Model::moderate(), Faults::default(), 1));
    let options =
        Options { settings: Settings { policy: Policy::Fixed, ..Settings::default() }, ..Options::default() };
    let napping = Napping { cpu: CpuEngine::new(), batches: AtomicU64::new(0) };
    let engines: Vec<Arc<dyn Engine>> = vec![Arc::new(napping), device];
    let scheduler = Scheduler::new(engines, Arc::new(CpuEngine::new()), options);
    let algorithm = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
    let key: Vec<u8> = (0..64).collect();
    let session = scheduler.session(algorithm, &key).expect("XTS");
    for _ in 0..BATCHES {
        let segments = vec![Segment::sectors(0, LEN, 1, LEN as u32)];
        let batch = Batch::new(Operation::EncryptSectors, Buffer::new(LEN), segments);
        execute(&scheduler, &session, batch).expect("an answer");
    }
    let napping = &scheduler.statistics().engines[0];
    assert_eq!(napping.operations, BATCHES);
    let cost = Duration::from_nanos(napping.latency_ns_mean);
    assert!(cost > Duration::ZERO && cost < NAP / 100, "{cost:?} for a batch");
}
