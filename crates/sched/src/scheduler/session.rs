//! A session on every engine that has the algorithm, and what is known of
//! the engines for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use strongroom_engine::{Algorithm, Batch, Capability, Operation, Session, SessionError};

use super::{Core, Served};
use crate::placing::Placer;
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
    pub(super) placer: Arc<Placer>,
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
        Ok(SchedulerSession { owner, algorithm, engines, fallback, placer: Arc::new(placer) })
    }

    pub(super) fn record(&self, at: usize) -> &Record {
        &self.placer.records()[at]
    }

    pub(super) fn is_inline(&self, at: usize, operation: Operation) -> bool {
        self.engines[at].capability(operation).is_some_and(|capability| capability.inline)
    }

    pub(super) fn alignment(&self, at: usize, operation: Operation) -> usize {
        self.engines[at].capability(operation).map_or(1, |capability| capability.alignment.max(1))
    }

    /// The engines that take the batch now, a bit for each.
    pub(super) fn usable(&self, core: &Core, batch: &Batch) -> u32 {
        let mut usable = 0;
        for (at, (engine, served)) in self.engines.iter().zip(&core.engines).enumerate() {
            let fits = engine.session.is_some()
                && engine.capability(batch.operation).is_some_and(|capability| {
                    batch.buffer.len() <= capability.batch_bytes_max
                        && batch.segments.len() <= capability.segments_max
                });
            if fits
                && !served.quarantine.is_on()
                && (self.is_inline(at, batch.operation) || self.has_share(at, served))
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

    /// What the engine says of itself, of sealing or encrypting.
    fn expectation(&self) -> Expectation {
        let capability = self.capabilities.iter().flatten().next();
        capability.map_or_else(Expectation::of_nothing, Expectation::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_stand_at_their_numbers() {
        for (at, operation) in OPERATIONS.into_iter().enumerate() {
            assert_eq!(operation as usize, at);
        }
    }
}
