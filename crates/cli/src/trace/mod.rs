//! What a daemon records of its load while somebody wants it (`strongroom
//! trace`): requests as they come to an export, and what engines took for them.
//!
//! [`Tracing`] looks on at the edges alone: [`tap`] at FUSE, [`device`] at the
//! other exports of disks, [`layer`] before the scheduler. `docs/whatif.md` says
//! what a trace holds; this program writes it nowhere but to who asks by the
//! control socket.

mod device;
mod layer;
mod tap;
mod usage;

use std::sync::{Arc, Mutex, PoisonError};

use strongroom_engine::Engine;
use strongroom_sched::{EngineStatistics, Scheduler, Statistics};
use strongroom_store::local::StoreTimes;
use strongroom_trace::{EngineTotals, Header, Recorder, StoreTotals, Trace};

use self::usage::Usage;
use crate::failure::{Failure, Result};
use crate::report;

pub(crate) use self::device::Traced;

/// What a trace is of.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// `mount` or `disk`.
    pub(crate) of: &'static str,
    /// A suite, or a cipher as dm-crypt names it.
    pub(crate) algorithm: String,
    /// Of blocks or sectors.
    pub(crate) block_size_bytes: u64,
}

/// See the module.
pub(crate) struct Tracing {
    recorder: Arc<Recorder>,
    engines: Arc<Scheduler>,
    before: Mutex<Option<Before>>,
}

/// What had been counted when the trace began.
struct Before {
    began: u64,
    usage: Usage,
    store: Option<StoreTimes>,
    engines: Vec<EngineStatistics>,
}

impl Tracing {
    /// Of what `engines` compute; nothing is recorded yet.
    pub(crate) fn new(engines: Arc<Scheduler>) -> Arc<Tracing> {
        let recorder = Arc::new(Recorder::new(usage::thread_cpu));
        Arc::new(Tracing { recorder, engines, before: Mutex::new(None) })
    }

    /// The engines, looked at.
    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        let inner = Arc::clone(&self.engines) as Arc<dyn Engine>;
        Arc::new(layer::Watched::new(inner, Arc::clone(&self.recorder)))
    }

    /// Begins a trace. `store` is what the store's calls have taken so far,
    /// where somebody times them.
    ///
    /// # Errors
    /// In use while one is under way.
    pub(crate) fn start(&self, store: Option<StoreTimes>) -> Result<()> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let engines = all(self.engines.statistics());
        let begun = Before { began: report::now(), usage: Usage::now(), store, engines };
        if !self.recorder.start() {
            return Err(Failure::new(crate::failure::Exit::InUse, "a trace is under way here already")
                .hint("`strongroom trace stop` ends it."));
        }
        *before = Some(begun);
        Ok(())
    }

    /// Ends the trace, and gives it as a file has it.
    ///
    /// # Errors
    /// Usage where there is none.
    pub(crate) fn stop(&self, subject: &Subject, store: Option<StoreTimes>) -> Result<Vec<u8>> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let none =
            || Failure::usage("nothing is recorded here").hint("`strongroom trace start` begins a trace.");
        let begun = before.take().ok_or_else(none)?;
        let spent = Usage::now().since(&begun.usage);
        let header = Header {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            began: report::rfc3339(begun.began),
            of: subject.of.to_owned(),
            algorithm: subject.algorithm.clone(),
            block_size_bytes: subject.block_size_bytes,
            cpus: std::thread::available_parallelism().map_or(1, usize::from) as u64,
            policy: self.engines.settings().policy.name().to_owned(),
            daemon_cpu_ns: spent.daemon_ns,
            machine_cpu_ns: spent.machine_ns,
            cpu_wait_ns: spent.waited_ns,
            store: begun.store.zip(store).map(|(before, now)| store_between(&before, &now)),
            engines: engines_between(&begun.engines, all(self.engines.statistics())),
            ..Header::default()
        };
        Ok(Trace::end(&self.recorder, header).ok_or_else(none)?.encode())
    }
}

fn all(statistics: Statistics) -> Vec<EngineStatistics> {
    statistics.engines.into_iter().chain([statistics.fallback]).collect()
}

fn store_between(before: &StoreTimes, now: &StoreTimes) -> StoreTotals {
    let between =
        |of: fn(&StoreTimes) -> std::time::Duration| of(now).saturating_sub(of(before)).as_nanos() as u64;
    StoreTotals {
        read_ns: between(|times| times.reads),
        write_ns: between(|times| times.writes),
        barrier_ns: between(|times| times.barriers),
        names_ns: between(|times| times.names),
    }
}

fn engines_between(before: &[EngineStatistics], now: Vec<EngineStatistics>) -> Vec<EngineTotals> {
    let between = |(before, now): (&EngineStatistics, EngineStatistics)| {
        let timed = now.latencies.saturating_sub(before.latencies);
        EngineTotals {
            bytes: now.bytes.saturating_sub(before.bytes),
            batches: now.operations.saturating_sub(before.operations),
            latency_ns_mean: now.latency_ns_sum.saturating_sub(before.latency_ns_sum) / timed.max(1),
            name: now.engine,
        }
    };
    before.iter().zip(now).map(between).filter(|engine| engine.batches > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::compose;

    #[test]
    fn a_trace_begins_once_and_ends_once() {
        let tracing = Tracing::new(compose(Some("cpu-portable")).expect("every machine has it"));
        let subject = Subject { of: "mount", algorithm: "a".to_owned(), block_size_bytes: 4096 };
        assert!(tracing.stop(&subject, None).is_err());
        tracing.start(None).expect("the first");
        assert!(tracing.start(None).is_err());
        let bytes = tracing.stop(&subject, None).expect("begun");
        let trace = Trace::decode(&bytes).expect("sound");
        assert_eq!((trace.header.of.as_str(), trace.header.algorithm.as_str()), ("mount", "a"));
        assert!(trace.header.recorded_ns > 0 && trace.records.is_empty());
        assert!(tracing.stop(&subject, None).is_err());
    }
}
