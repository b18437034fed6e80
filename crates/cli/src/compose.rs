//! Which engines compute: the one place that names them.

use std::sync::Arc;
use std::time::Duration;

use strongroom_engine::{Algorithm, Engine};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine, Tier};
use strongroom_sched::{Options, Scheduler, Settings};

use crate::failure::{Exit, Failure, Result};
use crate::profile::{Found, Profile, file};
use crate::{device, gpu};

/// What `--engine` takes without being asked for anything else.
pub(crate) const DEFAULT: &str = "auto";

/// The engines of a process, and what was known of them when it began.
pub(crate) struct Composed {
    /// All of them.
    pub(crate) scheduler: Arc<Scheduler>,
    /// What was measured on this machine, where it was.
    pub(crate) profile: Option<Profile>,
    /// Why there is no profile, where there could be one.
    pub(crate) remark: Option<String>,
}

/// The engines of this process under one scheduler, as [`compose_for`] makes
/// them, for work that has no settings of its own.
///
/// # Errors
/// As [`compose_for`].
pub(crate) fn compose(name: Option<&str>) -> Result<Arc<Scheduler>> {
    Ok(compose_for(name, &[], None)?.scheduler)
}

/// The engines of this process under one scheduler: the by-the-book engine
/// takes what the others cannot serve. `words` of the form `NAME=VALUE` change
/// its settings, which for `algorithm` begin with what was measured. Some
/// engines start threads: not before the process is what it will stay.
///
/// # Errors
/// Usage for a name that there is not, or settings that do not fit it;
/// unsupported when this machine does not have the engine.
pub(crate) fn compose_for(
    name: Option<&str>,
    words: &[String],
    algorithm: Option<Algorithm>,
) -> Result<Composed> {
    let mut engines = engines(name)?;
    let Found { profile, remark } = match engines.len() {
        // Where there is nothing to choose nothing has to be known.
        1 => Found::default(),
        _ => file::find(&engine_names(&engines)),
    };
    if let Some(profile) = profile.as_ref().filter(|_| is_automatic(name)) {
        engines.retain(|engine| profile.is_worthwhile(engine.name()));
    }
    let mut settings = Settings::default();
    if let (Some(profile), Some(algorithm)) = (&profile, algorithm) {
        profile.settings(algorithm, &mut settings);
    }
    for word in words {
        crate::set::apply(&mut settings, word)?;
    }
    let mut options = Options { settings, ..Options::default() };
    if name.is_some_and(strongroom_engine_sim::named::loses_work) {
        // It gets more work however often it loses some.
        options.pause = Duration::ZERO;
    }
    let scheduler = Scheduler::new(engines, Arc::new(ReferenceEngine), options);
    check(&scheduler, settings)?;
    if let Some(profile) = &profile {
        scheduler.seed(profile.seeds());
    }
    Ok(Composed { scheduler: Arc::new(scheduler), profile, remark })
}

/// Whether this name leaves the choice to the program.
fn is_automatic(name: Option<&str>) -> bool {
    name.unwrap_or(DEFAULT) == DEFAULT
}

/// The names of engines, in their order.
pub(crate) fn engine_names(engines: &[Arc<dyn Engine>]) -> Vec<String> {
    engines.iter().map(|engine| engine.name().to_owned()).collect()
}

/// What `--engine NAME` means, those that are inline first.
///
/// # Errors
/// Usage for a name that there is not; unsupported for a tier that this CPU
/// does not have, and a device that is not here.
pub(crate) fn engines(name: Option<&str>) -> Result<Vec<Arc<dyn Engine>>> {
    let cpu = || -> Arc<dyn Engine> { Arc::new(CpuEngine::new()) };
    let portable = || -> Arc<dyn Engine> {
        Arc::new(CpuEngine::of_tier(Tier::Portable).expect("the portable tier needs nothing"))
    };
    let name = name.unwrap_or(DEFAULT);
    if let Some(tier) = of_tier(name)? {
        return Ok(vec![tier]);
    }
    let side_by_side = || -> Vec<Arc<dyn Engine>> {
        CpuEngine::side_by_side().into_iter().map(|tier| Arc::new(tier) as Arc<dyn Engine>).collect()
    };
    if gpu::is_name(name) {
        return Ok([side_by_side(), gpu::engines(name)?].concat());
    }
    let (beside, devices) = device::beside(name);
    if let Some(kind) = device::kind(devices) {
        let tier = beside.map(of_tier).transpose()?;
        let cpu = match tier {
            Some(Some(tier)) => vec![tier],
            Some(None) => return Err(unknown(name)),
            None => side_by_side(),
        };
        return Ok([cpu, device::engines(kind, devices)?].concat());
    }
    match name {
        DEFAULT => Ok(side_by_side()),
        "cpu" => Ok(vec![cpu()]),
        "reference" => Ok(vec![Arc::new(ReferenceEngine)]),
        other => strongroom_engine_sim::named::engines(other, &cpu, &portable).ok_or_else(|| unknown(other)),
    }
}

/// Refuses a name that none of the engines has, here or elsewhere.
///
/// # Errors
/// Usage for a name that there is not; unsupported for a tier beside devices
/// that this CPU does not have.
pub(crate) fn refuse_unknown(name: &str) -> Result<()> {
    let (beside, devices) = device::beside(name);
    if device::kind(devices).is_some() {
        return match beside.map(of_tier).transpose()? {
            Some(None) => Err(unknown(name)),
            _ => Ok(()),
        };
    }
    // Making one for a GPU takes seconds.
    if gpu::is_name(name) {
        return Ok(());
    }
    match engines(Some(name)) {
        Err(failure) if failure.exit() == Exit::Usage => Err(failure),
        _ => Ok(()),
    }
}

/// The tier of the CPU that has this name, if one has.
///
/// # Errors
/// Unsupported for one that this CPU does not have.
fn of_tier(name: &str) -> Result<Option<Arc<dyn Engine>>> {
    let Some(tier) = Tier::ALL.into_iter().find(|tier| tier.engine_name() == name) else { return Ok(None) };
    let engine = CpuEngine::of_tier(tier).ok_or_else(|| lacking(tier))?;
    Ok(Some(Arc::new(engine)))
}

fn unknown(name: &str) -> Failure {
    Failure::usage(format!("there is no engine `{name}`"))
        .hint(format!("There are {}.", crate::args::values::engines().join(", ")))
}

fn lacking(tier: Tier) -> Failure {
    let message = format!("this machine has no {}: it needs {}", tier.engine_name(), tier.requirement());
    Failure::new(Exit::Unsupported, message).hint("`strongroom engines` lists what is here.")
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
        let first = |name| engines(name).map(|engines| engine_names(&engines)[0].clone());
        assert_eq!(first(None), first(Some("cpu")));
        assert_ne!(first(None), first(Some("reference")));
        assert!(first(Some("unruly")).is_ok_and(|name| name.starts_with("unruly(")));
        assert_eq!(first(Some("cpu-portable")), Ok("cpu-portable".to_owned()));
        assert!(first(Some("gpus")).is_err());
        let no_tier = engines(Some("cpus+qat:0")).err().expect("no such tier");
        assert_eq!(no_tier.exit(), Failure::usage("").exit());
        let no_device = engines(Some("cpu-portable+vfio-user:/nowhere")).err().expect("nobody is there");
        assert_eq!(no_device.exit(), Exit::Unsupported);
    }

    #[test]
    fn all_tiers_stand_side_by_side_and_one_can_be_forced() {
        let present = Tier::ALL.into_iter().filter(|tier| *tier <= Tier::best());
        let names: Vec<_> = present.map(|tier| tier.engine_name().to_owned()).collect();
        assert_eq!(engines(None).map(|engines| engine_names(&engines)), Ok(names));
        for tier in Tier::ALL {
            match engines(Some(tier.engine_name())) {
                Ok(only) => assert_eq!(engine_names(&only), [tier.engine_name()]),
                Err(failure) => assert_eq!(failure.exit(), Exit::Unsupported),
            }
        }
    }

    #[test]
    fn an_engine_that_is_not_there_cannot_be_used() {
        let second = ["use=1".to_owned()];
        assert!(compose_for(Some("cpu"), &second, None).is_err());
        assert!(compose_for(Some("sim"), &second, None).is_ok());
    }
}
