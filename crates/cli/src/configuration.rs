//! Options that people repeat, from a file of theirs and from the environment.
//!
//! What counts, the least first: what the program takes by itself, the file,
//! the environment, the command line. An option is put in front of the others
//! as if it had been typed, so that it is read, refused and explained in one
//! way. What says that something may be destroyed or forced is taken from the
//! command line alone; so is everything in a process that mount(8) calls, whose
//! options stand in /etc/fstab.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use crate::failure::{Failure, Result};
use crate::opening;

/// Longest file.
const LEN_MAX: u64 = 64 << 10;

/// Names the file, where it is not at its usual place; empty for none.
const FILE_VARIABLE: &str = "STRONGROOM_CONFIG";

/// Options that are never taken from here: each permits something once.
const TYPED_ALONE: [&str; 13] = [
    "yes",
    "force",
    "abort",
    "lazy",
    "takeover",
    "new-freshness",
    "repair",
    "resume",
    "ephemeral",
    "dry-run",
    "foreground",
    "help",
    "version",
];

/// Options that say what opens something. They go together: where one is given,
/// none of the others comes from what counts less.
const SECRETS: [&str; 9] = [
    "password-file",
    "password-fd",
    "password-command",
    "password-prompt",
    "key-file",
    "recovery-file",
    "keyfile-offset",
    "keyfile-size",
    "key-slot",
];

/// One option of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// The command, as `disk open`; empty for every command that has it.
    command: String,
    name: String,
    value: Option<OsString>,
    line: usize,
}

/// Puts what is configured into a command line that is valid by itself.
///
/// # Errors
/// Usage for a file that cannot be understood, or that others may write to.
pub(crate) fn complete(words: Vec<OsString>, cli: &Command, matches: &ArgMatches) -> Result<Vec<OsString>> {
    let file = file(|name| std::env::var_os(name));
    let settings = match &file {
        Some(path) => read(path)?,
        None => Vec::new(),
    };
    let path = file.unwrap_or_default();
    complete_from(words, cli, matches, (&path, &settings), |name| std::env::var_os(name))
}

/// Where the file lies.
fn file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(named) = variable(FILE_VARIABLE) {
        return (!named.is_empty()).then(|| named.into());
    }
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    let path = directory.join("strongroom/config");
    path.exists().then_some(path)
}

fn read(path: &Path) -> Result<Vec<Setting>> {
    let failed = |error: std::io::Error| Failure::system(path, &error);
    let file = opening::regular(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let own = rustix::process::geteuid().as_raw();
    // It names commands that are run.
    if metadata.mode() & 0o022 != 0 || metadata.uid() != own && metadata.uid() != 0 {
        return Err(Failure::usage("others may write to this file, and it is not read")
            .at(path)
            .hint("chmod go-w FILE; it has to be its user's, or root's. STRONGROOM_CONFIG= leaves it out."));
    }
    let mut text = Vec::new();
    File::take(file, LEN_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > LEN_MAX {
        return Err(Failure::usage("it is longer than 64 KiB").at(path));
    }
    parse(&text).map_err(|(line, what)| at_line(path, line, what))
}

fn at_line(path: &Path, line: usize, what: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("{}:{line}: {what}", path.display()))
        .hint("docs/configuration.md, or strongroom-config(5), says what it may contain.")
}

/// Lines of `[command]`, `name`, `name = value` and `# remark`.
fn parse(text: &[u8]) -> std::result::Result<Vec<Setting>, (usize, &'static str)> {
    let mut settings = Vec::new();
    let mut command = String::new();
    for (line, bytes) in text.split(|byte| *byte == b'\n').enumerate() {
        let (line, bytes) = (line + 1, bytes.trim_ascii());
        if bytes.is_empty() || bytes[0] == b'#' {
            continue;
        }
        if let Some(section) = bytes.strip_prefix(b"[") {
            let name = section.strip_suffix(b"]").and_then(|name| std::str::from_utf8(name).ok());
            let name = name.ok_or((line, "expected [COMMAND]"))?;
            command = name.split_whitespace().collect::<Vec<_>>().join(" ");
            continue;
        }
        let at = bytes.iter().position(|byte| *byte == b'=');
        let name = bytes[..at.unwrap_or(bytes.len())].trim_ascii();
        let name = std::str::from_utf8(name).map_err(|_| (line, "expected NAME or NAME = VALUE"))?;
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '-' && name.starts_with('-'))
        {
            return Err((line, "expected NAME or NAME = VALUE"));
        }
        let value = at.map(|at| OsStr::from_bytes(bytes[at + 1..].trim_ascii()).to_owned());
        settings.push(Setting { command: command.clone(), name: name.to_owned(), value, line });
    }
    Ok(settings)
}

/// The command that was typed.
struct Typed<'c> {
    /// Its words, as `disk open`.
    name: String,
    /// Words of the line up to and with them.
    words: usize,
    command: &'c Command,
    matches: &'c ArgMatches,
}

/// Whether a word stands for a command: by its name, another name, or as a
/// flag.
fn is_typed_as(word: &str, command: &Command) -> bool {
    let short = command.get_short_flag();
    word == command.get_name()
        || command.get_all_aliases().any(|alias| word == alias)
        || command.get_long_flag().is_some_and(|flag| word.strip_prefix("--") == Some(flag))
        || word
            .strip_prefix('-')
            .is_some_and(|flags| !flags.starts_with('-') && flags.chars().next() == short)
}

impl<'c> Typed<'c> {
    fn of(words: &[OsString], cli: &'c Command, matches: &'c ArgMatches) -> Typed<'c> {
        let mut typed = Typed { name: String::new(), words: 1, command: cli, matches };
        while let Some((name, matches)) = typed.matches.subcommand() {
            let command = typed.command.find_subcommand(name).expect("what was matched is there");
            let is_it = |word: &OsString| is_typed_as(&word.to_string_lossy(), command);
            // What is spelled otherwise is completed behind all that was typed.
            let at = words[typed.words..].iter().position(is_it).unwrap_or(words.len() - typed.words - 1);
            typed.words = (typed.words + at + 1).min(words.len());
            typed.name = format!("{} {name}", typed.name).trim_start().to_owned();
            (typed.command, typed.matches) = (command, matches);
        }
        typed
    }

    fn options(&self) -> impl Iterator<Item = (&'c Arg, &'c str)> + use<'c> {
        let named = |arg: &'c Arg| Some((arg, arg.get_long()?));
        self.command.get_arguments().filter_map(named).filter(|(_, name)| !TYPED_ALONE.contains(name))
    }

    /// Whether an option, or another in its place, was typed.
    fn has(&self, arg: &Arg, name: &str) -> bool {
        let was_typed = |id: &str| matches!(self.matches.value_source(id), Some(ValueSource::CommandLine));
        let is_same = |other: &&Arg| other.get_id() == arg.get_id() || self.exclude(arg, other);
        let mut others = self.command.get_arguments().filter(is_same);
        others.any(|other| was_typed(other.get_id().as_str())) || self.has_word(name)
    }

    fn exclude(&self, one: &Arg, other: &Arg) -> bool {
        let is_in = |arg: &Arg, group: &clap::ArgGroup| group.get_args().any(|id| id == arg.get_id());
        self.command.get_arg_conflicts_with(one).iter().any(|arg| arg.get_id() == other.get_id())
            || self
                .command
                .get_groups()
                .any(|group| !group.clone().is_multiple() && is_in(one, group) && is_in(other, group))
    }

    /// Whether an option was given as a word after `-o`.
    fn has_word(&self, name: &str) -> bool {
        let Ok(Some(words)) = self.matches.try_get_many::<String>("options") else { return false };
        let spelled = name.replace('-', "_");
        let opposite = (name == "read-only").then_some("ro");
        words.map(|word| word.split_once('=').map_or(word.as_str(), |(name, _)| name)).any(|word| {
            word == spelled || word == name || opposite == Some(word) || name == "read-only" && word == "rw"
        })
    }

    fn has_secret(&self) -> bool {
        self.options().any(|(arg, name)| SECRETS.contains(&name) && self.has(arg, name))
    }
}

fn complete_from(
    mut words: Vec<OsString>,
    cli: &Command,
    matches: &ArgMatches,
    (path, settings): (&Path, &[Setting]),
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<OsString>> {
    check(cli, path, settings)?;
    let typed = Typed::of(&words, cli, matches);
    if typed.name.is_empty() || typed.command.is_hide_set() {
        return Ok(words);
    }
    let of_environment = |name: &str| {
        let spelled = |command: &str| {
            let name = format!("STRONGROOM {command} {name}").to_ascii_uppercase();
            name.split_whitespace().collect::<Vec<_>>().join("_").replace('-', "_")
        };
        [typed.name.as_str(), ""]
            .iter()
            .find_map(|command| variable(&spelled(command)).map(|v| (spelled(command), v)))
    };
    let of_file = |name: &str| {
        let of = |command: &str| {
            settings.iter().rev().find(move |setting| setting.name == name && setting.command == command)
        };
        of(&typed.name).or_else(|| of(""))
    };
    let is_secret = |name: &str| SECRETS.contains(&name);
    let mut secrets_taken = typed.has_secret();
    let mut further = Vec::new();
    let mut found_secret = false;
    for (arg, name) in typed.options() {
        if is_secret(name) && secrets_taken || typed.has(arg, name) {
            continue;
        }
        if let Some((spelled, value)) = of_environment(name) {
            let value = (!value.is_empty()).then_some(value);
            further.extend(
                word(arg, name, value.as_deref())
                    .map_err(|what| Failure::usage(format!("{spelled}: {what}")))?,
            );
            found_secret |= is_secret(name);
        }
    }
    secrets_taken |= found_secret;
    for (arg, name) in typed.options() {
        if is_secret(name) && secrets_taken || typed.has(arg, name) || of_environment(name).is_some() {
            continue;
        }
        if let Some(setting) = of_file(name) {
            let words = word(arg, name, setting.value.as_deref());
            further.extend(words.map_err(|what| at_line(path, setting.line, what))?);
        }
    }
    words.splice(typed.words..typed.words, further);
    Ok(words)
}

/// Refuses names that no command has, so that none is mistyped unnoticed.
fn check(cli: &Command, path: &Path, settings: &[Setting]) -> Result<()> {
    let mut commands = Vec::new();
    collect(cli, "", &mut commands);
    for Setting { command, name, line, .. } in settings {
        if TYPED_ALONE.contains(&name.as_str()) {
            return Err(at_line(path, *line, format!("`{name}` has to be typed")));
        }
        let meant: Vec<_> =
            commands.iter().filter(|(known, _)| known == command || command.is_empty()).collect();
        if meant.is_empty() {
            return Err(at_line(path, *line, format!("there is no command `{command}`")));
        }
        if !meant.iter().any(|(_, options)| options.contains(&name.as_str())) {
            return Err(at_line(path, *line, format!("there is no option `{name}`")));
        }
    }
    Ok(())
}

fn collect<'c>(command: &'c Command, name: &str, found: &mut Vec<(String, Vec<&'c str>)>) {
    let options = command.get_arguments().filter_map(Arg::get_long).collect();
    found.push((name.to_owned(), options));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        collect(sub, format!("{name} {}", sub.get_name()).trim_start(), found);
    }
}

/// An option as it is typed; none where it is switched off.
fn word(arg: &Arg, name: &str, value: Option<&OsStr>) -> std::result::Result<Option<OsString>, String> {
    let takes_value = arg.get_action().takes_values();
    match (takes_value, value) {
        (true, Some(value)) => {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            Ok(Some(word))
        }
        (true, None) => Err(format!("`{name}` has a value")),
        (false, value) => match value.map_or("yes", |value| value.to_str().unwrap_or_default()) {
            "yes" | "true" | "1" | "on" => Ok(Some(format!("--{name}").into())),
            "no" | "false" | "0" | "off" => Ok(None),
            _ => Err(format!("`{name}` is yes or no")),
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::Cli;

    /// The words after the program's name, completed.
    fn completed(
        line: &str,
        file: &str,
        environment: &[(&str, &str)],
    ) -> std::result::Result<String, String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let mut cli = Cli::command();
        cli.build();
        let matches = cli.clone().try_get_matches_from(&words).map_err(|error| error.to_string())?;
        let settings = parse(file.as_bytes()).map_err(|(line, what)| format!("{line}: {what}"))?;
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        let words = complete_from(words, &cli, &matches, (Path::new("f"), &settings), variable)
            .map_err(|failure| failure.message().to_owned())?;
        Cli::try_parse_from(&words).map_err(|error| error.to_string())?;
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        Ok(words.join(" "))
    }

    const FILE: &str = "\
# remarks, and blank lines

engine = cpu
[mount]
idle = 30m
allow-other
password-command = pass show vault
[disk  open]
engine = cpu-aes
";

    #[test]
    fn what_is_typed_counts_most_and_the_file_least() {
        let of = |line, environment: &[(&str, &str)]| completed(line, FILE, environment).expect("valid");
        let all = "s mount --allow-other --idle=30m --engine=cpu --password-command=pass show vault v d";
        let mut words: Vec<_> = of("s mount v d", &[]).split(' ').map(str::to_owned).collect();
        let mut expected: Vec<_> = all.split(' ').map(str::to_owned).collect();
        words.sort();
        expected.sort();
        assert_eq!(words, expected);
        assert!(of("s mount --idle 5m v d", &[]).matches("idle").count() == 1);
        assert!(of("s mount v d -o idle=5m,allow_other", &[]).starts_with("s mount --engine=cpu --password"));
        let both = [("STRONGROOM_MOUNT_IDLE", "7m"), ("STRONGROOM_ENGINE", "reference")];
        let shown = of("s mount v d", &both);
        assert!(shown.contains("--idle=7m") && shown.contains("--engine=reference"), "{shown}");
        assert!(of("s mount v d", &[("STRONGROOM_MOUNT_ALLOW_OTHER", "no")]).contains("idle=30m"));
        assert!(!of("s mount v d", &[("STRONGROOM_MOUNT_ALLOW_OTHER", "no")]).contains("allow-other"));
        assert!(of("s disk open --nbd s i", &[]).starts_with("s disk open --engine=cpu-aes"));
        assert_eq!(of("s unmount v", &[]), "s unmount v");
        assert!(of("s file -d f", &[]).starts_with("s file -d --engine=cpu"));
    }

    #[test]
    fn secrets_go_together() {
        let of = |line, environment: &[(&str, &str)]| completed(line, FILE, environment).expect("valid");
        assert!(!of("s mount v d --key-file k", &[]).contains("pass"));
        assert!(!of("s mount v d -o password_file=p", &[]).contains("pass show"));
        let shown = of("s mount v d", &[("STRONGROOM_KEY_FILE", "/k")]);
        assert!(shown.contains("--key-file=/k") && !shown.contains("pass"), "{shown}");
        assert!(!of("s info v", &[]).contains("pass"), "it is the mount's");
    }

    #[test]
    fn what_is_mistyped_or_has_to_be_typed_is_refused() {
        for (file, what) in [
            ("idel = 3", "no option `idel`"),
            ("[mont]\nidle = 3m", "no command `mont`"),
            ("[mount]\nsuite = x", "no option `suite`"),
            ("[mount]\ntakeover", "has to be typed"),
            ("yes", "has to be typed"),
            ("[mount]\nallow-other = maybe", "yes or no"),
            ("[mount]\nidle", "has a value"),
            ("[mount", "1: expected [COMMAND]"),
            ("-x = 1", "1: expected NAME"),
            ("= 1", "1: expected NAME"),
        ] {
            let error = completed("s mount v d", file, &[]).expect_err(file);
            assert!(error.contains(what), "{file}: {error}");
        }
        // What the value means is the option's matter.
        assert!(completed("s mount v d", "[mount]\nidle = soon", &[]).is_err());
    }

    #[test]
    fn the_file_is_looked_for_where_it_belongs() {
        let none = |_: &str| None;
        assert_eq!(file(none), None);
        let named = |name: &str| (name == FILE_VARIABLE).then(|| OsString::from("/f"));
        assert_eq!(file(named), Some("/f".into()));
        let empty = |name: &str| Some(OsString::from(if name == FILE_VARIABLE { "" } else { "/root" }));
        assert_eq!(file(empty), None);
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("strongroom/config");
        std::fs::create_dir(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, "").expect("written");
        let here = |name: &str| (name == "XDG_CONFIG_HOME").then(|| directory.path().as_os_str().to_owned());
        assert_eq!(file(here), Some(path.clone()));
        assert!(read(&path).is_ok());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&path, mode).expect("set");
        assert!(read(&path).is_err(), "others may write to it");
    }
}
