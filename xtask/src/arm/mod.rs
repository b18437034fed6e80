//! The program and its crates on ARM, where there is none: compiled for it here, and run by QEMU's emulator of user
//! programs, which a kernel need not know of.
//!
//! - `tests`: the tests of the crates that compute and store, with the instructions of ARMv8's cryptography extension
//!   and with these hidden from the program;
//! - `program`: what `engines` says, and the life of a vault: mounted in the foreground and in the background, the
//!   daemon killed, checked;
//! - `static`: the program without libraries, alone in a directory, and in Debian's and Alpine's files for that
//!   architecture;
//! - `armv7`: what `program` tries, on ARM of 32 bits.
//!
//! `cargo xtask test` runs the first two, `tests` without its slowest.
//!
//! An emulator tells nothing of rates, and forgives orders of memory that a processor does not.

mod alpine;
mod hidden;
mod machine;
mod program;
mod statics;
mod test_programs;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use strongroom_harness::failure::{Failure, Result};
use strongroom_harness::tally::Tally;

#[derive(Args)]
pub(crate) struct ArmArgs {
    /// Only these parts: tests, program, static, armv7
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// What `cargo xtask test` runs: tests and program, without what takes longest
    #[arg(long)]
    short: bool,
    /// Where `cargo xtask dist` has put a release: `static` tries the programs in it [default: compile some as
    /// tests are]
    #[arg(long, value_name = "DIR")]
    release: Option<PathBuf>,
}

impl ArmArgs {
    /// The suite as `cargo xtask test` runs it.
    pub(crate) fn on(long: bool) -> Self {
        Self { only: vec![], short: !long, release: None }
    }

    fn chose(&self, part: &Part) -> bool {
        match self.only.as_slice() {
            [] => part.is_short || !self.short,
            only => only.iter().any(|wanted| wanted == part.name),
        }
    }
}

struct Part {
    name: &'static str,
    /// The short form has it.
    is_short: bool,
    /// Counts its checks.
    run: fn(&mut Tally, &ArmArgs) -> Result,
}

const PARTS: [Part; 4] = [
    Part {
        name: "tests",
        is_short: true,
        run: |tally, arguments| test_programs::run(tally, !arguments.short),
    },
    Part { name: "program", is_short: true, run: |tally, _| program::run(tally) },
    Part {
        name: "static",
        is_short: false,
        run: |tally, arguments| statics::run(tally, arguments.release.as_deref()),
    },
    Part { name: "armv7", is_short: false, run: |tally, _| program::run_on_32_bits(tally) },
];

/// What keeps the suite from compiling anything for AArch64: its standard library comes from Rust's own servers, which
/// not every machine reaches that can run all other suites.
pub(crate) fn missing() -> Option<String> {
    machine::AARCH64.need().err().map(|failure| failure.to_string())
}

/// Runs the parts, all of them, whatever fails.
pub(crate) fn run(arguments: &ArmArgs) -> Result<Tally> {
    if let Some(unknown) = arguments.only.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        return Err(Failure::new(format!("there is no part `{unknown}`")));
    }
    let mut tally = Tally::default();
    for part in PARTS.iter().filter(|part| arguments.chose(part)) {
        let began = Instant::now();
        if let Err(failure) = (part.run)(&mut tally, arguments) {
            tally.fail(format!("{}: {failure}", part.name));
        }
        println!("  {}: {:.0} s", part.name, began.elapsed().as_secs_f64());
    }
    Ok(tally)
}
