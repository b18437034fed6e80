//! The simulator's proof, as one table: every host and workload, `aca` with the best parameters of a grid,
//! and hosts drawn from a seed.

use std::time::Duration;

use clap::Args;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result};
use strongroom_harness::workspace;

/// Two slow cores need most of an hour for a hundred hosts.
const LIMIT: Duration = Duration::from_secs(3 * 3600);

#[derive(Args)]
pub(crate) struct SimulateArgs {
    /// The first seed of the random hosts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many random hosts
    #[arg(long, default_value_t = 100)]
    hosts: u64,
    /// Workloads for each of them, in turns
    #[arg(long, default_value_t = 3)]
    workloads: u64,
    /// Runs of each case, with other seeds; their mean is judged
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Virtual milliseconds of each run, of which the steady state has four times as many
    #[arg(long, default_value_t = 1000)]
    milliseconds: u64,
    /// Without the search for the best parameters of `aca`
    #[arg(long)]
    no_aca: bool,
    /// Prints each case too
    #[arg(long)]
    cases: bool,
}

/// Runs it, in view.
pub(crate) fn run(arguments: &SimulateArgs) -> Result {
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--quiet", "--package", "strongroom-sim", "--example", "proof", "--"]);
    command.args(["--seed", &arguments.seed.to_string(), "--hosts", &arguments.hosts.to_string()]);
    command.args(["--runs", &arguments.runs.to_string()]);
    command.args(["--milliseconds", &arguments.milliseconds.to_string()]);
    command.args(["--workloads", &arguments.workloads.to_string()]);
    if arguments.no_aca {
        command.arg("--no-aca");
    }
    if arguments.cases {
        command.arg("--cases");
    }
    // What is known is to be seen at once.
    command::show(&mut command, LIMIT).context("something falls short")
}
