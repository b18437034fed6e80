//! A session on every engine that has the algorithm, and what is known of
//! the engines for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use strongroom_engine::{Algorithm, Capability, Operation, Session, SessionError};

use super::masks::Worth;
use super::{Core, Served};
use crate::placing::Placer;
use crate::policy::Reason;
use crate::profile;
use crate::record::{Expectation, Record};

const OPERATIONS: [Operation; 5] = [
    Operation::Seal,
    Operation::Open,
    Operation::Keystream,
    Operation::EncryptSectors,
    Operation::DecryptSectors,
];

/// See the module.
pub(super) struct SchedulerSession {
    pub(super) owner: u64,
    pub(super) algorithm: Algorithm,
    pub(super) engines: Vec<EngineSession>,
    pub(super) fallback: Option<Session>,
    /// Several engines have the algorithm, and one of them is a device. Else
    /// nobody samples the CPUs for it: which code of one CPU is the cheapest
    /// does not follow from what others do.
    pub(super) chooses_device: bool,
    pub(super) placer: Arc<Placer>,
    pub(super) left_over: LeftOver,
    /// Places of devices that make masks for it, and what they are worth.
    pub(super) maskers: Vec<usize>,
    pub(super) worth: Worth,
}

/// What was decided for a crossing that the engine could not do, for the batch
/// that comes instead: so that each request is decided once. Of several that
/// are left over the last counts; where threads take each other's, their
/// requests are alike.
#[derive(Default)]
pub(super) struct LeftOver(AtomicU64);

impl LeftOver {
    /// Operation and size, in the upper 48 bits, which are not 0.
    fn key(operation: Operation, bytes: u64) -> u64 {
        (bytes & 0xff_ffff_ffff) << 24 | (operation as u64 + 1) << 16
    }

    pub(super) fn keep(&self, operation: Operation, bytes: u64, (at, reason): (usize, Reason)) {
        self.0.store(LeftOver::key(operation, bytes) | (reason as u64) << 8 | at as u64, Relaxed);
    }

    pub(super) fn take(&self, operation: Operation, bytes: u64) -> Option<(usize, Reason)> {
        let kept = self.0.load(Relaxed);
        if kept & !0xffff != LeftOver::key(operation, bytes) {
            return None;
        }
        self.0.store(0, Relaxed);
        let reason = *Reason::ALL.get((kept >> 8 & 0xff) as usize)?;
        Some(((kept & 0xff) as usize, reason))
    }
}

/// One engine's part.
pub(super) struct EngineSession {
    pub(super) session: Option<Session>,
    capabilities: [Option<Capability>; OPERATIONS.len()],
    /// Batches of this consumer that the engine has.
    pub(super) in_flight: Arc<AtomicU32>,
}

impl SchedulerSession {
    pub(super) fn open(
        owner: u64,
        core: &Core,
        algorithm: Algorithm,
        key: &[u8],
    ) -> Result<SchedulerSession, SessionError> {
        let mut first_error = None;
        let mut open = |served: &Served| match served.engine.session(algorithm, key) {
            Ok(session) => Some(session),
            Err(error) => {
                // What says more than "unsupported" is told.
                if first_error.is_none_or(|first| first == SessionError::Unsupported) {
                    first_error = Some(error);
                }
                None
            }
        };
        let mut engines = Vec::new();
        for served in &core.engines {
            let session = open(served);
            let capabilities = OPERATIONS.map(|operation| served.engine.capability(algorithm, operation));
            engines.push(EngineSession { session, capabilities, in_flight: Arc::default() });
        }
        let fallback = open(&core.fallback);
        if fallback.is_none() && engines.iter().all(|engine| engine.session.is_none()) {
            return Err(first_error.unwrap_or(SessionError::Unsupported));
        }
        let placer = Placer::new(engines.iter().map(EngineSession::expectation));
        if let Some(seeds) = core.seeds.get() {
            for (served, record) in core.engines.iter().zip(placer.records()) {
                profile::apply(seeds, served.engine.name(), algorithm, record);
            }
        }
        let left_over = LeftOver::default();
        let having = || engines.iter().filter(|engine| engine.session.is_some());
        let chooses_device = having().count() > 1 && having().any(EngineSession::is_device);
        let placer = Arc::new(placer);
        let makes = |at: &usize| {
            let engine: &EngineSession = &engines[*at];
            let has = engine.session.is_some() && engine.capability(Operation::Keystream).is_some();
            has && !engine.is_inline(Operation::Keystream) && core.engines[*at].engine.masking().is_some()
        };
        let maskers = (0..engines.len()).filter(makes).collect();
        let worth = Worth::default();
        Ok(SchedulerSession {
            owner,
            algorithm,
            engines,
            fallback,
            chooses_device,
            placer,
            left_over,
            maskers,
            worth,
        })
    }

    pub(super) fn record(&self, at: usize) -> &Record {
        &self.placer.records()[at]
    }

    pub(super) fn is_inline(&self, at: usize, operation: Operation) -> bool {
        self.engines[at].is_inline(operation)
    }

    /// Whether a device makes masks for it.
    pub(super) fn makes_masks(&self) -> bool {
        !self.maskers.is_empty()
    }

    /// The first inline engine for which a mask spares work.
    pub(super) fn takes_masks(&self, operation: Operation) -> Option<usize> {
        (0..self.engines.len()).find(|at| {
            let engine = &self.engines[*at];
            engine.session.is_some()
                && engine
                    .capability(operation)
                    .is_some_and(|capability| capability.inline && capability.takes_masks)
        })
    }

    /// The one engine that has the operation, when there is but one and it is
    /// inline.
    pub(super) fn only_inline(&self, operation: Operation) -> Option<usize> {
        let has = |engine: &EngineSession| engine.session.is_some() && engine.capability(operation).is_some();
        let mut having = (0..self.engines.len()).filter(|at| has(&self.engines[*at]));
        let first = having.next()?;
        (having.next().is_none() && self.is_inline(first, operation)).then_some(first)
    }

    pub(super) fn alignment(&self, at: usize, operation: Operation) -> usize {
        self.engines[at].capability(operation).map_or(1, |capability| capability.alignment.max(1))
    }

    /// The first device of this session that is not shut out.
    pub(super) fn lender<'c>(&self, core: &'c Core) -> Option<(&'c Served, &Session)> {
        let engines = self.engines.iter().zip(&core.engines);
        let mut devices = engines.filter(|(engine, served)| engine.is_device() && !served.quarantine.is_on());
        devices.find_map(|(engine, served)| Some((served, engine.session.as_ref()?)))
    }

    /// The engines that take such a batch now, a bit for each.
    pub(super) fn usable(
        &self,
        core: &Core,
        operation: Operation,
        buffer_len: usize,
        segments: usize,
    ) -> u32 {
        let mut usable = 0;
        for (at, (engine, served)) in self.engines.iter().zip(&core.engines).enumerate() {
            let fits = engine.session.is_some()
                && engine.capability(operation).is_some_and(|capability| {
                    buffer_len <= capability.batch_bytes_max && segments <= capability.segments_max
                });
            if fits
                && !served.quarantine.is_on()
                && (self.is_inline(at, operation) || self.has_share(at, served))
            {
                usable |= 1 << at;
            }
        }
        usable
    }

    /// Whether this consumer may have one more batch on a device: any number
    /// while it is alone, and no more than its share of what is there while
    /// others want it too.
    fn has_share(&self, at: usize, served: &Served) -> bool {
        let (mine, all) = (self.engines[at].in_flight.load(Relaxed), served.in_flight.load(Relaxed));
        let others = all.saturating_sub(mine);
        others == 0 || mine <= others.max(1)
    }
}

impl EngineSession {
    fn capability(&self, operation: Operation) -> Option<&Capability> {
        self.capabilities[operation as usize].as_ref()
    }

    fn is_inline(&self, operation: Operation) -> bool {
        self.capability(operation).is_some_and(|capability| capability.inline)
    }

    /// It computes something elsewhere than on the caller's thread.
    fn is_device(&self) -> bool {
        self.capabilities.iter().flatten().any(|capability| !capability.inline)
    }

    /// What the engine says of itself, of sealing or encrypting. One that does
    /// not have the algorithm is never usable, and so no device that could be
    /// tried.
    fn expectation(&self) -> Expectation {
        let capability = self.capabilities.iter().flatten().next();
        let without = || Expectation { inline: true, ..Expectation::of_nothing() };
        capability.map_or_else(without, Expectation::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Scheduler};
    use strongroom_engine::unruly::{Faults, UnrulyEngine};
    use strongroom_engine::{Aead, Engine};
    use strongroom_engine_cpu::{CpuEngine, Tier};

    /// Whether the CPUs are sampled for a session on these engines.
    fn is_watched(engines: Vec<Arc<dyn Engine>>) -> bool {
        let fallback = Arc::new(CpuEngine::new());
        let scheduler = Scheduler::new(engines, fallback, Options::default());
        assert!(!scheduler.core.load.is_watched());
        scheduler.session(Algorithm::Aead(Aead::XAes256Gcm), &[7; 32]).expect("a session");
        scheduler.core.load.is_watched()
    }

    #[test]
    fn the_cpus_are_sampled_only_where_a_device_can_be_chosen() {
        let cpu = || Arc::new(CpuEngine::new()) as Arc<dyn Engine>;
        let portable = Arc::new(CpuEngine::of_tier(Tier::Portable).expect("every CPU has it"));
        let device = || Arc::new(UnrulyEngine::new(cpu(), 1, Faults::harmless())) as Arc<dyn Engine>;
        assert!(!is_watched(vec![cpu(), portable]));
        assert!(!is_watched(vec![device()]));
        assert!(is_watched(vec![cpu(), device()]));
    }

    #[test]
    fn a_decision_is_left_over_for_its_like_alone_and_once() {
        let left_over = LeftOver::default();
        assert_eq!(left_over.take(Operation::Seal, 0), None);
        left_over.keep(Operation::DecryptSectors, 131_072, (5, Reason::Probe));
        assert_eq!(left_over.take(Operation::EncryptSectors, 131_072), None);
        assert_eq!(left_over.take(Operation::DecryptSectors, 65_536), None);
        assert_eq!(left_over.take(Operation::DecryptSectors, 131_072), Some((5, Reason::Probe)));
        assert_eq!(left_over.take(Operation::DecryptSectors, 131_072), None);
    }

    #[test]
    fn operations_stand_at_their_numbers() {
        for (at, operation) in OPERATIONS.into_iter().enumerate() {
            assert_eq!(operation as usize, at);
        }
    }
}
