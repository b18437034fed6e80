//! Does the time of a cipher depend on secrets: the example `dudect` of `strongroom-engine-cpu`.
//!
//! No part of what CI runs: a busy machine hides what is sought, and a threshold on times is no test.

use std::time::Duration;

use clap::Args;

use crate::failure::Result;
use crate::{command, workspace};

const LIMIT: Duration = Duration::from_secs(6 * 60 * 60);

#[derive(Args)]
pub(crate) struct DudectArgs {
    /// Calls of each kernel
    #[arg(long, default_value_t = 100_000)]
    calls: u64,
    /// Only engines and algorithms with this in their name
    #[arg(long, default_value = "", value_name = "NAME")]
    only: String,
}

/// Builds and runs the measurement.
pub(crate) fn run(arguments: &DudectArgs) -> Result {
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--package", "strongroom-engine-cpu", "--example", "dudect", "--"]);
    command.args([&arguments.calls.to_string(), &arguments.only]);
    command::show(&mut command, LIMIT)
}
