//! Does a time depend on secrets: the example `dudect` of `strongroom-bench`.
//!
//! CI measures tag comparisons and the ways of a wrong password with few calls, and fails for what differs in
//! each of three measurements: a comparison that ends early does. Finer leaks take the long form, a machine
//! that does nothing else, and somebody who reads what it prints.

use std::time::Duration;

use clap::Args;

use strongroom_harness::failure::Result;
use strongroom_harness::tally::Tally;
use strongroom_harness::{command, workspace};

const LIMIT: Duration = Duration::from_secs(6 * 60 * 60);
const CALLS_LONG: u64 = 100_000;
const CALLS_SHORT: u64 = 10_000;

#[derive(Args)]
pub(crate) struct DudectArgs {
    /// Calls of each kernel
    #[arg(long, default_value_t = CALLS_LONG)]
    calls: u64,
    /// Only subjects with one of these in their name, or this secret: data, key, tag, password
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Fail when times differ in each of three measurements
    #[arg(long)]
    hold: bool,
}

impl DudectArgs {
    /// The suite as `cargo xtask test` runs it.
    pub(crate) fn on(long: bool) -> Self {
        let calls = if long { CALLS_LONG } else { CALLS_SHORT };
        Self { calls, only: vec!["tag".to_owned(), "password".to_owned()], hold: true }
    }
}

/// Builds and runs the measurement.
pub(crate) fn run(arguments: &DudectArgs) -> Result<Tally> {
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--package", "strongroom-bench", "--example", "dudect", "--"]);
    command.arg(arguments.calls.to_string()).args(arguments.hold.then_some("--hold")).args(&arguments.only);
    let mut tally = Tally::default();
    tally.count("times that depend on secrets", command::show(&mut command, LIMIT));
    Ok(tally)
}
