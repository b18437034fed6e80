//! Options that say what becomes of a vault that is older than this machine
//! has seen it.

use clap::Args;

/// What is done with what this machine remembers.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "When the vault is older than this machine has seen it (else it is refused)")]
pub(crate) struct HistoryArgs {
    /// Take the vault as it is, after asking: an older state of it was put back on purpose
    #[arg(long, conflicts_with = "no_history")]
    pub(crate) accept_rollback: bool,
    /// Neither compare the vault with what this machine remembers of it, nor remember it, as for a copy that is
    /// kept besides [env: STRONGROOM_HISTORY=off]
    #[arg(long)]
    pub(crate) no_history: bool,
    /// Answer yes to what would be asked
    #[arg(long)]
    pub(crate) yes: bool,
}
