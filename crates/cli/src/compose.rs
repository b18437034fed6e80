//! Which engines compute: the one place that names them.

use std::sync::Arc;
use std::time::Duration;

use strongroom_engine::Engine;
use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_engine_sim::{Faults as DeviceFaults, Model, SimEngine};
use strongroom_sched::{Options, Scheduler, Settings};

use crate::failure::{Failure, Result};

/// What `--engine` takes without being asked for anything else.
pub(crate) const DEFAULT: &str = "cpu";

/// Seed of the test engines' misbehaviour.
const SEED: u64 = 0x5eed;

/// The engines of this process under one scheduler: the by-the-book engine
/// takes what the others cannot serve. Some engines start threads: not before
/// the process is what it will stay.
///
/// # Errors
/// Usage for a name that there is not, or settings that do not fit it.
pub(crate) fn compose(name: Option<&str>, placing: Option<Settings>) -> Result<Arc<Scheduler>> {
    let cpu = || -> Arc<dyn Engine> { Arc::new(CpuEngine::new()) };
    let device =
        |faults| -> Arc<dyn Engine> { Arc::new(SimEngine::new(cpu(), Model::moderate(), faults, SEED)) };
    let none = DeviceFaults::default();
    let engines = match name.unwrap_or(DEFAULT) {
        "cpu" => vec![cpu()],
        "reference" => vec![Arc::new(ReferenceEngine) as Arc<dyn Engine>],
        // For tests alone: busy, late, out of order, and it loses work.
        "unruly" => vec![Arc::new(UnrulyEngine::new(cpu(), SEED, Faults::lossy())) as Arc<dyn Engine>],
        // For tests alone: the CPU with a simulated device beside it, sound
        // or with a fault.
        "sim" => vec![cpu(), device(none)],
        "sim-wrong" => vec![cpu(), device(DeviceFaults { wrong_ppm: 20_000, ..none })],
        "sim-stalls" => {
            vec![cpu(), device(DeviceFaults { stall_ppm: 50_000, stall: Duration::from_secs(5), ..none })]
        }
        "sim-gone" => vec![cpu(), device(DeviceFaults { gone_after: Some(100), ..none })],
        other => {
            return Err(Failure::usage(format!("there is no engine `{other}`"))
                .hint("Use cpu or reference; `strongroom doctor` tells what this machine has."));
        }
    };
    let settings = placing.unwrap_or_default();
    let mut options = Options { settings, ..Options::default() };
    if name == Some("unruly") {
        // It gets more work however often it loses some.
        options.pause = Duration::ZERO;
    }
    let scheduler = Scheduler::new(engines, Arc::new(ReferenceEngine), options);
    check(&scheduler, settings)?;
    Ok(Arc::new(scheduler))
}

/// Refuses settings that name an engine which this scheduler does not have.
///
/// # Errors
/// Usage.
pub(crate) fn check(scheduler: &Scheduler, settings: Settings) -> Result<()> {
    let engines = scheduler.engines().count();
    if usize::from(settings.engine) < engines {
        return Ok(());
    }
    Err(Failure::usage(format!("use={}: there are {engines} engines", settings.engine))
        .hint("`strongroom status` lists them; the first has place 0."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_names_and_others_are_refused() {
        let first = |name| {
            compose(name, None)
                .map(|scheduler| scheduler.engines().next().map(str::to_owned).unwrap_or_default())
        };
        assert_eq!(first(None), first(Some("cpu")));
        assert_ne!(first(None), first(Some("reference")));
        assert!(first(Some("unruly")).is_ok_and(|name| name.starts_with("unruly(")));
        assert!(first(Some("gpu")).is_err());
    }

    #[test]
    fn an_engine_that_is_not_there_cannot_be_used() {
        let settings = Settings { engine: 1, ..Settings::default() };
        assert!(compose(Some("cpu"), Some(settings)).is_err());
        assert!(compose(Some("sim"), Some(settings)).is_ok());
    }
}
