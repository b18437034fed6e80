//! `disk open`: checks what can be checked before a secret is asked for, and
//! has a daemon serve.

use std::path::{Path, PathBuf};

use serde::Serialize;
use strongroom_disk::FileBacking;
use strongroom_disk::signature;
use strongroom_format::luks::CipherSpec;

use super::{confirm, control, crypttab, daemon, image};
use crate::args::disk::DiskOpenArgs;
use crate::args::values::LogTarget;
use crate::daemon::launch::{self, absolute};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;
use crate::secrets::{KeyFileRange, Source};

/// Where an open disk is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Export {
    /// A socket.
    Nbd(PathBuf),
    /// A directory with one file.
    Raw(PathBuf),
    /// A block device; which one is known when it is there.
    Ublk(PathBuf),
}

impl Export {
    /// The socket, the directory or the block device.
    pub(super) fn path(&self) -> &Path {
        match self {
            Export::Nbd(path) | Export::Raw(path) | Export::Ublk(path) => path,
        }
    }

    /// For reports.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Export::Nbd(_) => "nbd",
            Export::Raw(_) => "raw",
            Export::Ublk(_) => "ublk",
        }
    }
}

/// What is to be opened and how. Paths are absolute.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) image: PathBuf,
    pub(super) export: Export,
    pub(super) header: Option<PathBuf>,
    pub(super) ephemeral: bool,
    pub(super) cipher: CipherSpec,
    pub(super) key_bits: Option<u32>,
    pub(super) sector_size: Option<u32>,
    pub(super) read_only: bool,
    pub(super) discard: bool,
    pub(super) allow_other: bool,
    pub(super) confined: bool,
    pub(super) engine: Option<String>,
    /// Settings of the scheduler.
    pub(super) placing: Vec<String>,
    pub(super) log: Option<LogTarget>,
    pub(super) source: Source,
    pub(super) range: KeyFileRange,
    pub(super) key_slot: Option<u32>,
}

const RAW_DISCARDS: &str = "a raw file cannot tell discards from zeroing, so that they do nothing on it; use --ublk or --nbd \
                            for them";

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    image: String,
    /// `nbd`, `raw` or `ublk`.
    export: &'static str,
    /// The socket, the file, or the block device.
    path: String,
    /// For clients that take a URI.
    uri: Option<String>,
}

/// Opens a disk; in the foreground, returns when it is closed.
///
/// # Errors
/// What kept it from opening, with the daemon's own code.
pub(super) fn run(args: &DiskOpenArgs, output: Output) -> Result<Exit> {
    let plan = plan(args)?;
    if launch::is_daemon() {
        return Ok(daemon::run_launched(&plan));
    }
    check(&plan, args.yes)?;
    if plan.discard && matches!(plan.export, Export::Raw(_)) {
        output.warn(RAW_DISCARDS);
    }
    let secret = match plan.ephemeral {
        true => None,
        false => Some(plan.source.read_bytes(&image::prompt(&plan.image), plan.range)?),
    };
    if args.foreground {
        daemon::run_foreground(&plan, secret)?;
        return Ok(Exit::Done);
    }
    launch::start_with(secret.as_ref())?;
    let (path, uri) = match &plan.export {
        Export::Nbd(path) => (path.clone(), Some(format!("nbd+unix:///?socket={}", path.display()))),
        Export::Raw(directory) => (directory.join(daemon::FILE_NAME), None),
        // Its daemon knows.
        Export::Ublk(path) => {
            (control::find(&plan.image).map_or(path.clone(), |open| open.export.into()), None)
        }
    };
    let document = Document {
        schema: "strongroom.disk-open/1",
        image: plan.image.display().to_string(),
        export: plan.export.kind(),
        path: path.display().to_string(),
        uri,
    };
    output.print(&document, |document| {
        let Document { image, path, .. } = document;
        format!("Opened {image} at {}\n", document.uri.as_deref().unwrap_or(path))
    })?;
    Ok(Exit::Done)
}

fn plan(args: &DiskOpenArgs) -> Result<Plan> {
    let image = args.image.canonicalize().map_err(|error| Failure::system(&args.image, &error))?;
    let export = match (&args.nbd, &args.raw) {
        _ if args.ublk => Export::Ublk(PathBuf::new()),
        (Some(socket), _) => Export::Nbd(absolute(socket)?),
        (None, Some(directory)) => Export::Raw(
            directory
                .canonicalize()
                .map_err(|error| Failure::system(directory, &error).hint("Make the directory first."))?,
        ),
        (None, None) => {
            return Err(Failure::usage("it is not said where the disk shall be seen")
                .hint("Use --raw DIR for a file, --nbd SOCKET for NBD, or --ublk for a block device."));
        }
    };
    let mut plan = Plan {
        image,
        export,
        header: None,
        ephemeral: args.ephemeral,
        cipher: args.cipher.clone(),
        key_bits: args.key_size,
        sector_size: args.sector_size,
        read_only: args.read_only,
        discard: args.allow_discards,
        allow_other: args.allow_other,
        confined: !args.no_confinement,
        engine: args.engine.clone(),
        placing: args.set.clone(),
        log: args.log.clone(),
        source: args.secret.source(),
        range: image::range(&args.secret),
        key_slot: args.secret.key_slot,
    };
    crypttab::apply(&mut plan, &args.options)?;
    // What stands in an option of its own counts more than a word after -o.
    plan.header = args.header.clone().or(plan.header);
    for path in [&mut plan.header].into_iter().flatten() {
        *path = absolute(path)?;
    }
    if let Some(LogTarget::File(path)) = &mut plan.log {
        *path = absolute(path)?;
    }
    if plan.ephemeral && plan.read_only {
        return Err(Failure::usage("a disk with a key of its own time cannot be read only"));
    }
    Ok(plan)
}

/// Refuses what opening would refuse, before a secret is asked for.
fn check(plan: &Plan, yes: bool) -> Result<()> {
    if let Some(open) = control::find(&plan.image) {
        return Err(Failure::new(Exit::InUse, format!("it is open already ({})", open.export))
            .at(&plan.image)
            .hint("Close it first: strongroom disk close IMAGE"));
    }
    if let Export::Raw(directory) = &plan.export {
        let mut entries = std::fs::read_dir(directory).map_err(|error| Failure::system(directory, &error))?;
        if entries.next().is_some() {
            return Err(Failure::usage("the directory is not empty").at(directory).hint("Use an empty one."));
        }
    }
    if let Export::Ublk(_) = plan.export {
        strongroom_ublk::Server::check().map_err(|error| daemon::explain_ublk(&error))?;
    }
    let device = image::look(&plan.image)?;
    if plan.ephemeral {
        let what =
            "It will be encrypted with a key that nobody has afterwards: everything there will be lost.";
        return confirm::overwriting(&plan.image, &device, what, yes);
    }
    let Some(path) = &plan.header else {
        let header = image::header(&plan.image, &device)?;
        return header.segment_beside(true).map(drop).map_err(|error| image::explain(error, &plan.image));
    };
    let header_device = image::look(path)?;
    let header = image::header(path, &header_device)?;
    let is_same = header_device.is_same(&device).map_err(|error| Failure::system(path, &error))?;
    let segment = header.segment_beside(is_same).map_err(|error| image::explain(error, path))?;
    match segment.offset == 0 && !plan.read_only && !yes {
        true => check_contents(&plan.image, &device),
        false => Ok(()),
    }
}

/// Refuses a disk whose data is to begin at its first byte, where something
/// stands that encrypted data does not look like.
fn check_contents(path: &Path, device: &FileBacking) -> Result<()> {
    let found = signature::scan(device).map_err(|error| Failure::system(path, &error))?;
    match found.signatures.iter().find(|signature| signature.is_certain) {
        Some(signature) => {
            Err(Failure::usage(format!("this is {}, and not what the header describes", signature.what))
                .at(path)
                .hint("It would be overwritten. Look at it with --read-only; say --yes when you are sure."))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
impl Plan {
    /// A plan with nothing asked for.
    pub(super) fn sample() -> Plan {
        Plan {
            image: "/image".into(),
            export: Export::Nbd("/socket".into()),
            header: None,
            ephemeral: false,
            cipher: CipherSpec::parse("aes-xts-plain64").expect("known"),
            key_bits: None,
            sector_size: None,
            read_only: false,
            discard: false,
            allow_other: false,
            confined: true,
            engine: None,
            placing: Vec::new(),
            log: None,
            source: Source::Prompt,
            range: KeyFileRange::default(),
            key_slot: None,
        }
    }
}
