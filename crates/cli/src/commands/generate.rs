//! Manual pages and shell completions, from the definitions of the command
//! line.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{Exit, Failure, Result};

/// Writes `strongroom.1` and a page per command.
///
/// # Errors
/// What the system reports.
pub(crate) fn manual(directory: &Path) -> Result<Exit> {
    let written = clap_mangen::generate_to(Cli::command(), directory);
    written.map_err(|error| Failure::system(directory, &error))?;
    Ok(Exit::Done)
}

/// Writes completions for bash, zsh and fish.
///
/// # Errors
/// What the system reports.
pub(crate) fn completions(directory: &Path) -> Result<Exit> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut command = Cli::command();
        let written = clap_complete::generate_to(shell, &mut command, "strongroom", directory);
        written.map_err(|error| Failure::system(directory, &error))?;
    }
    Ok(Exit::Done)
}
