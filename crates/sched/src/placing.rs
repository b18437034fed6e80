//! From what is known to a decision: what the scheduler and the simulator
//! share around the pure policies.

use crate::policy::{self, CpuView, Decision, EngineView, Placement, Question, Reason, Request};
use crate::record::{Expectation, Number, Record};
use crate::settings::{Policy, Settings};
use crate::standing::Standing;

/// Most engines of one scheduler.
pub const ENGINES_MAX: usize = 8;

/// Share of all delay that may be spent on trying engines out: the bound of what
/// exploration costs.
const PROBE_SHARE: f64 = 0.01;
/// Most that may have been saved up for that, in nanoseconds: an hour of work
/// shall not pay for a storm of probes.
const CREDIT_MAX: f64 = 1e9;
/// A tier of the CPU that takes so many times as long as another is not asked
/// where there are tiers alone: what it would tell is not worth what it takes.
const HOPELESS: f64 = 4.0;

/// What is known of engines for one session, and where its batches go.
pub struct Placer {
    records: Box<[Record]>,
    /// All engines are inline: the tiers of one CPU.
    tiers_alone: bool,
    /// What may be spent on probes.
    credit_ns: Number,
    /// Decisions that stand for a while.
    pub standing: Standing,
}

/// What a decision is made from besides records, settings and request.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// What is known of the CPU.
    pub cpu: CpuView,
    /// Bit `n` says whether engine `n` can be used.
    pub usable: u32,
    /// Another one when the settings are others.
    pub version: u32,
    /// No engine is left out because it was busy just now.
    pub is_first: bool,
}

impl Placer {
    /// Of engines that say this of themselves, in their order.
    ///
    /// # Panics
    /// With more than [`ENGINES_MAX`] engines.
    #[must_use]
    pub fn new(engines: impl IntoIterator<Item = Expectation>) -> Placer {
        let engines: Vec<Expectation> = engines.into_iter().collect();
        assert!(engines.len() <= ENGINES_MAX, "a scheduler has at most {ENGINES_MAX} engines");
        let tiers_alone = engines.iter().all(|engine| engine.inline);
        let begin = if tiers_alone { Record::of_tier } else { Record::new };
        Placer {
            records: engines.into_iter().map(begin).collect(),
            tiers_alone,
            credit_ns: Number::default(),
            standing: Standing::default(),
        }
    }

    /// What is known of each engine.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Places a request, and keeps account of probes. None when no engine is
    /// usable.
    #[must_use]
    pub fn decide(&self, settings: &Settings, request: &Request, now: &Moment) -> Option<Decision> {
        let mut views = [EngineView::default(); ENGINES_MAX];
        let views = &mut views[..self.records.len()];
        self.look(views, settings, request, now);
        let is_adaptive = settings.policy == Policy::Adaptive;
        if self.tiers_alone && is_adaptive {
            leave_out_hopeless(views);
        }
        let credit_ns = self.credit_ns.load();
        let asked = Question { settings, request, engines: views, cpu: now.cpu, credit_ns };
        let decision = policy::place(&asked)?;
        if is_adaptive {
            self.account(&decision, &asked);
            self.stands(&decision, &asked, now);
        }
        Some(decision)
    }

    /// What is known of each engine for a request. The CPU computes once more
    /// what a device has, when its turn has come to be checked. Who waits for a CPU
    /// behind threads of this process is in the price of CPU time.
    fn look(&self, views: &mut [EngineView], settings: &Settings, request: &Request, now: &Moment) {
        for (at, (view, record)) in views.iter_mut().zip(&self.records).enumerate() {
            *view = record.view(request, now.usable >> at & 1 == 1);
        }
        let checking = views.iter().find(|view| view.usable && view.inline);
        let check_ns = checking.map_or(0.0, |view| view.cpu_ns) / f64::from(1u32 << settings.check_exponent);
        for view in views.iter_mut().filter(|view| !view.inline) {
            view.cpu_ns += check_ns;
            view.cpu_wait_ns *= 1.0 - now.cpu.own;
        }
    }

    /// Earns the share of probes, and pays for one: itself, and those that it
    /// makes wait. What is left then was saved up for a dear one, and would pay
    /// for hundreds of cheap ones.
    fn account(&self, decision: &Decision, asked: &Question<'_>) {
        let (Placement::Whole(chosen) | Placement::Split { inline: chosen, .. }) = decision.placement;
        let batches = 1 + self.standing.take_stood();
        self.records.iter().for_each(|record| record.placed(batches));
        let stretch = asked.cpu.stretch(asked.request.computing);
        let earned = asked.engines[chosen].finish_beside(stretch) * f64::from(batches) * PROBE_SHARE;
        let credit = asked.credit_ns + earned;
        let left = match decision.reason {
            Reason::Probe => (credit - policy::adaptive::extra_cost(chosen, asked)).min(0.0),
            _ => credit,
        };
        self.credit_ns.store(left.clamp(-CREDIT_MAX, CREDIT_MAX));
    }

    /// Lets a decision stand that would be the same whatever comes next: even if the
    /// devices had nothing else to do, and if all that is in flight were on the CPU.
    fn stands(&self, decision: &Decision, asked: &Question<'_>, now: &Moment) {
        let (Placement::Whole(chosen), request) = (decision.placement, asked.request) else { return };
        let is_settled = || self.records[chosen].is_settled(request.operation, request.bytes);
        let may_stand = now.is_first && decision.reason != Reason::Probe && asked.engines[chosen].inline;
        if !may_stand || !is_settled() {
            return;
        }
        let mut rested = [EngineView::default(); ENGINES_MAX];
        let rested = &mut rested[..asked.engines.len()];
        rested.copy_from_slice(asked.engines);
        rested.iter_mut().for_each(EngineView::rests);
        let crowd = Request { computing: request.in_flight, ..*request };
        if policy::place(&Question { request: &crowd, engines: rested, ..*asked }) == Some(*decision) {
            let of = (chosen, decision.reason);
            self.standing.stands(request.operation, request.bytes, request.in_flight, now.version, of);
        }
    }
}

/// Leaves out what takes far longer than another, by what was measured or, where
/// nothing was, by what it says of itself.
fn leave_out_hopeless(views: &mut [EngineView]) {
    let usable = views.iter().filter(|view| view.usable);
    let least = usable.map(|view| view.service_ns).fold(f64::INFINITY, f64::min);
    views.iter_mut().for_each(|view| view.usable &= view.service_ns <= HOPELESS * least);
}

#[cfg(test)]
mod tests;
