//! The `strongroom` command: the composition root, which alone names concrete
//! engines, and the only part that speaks to people.
//!
//! [`args`] says what can be asked for, [`commands`] does what needs no mount,
//! [`mount`] and its neighbours do the rest. Whatever fails ends as a
//! [`failure::Failure`], with one of the codes in `docs/exit-codes.md`.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod compose;
mod control;
mod daemon;
mod failure;
mod freshness;
mod lock;
mod meter;
mod mount;
mod profile;
mod progress;
mod report;
mod secrets;
mod set;
mod status;
mod sync;
mod tree;
mod umount;
mod unlock;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{BenchCommand, Cli, Command};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

/// The name under which mount(8) calls this program.
const HELPER_NAME: &str = "mount.strongroom";

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new(HELPER_NAME))) {
        words.insert(1, "mount-helper".into());
    }
    let wants_json = words.iter().any(|word| word == "--json");
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, wants_json),
    };
    // Worth no warning: secrets are still not swapped, and the limit of core
    // dumps is rarely one that a process may not lower.
    let _ = strongroom_keys::protect_process();
    match run(cli.command, Output { json: cli.json }) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report(cli.json);
            failure.exit().into()
        }
    }
}

fn run(command: Command, output: Output) -> Result<Exit> {
    match command {
        Command::Init(args) => commands::init::run(&args, output),
        Command::Mount(args) => mount::run(&args, output),
        Command::Umount(args) => umount::run(&args, output),
        Command::Sync(args) => sync::run(&args, output),
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
        Command::Doctor => commands::doctor::run(output),
        Command::Simulate(args) => commands::simulate::run(&args, output),
        Command::Engines(args) => commands::engines::run(&args, output),
        Command::Tune(args) => commands::tune::run(&args, output),
        Command::Bench(BenchCommand::Crypto(args)) => commands::bench::run(&args, output),
        Command::MountHelper(args) => mount::helper(args.args),
        Command::GenerateMan(args) => commands::generate::manual(&args.directory),
        Command::GenerateCompletions(args) => commands::generate::completions(&args.directory),
    }
}

/// Help and version go to standard output and are no error; the rest is wrong
/// usage.
fn usage(error: &clap::Error, json: bool) -> ExitCode {
    let informs = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if informs || !json {
        // A closed pipe is nothing to tell of.
        let _ = error.print();
    } else {
        // What follows the first empty line is the usage.
        let text = error.to_string();
        let paragraph = text.lines().map(str::trim).take_while(|line| !line.is_empty());
        let message = paragraph.collect::<Vec<_>>().join(" ");
        Failure::usage(message.strip_prefix("error: ").unwrap_or(&message))
            .hint("--help says what can be asked for.")
            .report(true);
    }
    if informs { Exit::Done.into() } else { Exit::Usage.into() }
}
