//! `disk list` and `disk close`, and the control socket through which the
//! daemons of open disks answer them.
//!
//! One request and one answer, each a line of JSON. The socket is named by the
//! daemon's process and lies in a directory that belongs to the user alone.

use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::daemon::Ender;
use super::open::Plan;
use crate::args::disk::DiskCloseArgs;
use crate::control::{ANSWER_TIMEOUT, Told, exchange, own_directory, sockets};
use crate::daemon::ending::{Ending, Witness};
use crate::daemon::server::{Server, send};
use crate::failure::{Exit, Failure, Result};
use crate::report::{self, Output};

/// The beginning of the names of sockets.
const PREFIX: &str = "disk-";

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
enum Request {
    /// What is open.
    Tell,
    /// Close it; answered when everything is durable.
    Close { force: bool },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
enum Answer {
    Disk(DiskReport),
    Done,
    Failed(Told),
}

/// An open disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DiskReport {
    /// The image.
    pub(super) image: PathBuf,
    /// `nbd`, `raw` or `ublk`.
    pub(super) kind: String,
    /// The socket, the directory, or the block device.
    pub(super) export: String,
    /// Whether its key is nowhere else.
    pub(super) ephemeral: bool,
    /// The daemon.
    pub(super) pid: u32,
    /// Since when, in RFC 3339.
    pub(super) since: String,
}

/// What a daemon has open.
pub(super) struct OpenDisk {
    report: DiskReport,
    pub(super) ender: Ender,
    pub(super) ending: Ending,
}

impl OpenDisk {
    pub(super) fn new(plan: &Plan, ender: Ender) -> Arc<OpenDisk> {
        let report = DiskReport {
            image: plan.image.clone(),
            kind: plan.export.kind().to_owned(),
            export: plan.export.path().display().to_string(),
            ephemeral: plan.ephemeral,
            pid: std::process::id(),
            since: report::rfc3339(report::now()),
        };
        Arc::new(OpenDisk { report, ender, ending: Ending::default() })
    }

    fn answer(&self, request: Request, witness: &Witness<'_>) -> Answer {
        match request {
            Request::Tell => Answer::Disk(self.report.clone()),
            Request::Close { force } => match if force { self.force() } else { self.ender.end(false) } {
                Err(failure) => Answer::Failed((&failure).into()),
                Ok(()) => match witness.wait() {
                    Ok(()) => Answer::Done,
                    Err(failure) => Answer::Failed((&failure).into()),
                },
            },
        }
    }
}

/// Answers in threads of their own until the process ends, or what is given is
/// dropped.
///
/// # Errors
/// When there is no place for a socket, or no thread.
pub(super) fn listen(open: &Arc<OpenDisk>) -> Result<Server> {
    let server = Server::bind(&format!("{PREFIX}{}.socket", std::process::id()))?;
    let open = Arc::clone(open);
    server.start(move |request, stream| {
        let witness = open.ending.witness();
        send(stream, &open.answer(request, &witness));
    })?;
    Ok(server)
}

fn ask(socket: &Path, request: Request) -> Option<Answer> {
    let stream = UnixStream::connect(socket).ok()?;
    let timeout = matches!(request, Request::Tell).then_some(ANSWER_TIMEOUT);
    exchange(&stream, &request, timeout).ok()
}

/// The open disks of this user, with their control sockets.
fn open_disks() -> Vec<(PathBuf, DiskReport)> {
    let Ok(directory) = own_directory() else { return Vec::new() };
    let told = |socket: PathBuf| match ask(&socket, Request::Tell) {
        Some(Answer::Disk(report)) => Some((socket, report)),
        _ => None,
    };
    sockets(&directory, PREFIX).into_iter().filter_map(told).collect()
}

/// The open disk of an image, if it is open.
pub(super) fn find(image: &Path) -> Option<DiskReport> {
    open_disks().into_iter().map(|(_, report)| report).find(|report| report.image == image)
}

/// `disk close`.
///
/// # Errors
/// Usage when nothing is open there, in use, and what closing reports.
pub(super) fn close(args: &DiskCloseArgs) -> Result<Exit> {
    let absolute =
        std::path::absolute(&args.target).map_err(|error| Failure::system(&args.target, &error))?;
    let followed = args.target.canonicalize().unwrap_or_else(|_| absolute.clone());
    let is_meant = |report: &DiskReport| {
        let places = [report.image.as_path(), Path::new(&report.export)];
        places.iter().any(|place| *place == absolute || *place == followed)
    };
    let Some((socket, _)) = open_disks().into_iter().find(|(_, report)| is_meant(report)) else {
        return Err(Failure::usage("no disk is open here")
            .at(&args.target)
            .hint("`strongroom disk list` shows open disks."));
    };
    match ask(&socket, Request::Close { force: args.force }) {
        Some(Answer::Failed(told)) => Err(Failure::from(told).at(&args.target)),
        Some(_) => Ok(Exit::Done),
        None => Err(Failure::new(Exit::Other, "the daemon ended without saying that all is stored")
            .at(&args.target)
            .hint("What was flushed is safe. The system's log may say why.")),
    }
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    disks: Vec<DiskReport>,
}

/// `disk list`.
///
/// # Errors
/// When standard output cannot be written to.
pub(super) fn list(output: Output) -> Result<Exit> {
    let mut disks: Vec<DiskReport> = open_disks().into_iter().map(|(_, report)| report).collect();
    disks.sort_by(|a, b| a.image.cmp(&b.image));
    let document = Document { schema: "strongroom.disk-list/1", disks };
    output.print(&document, |document| {
        let mut text = String::new();
        for disk in &document.disks {
            let key = if disk.ephemeral { ", one-time key" } else { "" };
            let DiskReport { image, kind, export, pid, since, .. } = disk;
            let _ =
                writeln!(text, "{}: {kind} at {export}, process {pid}, since {since}{key}", image.display());
        }
        text
    })?;
    Ok(Exit::Done)
}
