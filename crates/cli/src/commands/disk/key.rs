//! `disk key`: what opens a disk. The header alone is rewritten, never data.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use strongroom_disk::Header;
use strongroom_disk::backing::FileBacking;
use strongroom_disk::header::{Unlocked, Version};
use strongroom_engine::Engine;
use strongroom_format::luks::Hash;

use super::info::{self, SlotReport};
use super::{cost, image};
use crate::args::disk::{
    DiskInfoArgs, DiskKeyAddArgs, DiskKeyChangeArgs, DiskKeyCommand, DiskKeyRemoveArgs, DiskSecretArgs,
};
use crate::failure::{Exit, Result};
use crate::report::Output;

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    image: String,
    uuid: String,
    /// The slot that was added, changed or removed.
    slot: Option<u32>,
    slots: Vec<SlotReport>,
}

/// Carries out a `disk key` command.
///
/// # Errors
/// In use while the disk is open, and as unlocking.
pub(super) fn run(command: &DiskKeyCommand, output: Output) -> Result<Exit> {
    match command {
        DiskKeyCommand::List(args) => list(args, output),
        DiskKeyCommand::Add(args) => add(args, output),
        DiskKeyCommand::Remove(args) => remove(args, output),
        DiskKeyCommand::Change(args) => change(args, output),
    }
}

/// Prints the slots of a header.
///
/// # Errors
/// When standard output cannot be written to.
pub(super) fn print(
    path: &Path,
    header: &Header,
    slot: Option<u32>,
    output: Output,
    done: &str,
) -> Result<Exit> {
    let document = Document {
        schema: "strongroom.disk-key-list/1",
        image: path.display().to_string(),
        uuid: header.uuid().to_owned(),
        slot,
        slots: info::slots(header),
    };
    output.print_at_width(&document, |document, display| {
        format!("{done}{}", info::table(&document.slots, display))
    })?;
    Ok(Exit::Done)
}

fn list(args: &DiskInfoArgs, output: Output) -> Result<Exit> {
    let device = image::look(&args.image)?;
    print(&args.image, &image::header(&args.image, &device)?, None, output, "")
}

/// A disk that nobody else uses, opened to have its header changed.
struct Changing {
    device: Arc<FileBacking>,
    header: Header,
    engine: Arc<dyn Engine>,
    unlocked: Unlocked,
}

impl Changing {
    fn begin(path: &Path, args: &DiskSecretArgs) -> Result<Changing> {
        let device = image::open(path, true)?;
        let header = image::header(path, &device)?;
        let engine = image::engine(None, &[])?;
        let secret = image::secret(args, path)?;
        let unlocked = header.unlock(&*device, &engine, secret.expose(), args.key_slot);
        let unlocked = unlocked.map_err(|error| image::explain(error, path))?;
        Ok(Changing { device, header, engine, unlocked })
    }

    fn version(&self) -> (Version, Hash) {
        match &self.header {
            Header::V1(header) => (Version::Luks1, header.phdr.hash),
            Header::V2(_) => (Version::Luks2, Hash::Sha256),
        }
    }
}

fn add(args: &DiskKeyAddArgs, output: Output) -> Result<Exit> {
    let mut changing = Changing::begin(&args.image, &args.secret)?;
    let secret = image::new_secret(&args.new.source(), &args.image)?;
    let (version, hash) = changing.version();
    let kdf = cost::kdf(&args.cost, version, hash)?;
    let _changing = image::lock(&args.image, &changing.device, Some(&changing.header))?;
    let Changing { device, header, engine, unlocked } = &mut changing;
    let added = header.add_slot(&**device, engine, &unlocked.key, secret.expose(), kdf, args.new_key_slot);
    let slot = added.map_err(|error| image::explain(error, &args.image))?;
    print(&args.image, header, Some(slot), output, &format!("Added slot {slot}.\n"))
}

fn remove(args: &DiskKeyRemoveArgs, output: Output) -> Result<Exit> {
    let Changing { device, mut header, .. } = Changing::begin(&args.image, &args.secret)?;
    let _changing = image::lock(&args.image, &device, Some(&header))?;
    let removed = header.remove_slot(&*device, args.slot, false);
    removed.map_err(|error| image::explain(error, &args.image))?;
    print(&args.image, &header, Some(args.slot), output, &format!("Removed slot {}.\n", args.slot))
}

fn change(args: &DiskKeyChangeArgs, output: Output) -> Result<Exit> {
    let mut changing = Changing::begin(&args.image, &args.secret)?;
    let secret = image::new_secret(&args.new.source(), &args.image)?;
    let (version, hash) = changing.version();
    let kdf = cost::kdf(&args.cost, version, hash)?;
    let _changing = image::lock(&args.image, &changing.device, Some(&changing.header))?;
    let Changing { device, header, engine, unlocked } = &mut changing;
    let changed = header.change_slot(&**device, engine, &unlocked.key, secret.expose(), kdf, unlocked.slot);
    let slot = changed.map_err(|error| image::explain(error, &args.image))?;
    print(&args.image, header, Some(slot), output, &format!("Changed slot {slot}.\n"))
}
