//! `aca`: Algorithm 1 of the ACA-SDS paper.
//!
//! Reads go to the CPU. Writes go to the device when more than alpha requests
//! are in flight and they are larger than beta; but where more than M of the
//! CPU is idle, the CPU computes them as well.

use super::{CpuView, Decision, EngineView, Reason, Request, first_device, first_inline, whole};
use crate::settings::Settings;

/// See the module.
#[must_use]
pub fn place(
    settings: &Settings,
    request: &Request,
    engines: &[EngineView],
    cpu: &CpuView,
) -> Option<Decision> {
    let software = |reason| first_inline(engines).map(|engine| whole(engine, reason));
    let crowded = request.in_flight > u32::from(settings.alpha);
    let large = request.bytes > u64::from(settings.beta_bytes);
    if request.is_read() || !crowded || !large {
        return software(Reason::Threshold);
    }
    if cpu.idle * 1000.0 > f64::from(settings.idle_cpu_permille) {
        return software(Reason::IdleCpu);
    }
    match first_device(engines) {
        Some(engine) => Some(whole(engine, Reason::Threshold)),
        None => software(Reason::Spilled),
    }
}
