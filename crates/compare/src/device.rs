//! The virtio driver on the device over vfio-user, in two processes: interrupts and CPU time by how many
//! answers one interrupt stands for, from which size on the device is faster, and where the scheduler places.

use std::process::Command;
use std::time::Duration;

use clap::{Args, ValueEnum};

use strongroom_harness::failure::Result;
use strongroom_harness::{command, workspace};

#[derive(Args)]
pub(crate) struct DeviceArgs {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds, of which the median counts
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Only this part
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// Of the placement only rows with this in them, as "xaes-256-gcm | 64 | 8"; of coalescing only tables, as "100 us"
    #[arg(long, default_value = "")]
    rows: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// How many answers an interrupt stands for
    Coalescing,
    /// From which size on the device is faster, to `tune` and measured
    Crossover,
    /// Where the scheduler places
    Placement,
}

const PACKAGE: &str = "strongroom-device-vfio-user";
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// Builds the device and what measures it, measures, prints tables.
pub(crate) fn run(arguments: &DeviceArgs) -> Result {
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--package", PACKAGE, "--bins", "--examples"]);
    command::show(&mut build, LIMIT)?;
    let strongroom = workspace::build_strongroom()?;
    let target = workspace::target()?.join("release");
    let parts = [Part::Coalescing, Part::Crossover, Part::Placement];
    for part in parts.into_iter().filter(|part| arguments.part.is_none_or(|only| only == *part)) {
        let mut measure = Command::new(target.join("examples/measure"));
        measure.arg("--device").arg(target.join("strongroom-device"));
        measure.arg("--seconds").arg(arguments.seconds.to_string());
        measure.arg("--pairs").arg(arguments.pairs.to_string());
        match part {
            Part::Coalescing => measure.arg("--coalescing").arg("--only").arg(&arguments.rows),
            Part::Crossover => measure.arg("--crossover").arg("--strongroom").arg(&strongroom),
            Part::Placement => measure.arg("--only").arg(&arguments.rows),
        };
        command::show(&mut measure, LIMIT)?;
    }
    Ok(())
}
