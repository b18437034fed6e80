//! The crates that have unsafe code, under tools that see what a test alone does not: Miri, which runs the
//! code by the rules of the language, where nothing but the language is used; AddressSanitizer where it calls
//! the kernel, C or instructions that Miri does not know; and, in the long form, ThreadSanitizer.
//!
//! Miri and ThreadSanitizer need a nightly toolchain with `miri` and `rust-src`; without them they are skipped,
//! and said to be. AddressSanitizer comes with every toolchain, as a feature that is not stable yet.

use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::programs;
use strongroom_harness::command;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

/// Building five crates with their libraries from nothing, on two slow cores, and running their tests.
const LIMIT: Duration = Duration::from_secs(25 * 60);

/// Sanitizers want to be told the target, so that build scripts and macros are left alone.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A test of how the process ends by a signal that is not ours: the sanitizers end it their own way.
const OTHER_SIGNAL: &str = "another_sigbus_ends_the_process_as_before";

/// One tool over some crates.
struct Run {
    name: &'static str,
    tool: Tool,
    /// What `cargo test` is told.
    arguments: &'static [&'static str],
    /// It is left out of the short form.
    is_long: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Tool {
    Miri,
    Address,
    Thread,
}

const RUNS: [Run; 4] = [
    Run {
        name: "Miri: shared bytes, stores",
        tool: Tool::Miri,
        // Files are not mapped under Miri.
        arguments: &[
            "--package",
            "strongroom-units",
            "--package",
            "strongroom-store",
            "--lib",
            "--",
            "--skip",
            "mapped",
            // Miri has no locks of file descriptions.
            "--skip",
            "claims",
        ],
        is_long: false,
    },
    Run {
        name: "AddressSanitizer: engine-cpu, store, keys, ublk",
        tool: Tool::Address,
        arguments: &[
            "--package",
            "strongroom-engine-cpu",
            "--package",
            "strongroom-store",
            "--package",
            "strongroom-keys",
            "--package",
            "strongroom-ublk",
            "--all-features",
            "--lib",
            "--",
            "--skip",
            OTHER_SIGNAL,
        ],
        is_long: false,
    },
    Run {
        name: "AddressSanitizer: fuse",
        tool: Tool::Address,
        arguments: &["--package", "strongroom-fuse", "--all-features", "--lib"],
        is_long: true,
    },
    Run {
        name: "ThreadSanitizer: mapped files",
        tool: Tool::Thread,
        arguments: &["--package", "strongroom-store", "--lib", "mapped", "--", "--skip", OTHER_SIGNAL],
        is_long: true,
    },
];

#[derive(Args)]
pub(crate) struct SoundnessArgs {
    /// Those too that take long to build: the FUSE adapter, and threads
    #[arg(long)]
    long: bool,
}

impl SoundnessArgs {
    /// The suite as `cargo xtask test` runs it.
    pub(crate) fn on(long: bool) -> Self {
        Self { long }
    }
}

/// Runs each tool that is here.
pub(crate) fn run(arguments: &SoundnessArgs) -> Result<Tally> {
    let mut tally = Tally::default();
    let has_nightly = nightly_has("miri") && nightly_has("rust-src");
    for run in RUNS.iter().filter(|run| arguments.long || !run.is_long) {
        if run.tool != Tool::Address && !has_nightly {
            println!("  {}: not run (rustup toolchain install nightly --component miri,rust-src)", run.name);
            tally.skipped += 1;
            continue;
        }
        let found = judged(run)?;
        println!("  {}: {}", run.name, found.summary());
        tally.add(found);
    }
    Ok(tally)
}

fn nightly_has(component: &str) -> bool {
    let installed =
        Command::new("rustup").args(["component", "list", "--toolchain", "nightly", "--installed"]).output();
    installed.is_ok_and(|output| {
        let list = String::from_utf8_lossy(&output.stdout);
        output.status.success() && list.lines().any(|line| line.starts_with(component))
    })
}

fn judged(run: &Run) -> Result<Tally> {
    let mut command = match run.tool {
        Tool::Address => workspace::cargo(),
        Tool::Miri | Tool::Thread => {
            let mut command = Command::new("rustup");
            command.args(["run", "nightly", "cargo"]).current_dir(workspace::root());
            command.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
            command
        }
    };
    let directory = workspace::target()?.join("soundness");
    match run.tool {
        Tool::Miri => {
            // The store's tests use files.
            command.args(["miri", "test"]).env("MIRIFLAGS", "-Zmiri-disable-isolation");
        }
        Tool::Address => {
            command.args(["test", "--target", TARGET]);
            command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
        }
        Tool::Thread => {
            // The standard library has to be built with it, or its own threads are taken for races.
            command.args(["test", "-Zbuild-std", "--target", TARGET]).env("RUSTFLAGS", "-Zsanitizer=thread");
        }
    }
    command.args(run.arguments).env("CARGO_TARGET_DIR", directory);
    let finished = command::finish(&mut command, LIMIT)?;
    let mut tally = programs::parse(&finished.stdout);
    if !finished.status.success() {
        println!("{}", finished.output());
        if tally.failures.is_empty() {
            tally.failures.push(format!("{} did not run to its end", run.name));
        }
    }
    ensure!(tally.passed > 0 || !tally.failures.is_empty(), "{}: no test was run", run.name);
    Ok(tally)
}
