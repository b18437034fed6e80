//! `adaptive`: where the request adds the least delay, by what was measured.
//! `docs/scheduler.md` has the principle and the formulas; the names here are
//! those of its table.

use super::{Decision, EngineView, Placement, Question, Reason, whole};
use crate::settings::Objective;

/// A division has to end this much sooner than the best engine alone, for it
/// costs a copy and a second wait that the model does not know.
const SPLIT_GAIN: f64 = 0.9;
/// With the objective `cpu`, how many times its own service a request may wait
/// before the engine counts as one that does not keep up: users notice a
/// factor, and queues that do not grow stay below it.
const KEEPS_UP: f64 = 4.0;

/// See the module.
#[must_use]
pub fn place(asked: &Question<'_>) -> Option<Decision> {
    let usable = || asked.engines.iter().enumerate().filter(|(_, engine)| engine.usable);
    if let Some((unknown, _)) = usable().find(|(_, engine)| !engine.known && engine.in_flight == 0) {
        return Some(whole(unknown, Reason::Probe));
    }
    let delay = Delay::new(asked);
    // One that is out for the first time counts as what it says of itself.
    let costs = usable().map(|(at, engine)| (at, delay.of(engine)));
    let (best, least) = costs.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let is_due = |engine: &EngineView| {
        let cost = delay.of(engine);
        engine.in_flight == 0 && engine.confidence * cost < least && asked.credit_ns >= cost - least
    };
    if let Some((probed, _)) = usable().find(|(at, engine)| *at != best && is_due(engine)) {
        return Some(whole(probed, Reason::Probe));
    }
    let reason = match asked.settings.objective {
        Objective::Cpu => return Some(whole(best, Reason::CheapestCpu)),
        Objective::Latency => Reason::Soonest,
        Objective::Throughput => Reason::Least,
    };
    best_split(asked, &delay, least * SPLIT_GAIN).or(Some(whole(best, reason)))
}

/// What a request costs on an engine beyond the best of those that are known.
pub(crate) fn extra_cost(chosen: usize, asked: &Question<'_>) -> f64 {
    let delay = Delay::new(asked);
    let spent = delay.of(&asked.engines[chosen]);
    let known = asked.engines.iter().filter(|engine| engine.usable && engine.known);
    spent - known.map(|engine| delay.of(engine)).fold(spent, f64::min)
}

/// The delay that a request adds, in nanoseconds of everybody's time.
struct Delay {
    objective: Objective,
    /// Delay of others for each nanosecond of CPU time.
    price: f64,
    /// Times that CPU time takes.
    stretch: f64,
    /// Share of its own service that a request waits for as nobody gains by its
    /// absence.
    own: f64,
}

impl Delay {
    fn new(&Question { settings, request, cpu, .. }: &Question<'_>) -> Delay {
        let (objective, stretch) = (settings.objective, cpu.stretch(request.computing));
        match objective {
            Objective::Throughput => {
                let own = 1.0 - cpu.saturated * cpu.own;
                Delay { objective, price: cpu.price(request), stretch, own }
            }
            Objective::Latency | Objective::Cpu => Delay { objective, price: 0.0, stretch, own: 1.0 },
        }
    }

    fn of(&self, engine: &EngineView) -> f64 {
        let finish = engine.finish_beside(self.stretch);
        match self.objective {
            Objective::Latency => finish,
            Objective::Throughput => {
                let own = finish - (1.0 - self.own) * engine.service_ns;
                own + self.imposed(engine, engine.cpu_ns, engine.service_ns)
            }
            Objective::Cpu => {
                let keeps_up = finish <= KEEPS_UP * engine.service_ns + engine.cpu_ns;
                engine.cpu_ns + if keeps_up { 0.0 } else { finish * 1e6 }
            }
        }
    }

    /// How long others wait, in all, for this much CPU time and device time.
    fn imposed(&self, engine: &EngineView, cpu_ns: f64, service_ns: f64) -> f64 {
        cpu_ns * self.price + service_ns / engine.parallelism * engine.behind()
    }
}

/// The best division between an inline engine and a device, if it costs less
/// than `limit`: both shall end at the same time.
fn best_split(asked: &Question<'_>, delay: &Delay, limit: f64) -> Option<Decision> {
    let &Question { request, engines, .. } = asked;
    if request.segments < 2 {
        return None;
    }
    let usable = |inline: bool| {
        move |(_, engine): &(usize, &EngineView)| engine.usable && engine.known && engine.inline == inline
    };
    let (inline, software) = engines.iter().enumerate().find(usable(true))?;
    let segment_bytes = request.bytes as f64 / f64::from(request.segments);
    let divide = |(device, hardware): (usize, &EngineView)| {
        // The device serves its part at once, or behind all that it has; then who
        // waits for it wants a CPU.
        let bytes_behind = |backlog_ns: f64, parallelism: f64| {
            let before = (backlog_ns + hardware.fixed_ns) / parallelism + hardware.cpu_wait_ns;
            let slope = software.per_byte_ns * delay.stretch + hardware.per_byte_ns / parallelism;
            (software.service_ns * delay.stretch - before) / slope
        };
        let at_once = bytes_behind(0.0, 1.0);
        let bytes = match hardware.behind() > 0.0 {
            true => at_once.min(bytes_behind(hardware.backlog_ns, hardware.parallelism)),
            false => at_once,
        };
        let device_segments = (bytes / segment_bytes).floor();
        if !(device_segments >= 1.0 && device_segments < f64::from(request.segments)) {
            return None;
        }
        let device_bytes = device_segments * segment_bytes;
        let share = device_bytes / request.bytes as f64;
        let computed = software.service_ns - software.per_byte_ns * device_bytes;
        let own = hardware.cpu_ns + computed * (delay.stretch - 1.0 + delay.own);
        let imposed = match delay.objective {
            Objective::Throughput => {
                delay.imposed(hardware, hardware.cpu_ns + computed, hardware.service_ns * share)
            }
            Objective::Latency | Objective::Cpu => 0.0,
        };
        let placement = Placement::Split { inline, device, device_segments: device_segments as u32 };
        Some((own + imposed, Decision { placement, reason: Reason::Split }))
    };
    let divided = engines.iter().enumerate().filter(usable(false)).filter_map(divide);
    let best = divided.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (best.0 < limit).then_some(best.1)
}
