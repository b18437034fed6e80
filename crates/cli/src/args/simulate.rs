//! `simulate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::duration;

/// Run a modelled machine under a load, in virtual time
#[derive(Args, Debug)]
#[command(after_help = "\
Batches are placed by the code that mounts use. Hosts and workloads have names,
which --list tells; besides there are random-SEED for a host drawn from a seed,
and write-KIBk-CLIENTS and read-KIBk-CLIENTS for loads. A device's results are
checked one in 1024 times unless -o check=N says otherwise.

paper-000 to paper-004 are published documents: each figure whose number their
text gives, ours beside it, their ratio, and whether ours was fitted on it.

Examples:
  strongroom simulate --list
  strongroom simulate aca-sds --workload write-64k-32
  strongroom simulate paper-004
  strongroom simulate two-devices --policy fixed -o use=1 --plot run.svg")]
pub(crate) struct SimulateArgs {
    /// A host's name, or a document's
    #[arg(value_name = "HOST", required_unless_present = "list")]
    pub(crate) host: Option<String>,
    /// Tell which hosts and workloads there are
    #[arg(long, conflicts_with_all = ["host", "plot"])]
    pub(crate) list: bool,
    /// fixed, size, aca or adaptive
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    pub(crate) policy: String,
    /// A workload's name
    #[arg(long, value_name = "WORKLOAD", default_value = "write-64k-32")]
    pub(crate) workload: String,
    /// Further settings, as `strongroom set` takes them
    #[arg(short = 'o', long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Virtual time of the run, 1ms to 1min
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Of everything that is drawn
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Draw the run into this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}
