//! What the benchmarks of live mounts are told alike.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(super) struct Common {
    /// A built strongroom binary [default: build one]
    #[arg(long, value_name = "FILE")]
    pub(super) binary: Option<PathBuf>,
    /// Little of everything: shows that it works, in seconds; judges nothing
    #[arg(long)]
    pub(super) quick: bool,
    /// Where the stores lie
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub(super) work: PathBuf,
    /// Writes the report there too
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}
