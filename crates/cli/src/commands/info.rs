//! `info`: what a vault is made with, from its header.

use std::fmt::Write as _;

use serde::Serialize;
use strongroom_format::vault::header::{Header, SessionState};
use strongroom_keys::RootKey;
use strongroom_store::local::OpenMode;

use super::slots::{self, SlotReport};
use crate::args::InfoArgs;
use crate::failure::{Exit, Result};
use crate::fit::Display;
use crate::history::History;
use crate::lock::{Holder, VaultLock};
use crate::report::{self, Output};
use crate::unlock::{HeaderCopy, LockedVault, Unlocked};

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    vault: String,
    vault_id: String,
    format_version: u8,
    suite: &'static str,
    block_size: u64,
    names: &'static str,
    created: String,
    written: Option<String>,
    sequence: u64,
    remembered: Option<Remembered>,
    key_generation: u32,
    key_generation_min: u32,
    authenticated: bool,
    header_copies: [HeaderCopy; 2],
    sessions: Vec<SessionReport>,
    slots: Vec<SlotReport>,
    in_use: Option<Box<Holder>>,
}

/// What this machine has seen of the vault.
#[derive(Serialize)]
struct Remembered {
    sequence: u64,
    written: Option<String>,
    seen: String,
    /// The header is older than that.
    older: bool,
}

#[derive(Serialize)]
struct SessionReport {
    id: String,
    state: &'static str,
    opened: String,
}

/// Tells what a vault is made with.
///
/// # Errors
/// As unlocking.
pub(crate) fn run(args: &InfoArgs, output: Output) -> Result<Exit> {
    let Read { header, copies, root } = read(args, output)?;
    let holder = VaultLock::holder(&args.vault);
    let holder = match &root {
        Some(root) => holder.map(|holder| Box::new(holder.revealed(root, header.vault))),
        None => holder,
    };
    let document = Document {
        schema: "strongroom.info/1",
        vault: args.vault.display().to_string(),
        vault_id: header.vault.to_string(),
        format_version: strongroom_format::vault::VERSION,
        suite: header.suite.name(),
        block_size: header.block_size.bytes(),
        names: if header.base32_names { "base32hex" } else { "base64url" },
        created: report::rfc3339(header.created),
        written: date(header.written),
        sequence: header.sequence,
        remembered: History::of(&args.history).known(header.vault).map(|known| Remembered {
            sequence: known.sequence,
            written: date(known.written),
            seen: report::rfc3339(known.seen),
            older: header.sequence < known.sequence,
        }),
        key_generation: header.generation,
        key_generation_min: header.generation_min,
        authenticated: args.secret.is_given(),
        sessions: sessions(&header),
        slots: slots::reports(&header),
        in_use: holder,
        header_copies: copies,
    };
    output.print_at_width(&document, text)?;
    let damaged = document.header_copies.iter().any(|copy| copy.state.is_damage());
    let older = document.remembered.as_ref().is_some_and(|remembered| remembered.older);
    Ok(if damaged || older { Exit::Damage } else { Exit::Done })
}

/// What is read of a vault.
pub(super) struct Read {
    /// The header, authenticated when a secret is given.
    pub(super) header: Header,
    /// What its copies are worth.
    copies: [HeaderCopy; 2],
    /// When a secret is given.
    root: Option<RootKey>,
}

/// Reads a vault's header.
pub(super) fn read(args: &InfoArgs, output: Output) -> Result<Read> {
    let locked = LockedVault::open(&args.vault, OpenMode::ReadOnly)?;
    if !args.secret.is_given() {
        let header = locked.newest().map_err(|failure| failure.at(&args.vault))?;
        return Ok(Read { header, copies: locked.copies(), root: None });
    }
    let source = args.secret.source();
    let history = History::of(&args.history);
    locked.check_slots(&args.vault, &source, &history)?;
    let unlocked = locked.unlock_for_use(&args.vault, &source.read("Password")?, &history, output)?;
    let Unlocked { header, copies, root, .. } = unlocked;
    Ok(Read { header, copies, root: Some(root) })
}

/// A date that the header has, or 0.
fn date(seconds: u64) -> Option<String> {
    (seconds != 0).then(|| report::rfc3339(seconds))
}

fn sessions(header: &Header) -> Vec<SessionReport> {
    let listed = header.sessions.iter().flatten();
    listed
        .map(|session| SessionReport {
            id: session.id.to_string(),
            state: match session.state {
                SessionState::Open => "open",
                SessionState::Crashed => "crashed",
            },
            opened: report::rfc3339(session.opened),
        })
        .collect()
}

fn text(document: &Document, display: Display) -> String {
    let Document { vault, vault_id, suite, created, .. } = document;
    let mut text = format!("{vault}\n");
    let _ = writeln!(text, "  id           {vault_id}");
    let _ = writeln!(text, "  format       version {}", document.format_version);
    let _ = writeln!(text, "  suite        {suite}");
    let _ = writeln!(text, "  block size   {}", report::bytes(document.block_size));
    let _ = writeln!(text, "  names        {}", document.names);
    let _ = writeln!(text, "  made         {created}");
    if let Some(written) = &document.written {
        let _ = writeln!(text, "  written      {written} (number {})", document.sequence);
    }
    if let Some(Remembered { sequence, seen, older: true, .. }) = &document.remembered {
        let _ = writeln!(
            text,
            "  ROLLED BACK  this machine has seen a newer state: number {sequence}, on {seen}"
        );
    }
    for copy in &document.header_copies {
        let _ = writeln!(text, "  header       {copy}");
    }
    for session in &document.sessions {
        let SessionReport { state, opened, .. } = session;
        let what =
            if *state == "open" { "open, or ended without saying so" } else { "crashed, not settled yet" };
        let _ = writeln!(text, "  session      {what}: since {opened}");
    }
    if let Some(holder) = &document.in_use {
        let _ = writeln!(text, "  in use       {holder}");
    }
    if !document.authenticated {
        text.push_str("  (as the header says: give a secret to have it authenticated)\n");
    }
    text.push('\n');
    text.push_str(&slots::table(&document.slots, display));
    text
}
