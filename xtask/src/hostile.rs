//! The model-based adversary: attacks composed of every stored state of random histories.
//!
//! The program that does it is the test target `hostile` of `strongroom-vault`; here are its arguments,
//! how many compositions each form has, and its time limit.

use std::process::Stdio;
use std::time::Duration;

use clap::Args;

use crate::command;
use crate::failure::Result;
use crate::tally::Tally;
use crate::workspace;

/// Compositions of the short form, which CI runs.
const SHORT: u64 = 100_000;
/// Compositions of the long form of `cargo xtask test`.
const LONG: u64 = 1_000_000;
/// Building, and a slow machine's compositions.
const LIMIT: Duration = Duration::from_secs(12 * 60 * 60);

#[derive(Args)]
pub(crate) struct HostileArgs {
    /// Attacks to compose, a thousand of each history
    #[arg(long, default_value_t = SHORT)]
    compositions: u64,
    /// The first history
    #[arg(long, default_value_t = 0)]
    first: u64,
}

impl HostileArgs {
    /// The suite as `cargo xtask test` runs it.
    pub(crate) fn on(long: bool) -> Self {
        Self { compositions: if long { LONG } else { SHORT }, first: 0 }
    }
}

/// Composes and judges the attacks.
pub(crate) fn run(arguments: &HostileArgs) -> Result<Tally> {
    let HostileArgs { compositions, first } = *arguments;
    let words =
        ["--compositions".to_owned(), compositions.to_string(), "--first".to_owned(), first.to_string()];
    let mut command = workspace::cargo();
    command
        .args(["test", "--quiet", "--package", "strongroom-vault", "--test", "hostile", "--"])
        .args(&words);
    // It takes minutes: its lines are shown as they come.
    command.stdin(Stdio::null());
    let mut child = command::spawn(&mut command)?;
    let status = command::wait(&mut child, LIMIT)?;
    let mut tally = Tally::default();
    if status.success() {
        tally.passed = 1;
    } else {
        tally.failures.push(format!("hostile {}", words.join(" ")));
    }
    Ok(tally)
}
