//! The virtio driver on the device over vfio-user, in two processes: interrupts and CPU time by how many
//! answers one interrupt stands for, and where the scheduler places.

use std::time::Duration;

use clap::Args;

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
}

const PACKAGE: &str = "strongroom-device-vfio-user";
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// Builds the device and what measures it, measures, prints tables.
pub(crate) fn run(arguments: &DeviceArgs) -> Result {
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--package", PACKAGE, "--bins", "--examples"]);
    command::show(&mut build, LIMIT)?;
    let target = workspace::target()?.join("release");
    let mut measure = std::process::Command::new(target.join("examples/measure"));
    measure.arg("--device").arg(target.join("strongroom-device"));
    measure.arg("--seconds").arg(arguments.seconds.to_string());
    measure.arg("--pairs").arg(arguments.pairs.to_string());
    command::show(&mut measure, LIMIT)
}
