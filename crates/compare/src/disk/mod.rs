//! Encrypted disks: what each cipher does in memory and through the exports, and the exports against other
//! programs that serve the same.
//!
//! Three parts. `memory` is what engines do by themselves. `judged` puts the exports beside qemu-nbd, nbdkit and
//! the same FUSE layer without encryption, in interleaved pairs. `matrix` takes every cipher through every
//! export, on an idle machine and beside a busy CPU. Images lie on a file system in memory.

mod judged;
mod load;
mod matrix;
mod memory;
mod server;
mod work;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::result::Document;
use server::Programs;
use strongroom_harness::command;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::workspace;

const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);

#[derive(Args)]
pub(crate) struct DiskArgs {
    /// A few minutes: few ciphers, small images, short times, few pairs
    #[arg(long)]
    quick: bool,
    /// Only these parts (memory, nbd, raw, matrix; `judged` is `nbd` and `raw`)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only ciphers whose name contains this, but for `raw`
    #[arg(long, default_value = "")]
    cipher: String,
    /// Engines that serve in `matrix`, as `strongroom disk open --engine` takes them
    #[arg(long, value_delimiter = ',', default_value = "cpu")]
    engines: Vec<String>,
    /// Interleaved pairs of each judged row [default: 7, 3 with --quick]
    #[arg(long)]
    pairs: Option<u64>,
    /// Size of an image, in MiB [default: 512, 128 with --quick]
    #[arg(long)]
    mib: Option<u64>,
    /// Time of a cell of random access, in milliseconds [default: 2000, 500 with --quick]
    #[arg(long)]
    cell_ms: Option<u64>,
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the images lie
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    work: PathBuf,
    /// Writes the report there too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one run takes.
struct Plan {
    quick: bool,
    pairs: usize,
    bytes: u64,
    cell: Duration,
    cipher: String,
    engines: Vec<String>,
}

const PARTS: [&str; 5] = ["memory", "nbd", "raw", "matrix", "judged"];
/// Those of which something is asked.
const JUDGED: [&str; 2] = ["nbd", "raw"];

/// Programs and the Debian packages that they come from.
const PROGRAMS: [(&str, &str); 6] = [
    ("qemu-img", "qemu-utils"),
    ("qemu-nbd", "qemu-utils"),
    ("nbdkit", "nbdkit"),
    ("nbdcopy", "libnbd-bin"),
    ("fio", "fio"),
    ("mkfs.ext4", "e2fsprogs"),
];

/// Measures, prints, and fails when a judged row is missed.
pub(crate) fn run(arguments: &DiskArgs) -> Result {
    for part in &arguments.only {
        ensure!(PARTS.contains(&part.as_str()), "there is no part `{part}`: {}", PARTS.join(", "));
    }
    let named = |part: &str| arguments.only.iter().any(|name| name == part);
    let chosen =
        |part: &str| arguments.only.is_empty() || named(part) || JUDGED.contains(&part) && named("judged");
    let pick = |quick: u64, full: u64| if arguments.quick { quick } else { full };
    let plan = Plan {
        quick: arguments.quick,
        pairs: arguments.pairs.unwrap_or(pick(3, 7)) as usize,
        bytes: arguments.mib.unwrap_or(pick(128, 512)) << 20,
        cell: Duration::from_millis(arguments.cell_ms.unwrap_or(pick(500, 2000))),
        cipher: arguments.cipher.clone(),
        engines: arguments.engines.clone(),
    };
    ensure!(plan.pairs > 0 && plan.bytes >= 64 << 20, "at least one pair and 64 MiB");
    packages::need(&PROGRAMS)?;
    let programs = build(arguments)?;
    let scratch = Scratch::new(Some(&arguments.work), "disk")?;
    let mut document = Document::new("disk", programs.versions()?);
    let load = load::average();
    if chosen("memory") {
        memory::add(&memory::run(&programs, &plan)?, &mut document);
    }
    let mut judged = Vec::new();
    if chosen("nbd") {
        judged = judged::nbd(&programs, &plan, scratch.path())?;
    }
    if chosen("raw") {
        judged.extend(judged::raw(&programs, &plan, scratch.path())?);
    }
    if !judged.is_empty() {
        judged::add(&judged, &plan, &mut document);
    }
    if chosen("matrix") {
        matrix::add(&matrix::run(&programs, &plan, scratch.path())?, &mut document);
    }
    document.remark = Some(format!("Load {load} before, {} after.", load::average()));
    let missed = judged.iter().filter(|row| !row.is_met() && !plan.quick);
    document.conclude(arguments.json.as_deref(), &missed.map(judged::Judged::name).collect::<Vec<_>>())
}

/// The program, and the examples that measure without it.
fn build(arguments: &DiskArgs) -> Result<Programs> {
    let strongroom = match &arguments.binary {
        Some(path) => path.canonicalize()?,
        None => workspace::build_strongroom()?,
    };
    for (package, example) in [("strongroom-disk", "memory"), ("strongroom-fuse", "raw")] {
        let mut command: Command = workspace::cargo();
        command.args(["build", "--release", "--package", package, "--example", example]);
        command::show(&mut command, BUILD_LIMIT)?;
    }
    let examples = workspace::target()?.join("release/examples");
    Ok(Programs { strongroom, memory: examples.join("memory"), raw: examples.join("raw") })
}
