//! `aca`: Algorithm 1 of the ACA-SDS paper.
//!
//! Reads go to the CPU. Writes go to the device when more than alpha tasks ask
//! and the request has more than beta bytes; but where more than M of the CPU is
//! idle, the CPU computes them as well. Tasks are distinct callers, the paper's
//! "process"; the bytes are those of the request, of which a batch may be a part.

use super::{Decision, Question, Reason, first_device, first_inline, whole};

/// See the module.
#[must_use]
pub fn place(&Question { settings, request, engines, cpu, .. }: &Question<'_>) -> Option<Decision> {
    let software = |reason| first_inline(engines).map(|engine| whole(engine, reason));
    let crowded = request.tasks > u32::from(settings.alpha);
    let large = request.request_bytes > u64::from(settings.beta_bytes);
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

#[cfg(test)]
mod tests {
    use strongroom_engine::Operation;

    use super::*;
    use crate::Settings;
    use crate::policy::{CpuView, EngineView, Placement, Request};

    /// Where a page goes that is a part of such a request.
    fn goes(operation: Operation, tasks: u32, request_bytes: u64, idle: f64) -> (usize, Reason) {
        let settings = Settings { alpha: 4, beta_bytes: 8192, idle_cpu_permille: 100, ..Settings::default() };
        let usable = EngineView { usable: true, known: true, parallelism: 1.0, ..EngineView::default() };
        let engines = [EngineView { inline: true, ..usable }, usable];
        let request = Request { tasks, request_bytes, ..Request::whole(operation, 4096) };
        let cpu = CpuView { idle, ..CpuView::idle(4) };
        let asked =
            Question { settings: &settings, request: &request, engines: &engines, cpu, credit_ns: 0.0 };
        let decision = place(&asked).expect("two engines");
        let Placement::Whole(engine) = decision.placement else { panic!("it divides nothing") };
        (engine, decision.reason)
    }

    #[test]
    fn algorithm_1_counts_callers_and_the_requests_bytes() {
        let large = 65536;
        assert_eq!(goes(Operation::Seal, 5, large, 0.0), (1, Reason::Threshold));
        assert_eq!(goes(Operation::Open, 5, large, 0.0), (0, Reason::Threshold));
        assert_eq!(goes(Operation::Seal, 4, large, 0.0), (0, Reason::Threshold));
        assert_eq!(goes(Operation::Seal, 5, 8192, 0.0), (0, Reason::Threshold));
        assert_eq!(goes(Operation::Seal, 5, large, 0.2), (0, Reason::IdleCpu));
    }
}
