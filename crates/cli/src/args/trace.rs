//! `trace` and `whatif`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::values::{ENGINE, SETTING};

/// Record what is asked of a mount or disk, without contents or names
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  strongroom trace start ~/plain
  strongroom trace stop ~/plain -o work.trace
  strongroom whatif work.trace

A trace holds for each request its kind, size, whether it follows the one
before it, when it came, what it took and who computed: no contents, names,
offsets, lengths of files or process numbers. The daemon keeps at most 524288
requests in memory (16 MiB), and then records no more.")]
pub(crate) enum TraceCommand {
    /// Begin to record
    Start(TraceStartArgs),
    /// End recording, and write what was recorded into a file
    Stop(TraceStopArgs),
}

/// Options of `trace start`.
#[derive(Args, Clone, Debug)]
pub(crate) struct TraceStartArgs {
    /// Where a vault is mounted; of a disk the image or what it is served as
    #[arg(value_name = "DIR")]
    pub(crate) target: PathBuf,
}

/// Options of `trace stop`.
#[derive(Args, Clone, Debug)]
pub(crate) struct TraceStopArgs {
    /// Where a vault is mounted; of a disk the image or what it is served as
    #[arg(value_name = "DIR")]
    pub(crate) target: PathBuf,
    /// A file that does not exist yet
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "strongroom.trace")]
    pub(crate) file: PathBuf,
}

/// Replay a recorded load on machines that are not here, and say what they would bring
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
What can be added:
  suite=NAME     another suite, or for a disk another cipher
  cpus=N         N CPUs, from 1 to 256
  qat            the QAT card of the ACA-SDS paper
  gpu            the GPU that the profile knows, or the card of the EncFS paper
  store=memory   a store that takes no time
  store=nvme     a store whose barriers take 30 us
  store=DIR      one whose barriers take what is measured on DIR now

Without --add each suite that the profile knows, twice the CPUs, both devices
and both stores are tried. It begins with what `strongroom tune` has measured.

Examples:
  strongroom whatif work.trace
  strongroom whatif work.trace --add suite=xchacha20-poly1305 --add cpus=8
  strongroom whatif work.trace --add qat -o check=1")]
pub(crate) struct WhatIfArgs {
    /// What `trace stop` has written
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Try this; each by itself
    #[arg(long, value_name = "WHAT")]
    pub(crate) add: Vec<String>,
    /// Settings of the scheduler, as `strongroom set` takes them
    #[arg(short = 'o', long = "set", value_name = "NAME=VALUE", value_parser = SETTING, hide_possible_values = true)]
    pub(crate) settings: Vec<String>,
    /// Of these engines, as `mount --engine` names them, the profile is taken [default: auto]
    #[arg(long, value_name = "NAME", value_parser = ENGINE, hide_possible_values = true)]
    pub(crate) engine: Option<String>,
}
