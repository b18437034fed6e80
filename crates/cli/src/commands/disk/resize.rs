//! `disk resize`: the length of an image file.

use strongroom_disk::backing::Backing;

use super::{confirm, image, info};
use crate::args::disk::DiskResizeArgs;
use crate::failure::{Exit, Failure, Result};
use crate::report::{Output, bytes};

/// Makes an image longer or shorter.
///
/// # Errors
/// Usage for a device, a fixed size, or one that is too small; in use.
pub(super) fn run(args: &DiskResizeArgs, output: Output) -> Result<Exit> {
    let path = &args.image;
    let device = image::open(path, true)?;
    let header = image::header(path, &device)?;
    let segment = header.segment_beside(true).map_err(|error| image::explain(error, path))?;
    if device.is_device() {
        return Err(Failure::usage("a device has the size that it has")
            .at(path)
            .hint("Change its partition; the disk takes the size of its device when it is opened."));
    }
    if segment.size.is_some() {
        return Err(Failure::usage("the header gives the data a fixed size").at(path));
    }
    let least = header.end().max(segment.offset + u64::from(segment.sector_size));
    if args.size < least || !args.size.is_multiple_of(segment.sector_size.into()) {
        return Err(Failure::usage(format!("{} bytes are no size for this disk", args.size))
            .at(path)
            .hint(format!("At least {}, in whole sectors of {} bytes.", bytes(least), segment.sector_size)));
    }
    let len = device.len().map_err(|error| Failure::system(path, &error))?;
    if args.size < len && !args.yes {
        let lost = bytes(len - args.size);
        confirm::ask(path, &format!("The last {lost} of {} will be lost.", path.display()))?;
    }
    device.set_len(args.size).map_err(|error| Failure::system(path, &error))?;
    let document = info::document(path, &header, &*device)?;
    output.print_at_width(&document, info::text)?;
    Ok(Exit::Done)
}
