//! `trace`: has the daemon of a mount or disk record its load, and writes what
//! it recorded.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::disk::control as disks;
use crate::args::trace::{TraceCommand, TraceStopArgs};
use crate::control::{Client, Request, mounts, unanswered};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;

/// Runs `trace`.
///
/// # Errors
/// Usage when nothing is mounted or open there, or nothing is recorded; in use
/// when something is; what the file reports.
pub(crate) fn run(command: &TraceCommand, output: Output) -> Result<Exit> {
    match command {
        TraceCommand::Start(args) => start(&args.target),
        TraceCommand::Stop(args) => stop(args, output),
    }
}

fn start(target: &Path) -> Result<Exit> {
    if disks::trace_start(target)? {
        return Ok(Exit::Done);
    }
    let mounted = mounts::at(target)?;
    let mut client = Client::connect(&mounted).ok_or_else(|| unanswered(&mounted))?;
    client.ask(Request::TraceStart).map_err(|failure| failure.at(&mounted.path))?;
    Ok(Exit::Done)
}

fn stop(args: &TraceStopArgs, output: Output) -> Result<Exit> {
    // First, for what was recorded is gone when it was asked for.
    let failed = |error: std::io::Error| Failure::system(&args.file, &error);
    let mut file =
        File::options().write(true).create_new(true).mode(0o600).open(&args.file).map_err(failed)?;
    let recorded = recorded(&args.target).and_then(|bytes| {
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        strongroom_trace::Trace::decode(&bytes).map_err(|error| {
            Failure::new(Exit::Other, format!("the daemon's answer is not understood: {error}"))
        })
    });
    let trace = recorded.inspect_err(|_| {
        let _ = std::fs::remove_file(&args.file);
    })?;
    output.print(&trace.header, |header| {
        let full = if header.is_full { "; there was no room for more" } else { "" };
        format!(
            "{} requests in {:.1} s{full}. Written: {}\n",
            header.records,
            header.recorded_ns as f64 / 1e9,
            args.file.display()
        )
    })?;
    Ok(Exit::Done)
}

fn recorded(target: &Path) -> Result<Vec<u8>> {
    if let Some(bytes) = disks::trace_stop(target)? {
        return Ok(bytes);
    }
    let mounted = mounts::at(target)?;
    let mut client = Client::connect(&mounted).ok_or_else(|| unanswered(&mounted))?;
    client.stop_trace().map_err(|failure| failure.at(&mounted.path))
}
