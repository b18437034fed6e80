//! `report`: what this machine is best used with and what is slow, in words,
//! with what the words come from: on the terminal, in JSON, or as one page.
//!
//! [`document`] gathers, [`words`] concludes, [`page`] and [`text`] show. What
//! mounts do comes from their daemons as `status` has it, what engines are from
//! `engines`, rates from the profile that `tune` keeps. Nothing is measured here
//! but a store that is named ([`durability`]), and nothing is changed.

mod chart;
mod document;
mod durability;
mod page;
mod prediction;
mod text;
mod words;

use std::path::Path;

use self::document::Document;
use crate::args::ReportArgs;
use crate::commands::engines;
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

pub(super) use self::durability::measure as measure_store;

/// Runs `report`.
///
/// # Errors
/// Usage for an engine that there is not; what the store or the page's file
/// reports.
pub(crate) fn run(args: &ReportArgs, output: Output) -> Result<Exit> {
    let document = Document::gather(args, output)?;
    if let Some(file) = &args.file {
        write(file, &page::html(&document))?;
    }
    output.print_at_width(&document, |document, display| match &args.file {
        Some(file) => format!("{}Written: {}\n", text::conclusions(document), file.display()),
        None => text::whole(document, display),
    })?;
    Ok(engines::exit(&document.engines))
}

fn write(file: &Path, page: &str) -> Result<()> {
    std::fs::write(file, page).map_err(|error| Failure::system(file, &error))
}
