//! `disk list` and `disk close`, and the control socket through which the
//! daemons of open disks answer them.
//!
//! One request and one answer, each a line of JSON. The socket is named by the
//! daemon's process and lies in a directory that belongs to the user alone.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strongroom_sched::{Scheduler, Statistics};

use super::daemon::{Ender, Served};
use super::open::Plan;
use crate::args::disk::DiskCloseArgs;
use crate::control::{ANSWER_TIMEOUT, Told, exchange, followed, own_directory, sockets};
use crate::daemon::ending::{Ending, Witness};
use crate::daemon::server::{Server, send};
use crate::daemon::status::EngineStatus;
use crate::failure::{Exit, Failure, Result};
use crate::report::{self, Output};
use crate::trace::{Subject, Tracing};

/// Longest answer.
const LEN_MAX: u64 = 64 << 10;
/// The beginning of the names of sockets.
const PREFIX: &str = "disk-";

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
enum Request {
    /// What is open.
    Tell,
    /// Close it; answered when everything is durable.
    Close { force: bool },
    /// Record the load.
    TraceStart,
    /// End that. The answer names a number of bytes, which follow it.
    TraceStop,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
enum Answer {
    Disk(Box<DiskReport>),
    Done,
    Trace { bytes: u64 },
    Failed(Told),
}

/// An open disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::commands) struct DiskReport {
    /// The image.
    pub(in crate::commands) image: PathBuf,
    /// `nbd`, `raw` or `ublk`.
    pub(in crate::commands) kind: String,
    /// The socket, the directory, or the block device.
    pub(in crate::commands) export: String,
    /// Whether its key is nowhere else.
    pub(in crate::commands) ephemeral: bool,
    /// The daemon.
    pub(in crate::commands) pid: u32,
    /// Since when, in RFC 3339.
    pub(in crate::commands) since: String,
    /// The cipher of its sectors, as dm-crypt names it.
    #[serde(default)]
    pub(in crate::commands) cipher: String,
    /// What computes, as `status` has it of a mount.
    #[serde(default)]
    pub(in crate::commands) engines: Vec<EngineStatus>,
}

/// What a daemon has open.
pub(super) struct OpenDisk {
    report: DiskReport,
    engines: Arc<Scheduler>,
    tracing: Arc<Tracing>,
    traced: Subject,
    pub(super) ender: Ender,
    pub(super) ending: Ending,
}

impl OpenDisk {
    pub(super) fn new(plan: &Plan, served: &Served, ender: Ender) -> Arc<OpenDisk> {
        let report = DiskReport {
            image: plan.image.clone(),
            kind: plan.export.kind().to_owned(),
            export: plan.export.path().display().to_string(),
            ephemeral: plan.ephemeral,
            pid: std::process::id(),
            since: report::rfc3339(report::now()),
            cipher: served.cipher.clone(),
            engines: Vec::new(),
        };
        let engines = Arc::clone(&served.engines);
        let (tracing, traced) = (Arc::clone(&served.tracing), served.traced());
        Arc::new(OpenDisk { report, engines, tracing, traced, ender, ending: Ending::default() })
    }

    /// As it is now.
    fn report(&self) -> DiskReport {
        let Statistics { engines, fallback } = self.engines.statistics();
        let engines = engines.into_iter().chain([fallback]).map(EngineStatus::from).collect();
        DiskReport { engines, ..self.report.clone() }
    }

    fn answer(&self, request: Request, witness: &Witness<'_>) -> Answer {
        match request {
            Request::Tell => Answer::Disk(Box::new(self.report())),
            Request::Close { force } => match if force { self.force() } else { self.ender.end(false) } {
                Err(failure) => Answer::Failed((&failure).into()),
                Ok(()) => match witness.wait() {
                    Ok(()) => Answer::Done,
                    Err(failure) => Answer::Failed((&failure).into()),
                },
            },
            Request::TraceStart => match self.tracing.start(None) {
                Ok(()) => Answer::Done,
                Err(failure) => Answer::Failed((&failure).into()),
            },
            // It is more than an answer.
            Request::TraceStop => Answer::Done,
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
        if let Request::TraceStop = request {
            send_trace(&open, stream);
            return;
        }
        let witness = open.ending.witness();
        send(stream, &open.answer(request, &witness));
    })?;
    Ok(server)
}

/// Sends what was recorded after its announcement, or why there is nothing.
fn send_trace(open: &OpenDisk, mut stream: &UnixStream) {
    match open.tracing.stop(&open.traced, None) {
        Ok(bytes) => {
            send(stream, &Answer::Trace { bytes: bytes.len() as u64 });
            // A peer that is gone needs none.
            let _ = stream.write_all(&bytes);
        }
        Err(failure) => send(stream, &Answer::Failed((&failure).into())),
    }
}

fn ask(socket: &Path, request: Request) -> Option<Answer> {
    let stream = UnixStream::connect(socket).ok()?;
    let timeout = matches!(request, Request::Tell).then_some(ANSWER_TIMEOUT);
    exchange(&stream, &request, timeout).ok()
}

/// The answer, and what follows it.
fn asked(socket: &Path, request: Request) -> Option<(Answer, BufReader<UnixStream>)> {
    let mut stream = UnixStream::connect(socket).ok()?;
    let timeout = (!matches!(request, Request::Close { .. })).then_some(ANSWER_TIMEOUT);
    stream.set_read_timeout(timeout).ok()?;
    let mut line = serde_json::to_vec(&request).ok()?;
    line.push(b'\n');
    stream.write_all(&line).ok()?;
    let mut answer = String::new();
    let mut reader = BufReader::new(stream);
    (&mut reader).take(LEN_MAX).read_line(&mut answer).ok()?;
    Some((serde_json::from_str(&answer).ok()?, reader))
}

/// Has the disk that is open at `target` record its load; false when none is.
///
/// # Errors
/// In use when it records already.
pub(in crate::commands) fn trace_start(target: &Path) -> Result<bool> {
    let Some(socket) = meant(target)? else { return Ok(false) };
    match ask(&socket, Request::TraceStart) {
        Some(Answer::Failed(told)) => Err(Failure::from(told).at(target)),
        Some(_) => Ok(true),
        None => Err(unanswered().at(target)),
    }
}

/// Ends that and gets what was recorded; none when no disk is open there.
///
/// # Errors
/// Usage when nothing is recorded.
pub(in crate::commands) fn trace_stop(target: &Path) -> Result<Option<Vec<u8>>> {
    let Some(socket) = meant(target)? else { return Ok(None) };
    match asked(&socket, Request::TraceStop) {
        Some((Answer::Failed(told), _)) => Err(Failure::from(told).at(target)),
        Some((Answer::Trace { bytes }, reader)) => {
            followed(reader, bytes).map(Some).ok_or_else(|| unanswered().at(target))
        }
        _ => Err(unanswered().at(target)),
    }
}

fn unanswered() -> Failure {
    Failure::new(Exit::Other, "the daemon of this disk does not answer")
}

/// The socket of the disk that is open at `target`: its image, or what it is
/// served as.
fn meant(target: &Path) -> Result<Option<PathBuf>> {
    let absolute = std::path::absolute(target).map_err(|error| Failure::system(target, &error))?;
    // A mount of a vault may not answer: it is followed last.
    let disks = open_disks();
    let at = |place: &Path| {
        let is = |report: &DiskReport| report.image == place || Path::new(&report.export) == place;
        disks.iter().find(|(_, report)| is(report)).map(|(socket, _)| socket.clone())
    };
    let followed = || at(&target.canonicalize().ok()?);
    Ok(at(&absolute).or_else(followed))
}

/// The open disks of this user, with their control sockets.
pub(in crate::commands) fn open_disks() -> Vec<(PathBuf, DiskReport)> {
    let Ok(directory) = own_directory() else { return Vec::new() };
    let told = |socket: PathBuf| match ask(&socket, Request::Tell) {
        Some(Answer::Disk(report)) => Some((socket, *report)),
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
    let Some(socket) = meant(&args.target)? else {
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
