//! Orders of threads: the models in `crates/engine/src/model.rs` and in `crates/vault/src/model`.
//!
//! They run the crate's own code with locks and atomics that a scheduler watches, which its unit tests have
//! when they are compiled with `--cfg strongroom_model`. The flag is passed to that one crate, so that nothing
//! else is built anew.

use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::programs;
use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

/// Orders of each kind for each model, as CI runs it.
const SHORT: u32 = 1000;
/// The same in the long form of `cargo xtask test`.
const LONG: u32 = 100_000;
/// What is built as a model: the arguments that name it.
const MODELS: [&[&str]; 2] = [
    &["--package", "strongroom-engine", "--lib", "--features", "unruly"],
    &["--package", "strongroom-vault", "--lib"],
];
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);
const LIMIT: Duration = Duration::from_secs(6 * 60 * 60);

#[derive(Args)]
pub(crate) struct ModelArgs {
    /// Orders of each kind (random, and by priorities) to try of each model
    #[arg(long, default_value_t = SHORT)]
    orders: u32,
}

impl ModelArgs {
    /// The suite as `cargo xtask test` runs it.
    pub(crate) fn on(long: bool) -> Self {
        Self { orders: if long { LONG } else { SHORT } }
    }
}

/// Builds the models and tries them.
pub(crate) fn run(arguments: &ModelArgs) -> Result<Tally> {
    let mut tally = Tally::default();
    for target in MODELS {
        let tried = try_orders(target, arguments.orders)?;
        println!("  {}: {}", target[1], tried.summary());
        tally.add(tried);
    }
    Ok(tally)
}

fn try_orders(target: &[&str], orders: u32) -> Result<Tally> {
    let mut command = Command::new(build(target)?);
    command.arg("model::").env("STRONGROOM_MODEL_ORDERS", orders.to_string());
    let finished = command::finish(&mut command, LIMIT)?;
    let mut tally = programs::parse(&finished.stdout);
    ensure!(tally.passed > 0 || !tally.failures.is_empty(), "no model was built:\n{}", finished.output());
    if !finished.status.success() {
        // The schedule that failed is longer than anybody reads.
        let lines = finished.output();
        lines.lines().filter(|line| line.len() < 400).for_each(|line| println!("{line}"));
        if tally.failures.is_empty() {
            tally.failures.push("the models did not run to their end".into());
        }
    }
    Ok(tally)
}

fn build(target: &[&str]) -> Result<String> {
    let mut command = workspace::cargo();
    command.arg("rustc").args(target).args(["--profile", "test"]);
    command.args(["--message-format", "json", "--", "--cfg", "strongroom_model"]);
    let messages = command::output(&mut command, BUILD_LIMIT)?;
    let mut executables = messages.lines().rev().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(str::to_owned)
    });
    executables.next().ok_or_else(|| Failure::new("cargo names no program"))
}
