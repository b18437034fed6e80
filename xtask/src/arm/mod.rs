//! The program and its crates on ARM, where there is none: compiled for it here, and run by QEMU's emulator of user
//! programs, which a kernel need not know of.
//!
//! - `tests`: the tests of the crates that compute and store, with the instructions of ARMv8's cryptography extension
//!   and with these hidden from the program;
//! - `program`: what `engines` says, and the life of a vault: mounted in the foreground and in the background, the
//!   daemon killed, checked;
//! - `static`: the program without libraries, alone in a directory and in Debian's files for that architecture;
//! - `armv7`: what `program` tries, on ARM of 32 bits.
//!
//! An emulator tells nothing of rates, and forgives orders of memory that a processor does not.

mod hidden;
mod machine;
mod program;
mod statics;
mod tests;

use std::time::Instant;

use clap::Args;

use strongroom_harness::failure::{Failure, Result};
use strongroom_harness::tally::Tally;

#[derive(Args)]
pub(crate) struct ArmArgs {
    /// Only these parts: tests, program, static, armv7
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// A part, which counts its checks.
type Part = fn(&mut Tally) -> Result;

const PARTS: [(&str, Part); 4] = [
    ("tests", tests::run),
    ("program", program::run),
    ("static", statics::run),
    ("armv7", program::run_on_32_bits),
];

/// Runs the parts, all of them, whatever fails.
pub(crate) fn run(arguments: &ArmArgs) -> Result<Tally> {
    if let Some(unknown) = arguments.only.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        return Err(Failure::new(format!("there is no part `{unknown}`")));
    }
    let mut tally = Tally::default();
    for (name, part) in PARTS {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|wanted| wanted == name) {
            continue;
        }
        let began = Instant::now();
        if let Err(failure) = part(&mut tally) {
            tally.fail(format!("{name}: {failure}"));
        }
        println!("  {name}: {:.0} s", began.elapsed().as_secs_f64());
    }
    Ok(tally)
}
