//! `set`: changes how a live mount places its work.

use strongroom_sched::Settings;

use crate::args::SetArgs;
use crate::args::values::size;
use crate::control::{Client, Request, mounts, unanswered};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

/// Runs `set`.
///
/// # Errors
/// Usage for words that mean nothing, before the daemon is asked.
pub(crate) fn run(args: &SetArgs, _output: Output) -> Result<Exit> {
    let mut settings = Settings::default();
    for word in &args.settings {
        apply(&mut settings, word)?;
    }
    let mounted = mounts::at(&args.directory)?;
    let mut client = Client::connect(&mounted).ok_or_else(|| unanswered(&mounted))?;
    let request = Request::Set { settings: args.settings.clone() };
    client.ask(request).map_err(|failure| failure.at(&mounted.path))?;
    Ok(Exit::Done)
}

/// Names that [`apply`] knows.
pub(crate) const NAMES: &[&str] =
    &["policy", "objective", "alpha", "beta", "idle-cpu", "use", "check", "masks"];

/// Brings one `NAME=VALUE` into the settings.
///
/// # Errors
/// Usage for a name that is not known or a value that does not fit.
pub(crate) fn apply(settings: &mut Settings, word: &str) -> Result<()> {
    let wrong = |what: &str| {
        Failure::usage(format!("{word}: {what}")).hint("`strongroom set --help` lists what can be set.")
    };
    let (name, value) = word.split_once('=').ok_or_else(|| wrong("not of the form NAME=VALUE"))?;
    match name {
        "policy" => settings.policy = value.parse().map_err(|_| wrong("fixed, size, aca or adaptive"))?,
        "objective" => {
            settings.objective = value.parse().map_err(|_| wrong("throughput, latency or cpu"))?;
        }
        "alpha" => settings.alpha = value.parse().map_err(|_| wrong("a count from 0 to 65535"))?,
        "beta" => {
            let bytes = size(value).map_err(|what| wrong(&what))?;
            settings.beta_bytes = u32::try_from(bytes)
                .ok()
                .filter(|bytes| *bytes <= Settings::BETA_BYTES_MAX)
                .ok_or_else(|| wrong("at most 1023MiB"))?;
        }
        "idle-cpu" => {
            let percent: f64 =
                value.trim_end_matches('%').parse().map_err(|_| wrong("a share in per cent"))?;
            if !(0.0..=100.0).contains(&percent) {
                return Err(wrong("a share from 0 to 100 per cent"));
            }
            settings.idle_cpu_permille = (percent * 10.0).round() as u16;
        }
        "use" => {
            settings.engine = value
                .parse()
                .ok()
                .filter(|engine| *engine <= Settings::ENGINE_MAX)
                .ok_or_else(|| wrong("the place of an engine in `status`, from 0"))?;
        }
        "check" => {
            let interval: u32 = value.parse().map_err(|_| wrong("a count of results"))?;
            let largest = 1 << Settings::CHECK_EXPONENT_MAX;
            if !interval.is_power_of_two() || interval > largest {
                return Err(wrong(
                    "a power of two up to 16384: one result of a device in so many is checked",
                ));
            }
            settings.check_exponent = interval.trailing_zeros() as u8;
        }
        "masks" => settings.masks = value.parse().map_err(|_| wrong("auto, on or off"))?,
        _ => return Err(wrong("there is no such setting")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use strongroom_sched::{Masks, Objective, Policy};

    use super::*;

    #[test]
    fn words_are_understood() {
        let mut settings = Settings::default();
        for word in [
            "policy=aca",
            "objective=cpu",
            "alpha=16",
            "beta=64KiB",
            "idle-cpu=12.5%",
            "use=1",
            "check=1024",
            "masks=on",
        ] {
            apply(&mut settings, word).expect(word);
        }
        let expected = Settings {
            policy: Policy::Aca,
            objective: Objective::Cpu,
            engine: 1,
            alpha: 16,
            beta_bytes: 65536,
            idle_cpu_permille: 125,
            check_exponent: 10,
            masks: Masks::On,
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn others_are_refused() {
        let words = [
            "policy=best",
            "alpha=-1",
            "beta=2GiB",
            "idle-cpu=101",
            "use=99",
            "check=3",
            "check=0",
            "masks=yes",
            "x=1",
            "policy",
        ];
        for word in words {
            let mut settings = Settings::default();
            assert!(apply(&mut settings, word).is_err(), "{word}");
        }
    }
}
