//! How long cryptography keeps the threads that wait for it.
//!
//! [`Metered`] stands between a consumer and the scheduler. One batch in
//! [`SAMPLED`] is timed, so that the others cost a counter; a batch on a
//! device keeps its submitter as long as that waits, which is not seen here
//! and is told by the scheduler's own figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use strongroom_engine::{Batch, Cross, Crossing, Engine, Layer, Refusal, Refused, Session, Ticket};

/// One batch in so many is timed.
const SAMPLED: u64 = 16;

/// An engine with a clock.
pub(crate) struct Metered {
    engine: Arc<dyn Engine>,
    submitted: AtomicU64,
    timed: AtomicU64,
    timed_ns: AtomicU64,
}

impl Metered {
    /// Times `engine`.
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Metered {
        Metered {
            engine,
            submitted: AtomicU64::new(0),
            timed: AtomicU64::new(0),
            timed_ns: AtomicU64::new(0),
        }
    }

    fn sampled<T>(&self, submit: impl FnOnce() -> T) -> T {
        if !self.submitted.fetch_add(1, Relaxed).is_multiple_of(SAMPLED) {
            return submit();
        }
        let began = Instant::now();
        let answer = submit();
        self.timed_ns.fetch_add(began.elapsed().as_nanos() as u64, Relaxed);
        self.timed.fetch_add(1, Relaxed);
        answer
    }

    /// What all submissions took, as far as samples tell.
    pub(crate) fn total(&self) -> Duration {
        let mean = self.timed_ns.load(Relaxed) as f64 / self.timed.load(Relaxed).max(1) as f64;
        Duration::from_nanos((mean * self.submitted.load(Relaxed) as f64) as u64)
    }
}

impl Layer for Metered {
    fn inner(&self) -> &dyn Engine {
        &*self.engine
    }

    fn pass(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        self.sampled(|| self.engine.submit(session, batch))
    }

    fn pass_crossing(
        &self,
        inner: &dyn Cross,
        session: &Session,
        crossing: Crossing<'_>,
    ) -> Result<(), Refusal> {
        self.sampled(|| inner.cross(session, crossing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strongroom_engine::{Algorithm, Buffer, Operation, Outcome, SectorCipher, Segment, SharedBytes};
    use strongroom_engine_cpu::CpuEngine;

    #[test]
    fn what_is_submitted_is_computed_and_timed() {
        let metered = Metered::new(Arc::new(CpuEngine::new()));
        let algorithm = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
        let key: Vec<u8> = (0..64).collect();
        let session = metered.session(algorithm, &key).expect("every CPU has it");
        assert_eq!(metered.total(), Duration::ZERO);
        for _ in 0..2 * SAMPLED {
            let segments = vec![Segment::sectors(0, 65536, 0, 4096)];
            let batch = Batch::new(Operation::EncryptSectors, Buffer::new(65536), segments);
            let completed = metered.submit(&session, batch).expect("sound").wait().expect("an answer");
            assert_eq!(completed.outcome, Outcome::Done);
        }
        assert_eq!((metered.submitted.load(Relaxed), metered.timed.load(Relaxed)), (2 * SAMPLED, 2));
        assert!(metered.total() > Duration::ZERO);
    }

    #[test]
    fn what_crosses_is_computed_and_counted_wherever_the_engine_has_it() {
        let shared: Vec<std::sync::atomic::AtomicU8> = (0..4096).map(|_| 7.into()).collect();
        let cross = |engine: &dyn Engine| {
            let algorithm = Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64);
            let key: Vec<u8> = (0..64).collect();
            let session = engine.session(algorithm, &key).expect("every CPU has it");
            let mut to = vec![0; shared.len()];
            let from = SharedBytes::new(&shared);
            let crossing = Crossing { numbers: 0.into(), sector_len: 512, from, to: &mut to };
            let crossed = engine.crossing().map(|engine| engine.cross(&session, crossing));
            (crossed, to)
        };
        let metered = Metered::new(Arc::new(CpuEngine::new()));
        assert_eq!(cross(&metered), cross(&CpuEngine::new()));
        assert_eq!(metered.submitted.load(Relaxed), 1);
        let reference = strongroom_engine_cpu::reference::ReferenceEngine;
        assert!(Metered::new(Arc::new(reference)).crossing().is_none());
    }
}
