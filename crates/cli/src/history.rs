//! What this machine remembers of vaults, so that an older state of one is
//! noticed: the highest sequence number of a header that it has seen
//! (`docs/rollback.md`).
//!
//! Nothing is remembered that the root key has not verified, nor what is not
//! durable: whoever can write to the store can neither raise what is
//! remembered, nor can a power cut make a sound vault look older. Remembering
//! costs one small file, written when a header is; no write to the vault
//! waits for it. What goes wrong with the file is a warning and keeps nobody
//! out.

mod record;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use strongroom_format::vault::VaultId;
use strongroom_format::vault::header::Header;
use strongroom_store::Store;
use strongroom_vault::{HeaderWitness, sync_header_copies};

pub(crate) use self::record::{Record, SeenFile, SeenFiles};
use crate::args::history::HistoryArgs;
use crate::daemon::launch;
use crate::failure::{Exit, Failure, Result};
use crate::report::{self, Output};
use crate::secrets::confirm;

/// Where root's records lie.
const SYSTEM: &str = "/var/lib/strongroom";

/// With `off`, nothing is compared or remembered.
const SWITCH: &str = "STRONGROOM_HISTORY";

/// What to do where nobody can be asked.
const UNASKED: &str = "Say --yes to accept it without being asked.";

/// What is remembered, and what a command does with it.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// Where records lie; none when nothing is to be remembered.
    directory: Option<PathBuf>,
    /// An older vault is taken as it is, after asking.
    accept: bool,
    /// Without asking.
    yes: bool,
    /// The user has been told that nothing can be remembered.
    told: Arc<AtomicBool>,
}

impl History {
    /// As the arguments and the environment say.
    pub(crate) fn of(args: &HistoryArgs) -> History {
        let off = args.no_history || std::env::var_os(SWITCH).is_some_and(|value| value == "off");
        let directory = if off { None } else { directory() };
        // Who started the daemon has asked already.
        let yes = args.yes || launch::is_daemon();
        History { directory, accept: args.accept_rollback, yes, told: Arc::default() }
    }

    /// Nothing is compared or remembered.
    pub(crate) fn off() -> History {
        History { directory: None, accept: false, yes: false, told: Arc::default() }
    }

    /// As the environment says, for commands that make a vault.
    pub(crate) fn of_environment() -> History {
        History::of(&HistoryArgs::default())
    }

    /// Whether questions are answered by yes.
    pub(crate) fn is_unasked(&self) -> bool {
        self.yes
    }

    /// Refuses a vault that is older than it was, unless that is accepted, and
    /// remembers a newer one. The root key has verified `header`.
    ///
    /// # Errors
    /// Damage when it is older; usage when nobody can be asked.
    pub(crate) fn admit(
        &self,
        path: &Path,
        header: &Header,
        store: &dyn Store,
        output: Output,
    ) -> Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let known = match record::read(directory, header.vault) {
            Ok(known) => known,
            Err(why) => {
                output.warn(&unusable(directory, header.vault, &why));
                // The way out: the owner says that the vault is as it should be.
                if self.accept {
                    self.ask(path, "What this machine remembers of it will be forgotten.")?;
                    self.keep(header, true, |text| output.warn(text));
                }
                return Ok(());
            }
        };
        match known {
            Some(known) if header.sequence < known.sequence => {
                if !self.accept {
                    return Err(older(path, header, &known));
                }
                self.ask(path, &format!("It is an older state of the vault: {}.", compared(header, &known)))?;
                self.keep(header, true, |text| output.warn(text));
            }
            Some(known) if header.sequence == known.sequence => {}
            // What a writer has just renamed, and not synced, may be gone after a power cut.
            _ if sync_header_copies(store).is_err() => {}
            _ => self.keep(header, false, |text| output.warn(text)),
        }
        Ok(())
    }

    /// Asks before a daemon is started, which has no terminal: whether a copy
    /// of the header, of which nothing is authenticated yet, is older.
    ///
    /// # Errors
    /// Usage when nobody can be asked; damage when the answer is no.
    pub(crate) fn ask_early(&self, path: &Path, headers: &[Header]) -> Result<()> {
        let older = headers.iter().filter_map(|header| {
            let known = self.known(header.vault).filter(|known| header.sequence < known.sequence)?;
            Some((header, known))
        });
        match older.max_by_key(|(header, _)| header.sequence) {
            Some((header, known)) if self.accept => {
                let what = format!("This may be an older state of the vault: {}.", compared(header, &known));
                self.ask(path, &what)
            }
            _ => Ok(()),
        }
    }

    fn ask(&self, path: &Path, what: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        crate::report::tell(&format!("{}: {what}", path.display()));
        match confirm("Take the vault as it is?", UNASKED)? {
            true => Ok(()),
            false => Err(Failure::new(Exit::Damage, "the older state was not accepted")
                .at(path)
                .hint("Nothing was changed.")),
        }
    }

    /// What is remembered of a vault, where that can be read.
    pub(crate) fn known(&self, vault: VaultId) -> Option<Record> {
        record::read(self.directory.as_deref()?, vault).ok().flatten()
    }

    /// Remembers a header that this process has written durably.
    pub(crate) fn remember(&self, header: &Header, output: Output) {
        self.keep(header, false, |text| output.warn(text));
    }

    /// Remembers each header that a vault writes from now on. `tell` is told
    /// of the first that could not be.
    pub(crate) fn witness(&self, tell: impl Fn(&str) + Send + Sync + 'static) -> HeaderWitness {
        let history = self.clone();
        Arc::new(move |header| history.keep(header, false, &tell))
    }

    /// Remembers that the vault was open with this freshness file.
    pub(crate) fn remember_freshness(&self, vault: VaultId, file: &Path, output: Output) {
        let path = file.to_string_lossy().into_owned();
        self.update(
            vault,
            |known| {
                let known = known?;
                let is_same = known.freshness.as_ref().is_some_and(|seen| seen.path == path);
                let seen = SeenFile { path: path.clone(), seen: report::now() };
                Some(if is_same { known } else { Record { freshness: Some(seen), ..known } })
            },
            |text| output.warn(text),
        );
    }

    /// How far checks by time have come in a vault.
    pub(crate) fn scrub(&self, vault: VaultId) -> Option<SeenFiles> {
        self.known(vault)?.scrub
    }

    /// Whether anything can be remembered.
    pub(crate) fn is_on(&self) -> bool {
        self.directory.is_some()
    }

    /// Remembers how far a check by time has come; with `None`, that a pass is
    /// complete. False where that cannot be remembered: nothing can, or the record of the vault is damaged.
    pub(crate) fn remember_scrub(&self, vault: VaultId, scrub: Option<SeenFiles>, output: Output) -> bool {
        let mut is_kept = false;
        let change = |known: Option<Record>| {
            is_kept = known.is_some();
            Some(Record { scrub, ..known? })
        };
        self.update(vault, change, |text| output.warn(text)) && is_kept
    }

    /// Keeps the header's sequence number if it is higher than what is
    /// remembered, or in any case.
    fn keep(&self, header: &Header, in_any_case: bool, tell: impl FnOnce(&str)) {
        let change = |known: Option<Record>| match known {
            Some(known) if known.sequence >= header.sequence && !in_any_case => None,
            known => {
                let new = Record::new(header.vault, header.sequence, header.written, report::now());
                let work = work::of(header).max(known.as_ref().map_or(0, |known| known.work));
                let (freshness, scrub) =
                    known.map(|known| (known.freshness, known.scrub)).unwrap_or_default();
                Some(Record { work, freshness, scrub, ..new })
            }
        };
        // A damaged record stays until it is accepted, as its warning says.
        match self.directory.as_deref().map(|directory| record::read(directory, header.vault)) {
            Some(Err(_)) if !in_any_case => {}
            _ => {
                self.update(header.vault, change, tell);
            }
        }
    }

    /// False where nothing can be remembered.
    fn update(
        &self,
        vault: VaultId,
        change: impl FnOnce(Option<Record>) -> Option<Record>,
        tell: impl FnOnce(&str),
    ) -> bool {
        let Some(directory) = &self.directory else { return false };
        let updated = record::update(directory, vault, change);
        if let Err(why) = &updated
            && !self.told.swap(true, Ordering::Relaxed)
        {
            tell(&format!(
                "{}: {why}: this machine cannot remember how new the vault is, and would not notice an older state \
                 of it (make the directory writable, name another with XDG_STATE_HOME, or say --no-history)",
                directory.display()
            ));
        }
        updated.is_ok()
    }
}

/// Where records lie: as the XDG base directory specification says, and for
/// root in the system's place.
fn directory() -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match variable("XDG_STATE_HOME") {
        Some(state) => Some(state.join("strongroom")),
        None if is_root => Some(SYSTEM.into()),
        None => variable("HOME").map(|home| home.join(".local/state/strongroom")),
    }
}

/// A header's number with its date.
fn numbered(sequence: u64, written: u64) -> String {
    match written {
        0 => format!("number {sequence}"),
        written => format!("number {sequence}, written {}", report::rfc3339(written)),
    }
}

fn compared(header: &Header, known: &Record) -> String {
    format!(
        "its header has {}; this machine has seen {}, on {}",
        numbered(header.sequence, header.written),
        numbered(known.sequence, known.written),
        report::rfc3339(known.seen)
    )
}

fn older(path: &Path, header: &Header, known: &Record) -> Failure {
    let message = format!("the vault is older than this machine has seen it: {}", compared(header, known));
    Failure::new(Exit::Damage, message).at(path).hint(
        "Whoever keeps the store has put an older state in its place, or you have: compare with a backup. To take it \
         as it is: --accept-rollback. To look into a copy of the vault that is kept besides: --no-history.",
    )
}

fn unusable(directory: &Path, vault: VaultId, why: &str) -> String {
    format!(
        "{}: {why}: what this machine remembers of the vault cannot be used, and an older state of it would not \
         be noticed (if you know the vault to be as it should, begin anew with --accept-rollback)",
        record::file(directory, vault).display()
    )
}
