//! [`Scheduler`]: carries out what a policy decides.
//!
//! For an inline engine a batch is handed on by a plain call: no copy, no
//! allocation, no clock but now and then. For a device a copy of its source
//! is kept, and its ticket carries a step that checks and redoes on the
//! thread that waits (`device`). `split` divides a batch between both.

mod device;
mod masks;
mod session;
mod split;
mod worth;

use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use strongroom_engine::{
    Algorithm, Batch, Buffer, Capability, Cross, Crossing, Engine, Masking, Operation, Origin, Refusal,
    Refused, Session, SessionError, Ticket, thread_cpu_ns,
};

use self::session::SchedulerSession;
use crate::callers::Callers;
use crate::cpu_load::CpuLoad;
use crate::placing::{ENGINES_MAX, Moment};
use crate::policy::{Placement, Reason, Request};
use crate::profile::Seed;
use crate::quarantine::Quarantine;
use crate::record::{Measurement, Record};
use crate::settings::{LiveSettings, Policy, Settings};
use crate::statistics::{Count, Counters, EngineStatistics, Statistics};

/// The fallback's bit among those of engines.
const FALLBACK: usize = ENGINES_MAX;

/// What is decided once, when a scheduler is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a device may take before its work is redone elsewhere.
    pub deadline: Duration,
    /// How long a device that lost a batch gets no work, the first time.
    pub pause: Duration,
    /// What can be changed later.
    pub settings: Settings,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            deadline: Duration::from_secs(2),
            pause: Duration::from_secs(1),
            settings: Settings::default(),
        }
    }
}

/// See the module.
pub struct Scheduler {
    name: String,
    id: u64,
    core: Arc<Core>,
}

/// The engines, shared with the tickets that may have to redo work.
struct Core {
    engines: Vec<Served>,
    fallback: Served,
    settings: LiveSettings,
    deadline: Duration,
    load: Arc<CpuLoad>,
    in_flight: AtomicU32,
    /// Devices that have been given batches since they were flushed, a bit for
    /// each; those of the fallback above them.
    unflushed: AtomicU32,
    callers: Callers,
    seeds: OnceLock<Vec<Seed>>,
    /// Wrong masks that were found.
    wrong_masks: AtomicU32,
}

struct Served {
    engine: Arc<dyn Engine>,
    counters: Counters,
    quarantine: Quarantine,
    /// Results received, to tell which are checked.
    results: AtomicU64,
    /// Batches that it was given and has not answered.
    in_flight: AtomicU32,
}

impl Scheduler {
    /// A scheduler over `engines`, in the order that settings and reports
    /// number them: those that are inline first. `fallback` computes what none
    /// of them can, and is believed.
    ///
    /// # Panics
    /// With no engines or more than 8.
    #[must_use]
    pub fn new(engines: Vec<Arc<dyn Engine>>, fallback: Arc<dyn Engine>, options: Options) -> Scheduler {
        assert!((1..=ENGINES_MAX).contains(&engines.len()), "a scheduler has 1 to {ENGINES_MAX} engines");
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
        let name = format!("scheduler({})", names.join(", "));
        let serve = |engine| Served {
            engine,
            counters: Counters::default(),
            quarantine: Quarantine::new(options.pause),
            results: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
        };
        let load = CpuLoad::of_this_machine();
        let core = Core {
            engines: engines.into_iter().map(serve).collect(),
            fallback: serve(fallback),
            settings: LiveSettings::new(options.settings),
            deadline: options.deadline,
            load,
            in_flight: AtomicU32::new(0),
            unflushed: AtomicU32::new(0),
            callers: Callers::new(),
            seeds: OnceLock::new(),
            wrong_masks: AtomicU32::new(0),
        };
        Scheduler { name, id: NEXT_ID.fetch_add(1, Relaxed), core: Arc::new(core) }
    }

    /// A scheduler that always asks `primary`, and `fallback` for what the
    /// primary does not support, is too busy for, or loses.
    #[must_use]
    pub fn fixed(primary: Arc<dyn Engine>, fallback: Arc<dyn Engine>) -> Scheduler {
        let settings = Settings { policy: Policy::Fixed, ..Settings::default() };
        Scheduler::new(vec![primary], fallback, Options { settings, ..Options::default() })
    }

    /// What it is told at present.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.core.settings.load()
    }

    /// Changes what it is told, for batches from now on.
    pub fn set(&self, settings: Settings) {
        self.core.settings.store(settings);
    }

    /// Has the records of sessions that are opened from now on begin with what
    /// was measured before. Counts once: later calls change nothing.
    pub fn seed(&self, seeds: Vec<Seed>) {
        let _ = self.core.seeds.set(seeds);
    }

    /// The names of the engines, in their order.
    pub fn engines(&self) -> impl Iterator<Item = &str> {
        self.core.engines.iter().map(|served| served.engine.name())
    }

    /// Whether the engine of this name computes `algorithm` on the caller's
    /// thread; false when it is not here or does not have it.
    #[must_use]
    pub fn is_inline(&self, engine: &str, algorithm: Algorithm) -> bool {
        let served = self.core.engines.iter().find(|served| served.engine.name() == engine);
        served.and_then(|served| served.capability(algorithm)).is_some_and(|capability| capability.inline)
    }

    /// Whether every engine that has `algorithm` computes it on the caller's
    /// thread, so that every buffer comes back.
    #[must_use]
    pub fn is_all_inline(&self, algorithm: Algorithm) -> bool {
        let mut capabilities = self.core.engines.iter().filter_map(|served| served.capability(algorithm));
        capabilities.all(|capability| capability.inline)
    }

    /// What each engine served so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics {
            engines: self.core.engines.iter().map(Served::snapshot).collect(),
            fallback: self.core.fallback.snapshot(),
        }
    }
}

impl Served {
    /// What the engine says of an algorithm, sealing as a rule.
    fn capability(&self, algorithm: Algorithm) -> Option<Capability> {
        let operations = [Operation::Seal, Operation::EncryptSectors];
        operations.into_iter().find_map(|operation| self.engine.capability(algorithm, operation))
    }

    /// Submits and counts.
    fn submit(&self, session: &Session, batch: Batch, reason: Reason) -> Result<Ticket, Box<Refused>> {
        let bytes = batch.bytes() as u64;
        let answer = self.engine.submit(session, batch);
        match &answer {
            Ok(_) => self.counters.accepted(bytes, reason),
            Err(refused) => match refused.refusal {
                Refusal::Busy => self.counters.add(Count::Busy, 1),
                Refusal::Unsupported => self.counters.add(Count::Unsupported, 1),
                Refusal::Misuse(_) => {}
            },
        }
        answer
    }

    fn snapshot(&self) -> EngineStatistics {
        let in_flight = u64::from(self.in_flight.load(Relaxed));
        self.counters.snapshot(self.engine.name(), in_flight, self.quarantine.is_on())
    }
}

impl Core {
    /// Rings the devices that have been given something. Also before an inline
    /// engine computes: devices work meanwhile.
    fn flush(&self) {
        if self.unflushed.load(Relaxed) == 0 {
            return;
        }
        let unflushed = self.unflushed.swap(0, AcqRel);
        let all = self.engines.iter().enumerate().chain([(FALLBACK, &self.fallback)]);
        for (_, served) in all.filter(|(at, _)| unflushed >> at & 1 == 1) {
            served.engine.flush();
        }
    }

    /// Hands a batch to the engine `at`, whatever kind that is.
    fn submit_to(
        self: &Arc<Core>,
        at: usize,
        session: &SchedulerSession,
        batch: Batch,
        reason: Reason,
    ) -> Result<Ticket, Box<Refused>> {
        let Some(own) = &session.engines[at].session else {
            return Err(Box::new(Refused { batch, refusal: Refusal::Unsupported }));
        };
        if session.is_inline(at, batch.operation) {
            self.submit_inline(at, own, session.record(at), batch, reason)
        } else {
            device::submit(self, at, session, batch, reason)
        }
    }

    fn submit_inline(
        &self,
        at: usize,
        session: &Session,
        record: &Record,
        batch: Batch,
        reason: Reason,
    ) -> Result<Ticket, Box<Refused>> {
        self.flush();
        let served = &self.engines[at];
        let is_alone = reason == Reason::Only || self.engines.len() == 1;
        let bytes = batch.bytes() as u64;
        if is_alone || reason != Reason::Probe && !record.wants_time(batch.operation, bytes) {
            return served.submit(session, batch, reason);
        }
        self.timed(at, record, (batch.operation, bytes), || served.submit(session, batch, reason))
    }

    /// Has an inline engine compute, and learns what that cost: CPU time, whoever
    /// else wants the CPU meanwhile.
    fn timed<T, E>(
        &self,
        at: usize,
        record: &Record,
        (operation, bytes): (Operation, u64),
        compute: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let flight = record.began(operation, bytes);
        let began_ns = thread_cpu_ns();
        let answer = compute();
        let took = thread_cpu_ns().saturating_sub(began_ns);
        record.left(&flight);
        if answer.is_ok() {
            self.engines[at].counters.answered(took);
            record.learn(&flight, Measurement { service_ns: took as f64, cpu_ns: took as f64 });
        }
        answer
    }

    /// Hands a batch to an inline engine by a decision that stands. What it
    /// cannot take is placed anew.
    fn submit_standing(
        self: &Arc<Core>,
        session: &SchedulerSession,
        at: usize,
        batch: Batch,
        reason: Reason,
    ) -> Result<Ticket, Box<Refused>> {
        let Some(own) = &session.engines[at].session else { return self.place(session, batch) };
        self.flush();
        match self.engines[at].submit(own, batch, reason) {
            Err(refused) if !matches!(refused.refusal, Refusal::Misuse(_)) => {
                self.place(session, refused.batch)
            }
            answer => answer,
        }
    }

    /// Tries the other engines, those that are inline first, and then the
    /// fallback. The refusal is the last one that says something.
    fn spill(
        self: &Arc<Core>,
        session: &SchedulerSession,
        refused: Box<Refused>,
        tried: usize,
        usable: u32,
    ) -> Result<Ticket, Box<Refused>> {
        let mut refused = refused;
        for wants_inline in [true, false] {
            for at in (0..self.engines.len()).filter(|at| *at != tried && usable >> at & 1 == 1) {
                if session.is_inline(at, refused.batch.operation) != wants_inline {
                    continue;
                }
                match self.submit_to(at, session, refused.batch, Reason::Spilled) {
                    Err(again) if !matches!(again.refusal, Refusal::Misuse(_)) => refused = again,
                    answer => return answer,
                }
            }
        }
        let Some(fallback) = &session.fallback else { return Err(refused) };
        let refusal = refused.refusal;
        match self.fallback.submit(fallback, refused.batch, Reason::Spilled) {
            // Busy is worth another try, where the fallback cannot help at all.
            Err(both) if both.refusal == Refusal::Unsupported => {
                Err(Box::new(Refused { batch: both.batch, refusal }))
            }
            answer => {
                if answer.as_ref().is_ok_and(|ticket| !ticket.is_inline()) {
                    self.unflushed.fetch_or(1 << FALLBACK, Release);
                }
                answer
            }
        }
    }

    fn place(self: &Arc<Core>, session: &SchedulerSession, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let usable = session.usable(self, batch.operation, batch.buffer.len(), batch.segments.len());
        if usable.is_power_of_two() {
            let at = usable.trailing_zeros() as usize;
            return match self.submit_to(at, session, batch, Reason::Only) {
                Err(refused) if !matches!(refused.refusal, Refusal::Misuse(_)) => {
                    self.spill(session, refused, at, usable)
                }
                answer => answer,
            };
        }
        let mut left = usable;
        let mut batch = batch;
        let request = self.request(batch.operation, batch.bytes() as u64, batch.segments.len(), batch.origin);
        let mut left_over = session.left_over.take(batch.operation, request.bytes);
        loop {
            let of_crossing = left_over.take().filter(|(at, _)| usable >> at & 1 == 1);
            let decision = match of_crossing {
                Some((at, reason)) => Some((Placement::Whole(at), reason)),
                None => self.decide(session, &request, left, left != usable),
            };
            let Some((placement, reason)) = decision else {
                let refused = Box::new(Refused { batch, refusal: Refusal::Unsupported });
                return self.spill(session, refused, ENGINES_MAX, usable);
            };
            let (tried, answer) = match placement {
                Placement::Whole(at) => (at, self.submit_to(at, session, batch, reason)),
                Placement::Split { inline, device, device_segments } => {
                    (device, split::submit(self, session, batch, inline, device, device_segments as usize))
                }
            };
            match answer {
                // Where it costs least without the one that is busy.
                Err(refused) if refused.refusal == Refusal::Busy && left & !(1 << tried) != 0 => {
                    left &= !(1 << tried);
                    batch = refused.batch;
                }
                Err(refused) if !matches!(refused.refusal, Refusal::Misuse(_)) => {
                    return self.spill(session, refused, tried, usable);
                }
                answer => return answer,
            }
        }
    }

    /// What a policy is told of a batch, with what is in flight now.
    fn request(&self, operation: Operation, bytes: u64, segments: usize, origin: Origin) -> Request {
        let in_flight = self.in_flight.load(Relaxed);
        let on_devices: u32 = self.engines.iter().map(|served| served.in_flight.load(Relaxed)).sum();
        Request {
            operation,
            bytes,
            segments: segments as u32,
            in_flight,
            computing: in_flight.saturating_sub(on_devices),
            tasks: self.callers.distinct(),
            request_bytes: origin.bytes.max(bytes),
        }
    }

    /// Whether callers are told apart: for `aca` alone.
    fn counts_callers(&self) -> bool {
        self.settings.load().policy == Policy::Aca
    }

    fn decide(
        &self,
        session: &SchedulerSession,
        request: &Request,
        usable: u32,
        is_again: bool,
    ) -> Option<(Placement, Reason)> {
        let version = self.settings.version();
        let now = Moment { cpu: self.load.view(), usable, version, is_first: !is_again };
        let decision = session.placer.decide(&self.settings.load(), request, &now)?;
        Some((decision.placement, if is_again { Reason::Spilled } else { decision.reason }))
    }

    /// Hands a crossing to an inline engine.
    fn cross_on(
        &self,
        session: &SchedulerSession,
        (at, reason): (usize, Reason),
        crossing: Crossing<'_>,
    ) -> Result<(), Refusal> {
        let own = session.engines[at].session.as_ref().ok_or(Refusal::Unsupported)?;
        let served = &self.engines[at];
        let bytes = crossing.to.len() as u64;
        served.engine.crossing().ok_or(Refusal::Unsupported)?.cross(own, crossing)?;
        served.counters.accepted(bytes, reason);
        Ok(())
    }

    /// Decides as for a batch, and measures as for one.
    fn place_crossing(&self, session: &SchedulerSession, crossing: Crossing<'_>) -> Result<(), Refusal> {
        let (operation, bytes) = (Crossing::OPERATION, crossing.to.len() as u64);
        let usable = session.usable(self, operation, bytes as usize, 1);
        let request = self.request(operation, bytes, 1, Origin::here());
        let decided = self.decide(session, &request, usable, false);
        let Some((Placement::Whole(at), reason)) = decided else { return Err(Refusal::Unsupported) };
        if !session.is_inline(at, operation) {
            session.left_over.keep(operation, bytes, (at, reason));
            return Err(Refusal::Unsupported);
        }
        let record = session.record(at);
        let cross = || self.cross_on(session, (at, reason), crossing);
        let answer = match reason == Reason::Probe || record.wants_time(operation, bytes) {
            true => self.timed(at, record, (operation, bytes), cross),
            false => cross(),
        };
        if answer == Err(Refusal::Unsupported) {
            session.left_over.keep(operation, bytes, (at, reason));
        }
        answer
    }
}

impl Engine for Scheduler {
    fn name(&self) -> &str {
        &self.name
    }

    /// What any engine has, with the widest bounds, since each batch goes to
    /// one that takes it. Inline when all that have it are.
    fn capability(&self, algorithm: Algorithm, operation: Operation) -> Option<Capability> {
        let served = self.core.engines.iter().chain([&self.core.fallback]);
        let offered = served.filter_map(|served| served.engine.capability(algorithm, operation));
        offered.reduce(|first, next| Capability {
            inline: first.inline && next.inline,
            batch_bytes_max: first.batch_bytes_max.max(next.batch_bytes_max),
            segments_max: first.segments_max.max(next.segments_max),
            queue_max: first.queue_max.max(next.queue_max),
            alignment: first.alignment.min(next.alignment),
            ..first
        })
    }

    fn session(&self, algorithm: Algorithm, key: &[u8]) -> Result<Session, SessionError> {
        let state = SchedulerSession::open(self.id, &self.core, algorithm, key)?;
        if state.chooses_device {
            self.core.load.watch();
        }
        Ok(Session::new(algorithm, Arc::new(state)))
    }

    fn submit(&self, session: &Session, batch: Batch) -> Result<Ticket, Box<Refused>> {
        let state = match session.state::<SchedulerSession>() {
            Some(state) if state.owner == self.id => state,
            _ => {
                let refusal = Refusal::Misuse("the session belongs to another engine");
                return Err(Box::new(Refused { batch, refusal }));
            }
        };
        let core = &self.core;
        if state.makes_masks() && batch.has_masks() {
            return core.submit_masked(state, batch);
        }
        let in_flight = core.in_flight.fetch_add(1, Relaxed) + 1;
        let (operation, bytes, version) = (batch.operation, batch.bytes() as u64, core.settings.version());
        if state.chooses_device {
            core.load.places();
        }
        let answer = match state.placer.standing.engine(operation, bytes, in_flight, version) {
            Some((at, reason)) => core.submit_standing(state, at, batch, reason),
            None => {
                let caller = core.counts_callers().then(|| core.callers.enters(batch.origin.caller));
                let answer = core.place(state, batch);
                caller.inspect(|place| core.callers.leaves(*place));
                answer
            }
        };
        core.in_flight.fetch_sub(1, Relaxed);
        answer
    }

    fn flush(&self) {
        self.core.flush();
    }

    /// Of the first device that may get such batches, since what it cannot reach
    /// it has to copy; no other engine cares.
    fn buffer(&self, session: &Session, len: usize) -> Buffer {
        let state = session.state::<SchedulerSession>().filter(|state| state.owner == self.id);
        let device = state.and_then(|state| state.lender(&self.core));
        device.map_or_else(|| Buffer::new(len), |(served, own)| served.engine.buffer(own, len))
    }

    fn crossing(&self) -> Option<&dyn Cross> {
        Some(self)
    }

    fn masking(&self) -> Option<&dyn Masking> {
        let mut engines = self.core.engines.iter();
        engines.any(|served| served.engine.masking().is_some()).then_some(self as &dyn Masking)
    }
}

impl Cross for Scheduler {
    /// Goes where such a batch would go. What cannot, is refused, and the batch
    /// that comes instead has the decision.
    fn cross(&self, session: &Session, crossing: Crossing<'_>) -> Result<(), Refusal> {
        let state = match session.state::<SchedulerSession>() {
            Some(state) if state.owner == self.id => state,
            _ => return Err(Refusal::Misuse("the session belongs to another engine")),
        };
        let core = &self.core;
        let (operation, bytes) = (Crossing::OPERATION, crossing.to.len() as u64);
        let in_flight = core.in_flight.fetch_add(1, Relaxed) + 1;
        let version = core.settings.version();
        let alone = state.only_inline(operation);
        if state.chooses_device && alone.is_none() {
            core.load.places();
        }
        let caller = core.counts_callers().then(|| core.callers.enters(Origin::here().caller));
        let answer = if let Some(at) = alone {
            core.cross_on(state, (at, Reason::Only), crossing)
        } else if let Some(placed) = state.placer.standing.engine(operation, bytes, in_flight, version) {
            core.cross_on(state, placed, crossing)
        } else {
            core.place_crossing(state, crossing)
        };
        caller.inspect(|place| core.callers.leaves(*place));
        core.in_flight.fetch_sub(1, Relaxed);
        answer
    }
}
