//! `adaptive`: where the request costs least now, by what was measured.
//!
//! With the objective `throughput` the cost of an engine is the time until
//! the request is done there plus the time for which it makes others wait:
//! its CPU time at the price of CPU time, its place in the device's queue for
//! each request behind it. With every request placed so,
//! neither CPU nor device idles while the other has a queue that it could
//! shorten. `latency` leaves the others out; `cpu` takes the engine with the
//! least CPU time of those that keep up.

use super::{CpuView, Decision, EngineView, Placement, Reason, Request, whole};
use crate::record::price_of_probe;
use crate::settings::{Objective, Settings};

/// A split has to end this much sooner than the best engine alone.
const SPLIT_GAIN: f64 = 0.9;

/// With the objective `cpu`, how many times its own service a request may
/// wait before the engine counts as one that does not keep up.
const KEEPS_UP: f64 = 4.0;

/// See the module.
#[must_use]
pub fn place(
    settings: &Settings,
    request: &Request,
    engines: &[EngineView],
    cpu: &CpuView,
) -> Option<Decision> {
    if let Some(unknown) =
        engines.iter().position(|engine| engine.usable && !engine.known && engine.in_flight == 0)
    {
        return Some(whole(unknown, Reason::Probe));
    }
    let objective = settings.objective;
    let price = cpu.price(request.computing);
    let stretch = cpu.stretch(request.computing);
    let cost = |engine: &EngineView| cost(engine, price, stretch, objective);
    // One that is out for the first time counts as what it says of itself.
    let known = || engines.iter().enumerate().filter(|(_, engine)| engine.usable);
    let (best, least) =
        known().map(|(at, engine)| (at, cost(engine))).min_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let due = |(at, engine): &(usize, &EngineView)| {
        let is_paid = || engine.credit_ns >= price_of_probe(cost(engine) - least);
        *at != best && engine.stale && engine.in_flight == 0 && is_paid()
    };
    if let Some((probed, _)) = known().find(due) {
        return Some(whole(probed, Reason::Probe));
    }
    if objective == Objective::Cpu {
        return Some(whole(best, Reason::CheapestCpu));
    }
    if let Some(split) = best_split(request, engines, (price, stretch), objective, least * SPLIT_GAIN) {
        return Some(split);
    }
    let reason = if objective == Objective::Latency { Reason::Soonest } else { Reason::Least };
    Some(whole(best, reason))
}

/// What a request costs on an engine beyond the best of those that are known:
/// itself, and those that it makes wait.
pub(crate) fn extra_cost(
    chosen: usize,
    settings: &Settings,
    request: &Request,
    engines: &[EngineView],
    cpu: &CpuView,
) -> f64 {
    let (price, stretch) = (cpu.price(request.computing), cpu.stretch(request.computing));
    let cost = |engine: &EngineView| cost(engine, price, stretch, settings.objective);
    let spent = cost(&engines[chosen]);
    let known = engines.iter().filter(|engine| engine.usable && engine.known);
    spent - known.map(cost).fold(spent, f64::min)
}

/// What a request costs on an engine, in nanoseconds of everybody's time.
fn cost(engine: &EngineView, price: f64, stretch: f64, objective: Objective) -> f64 {
    let finish = engine.finish_beside(stretch);
    match objective {
        Objective::Latency => finish,
        Objective::Throughput => finish + made_to_wait(engine, price, engine.cpu_ns, engine.service_ns),
        Objective::Cpu => {
            let late = if finish > KEEPS_UP * engine.service_ns + engine.cpu_ns { finish * 1e6 } else { 0.0 };
            engine.cpu_ns + late
        }
    }
}

/// How long others wait, in all, for this much CPU time and device time.
fn made_to_wait(engine: &EngineView, price: f64, cpu_ns: f64, service_ns: f64) -> f64 {
    let for_cpu = cpu_ns * price;
    if engine.inline {
        return for_cpu;
    }
    let behind = (f64::from(engine.in_flight) + 1.0 - engine.parallelism).max(0.0);
    for_cpu + service_ns / engine.parallelism * behind
}

/// The best division between an inline engine and a device, if it costs less
/// than `limit`: both shall end at the same time.
fn best_split(
    request: &Request,
    engines: &[EngineView],
    (price, stretch): (f64, f64),
    objective: Objective,
    limit: f64,
) -> Option<Decision> {
    if request.segments < 2 {
        return None;
    }
    let usable = |inline: bool| {
        move |(_, engine): &(usize, &EngineView)| engine.usable && engine.known && engine.inline == inline
    };
    let (inline, software) = engines.iter().enumerate().find(usable(true))?;
    let segment_bytes = request.bytes as f64 / f64::from(request.segments);
    let mut best: Option<(f64, Decision)> = None;
    for (device, hardware) in engines.iter().enumerate().filter(usable(false)) {
        let waits = (hardware.finish_ns() - hardware.cpu_ns - hardware.service_ns).max(0.0);
        let software_all = software.fixed_ns + software.per_byte_ns * request.bytes as f64;
        let slope = software.per_byte_ns * stretch + hardware.per_byte_ns;
        let bytes = (software_all * stretch - waits - hardware.fixed_ns) / slope;
        let device_segments = (bytes / segment_bytes).floor();
        if !(device_segments >= 1.0 && device_segments < f64::from(request.segments)) {
            continue;
        }
        let device_bytes = device_segments * segment_bytes;
        let share = device_bytes / request.bytes as f64;
        let computed = software_all - software.per_byte_ns * device_bytes;
        let on_cpu = hardware.cpu_ns + computed;
        let mut cost = hardware.cpu_ns + computed * stretch;
        if objective == Objective::Throughput {
            cost += made_to_wait(hardware, price, on_cpu, hardware.service_ns * share);
        }
        if cost < best.map_or(limit, |(least, _)| least) {
            let placement = Placement::Split { inline, device, device_segments: device_segments as u32 };
            best = Some((cost, Decision { placement, reason: Reason::Split }));
        }
    }
    best.map(|(_, decision)| decision)
}
