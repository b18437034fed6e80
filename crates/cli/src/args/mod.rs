//! The command line: what can be asked for, with its help texts. Nothing is
//! done here, and no value is looked at beyond its spelling.

pub(crate) mod disk;
mod doctor;
pub(crate) mod engines;
pub(crate) mod file;
pub(crate) mod freshness;
pub(crate) mod history;
pub(crate) mod mount;
pub(crate) mod report;
pub(crate) mod secret;
pub(crate) mod simulate;
pub(crate) mod trace;
pub(crate) mod values;
pub(crate) mod vault;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use doctor::DoctorArgs;
pub(crate) use engines::{BenchCommand, EnginesArgs, TuneArgs};
pub(crate) use freshness::FreshnessCommand;
pub(crate) use mount::{MountArgs, SetArgs, StatusArgs, SyncArgs, UmountArgs};
pub(crate) use report::ReportArgs;
pub(crate) use simulate::SimulateArgs;
pub(crate) use trace::{TraceCommand, WhatIfArgs};
pub(crate) use values::{Percent, Sample};
pub(crate) use vault::{CheckArgs, HeaderCommand, InfoArgs, InitArgs, KeyCommand, SalvageArgs};

/// Encrypted folders and disks.
///
/// A vault is a directory with encrypted files. Mounted, its files are seen in
/// plain and used like any others:
///
///   strongroom init ~/vault
///   strongroom mount ~/vault ~/plain
///   cp -a Documents ~/plain/
///   strongroom umount ~/plain
#[derive(Debug, Parser)]
#[command(
    name = "strongroom",
    version,
    verbatim_doc_comment,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done, 1 other failure, 2 usage, 3 wrong secret, 4 damage or forgery, \
                  5 in use, 6 unsupported, 7 store fault or full, 8 repaired, 9 repair incomplete."
)]
pub(crate) struct Cli {
    /// Report in JSON: results on standard output, errors on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a new vault
    Init(InitArgs),
    /// Mount a vault, and return when it can be used
    Mount(MountArgs),
    /// Unmount, and return when everything is stored
    #[command(visible_alias = "unmount")]
    Umount(UmountArgs),
    /// Make everything durable that was written in a mount before
    Sync(SyncArgs),
    /// Tell what mounts have done since they were mounted
    Status(StatusArgs),
    /// Change how a mount chooses what computes
    Set(SetArgs),
    /// Tell what a vault is made with
    Info(InfoArgs),
    /// List, add, change and remove what opens a vault
    #[command(subcommand)]
    Key(KeyCommand),
    /// Back up and restore the vault header
    #[command(subcommand)]
    Header(HeaderCommand),
    /// Say what a freshness file shall take as it is
    #[command(subcommand)]
    Freshness(FreshnessCommand),
    /// Read and verify everything in a vault
    Check(CheckArgs),
    /// Copy everything that can be read out of a vault
    Salvage(SalvageArgs),
    /// Encrypted disks in LUKS: make, open, close and look after them
    #[command(subcommand)]
    Disk(disk::DiskCommand),
    /// Single files in the age format: encrypt, decrypt, inspect, and make keys
    #[command(subcommand)]
    File(file::FileCommand),
    Doctor(DoctorArgs),
    Simulate(SimulateArgs),
    /// Tell what computes here, what does not and why, and what the self-tests say
    Engines(EnginesArgs),
    /// Measure what computes here, and keep the result for mounts to begin with
    Tune(TuneArgs),
    /// Say which suite and engine to take on this machine and what is slow, as text or as a page
    Report(ReportArgs),
    #[command(subcommand)]
    Trace(TraceCommand),
    #[command(name = "whatif")]
    WhatIf(WhatIfArgs),
    /// Measure without keeping anything
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Mount as mount(8) asks for it: SOURCE DIR [-sfnv] [-o OPTIONS]
    #[command(hide = true)]
    MountHelper(HelperArgs),
    /// Unmount as umount(8) asks for it: DIR [-flnrv]
    #[command(hide = true)]
    UmountHelper(HelperArgs),
    /// Write the manual pages
    #[command(hide = true)]
    GenerateMan(GenerateArgs),
    /// Write the shell completions
    #[command(hide = true)]
    GenerateCompletions(GenerateArgs),
}

/// What mount(8) or umount(8) hands over, not parsed yet.
#[derive(Args, Debug)]
pub(crate) struct HelperArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<OsString>,
}

/// Where generated files go.
#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    /// An existing directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_may_stand_anywhere() {
        for line in [&["strongroom", "--json", "doctor"][..], &["strongroom", "doctor", "--json"]] {
            assert!(Cli::try_parse_from(line).expect("valid").json);
        }
    }

    #[test]
    fn secrets_exclude_each_other() {
        let line = ["strongroom", "info", "v", "--password-fd", "3", "--password-file", "k"];
        assert!(Cli::try_parse_from(line).is_err());
        let line = ["strongroom", "key", "add", "v", "--password-fd", "3", "--new-key-file", "k"];
        assert!(Cli::try_parse_from(line).is_ok());
    }
}
