//! Encrypted disks against programs that nobody here wrote: cryptsetup, QEMU, nbdkit, libnbd, fio, and the
//! kernel's loop device with ext4.
//!
//! Every check compares plain bytes: what one side wrote is what the other reads.

mod cryptsetup;
mod failing;
pub(crate) mod lab;
mod loopback;
mod nbd;
pub mod pressure;
mod qemu;

use std::path::PathBuf;

use clap::Args;

use lab::Lab;
use strongroom_harness::failure::Result;
use strongroom_harness::packages;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

#[derive(Args)]
pub struct LuksArgs {
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the working directory is made [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// More of everything
    #[arg(long)]
    long: bool,
    /// Only these parts (cryptsetup, qemu, nbd, loop, failing)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

impl LuksArgs {
    /// The suite as `cargo xtask test` runs it.
    pub fn on(binary: Option<PathBuf>, work: Option<PathBuf>, long: bool) -> Self {
        Self { binary, work, long, only: Vec::new() }
    }
}

/// Programs and the Debian packages that they come from.
const PROGRAMS: [(&str, &str); 8] = [
    ("cryptsetup", "cryptsetup-bin"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("nbdkit", "nbdkit"),
    ("nbdinfo", "libnbd-bin"),
    ("nbdcopy", "libnbd-bin"),
    ("fio", "fio"),
    ("mkfs.ext4", "e2fsprogs"),
];

/// Runs the parts one after the other.
pub fn run(arguments: &LuksArgs) -> Result<Tally> {
    packages::need(&PROGRAMS)?;
    let binary = match &arguments.binary {
        Some(path) => path.canonicalize()?,
        None => workspace::build_strongroom()?,
    };
    let scratch = Scratch::new(arguments.work.as_deref(), "luks")?;
    let lab = Lab::new(binary, scratch.path())?;
    let mut tally = Tally::default();
    let chosen = |part: &str| arguments.only.is_empty() || arguments.only.iter().any(|name| name == part);
    if chosen("cryptsetup") {
        cryptsetup::run(&lab, &mut tally, arguments.long);
    }
    if chosen("qemu") {
        qemu::run(&lab, &mut tally, arguments.long);
    }
    if chosen("nbd") {
        nbd::run(&lab, &mut tally, arguments.long);
    }
    if chosen("loop") {
        loopback::run(&lab, &mut tally, arguments.long);
    }
    if chosen("failing") {
        failing::run(&lab, &mut tally);
    }
    Ok(tally)
}
