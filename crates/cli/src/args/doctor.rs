//! What `doctor` is told.

use std::path::PathBuf;

use clap::Args;

/// Tell what this machine offers and what to switch on, or what a store keeps
///
/// With STORE, a directory, it is tried there what a vault needs of the file
/// system: names, links, renames, locks, barriers, times. A line for each says
/// whether it is kept, and what a vault lacks without; the exit code is 6 when
/// no vault can live there, and 7 when there is no room to try it. What is made
/// for it is removed again.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  strongroom doctor\n  strongroom doctor /mnt/nas")]
pub(crate) struct DoctorArgs {
    /// A directory in which a vault is, or shall be
    #[arg(value_name = "STORE")]
    pub(crate) store: Option<PathBuf>,
    /// Try to lock a file: how a trial asks another process
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "store")]
    pub(crate) try_lock: Option<PathBuf>,
}
