//! The words after `-o`, as mount(8) and /etc/fstab have them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum as _;

use crate::args::mount::Transport;
use crate::args::values::{LogTarget, size, some_time};
use crate::daemon::Plan;
use crate::failure::{Failure, Result};
use crate::secrets::Source;

/// What becomes of words that are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// They are refused.
    Strict,
    /// They are passed over, as mount(8) asks for with `-s`.
    Sloppy,
}

/// Words that say nothing to a mount of this kind: they are for mount(8) or
/// systemd, or hold in any case.
const WITHOUT_EFFECT: &[&str] = &[
    "async",
    "atime",
    "auto",
    "default_permissions",
    "defaults",
    "diratime",
    "exec",
    "group",
    "_netdev",
    "lazytime",
    "noatime",
    "noauto",
    "nodev",
    "nodiratime",
    "nofail",
    "nolazytime",
    "norelatime",
    "nostrictatime",
    "nosuid",
    "nouser",
    "nousers",
    "owner",
    "relatime",
    "rw",
    "strictatime",
    "user",
    "users",
];

/// Brings the words into the plan; of two that contradict the later counts.
///
/// # Errors
/// Usage for a word that is not known or has no fitting value.
pub(super) fn apply(plan: &mut Plan, words: &[String], strictness: Strictness) -> Result<()> {
    for word in words.iter().filter(|word| !word.is_empty()) {
        let known = match word.split_once('=') {
            Some((name, value)) => with_value(plan, name, value)?,
            None => alone(plan, word),
        };
        if !known && strictness == Strictness::Strict {
            return Err(Failure::usage(format!("-o {word}: there is no such option"))
                .hint("`strongroom mount --help` lists them."));
        }
    }
    Ok(())
}

/// False for a word that is not known.
fn alone(plan: &mut Plan, word: &str) -> bool {
    let mount = &mut plan.mount;
    match word {
        "ro" => mount.read_only = true,
        "rw" => mount.read_only = false,
        "suid" => mount.allow_suid = true,
        "nosuid" => mount.allow_suid = false,
        "dev" => mount.allow_devices = true,
        "nodev" => mount.allow_devices = false,
        "noexec" => mount.no_exec = true,
        "exec" => mount.no_exec = false,
        "allow_other" => mount.allow_other = true,
        "nonempty" => mount.allow_nonempty = true,
        "no_history" => plan.history = crate::history::History::off(),
        "log_names" => {
            plan.log_names = true;
            return true;
        }
        word => return WITHOUT_EFFECT.contains(&word) || is_for_others(word),
    }
    true
}

/// False for a name that is not known.
fn with_value(plan: &mut Plan, name: &str, value: &str) -> Result<bool> {
    let wrong = |what: String| Failure::usage(format!("-o {name}: {what}"));
    let path = || PathBuf::from(value);
    match name {
        "fsname" => value.clone_into(&mut plan.mount.source),
        "idle" => plan.idle = Some(some_time(value).map_err(wrong)?),
        "engine" => plan.engine = Some(crate::device::absolute(value)),
        "transport" => {
            let transport =
                Transport::from_str(value, false).map_err(|_| wrong("auto, dev or uring".to_owned()))?;
            plan.transport = transport.into();
        }
        "log" => plan.log = Some(LogTarget::from(OsString::from(value))),
        "freshness" => plan.freshness = Some(path()),
        "journal_size" => plan.journal_len = size(value).map_err(wrong)?,
        "durability" => {
            plan.relaxed = match value {
                "full" => false,
                "relaxed" => true,
                _ => return Err(wrong("full or relaxed".to_owned())),
            };
        }
        "password_file" => add(&mut plan.source, Source::PasswordFile(path())),
        "password_fd" => {
            let number = value.parse().ok().filter(|number| *number >= 0);
            let number = number.ok_or_else(|| wrong("the number of a file descriptor".to_owned()))?;
            add(&mut plan.source, Source::PasswordFd(number));
        }
        "password_command" => add(&mut plan.source, Source::PasswordCommand(value.to_owned())),
        "key_file" => add(&mut plan.source, Source::KeyFile(path())),
        "recovery_file" => plan.source = Source::RecoveryFile(path()),
        name if crate::set::NAMES.contains(&name) => {
            let word = format!("{name}={value}");
            crate::set::apply(&mut strongroom_sched::Settings::default(), &word)?;
            plan.placing.push(word);
        }
        name => return Ok(name == "comment" || is_for_others(name)),
    }
    Ok(true)
}

/// Takes a further option that says where a secret is to be had.
fn add(source: &mut Source, other: Source) {
    *source = std::mem::replace(source, Source::Prompt).and(other);
}

/// Words that fstab has for programs in user space.
fn is_for_others(word: &str) -> bool {
    word.starts_with("x-") || word.starts_with("X-")
}

#[cfg(test)]
mod tests {
    use strongroom_fuse::TransportChoice;

    use super::*;
    use std::time::Duration;

    fn plan(words: &str, strictness: Strictness) -> Result<Plan> {
        let mut plan = Plan {
            vault: "/v".into(),
            directory: "/m".into(),
            mount: strongroom_fuse::MountOptions::default(),
            foreground: false,
            confined: true,
            idle: None,
            engine: None,
            transport: TransportChoice::default(),
            placing: Vec::new(),
            log: None,
            log_names: false,
            relaxed: false,
            journal_len: 64 << 20,
            freshness: None,
            trust: strongroom_vault::Trust::Record,
            history: crate::history::History::of_environment(),
            takeover: crate::lock::Takeover::Refuse,
            source: Source::Prompt,
        };
        let words: Vec<String> = words.split(',').map(str::to_owned).collect();
        apply(&mut plan, &words, strictness).map(|()| plan)
    }

    #[test]
    fn the_words_of_an_fstab_are_understood() {
        let words = "rw,noatime,_netdev,nofail,x-systemd.automount,x-systemd.idle-timeout=60,noexec,suid,nosuid,dev,\
                     allow_other,fsname=box,idle=10m,key_file=/k,durability=relaxed,journal_size=32MiB,log=syslog";
        let plan = plan(words, Strictness::Strict).expect("known words");
        let mount = &plan.mount;
        assert!(mount.no_exec && mount.allow_devices && mount.allow_other);
        assert!(!mount.allow_suid && !mount.read_only);
        assert_eq!((mount.source.as_str(), plan.idle), ("box", Some(Duration::from_secs(600))));
        assert_eq!(plan.source, Source::KeyFile("/k".into()));
        assert_eq!((plan.relaxed, plan.journal_len, plan.log), (true, 32 << 20, Some(LogTarget::Syslog)));
    }

    #[test]
    fn settings_of_the_scheduler_are_options_too() {
        let plan = plan("policy=aca,alpha=3,check=64", Strictness::Strict).expect("known words");
        assert_eq!(plan.placing, ["policy=aca", "alpha=3", "check=64"]);
    }

    #[test]
    fn the_later_word_counts() {
        assert!(plan("ro", Strictness::Strict).expect("known").is_read_only());
        assert!(!plan("ro,rw", Strictness::Strict).expect("known").is_read_only());
    }

    #[test]
    fn unknown_words_are_refused_unless_sloppy() {
        for word in ["sync", "uid=7", "quota", "idle=soon", "idle=0s", "durability=none", "alpha=many"] {
            assert!(plan(word, Strictness::Strict).is_err(), "{word}");
        }
        assert!(plan("sync,uid=7,,quota", Strictness::Sloppy).is_ok());
        assert!(plan("idle=soon", Strictness::Sloppy).is_err());
    }
}
