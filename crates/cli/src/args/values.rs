//! Values that are typed with a unit, or are among known names.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use strongroom_engine_cpu::Tier;
use strongroom_format::luks::{CipherSpec, Hash};
use strongroom_format::vault::Suite;

/// Parses a size in bytes: `4096`, `4K`, `4KiB`, `64M`, `1GiB`. Units are
/// powers of 1024, and case does not matter.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err("expected a number of bytes, or one with K, M, G or T, as 64KiB".to_owned()),
    };
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

/// Parses a duration: `90` or `90s`, `500ms`, `10m`, `2h`, `1d`.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "ms" => return Ok(Duration::from_millis(number)),
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86400,
        _ => return Err("expected a number with ms, s, m, h or d, as 10m".to_owned()),
    };
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(|| "too long".to_owned())
}

/// As [`duration`], and not none.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("no time at all".to_owned()),
        time => Ok(time),
    }
}

fn split(text: &str) -> Result<(u64, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if end == 0 {
        return Err("expected a whole number first".to_owned());
    }
    // Digits alone.
    let number = text[..end].parse().map_err(|_| "too large".to_owned())?;
    Ok((number, text[end..].trim_start()))
}

/// A value that has a name: completions offer the names, and an error lists
/// them. What `parse` takes besides is taken.
#[derive(Clone, Copy)]
pub(crate) struct Named<T> {
    names: fn() -> Vec<&'static str>,
    parse: fn(&str) -> Option<T>,
}

/// A suite of vaults.
pub(crate) const SUITE: Named<Suite> =
    Named { names: || Suite::ALL.map(Suite::name).to_vec(), parse: |name| name.parse().ok() };

/// The hash of a LUKS1 header.
pub(crate) const HASH: Named<Hash> =
    Named { names: || Hash::ALL.map(Hash::name).to_vec(), parse: |name| name.parse().ok() };

/// A cipher of disks. One that is spelled well, and that nobody here can
/// compute, is refused by name when it is asked for.
pub(crate) const CIPHER: Named<CipherSpec> =
    Named { names: ciphers, parse: |name| CipherSpec::parse(name).ok() };

/// An engine: which there are is known where they are made.
pub(crate) const ENGINE: Named<String> =
    Named { names: engines, parse: |name| Some(crate::device::absolute(name)) };

/// `NAME=VALUE` of a setting, which whoever applies it looks at.
pub(crate) const SETTING: Named<String> = Named { names: settings, parse: |word| Some(word.to_owned()) };

fn ciphers() -> Vec<&'static str> {
    vec![
        "aes-xts-plain64",
        "aes-xts-plain",
        "aes-xts-essiv:sha256",
        "aes-cbc-plain64",
        "aes-cbc-plain",
        "aes-cbc-essiv:sha256",
        "serpent-xts-plain64",
        "serpent-xts-plain",
        "serpent-xts-essiv:sha256",
        "serpent-cbc-plain64",
        "serpent-cbc-plain",
        "serpent-cbc-essiv:sha256",
        "twofish-xts-plain64",
        "twofish-xts-plain",
        "twofish-xts-essiv:sha256",
        "twofish-cbc-plain64",
        "twofish-cbc-plain",
        "twofish-cbc-essiv:sha256",
        "camellia-xts-plain64",
        "camellia-xts-plain",
        "camellia-xts-essiv:sha256",
        "camellia-cbc-plain64",
        "camellia-cbc-plain",
        "camellia-cbc-essiv:sha256",
    ]
}

/// Names of engines, those of tiers that this CPU lacks too.
pub(crate) fn engines() -> Vec<&'static str> {
    let tiers = Tier::ALL.into_iter().map(Tier::engine_name);
    ["auto", "cpu"].into_iter().chain(tiers).chain(["reference"]).collect()
}

fn settings() -> Vec<&'static str> {
    vec![
        "policy=fixed",
        "policy=size",
        "policy=aca",
        "policy=adaptive",
        "objective=throughput",
        "objective=latency",
        "objective=cpu",
        "alpha=",
        "beta=",
        "idle-cpu=",
        "use=",
        "check=",
        "masks=auto",
        "masks=on",
        "masks=off",
    ]
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Named<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        if let Some(found) = value.to_str().and_then(self.parse) {
            return Ok(found);
        }
        let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
        if let Some(arg) = arg {
            error.insert(ContextKind::InvalidArg, ContextValue::String(arg.to_string()));
        }
        let value = value.to_string_lossy().into_owned();
        error.insert(ContextKind::InvalidValue, ContextValue::String(value));
        error.insert(
            ContextKind::ValidValue,
            ContextValue::Strings((self.names)().into_iter().map(str::to_owned).collect()),
        );
        Err(error)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

/// Where the daemon's messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogTarget {
    /// The system log.
    Syslog,
    /// Appended to this file.
    File(PathBuf),
}

impl From<OsString> for LogTarget {
    fn from(text: OsString) -> LogTarget {
        if text == OsStr::new("syslog") { LogTarget::Syslog } else { LogTarget::File(text.into()) }
    }
}

/// A file, or something said in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecoveryOut {
    /// Not at all: no recovery key is made.
    None,
    /// To the terminal.
    Terminal,
    /// To a new file of mode 0600.
    File(PathBuf),
}

impl From<OsString> for RecoveryOut {
    fn from(text: OsString) -> RecoveryOut {
        match text.to_str() {
            Some("none") => RecoveryOut::None,
            Some("-") => RecoveryOut::Terminal,
            _ => RecoveryOut::File(text.into()),
        }
    }
}

/// How much is looked at, in percent: above 0, and at most 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Percent(f64);

impl FromStr for Percent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Percent, Self::Err> {
        match text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Percent(percent)),
            Ok(_) => Err("a percentage is above 0 and at most 100"),
            Err(_) => Err("expected a number of percent, as 5%, or a time, as 30m"),
        }
    }
}

impl Percent {
    /// The number.
    pub(crate) fn get(self) -> f64 {
        self.0
    }

    /// That part of a number.
    pub(crate) fn of(self, whole: u64) -> u64 {
        (whole as f64 * self.0 / 100.0) as u64
    }
}

/// What of a vault's contents is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sample {
    /// A random part.
    Part(Percent),
    /// As many files as a time allows, and at the next time those that follow.
    Time(Duration),
}

impl FromStr for Sample {
    type Err = String;

    fn from_str(text: &str) -> Result<Sample, String> {
        if text.ends_with(|end: char| end.is_ascii_alphabetic()) {
            return some_time(text).map(Sample::Time);
        }
        text.parse().map(Sample::Part).map_err(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("4k", 4096), ("4 KiB", 4096), ("64MiB", 64 << 20), ("1g", 1 << 30)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "k", "4KB", "-1", "1.5M", "4 k k", "99999999T", "123456789012345678901"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_name_that_is_offered_is_taken() {
        fn check<T: Clone + Send + Sync + 'static>(named: Named<T>) {
            for name in (named.names)() {
                assert!((named.parse)(name).is_some(), "{name}");
            }
        }
        check(SUITE);
        check(HASH);
        check(CIPHER);
        for word in settings() {
            let value = if word.ends_with('=') { format!("{word}0") } else { word.to_owned() };
            // A check of none is not one.
            let value = value.replace("check=0", "check=1");
            assert_eq!(
                crate::set::apply(&mut strongroom_sched::Settings::default(), &value),
                Ok(()),
                "{value}"
            );
        }
        for name in engines() {
            let refused = crate::compose::engines(Some(name)).err().map(|failure| failure.exit());
            assert!(refused.is_none_or(|exit| exit == crate::failure::Exit::Unsupported), "{name}");
        }
    }

    #[test]
    fn durations_have_units() {
        for (text, ms) in [("3", 3000), ("500ms", 500), ("90s", 90_000), ("10m", 600_000), ("2h", 7_200_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "m", "1w", "-1", "1.5s", "99999999999999999d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_percentage_is_a_part_and_not_nothing() {
        for text in ["5", "5%", "5 %", "0.1", "100"] {
            assert!(text.parse::<Percent>().is_ok(), "{text}");
        }
        for text in ["0", "-1", "100.1", "NaN", "", "five"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_sample_is_a_part_or_a_time() {
        assert_eq!("5%".parse(), Ok(Sample::Part(Percent(5.0))));
        assert_eq!("5".parse(), Ok(Sample::Part(Percent(5.0))));
        assert_eq!("5m".parse(), Ok(Sample::Time(Duration::from_secs(300))));
        for (bad, why) in [
            ("0s", "no time at all"),
            ("5w", "with ms, s, m, h or d"),
            ("0", "above 0"),
            ("m", "a whole number first"),
            ("", "as 5%, or a time, as 30m"),
            ("999999999999999999999s", "too large"),
        ] {
            let said = bad.parse::<Sample>().expect_err(bad);
            assert!(said.contains(why), "{bad}: {said}");
        }
    }
}
