//! `disk erase`: removes all keys.

use super::{confirm, image, key};
use crate::args::disk::DiskEraseArgs;
use crate::failure::{Exit, Result};
use crate::report::Output;

/// Removes every key slot and overwrites key material.
///
/// # Errors
/// In use, and what the device reports.
pub(super) fn run(args: &DiskEraseArgs, output: Output) -> Result<Exit> {
    let device = image::open(&args.image, true)?;
    let mut header = image::header(&args.image, &device)?;
    if !args.yes {
        let slots = header.slots().len();
        let text = format!(
            "{} has {slots} key slots. Without them its data cannot be opened any more, by nobody.",
            args.image.display()
        );
        confirm::ask(&args.image, &text)?;
    }
    let _changing = image::lock(&args.image, &device, Some(&header))?;
    header.erase(&*device).map_err(|error| image::explain(error, &args.image))?;
    key::print(&args.image, &header, None, output, "Removed all keys.\n")
}
