//! From records to a decision: what the scheduler and the simulator share
//! around the pure policies.

use crate::policy::{self, CpuView, Decision, EngineView, Placement, Reason, Request};
use crate::record::Record;
use crate::settings::Settings;

/// Most engines of one scheduler.
pub const ENGINES_MAX: usize = 8;

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
/// `usable` says whether engine `n` can be used. Keeps account of probes.
///
/// # Panics
/// With more than [`ENGINES_MAX`] engines.
pub fn decide<'r>(
    settings: &Settings,
    request: &Request,
    records: impl ExactSizeIterator<Item = &'r Record> + Clone,
    usable: u32,
    cpu: &CpuView,
) -> Option<Decision> {
    let mut views = [UNUSABLE; ENGINES_MAX];
    let count = records.len();
    assert!(count <= ENGINES_MAX, "a scheduler has at most {ENGINES_MAX} engines");
    for (at, record) in records.clone().enumerate() {
        views[at] = record.view(request, usable >> at & 1 == 1);
    }
    let views = &views[..count];
    let decision = policy::place(settings, request, views, cpu)?;
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
