//! `simulate`: a modelled machine under a load, in virtual time; and documents replayed.

mod document;
mod paper;
mod plot;

use std::time::Duration;

use strongroom_sched::Settings;
use strongroom_sim::{Host, Options, Workload, aca_sds, run as simulate};

use self::document::{Document, List};
use crate::args::SimulateArgs;
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;
use crate::set;

/// A device's results are checked once in 2^10 times, unless it is said
/// otherwise: with every result checked no device is worth its while.
const CHECK_EXPONENT: u8 = 10;
/// Shorter runs say nothing, longer ones nothing more.
const DURATIONS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(60)];

/// Runs `simulate`.
///
/// # Errors
/// Usage for names and settings that there are not; what drawing fails with.
pub(crate) fn run(args: &SimulateArgs, output: Output) -> Result<Exit> {
    let Some(name) = args.host.as_deref().filter(|_| !args.list) else {
        output.print(&List::new(), List::text)?;
        return Ok(Exit::Done);
    };
    if let Some(replay) = strongroom_papers::replay(name) {
        if args.plot.is_some() {
            return Err(Failure::usage("--plot draws a run, and a document is none"));
        }
        output.print(&paper::Document::new(replay), paper::Document::text)?;
        return Ok(Exit::Done);
    }
    let list = "`strongroom simulate --list` tells which there are.";
    let host =
        Host::named(name).ok_or_else(|| Failure::usage(format!("there is no host `{name}`")).hint(list))?;
    let workload = Workload::named(&args.workload)
        .ok_or_else(|| Failure::usage(format!("there is no workload `{}`", args.workload)).hint(list))?;
    let options = Options { settings: settings(args, &host)?, ..options(args)? };
    // What the model is worth comes before what it says.
    let calibration = if host.name == aca_sds::NAME { aca_sds::predictions(32) } else { Vec::new() };
    let report = simulate(&host, &workload, &options);
    if let Some(file) = &args.plot {
        plot::draw(&host, &workload, &report, file)?;
    }
    let document = Document::new(&host, &workload, &options, &report, &calibration);
    output.print(&document, Document::text)?;
    Ok(Exit::Done)
}

fn options(args: &SimulateArgs) -> Result<Options> {
    if !(DURATIONS[0]..=DURATIONS[1]).contains(&args.duration) {
        return Err(Failure::usage("--duration: from 1ms to 1min"));
    }
    let duration_ns = args.duration.as_nanos() as u64;
    Ok(Options { settings: Settings::default(), duration_ns, seed: args.seed })
}

fn settings(args: &SimulateArgs, host: &Host) -> Result<Settings> {
    let mut settings = Settings { check_exponent: CHECK_EXPONENT, ..Settings::default() };
    set::apply(&mut settings, &format!("policy={}", args.policy))?;
    for word in &args.settings {
        set::apply(&mut settings, word)?;
    }
    let engines = host.engines().count();
    if usize::from(settings.engine) >= engines {
        return Err(Failure::usage(format!("use={}: {} has {engines} engines", settings.engine, host.name))
            .hint("They are numbered from 0, in the order in which reports name them."));
    }
    Ok(settings)
}
