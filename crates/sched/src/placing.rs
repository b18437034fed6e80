//! From records to a decision: what the scheduler and the simulator share
//! around the pure policies.

use crate::policy::{self, CpuView, Decision, EngineView, Placement, Reason, Request};
use crate::settings::{Objective, Policy};
use crate::trials::{Trials, Way};
use strongroom_engine::Operation;

use crate::record::{Record, size_class};
use crate::settings::Settings;

/// Most engines of one scheduler.
pub const ENGINES_MAX: usize = 8;

/// One inline batch in so many is timed, once its cost is known.
const TIMED: u32 = 16;

/// Whether a batch is timed that an inline engine computes.
#[must_use]
pub fn is_timed(reason: Reason, record: &Record) -> bool {
    reason == Reason::Probe || reason != Reason::Only && record.placements().is_multiple_of(TIMED)
}

const UNUSABLE: EngineView = EngineView {
    usable: false,
    inline: false,
    known: false,
    service_ns: 0.0,
    fixed_ns: 0.0,
    per_byte_ns: 0.0,
    cpu_ns: 0.0,
    backlog_ns: 0.0,
    in_flight: 0,
    parallelism: 1.0,
    credit_ns: 0.0,
    stale: false,
};

/// Places a request by the records of all engines, of which bit `n` of
/// `usable` says whether engine `n` can be used. Keeps account of probes, and
/// does as the trials say where the policy is to be fast.
///
/// # Panics
/// With more than [`ENGINES_MAX`] engines.
pub fn decide<'r>(
    settings: &Settings,
    request: &Request,
    records: impl ExactSizeIterator<Item = &'r Record> + Clone,
    usable: u32,
    cpu: &CpuView,
    trials: &Trials,
) -> Option<Decision> {
    let mut views = [UNUSABLE; ENGINES_MAX];
    let count = records.len();
    assert!(count <= ENGINES_MAX, "a scheduler has at most {ENGINES_MAX} engines");
    for (at, record) in records.clone().enumerate() {
        views[at] = record.view(request, usable >> at & 1 == 1);
    }
    let views = &views[..count];
    let decision = place(settings, request, views, cpu, trials)?;
    let (Placement::Whole(chosen) | Placement::Split { inline: chosen, .. }) = decision.placement;
    let least = views.iter().filter(|view| view.usable && view.known).map(EngineView::finish_ns);
    let spent = views[chosen].finish_ns();
    let extra = spent - least.fold(spent, f64::min);
    for (at, record) in records.enumerate() {
        let probed = decision.reason == Reason::Probe && at == chosen;
        record.placed(spent, if probed { extra } else { 0.0 });
    }
    Some(decision)
}

/// Tells the trials of a batch that was computed, by the work that `first`,
/// the record of the first engine, takes it for.
pub fn done(
    trials: &Trials,
    first: &Record,
    operation: Operation,
    bytes: u64,
    in_flight: u32,
    now: impl FnOnce() -> u64,
) {
    trials.done(
        matches!(operation, Operation::Open | Operation::DecryptSectors),
        size_class(bytes),
        in_flight,
        first.work_ns(bytes),
        now,
    );
}

fn place(
    settings: &Settings,
    request: &Request,
    views: &[EngineView],
    cpu: &CpuView,
    trials: &Trials,
) -> Option<Decision> {
    if settings.policy != Policy::Adaptive || settings.objective != Objective::Throughput {
        return policy::place(settings, request, views, cpu);
    }
    if let Some(asked) = trials.asked() {
        trials.answer(is_hopeless(asked, request, views, cpu));
    }
    match trials.way() {
        Way::Only(engine) if views.get(engine).is_some_and(|view| view.usable) => {
            Some(Decision { placement: Placement::Whole(engine), reason: Reason::Fastest })
        }
        Way::Whole => policy::place(settings, &Request { segments: 1, ..*request }, views, cpu),
        _ => policy::place(settings, request, views, cpu),
    }
}

/// Less than this share of the best engine's speed is not worth a long trial.
const HOPELESS: f64 = 0.4;
/// A trial in which all requests in flight take no longer is never hopeless:
/// the model may be wrong.
const SHORT_NS: f64 = 40e6;

/// Whether an engine alone would be far slower than another, by the model,
/// and it would take long to find out.
fn is_hopeless(way: Way, request: &Request, views: &[EngineView], cpu: &CpuView) -> bool {
    let Way::Only(engine) = way else { return false };
    let requests = f64::from(request.in_flight.max(1)) + cpu.own * cpu.waiting;
    // Time of each request, with so many at once.
    let each = |view: &EngineView| {
        let cpus = (cpu.cpus * cpu.own).max(0.1);
        let on_cpu = if view.inline { view.service_ns } else { view.cpu_ns };
        let alone = if view.inline { view.service_ns } else { view.service_ns + view.cpu_ns };
        let on_device = if view.inline { 0.0 } else { view.service_ns / view.parallelism };
        (alone / requests).max(on_cpu / cpus).max(on_device)
    };
    let usable = views.iter().filter(|view| view.usable);
    let best = usable.map(each).fold(f64::INFINITY, f64::min);
    views
        .get(engine)
        .is_none_or(|view| !view.usable || best < HOPELESS * each(view) && each(view) * requests > SHORT_NS)
}
