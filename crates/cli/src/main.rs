//! The `strongroom` command: the composition root, which alone names concrete
//! engines, and the only part that speaks to people.
//!
//! [`args`] says what can be asked for, [`commands`] does what needs no mount,
//! [`mount`] and its neighbours do the rest. Whatever fails ends as a
//! [`failure::Failure`], with one of the codes in `docs/exit-codes.md`.
#![forbid(unsafe_code)]

mod again;
mod args;
mod commands;
mod compose;
mod configuration;
mod confinement;
mod control;
mod daemon;
mod device;
mod failure;
mod fit;
mod freshness;
mod gpu;
mod history;
mod lock;
mod meter;
mod mount;
mod opening;
mod proc;
mod profile;
mod progress;
mod report;
mod secrets;
mod set;
mod status;
mod sync;
mod trace;
mod tree;
mod umount;
mod unlock;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use crate::args::{BenchCommand, Cli, Command};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

/// What keys are allocated in is locked: see `strongroom_memory`.
#[global_allocator]
static ALLOCATOR: strongroom_memory::Allocator = strongroom_memory::Allocator;

/// The names under which mount(8) and umount(8) call this program, which look
/// for the type as the mount table spells it first, and the commands that these
/// stand for.
const HELPERS: [(&str, &str); 4] = [
    ("mount.strongroom", "mount-helper"),
    ("mount.fuse.strongroom", "mount-helper"),
    ("umount.strongroom", "umount-helper"),
    ("umount.fuse.strongroom", "umount-helper"),
];

/// Commands that programs call and nobody types, in order.
const HIDDEN: [&str; 4] = ["generate-completions", "generate-man", "mount-helper", "umount-helper"];

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let called = words.first().and_then(|name| Path::new(name).file_name().map(OsStr::to_owned));
    if let Some((_, command)) = HELPERS.iter().find(|(name, _)| called.as_deref() == Some(OsStr::new(name))) {
        words.insert(1, command.into());
    }
    // Asked for as others are asked: `help mount`, `version`.
    match words.get(1).and_then(|word| word.to_str()) {
        Some("help") => {
            words.remove(1);
            words.push("--help".into());
        }
        Some("version") if words.len() == 2 => words[1] = "--version".into(),
        _ => {}
    }
    // age-keygen's option, which has one hyphen.
    if words.get(1..3).is_some_and(|words| words == ["file", "keygen"]) {
        words
            .iter_mut()
            .skip(3)
            .filter(|word| *word == "-pq")
            .for_each(|word| *word = "--post-quantum".into());
    }
    let wants_json = words.iter().any(|word| word == "--json");
    let typed = words.clone();
    let cli = match parse(words) {
        Ok(Ok(cli)) => cli,
        Ok(Err(error)) => return usage(with_tip(error, &typed), wants_json),
        Err(failure) => {
            failure.report(wants_json);
            return failure.exit().into();
        }
    };
    // Worth no warning: secrets are still not swapped, and the limit of core
    // dumps is rarely one that a process may not lower.
    let _ = strongroom_keys::protect_process();
    strongroom_engine_cpu::keep_library_keys_locked();
    match run(cli.command, Output { json: cli.json }) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report(cli.json);
            failure.exit().into()
        }
    }
}

/// The command line, with what is configured besides.
///
/// # Errors
/// Of the configuration; within, of the line.
fn parse(words: Vec<OsString>) -> Result<std::result::Result<Cli, clap::Error>> {
    let mut command = Cli::command();
    command.build();
    let matches = match command.clone().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => return Ok(Err(error)),
    };
    Ok(Cli::try_parse_from(configuration::complete(words, &command, &matches)?))
}

fn run(command: Command, output: Output) -> Result<Exit> {
    match command {
        Command::Init(args) => commands::init::run(&args, output),
        Command::Mount(args) => mount::run(&args, output),
        Command::Umount(args) => umount::run(&args, output),
        Command::Sync(args) => sync::run(&args),
        Command::Status(args) => status::run(&args, output),
        Command::Set(args) => set::run(&args, output),
        Command::Info(args) => commands::info::run(&args, output),
        Command::Key(command) => commands::key::run(&command, output),
        Command::Header(command) => commands::header::run(&command, output),
        Command::Freshness(command) => commands::freshness::run(&command, output),
        Command::Check(args) => commands::check::run(&args, output),
        Command::Salvage(args) => commands::salvage::run(&args, output),
        Command::Disk(command) => commands::disk::run(&command, output),
        Command::File(command) => commands::file::run(&command, output),
        Command::Doctor(args) => commands::doctor::run(&args, output),
        Command::Simulate(args) => commands::simulate::run(&args, output),
        Command::Engines(args) => commands::engines::run(&args, output),
        Command::Tune(args) => commands::tune::run(&args, output),
        Command::Report(args) => commands::report::run(&args, output),
        Command::Trace(command) => commands::trace::run(&command, output),
        Command::WhatIf(args) => commands::whatif::run(&args, output),
        Command::Bench(BenchCommand::Crypto(args)) => commands::bench::run(&args, output),
        Command::Bench(BenchCommand::File(args)) => commands::bench::file::run(&args, output),
        Command::MountHelper(args) => mount::helper(args.args),
        Command::UmountHelper(args) => umount::helper(args.args),
        Command::GenerateMan(args) => commands::generate::manual(&args.directory),
        Command::GenerateCompletions(args) => commands::generate::completions(&args.directory),
    }
}

/// Help and version go to standard output and are no error; the rest is wrong
/// usage.
fn usage(mut error: clap::Error, json: bool) -> ExitCode {
    let informs = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if informs {
        // A closed pipe is nothing to tell of.
        let _ = error.print();
        return Exit::Done.into();
    }
    suggest_what_is_shown(&mut error);
    let text = error.to_string();
    if json {
        // What follows the first empty line is the usage.
        let paragraph = text.lines().map(str::trim).take_while(|line| !line.is_empty());
        let message = paragraph.collect::<Vec<_>>().join(" ");
        Failure::usage(message.strip_prefix("error: ").unwrap_or(&message))
            .hint("--help says what can be asked for.")
            .report(true);
    } else if fit::Display::of(std::io::stderr()).fit(&text) == text {
        // In colours, where the terminal has them.
        let _ = error.print();
    } else {
        report::tell(text.trim_end());
    }
    Exit::Usage.into()
}

/// Says what is to be typed instead, where that is known.
fn with_tip(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && let Some(tip) = args::file::tip(words, option)
    {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Leaves out of the suggestions the commands that nobody types.
fn suggest_what_is_shown(error: &mut clap::Error) {
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) else { return };
    let mut names = names.clone();
    names.retain(|name| !HIDDEN.contains(&name.as_str()));
    match names.is_empty() {
        true => drop(error.remove(ContextKind::SuggestedSubcommand)),
        false => drop(error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_name_no_hidden_command() {
        let command = Cli::command();
        let mut hidden: Vec<&str> = command
            .get_subcommands()
            .filter(|command| command.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        hidden.sort_unstable();
        assert_eq!(hidden, HIDDEN);
        for (typed, suggested) in [("generate", false), ("mount-help", true), ("mont", true), ("umont", true)]
        {
            let mut error = Cli::try_parse_from(["strongroom", typed]).expect_err("there is none");
            suggest_what_is_shown(&mut error);
            let text = error.to_string();
            assert_eq!(text.contains("tip:"), suggested, "{text}");
            assert!(!HIDDEN.iter().any(|name| text.contains(name)), "{text}");
        }
    }
}
