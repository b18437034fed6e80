//! `freshness accept`: the owner believes the vault, and the freshness file
//! records it as it is.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use serde::Serialize;
use strongroom_engine::Engine;
use strongroom_store::Store;
use strongroom_store::local::OpenMode;
use strongroom_vault::{Guards, OpenOptions, Recording, Trust, Vault};

use crate::args::FreshnessCommand;
use crate::args::freshness::FreshnessAcceptArgs;
use crate::failure::{Exit, Failure, Result};
use crate::freshness::{explain, trusted};
use crate::history::History;
use crate::lock::{LockMode, VaultLock};
use crate::report::{self, Output};
use crate::unlock::{LockedVault, Unlocked, unlock};

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    vault: String,
    file: String,
    path: Option<String>,
    /// There was no such file: it begins with the vault as it is.
    begun: bool,
    accepted: u64,
}

/// Does what is asked for.
///
/// # Errors
/// As unlocking; in use; usage for a path that there is not.
pub(crate) fn run(command: &FreshnessCommand, output: Output) -> Result<Exit> {
    match command {
        FreshnessCommand::Accept(args) => accept(args, output),
    }
}

fn accept(args: &FreshnessAcceptArgs, output: Output) -> Result<Exit> {
    LockedVault::open(&args.vault, OpenMode::Writable)?;
    VaultLock::settle(&args.vault, output);
    let lock = VaultLock::acquire(&args.vault, LockMode::Exclusive, "freshness accept", None);
    let mut lock = lock.map_err(|error| Failure::from(error).at(&args.vault))?;
    let trust = Trust::Vault { whole: args.path.is_none() };
    let history = History::of(&args.history);
    let file = trusted(&args.file, &args.vault, trust, true)?;
    let Unlocked { store, header, root, .. } =
        unlock(&args.vault, OpenMode::Writable, &args.secret, &history, output)?;
    if let Some(lock) = &mut lock {
        lock.tell(&root, header.vault).map_err(|error| Failure::from(error).at(&args.vault))?;
    }
    let engine: Arc<dyn Engine> = crate::compose::compose(None)?;
    let failed = |error| explain(error, &args.vault, Some(&args.file));
    let _ = strongroom_store::local::raise_file_limit();
    let store: Arc<dyn Store> = store;
    let id = header.vault;
    let guards = Guards {
        trusted: Some(file),
        fence: lock.as_ref().and_then(VaultLock::fence),
        witness: Some(history.witness(move |text| output.warn(text))),
    };
    let owners = rustix::process::geteuid().is_root();
    let options = OpenOptions { owners, guards, ..crate::tree::options(true) };
    let vault = Vault::open(store, engine, header, root, &options).map_err(failed)?;
    history.remember_freshness(id, &crate::daemon::launch::absolute(&args.file)?, output);
    let path = args.path.as_deref().map(|path| path.as_os_str().as_bytes());
    let accepted = vault.accept(path);
    vault.close().map_err(failed)?;
    let accepted = accepted.map_err(|error| match &args.path {
        Some(path) if error.is_not_found() => Failure::usage(
            "neither the vault nor the freshness file has this path, or a directory above it differs",
        )
        .at(path)
        .hint("Name it from the top of the vault, without a leading slash, as check does."),
        _ => failed(error),
    })?;
    let document = Document {
        schema: "strongroom.freshness-accept/1",
        vault: args.vault.display().to_string(),
        file: args.file.display().to_string(),
        path: path.map(|path| String::from_utf8_lossy(path).into_owned()),
        begun: vault.recording() == Some(Recording::New),
        accepted,
    };
    output.print(&document, |document| match document.accepted {
        _ if document.begun => format!(
            "{} is new: it records the whole vault as it is now, and vouches for nothing before.\n",
            report::shown(document.file.as_bytes())
        ),
        0 => "Nothing differed.\n".to_owned(),
        1 => "1 difference accepted.\n".to_owned(),
        count => format!("{count} differences accepted.\n"),
    })?;
    Ok(Exit::Done)
}
