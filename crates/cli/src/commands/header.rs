//! `header`: backing up the vault header, and putting a backup back.
//!
//! A restored header brings back the key slots of its time. The sessions that
//! it lists are those of now, since the files' journals depend on them: from
//! the header that is replaced where that can be authenticated, else one for
//! every journal that is found. Its number is above all that were there, and
//! all that this machine has seen, so that it is no older state to anybody.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use strongroom_format::vault::WriteSession;
use strongroom_format::vault::header::{Header, LEN, SESSIONS, Session, SessionState};
use strongroom_format::vault::names::parse_journal_name;
use strongroom_keys::{RootKey, slots::verify_header};
use strongroom_store::Store;
use strongroom_store::local::OpenMode;
use strongroom_vault::write_header;

use super::slots::{self, SlotReport};
use crate::args::HeaderCommand;
use crate::args::vault::{HeaderBackupArgs, HeaderRestoreArgs};
use crate::failure::{Exit, Failure, Result};
use crate::history::{History, Record};
use crate::lock::{LockMode, VaultLock};
use crate::report::{self, Output};
use crate::secrets::confirm;
use crate::unlock::{LockedVault, belongs, explain};

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    vault: String,
    vault_id: String,
    file: String,
    /// Whether a secret has shown that the header is as it was written.
    authenticated: bool,
    sequence: u64,
    slots: Vec<SlotReport>,
}

/// Carries out a `header` command.
///
/// # Errors
/// In use while the vault is mounted, damage of the backup, and as unlocking.
pub(crate) fn run(command: &HeaderCommand, output: Output) -> Result<Exit> {
    match command {
        HeaderCommand::Backup(args) => backup(args, output),
        HeaderCommand::Restore(args) => restore(args, output),
    }
}

fn print(document: &Document, output: Output, done: &str) -> Result<Exit> {
    output.print_at_width(document, |document, display| {
        format!("{done} It opens with:\n\n{}", slots::table(&document.slots, display))
    })?;
    Ok(Exit::Done)
}

fn backup(args: &HeaderBackupArgs, output: Output) -> Result<Exit> {
    let locked = LockedVault::open(&args.vault, OpenMode::ReadOnly)?;
    let authenticated = args.secret.is_given();
    let header = if authenticated {
        let source = args.secret.source();
        let history = History::of(&args.history);
        locked.check_slots(&args.vault, &source, &history)?;
        locked.unlock_for_use(&args.vault, &source.read("Password")?, &history, output)?.header
    } else {
        locked.newest().map_err(|failure| failure.at(&args.vault))?
    };
    write_new(&args.file, &header.encode()[..])?;
    let document = Document {
        schema: "strongroom.header-backup/1",
        vault: args.vault.display().to_string(),
        vault_id: header.vault.to_string(),
        file: args.file.display().to_string(),
        authenticated,
        sequence: header.sequence,
        slots: slots::reports(&header),
    };
    print(&document, output, &format!("Backed the header up to {}.", document.file))
}

/// Writes a new file durably, or none.
fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error: std::io::Error| Failure::system(path, &error);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written.map_err(failed)
}

fn restore(args: &HeaderRestoreArgs, output: Output) -> Result<Exit> {
    let backup = read_backup(&args.file)?;
    LockedVault::open(&args.vault, OpenMode::Writable)?;
    VaultLock::settle(&args.vault, output);
    let refused = |error| Failure::from(error).at(&args.vault);
    let mut lock =
        VaultLock::acquire(&args.vault, LockMode::Exclusive, "header restore", None).map_err(refused)?;
    let locked = LockedVault::open(&args.vault, OpenMode::Writable)?;
    let (source, history) = (args.secret.source(), History::of(&args.history));
    history.admit_work(&args.file, std::slice::from_ref(&backup), source.kind())?;
    let credential = source.read("Password of the backup")?;
    let root =
        strongroom_keys::unlock(&backup, &credential).map_err(|error| explain(error).at(&args.file))?;
    if let Some(lock) = &mut lock {
        lock.tell(&root, backup.vault).map_err(refused)?;
    }
    let current: Vec<Header> =
        locked.headers().into_iter().filter(|header| verify_header(header, &root)).collect();
    let readable = locked.newest().ok();
    let foreign = readable.as_ref().is_some_and(|header| header.vault != backup.vault) && current.is_empty();
    if foreign || !belongs(&**locked.store(), &backup, &root)? {
        return Err(Failure::new(Exit::Damage, "the backup is of another vault")
            .at(&args.file)
            .hint("Nothing was changed."));
    }
    let newest = current.iter().max_by_key(|current| current.sequence);
    if let Some(newest) = newest {
        history.admit(&args.vault, newest, &**locked.store(), output)?;
    }
    let known = history.known(backup.vault);
    ask(&backup, newest, known.as_ref(), &history).map_err(|failure| failure.at(&args.vault))?;
    let mut header = backup;
    merge(&mut header, newest, &**locked.store())?;
    header.sequence = header.sequence.max(known.map_or(0, |known| known.sequence));
    write(&**locked.store(), &mut header, &root).map_err(|failure| failure.at(&args.vault))?;
    history.remember(&header, output);
    let document = Document {
        schema: "strongroom.header-restore/1",
        vault: args.vault.display().to_string(),
        vault_id: header.vault.to_string(),
        file: args.file.display().to_string(),
        authenticated: true,
        sequence: header.sequence,
        slots: slots::reports(&header),
    };
    print(&document, output, &format!("Restored the header of {}.", document.vault))
}

/// Says what putting back an older header does, and asks.
fn ask(backup: &Header, newest: Option<&Header>, known: Option<&Record>, history: &History) -> Result<()> {
    let now = newest.map(|newest| newest.sequence).max(known.map(|known| known.sequence));
    let Some(now) = now.filter(|&now| backup.sequence < now && !history.is_unasked()) else { return Ok(()) };
    let written = match backup.written {
        0 => String::new(),
        written => format!(", written {}", report::rfc3339(written)),
    };
    crate::report::tell(&format!(
        "The backup is of header number {}{written}; the vault's has been at number {now}. What opened the vault then \
         opens it again, passwords that were changed or removed since among it; what was added since does not.",
        backup.sequence
    ));
    match confirm("Put it back?", "Say --yes to put it back without being asked.")? {
        true => Ok(()),
        false => Err(Failure::new(Exit::Other, "the header was not put back").hint("Nothing was changed.")),
    }
}

fn write(store: &dyn Store, header: &mut Header, root: &RootKey) -> Result<()> {
    Ok(write_header(store, header, root)?)
}

fn read_backup(path: &Path) -> Result<Header> {
    let file = crate::opening::to_read(path).map_err(|error| Failure::system(path, &error))?;
    let mut bytes = Vec::new();
    file.take(LEN as u64 + 1).read_to_end(&mut bytes).map_err(|error| Failure::system(path, &error))?;
    Header::decode(&bytes).map_err(|error| {
        let exit = if error.is_unsupported() { Exit::Unsupported } else { Exit::Damage };
        Failure::new(exit, format!("this is no whole header: {error}")).at(path).hint("Nothing was changed.")
    })
}

/// Gives a restored header the sessions of now, and a sequence number above
/// every one before.
fn merge(header: &mut Header, newest: Option<&Header>, store: &dyn Store) -> Result<()> {
    match newest {
        Some(newest) => {
            header.has_freshness |= newest.has_freshness;
            header.sessions = newest.sessions.clone();
            header.sequence = header.sequence.max(newest.sequence);
        }
        None => {
            for session in journals(store)? {
                list_session(header, session);
            }
        }
    }
    Ok(())
}

/// The sessions whose journals lie in the vault.
fn journals(store: &dyn Store) -> Result<Vec<WriteSession>> {
    let private = store.root().lookup(strongroom_format::vault::names::VAULT_DIRECTORY.as_bytes())?;
    let mut sessions = Vec::new();
    for entry in private.entries()? {
        if let Some((session, _)) = parse_journal_name(&entry.name)
            && !sessions.contains(&session)
        {
            sessions.push(session);
        }
    }
    Ok(sessions)
}

fn list_session(header: &mut Header, id: WriteSession) {
    if header.session(id).is_some() {
        return;
    }
    if let Some(free) = header.sessions[..SESSIONS].iter_mut().find(|session| session.is_none()) {
        *free = Some(Session { id, state: SessionState::Open, opened: report::now() });
    }
}
