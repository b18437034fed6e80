//! `disk header`: backing a header up, and putting a backup back.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use strongroom_disk::backing::Backing;
use strongroom_disk::{Error, Header};

use super::info::{self, SlotReport};
use super::{confirm, image};
use crate::args::disk::{DiskHeaderArgs, DiskHeaderCommand, DiskHeaderRestoreArgs};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    /// `backup` or `restore`.
    action: &'static str,
    image: String,
    file: String,
    uuid: String,
    luks_version: u8,
    bytes: u64,
    slots: Vec<SlotReport>,
}

/// Carries out a `disk header` command.
///
/// # Errors
/// Damage of the header, and what the devices report.
pub(super) fn run(command: &DiskHeaderCommand, output: Output) -> Result<Exit> {
    match command {
        DiskHeaderCommand::Backup(args) => backup(args, output),
        DiskHeaderCommand::Restore(args) => restore(args, output),
    }
}

fn print(
    action: &'static str,
    (image, file): (&Path, &Path),
    header: &Header,
    bytes: u64,
    output: Output,
) -> Result<Exit> {
    let document = Document {
        schema: "strongroom.disk-header/1",
        action,
        image: image.display().to_string(),
        file: file.display().to_string(),
        uuid: header.uuid().to_owned(),
        luks_version: header.version(),
        bytes,
        slots: info::slots(header),
    };
    let done = if action == "backup" { "Backed the header up" } else { "Restored the header" };
    output.print_at_width(&document, |document, display| {
        format!("{done}. It opens with:\n\n{}", info::table(&document.slots, display))
    })?;
    Ok(Exit::Done)
}

/// The header's bytes with its key slots: up to the data, as cryptsetup's
/// backups are.
fn read(path: &Path, device: &dyn Backing, header: &Header) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| Failure::system(path, &error);
    let mut bytes = vec![0; header.end() as usize];
    let there = device.len().map_err(failed)?.min(header.end()) as usize;
    device.read_at(&mut bytes[..there], 0).map_err(failed)?;
    Ok(bytes)
}

fn backup(args: &DiskHeaderArgs, output: Output) -> Result<Exit> {
    let device = image::look(&args.image)?;
    let header = image::header(&args.image, &device)?;
    let bytes = read(&args.image, &device, &header)?;
    let failed = |error: std::io::Error| Failure::system(&args.file, &error);
    let opened = File::options().write(true).create_new(true).mode(0o600).open(&args.file);
    let mut file = opened.map_err(failed)?;
    let written = file.write_all(&bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(&args.file);
    }
    written.map_err(failed)?;
    print("backup", (&args.image, &args.file), &header, bytes.len() as u64, output)
}

fn restore(args: &DiskHeaderRestoreArgs, output: Output) -> Result<Exit> {
    let backup = image::look(&args.file)?;
    let header = image::header(&args.file, &backup)?;
    let device = image::open(&args.image, true)?;
    let bytes = read(&args.file, &backup, &header)?;
    check_place(args, &header, &*device)?;
    let changing = image::lock(&args.image, &device, None)?;
    let failed = |error: std::io::Error| Failure::system(&args.image, &error);
    // The beginning, by which it is recognised, comes last.
    device.write_at(&bytes[4096..], 4096).and_then(|()| device.sync()).map_err(failed)?;
    device.write_at(&bytes[..4096], 0).and_then(|()| device.sync()).map_err(failed)?;
    drop(changing);
    let written = image::header(&args.image, &device)?;
    print("restore", (&args.image, &args.file), &written, bytes.len() as u64, output)
}

/// Refuses a backup that would overwrite data, and asks when it is of another
/// disk or replaces a header.
fn check_place(args: &DiskHeaderRestoreArgs, header: &Header, device: &dyn Backing) -> Result<()> {
    let explain = |error| image::explain(error, &args.image);
    let len = device.len().map_err(|error| Failure::system(&args.image, &error))?;
    if len < header.end() {
        return Err(explain(Error::TooSmall { found: len, needed: header.end() }));
    }
    let current = match Header::read(device) {
        Ok(current) => Some(current),
        Err(Error::NotLuks | Error::Header(_) | Error::Checksum) => None,
        Err(error) => return Err(explain(error)),
    };
    if let Some(current) = &current {
        let offset = current.segment().map_err(explain)?.offset;
        if offset < header.end() && offset != 0 {
            return Err(Failure::usage("the backup reaches into the data of this disk").at(&args.image));
        }
        if offset != 0 && header.segment_beside(true).is_err() {
            return Err(Failure::usage(
                "the backup is of a header without a disk, and here is one with data",
            )
            .at(&args.image)
            .hint("Keep it as a file of its own: strongroom disk open IMAGE --header FILE"));
        }
    }
    let text = match &current {
        Some(current) if current.uuid() == header.uuid() => {
            "Its header will be replaced: keys that were changed or removed since the backup are back."
        }
        Some(_) => "The backup is of ANOTHER disk: with its header the data here cannot be opened.",
        None => "It has no sound LUKS header. What is at its beginning will be overwritten.",
    };
    confirm::overwriting(&args.image, device, text, args.yes)
}
