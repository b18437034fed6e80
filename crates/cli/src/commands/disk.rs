//! `disk`: encrypted disks in LUKS.

mod confirm;
pub(super) mod control;
mod cost;
mod crypttab;
mod daemon;
mod erase;
mod format;
mod header;
mod holders;
mod image;
mod info;
mod key;
mod open;
mod resize;

use crate::args::disk::DiskCommand;
use crate::failure::{Exit, Result};
use crate::report::Output;

/// Carries out a `disk` command.
///
/// # Errors
/// What the command says.
pub(crate) fn run(command: &DiskCommand, output: Output) -> Result<Exit> {
    match command {
        DiskCommand::Format(args) => format::run(args, output),
        DiskCommand::Open(args) => open::run(args, output),
        DiskCommand::Close(args) => control::close(args),
        DiskCommand::List => control::list(output),
        DiskCommand::Info(args) => info::run(args, output),
        DiskCommand::IsLuks(args) => info::is_luks(args),
        DiskCommand::Key(command) => key::run(command, output),
        DiskCommand::Header(command) => header::run(command, output),
        DiskCommand::Resize(args) => resize::run(args, output),
        DiskCommand::Erase(args) => erase::run(args, output),
    }
}
