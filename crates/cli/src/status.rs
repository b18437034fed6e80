//! `status`: what mounts have done since they were mounted.

use std::fmt::Write;

use serde::Serialize;

use crate::args::StatusArgs;
use crate::control::{Answer, Client, Request, mounts, unanswered};
use crate::daemon::status::{EngineStatus, MountStatus, RecoveredStatus};
use crate::failure::{Exit, Result};
use crate::report::{Output, bytes, shown};

/// `strongroom.status/1`.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    mounts: Vec<MountStatus>,
}

/// Runs `status`.
///
/// # Errors
/// Usage when nothing is mounted at the place asked for, or when its daemon
/// does not answer.
pub(crate) fn run(args: &StatusArgs, output: Output) -> Result<Exit> {
    let mounts = match &args.directory {
        Some(directory) => {
            let mounted = mounts::at(directory)?;
            vec![ask(&mounted)?]
        }
        None => own(output)?,
    };
    output.print(&Document { schema: "strongroom.status/1", mounts }, text)?;
    Ok(Exit::Done)
}

/// The status of every mount that this user may ask; one that does not answer
/// is warned of.
fn own(output: Output) -> Result<Vec<MountStatus>> {
    let uid = rustix::process::geteuid().as_raw();
    let asked = mounts::all()?.into_iter().filter(|mounted| uid == 0 || mounted.owner == uid);
    let told = |mounted| ask(&mounted).map_err(|failure| output.warn(failure.message())).ok();
    Ok(asked.filter_map(told).collect())
}

fn ask(mounted: &mounts::Mounted) -> Result<MountStatus> {
    let mut client = Client::connect(mounted).ok_or_else(|| unanswered(mounted))?;
    match client.ask(Request::Status).map_err(|failure| failure.at(&mounted.path))? {
        Answer::Status(status) => Ok(*status),
        Answer::Done | Answer::Failed(_) => Err(unanswered(mounted)),
    }
}

fn text(document: &Document) -> String {
    if document.mounts.is_empty() {
        return "No vault is mounted.\n".to_owned();
    }
    let mounts: Vec<String> = document.mounts.iter().map(mount_text).collect();
    mounts.join("\n")
}

fn mount_text(status: &MountStatus) -> String {
    let mut text = format!("{}\n", shown(status.mount_point.as_bytes()));
    let mut line = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {name:<12} {value}");
    };
    let access = if status.read_only { ", read-only" } else { "" };
    line("vault", format!("{}{access}", shown(status.vault.as_bytes())));
    line("sealed with", format!("{}, blocks of {}", status.suite, bytes(status.block_size_bytes)));
    line(
        "daemon",
        format!(
            "process {}, since {}, {} resident",
            status.pid,
            status.since,
            bytes(status.memory.resident_bytes)
        ),
    );
    let transport = &status.transport;
    line("transport", format!("{}, {} threads: {}", transport.name, transport.workers, transport.reason));
    if status.engines.len() > 2 {
        let scheduler = &status.scheduler;
        line("placed by", format!("policy {}, objective {}", scheduler.policy, scheduler.objective));
    }
    for engine in status.engines.iter().filter(|engine| engine.operations > 0) {
        line("engine", engine_text(engine));
    }
    line("read", bytes(status.read_bytes));
    line("written", bytes(status.written_bytes));
    let total: u64 = status.requests.iter().map(|request| request.count).sum();
    let refused: u64 = status.requests.iter().map(|request| request.errors).sum();
    line("requests", format!("{total}, of which {refused} had an error as answer"));
    line("open", format!("{} files and directories", status.open));
    if status.settling {
        line("recovery", "files of a session that did not end cleanly are being checked".to_owned());
    }
    let recovered = &status.recovered;
    let RecoveredStatus { replayed, emptied, trimmed, set_aside, moved } = recovered;
    if replayed + emptied + trimmed + set_aside + moved > 0 {
        line(
            "recovered",
            format!("{replayed} from the journal, {emptied} emptied, {trimmed} trimmed, {moved} renamed"),
        );
    }
    if *set_aside > 0 {
        line("set aside", format!("what was stored of {set_aside} files: `strongroom check` lists them"));
    }
    if status.errors.background > 0 {
        let last = status.errors.last.as_deref().unwrap_or("unknown");
        line("errors", format!("{} in the background, the last: {last}", status.errors.background));
    }
    for damaged in &status.errors.damaged {
        let path = damaged.path.as_deref().unwrap_or("(no known name)");
        line("DAMAGED", format!("{}: {} ({} times)", shown(path.as_bytes()), damaged.what, damaged.times));
    }
    text
}

fn engine_text(engine: &EngineStatus) -> String {
    let mut text = format!("{}: {} in {} batches", engine.name, bytes(engine.bytes), engine.operations);
    if engine.placements.len() > 1 {
        let reasons: Vec<String> =
            engine.placements.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let _ = write!(text, " ({})", reasons.join(", "));
    }
    if engine.in_flight > 0 {
        let _ = write!(text, ", {} in its queue", engine.in_flight);
    }
    if engine.checked > 0 {
        let _ = write!(text, ", {} mismatches in {} checked", engine.mismatches, bytes(engine.checked_bytes));
    }
    if engine.lost > 0 {
        let _ = write!(text, ", {} lost and redone", engine.lost);
    }
    if engine.quarantined {
        text.push_str(", in QUARANTINE");
    }
    text
}
