//! Single files against everybody else's age: the test vectors of C2SP from both places that have them, and
//! files that go both ways between Strongroom and Debian's age, age 1.3, and rage by its Python library.
//!
//! Nothing is skipped in silence: what cannot be had on this machine is a line of the table, with the reason.

mod exchange;
pub mod peers;
mod vectors;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use strongroom_harness::failure::Result;
use strongroom_harness::packages;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

/// Longest time for one program's run.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Args)]
pub struct AgeArgs {
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the working directory is made [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

impl AgeArgs {
    /// The suite as `cargo xtask test` runs it.
    pub fn on(binary: Option<PathBuf>, work: Option<PathBuf>) -> Self {
        Self { binary, work }
    }
}

/// A line of the table.
struct Row {
    what: String,
    came_to: String,
}

/// Runs the vectors, and then the exchange with each peer that can be had.
pub fn run(arguments: &AgeArgs) -> Result<Tally> {
    packages::need(&[("ssh-keygen", "openssh-client"), ("script", "bsdutils")])?;
    let binary = match &arguments.binary {
        Some(path) => path.canonicalize()?,
        None => workspace::build_strongroom()?,
    };
    let scratch = Scratch::new(arguments.work.as_deref(), "age")?;
    let mut tally = Tally::default();
    let mut rows = vectors::run(&mut tally);
    let keys = exchange::Keys::make(&binary, scratch.path())?;
    for found in peers::all() {
        match found {
            Ok(peer) => rows.extend(exchange::run(&keys, &peer, &mut tally)),
            Err(absent) => {
                tally.skipped += 1;
                rows.push(Row {
                    what: absent.name.to_owned(),
                    came_to: format!("not here: {}", absent.reason),
                });
            }
        }
    }
    for Row { what, came_to } in &rows {
        println!("  {what:36} {came_to}");
    }
    Ok(tally)
}
