//! Options of the commands about freshness files.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::history::HistoryArgs;
use super::secret::SecretArgs;

/// What is done with freshness files.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum FreshnessCommand {
    /// Record the vault as it is now: what check found is in order
    Accept(FreshnessAcceptArgs),
}

/// Options of `freshness accept`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strongroom check ~/vault --freshness /media/usb/vault.fresh
  strongroom freshness accept ~/vault /media/usb/vault.fresh Documents/letter.odt
  strongroom freshness accept ~/vault /media/usb/vault.fresh

An entry that was deleted from the store, put back, exchanged or rolled back is
an error until it is accepted here, since it may be an attack: look first. Not
while the vault is mounted.")]
pub(crate) struct FreshnessAcceptArgs {
    /// The vault
    pub(crate) vault: PathBuf,
    /// The freshness file; a new one is made
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Plain path from the top of the vault: this entry alone, with what is below it [default: everything]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) secret: SecretArgs,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
}
