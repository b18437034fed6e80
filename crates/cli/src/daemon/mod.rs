//! Serving a mount, from the unlocked vault to its end.
//!
//! The process has the lock of the vault, the engines and the vault open
//! before it mounts; it is ready when the kernel has been answered; it ends
//! when the mount is gone, with the vault closed before the lock. Threads:
//! those of the session, of the vault and its engines, one for signals, one
//! that hears whether the machine was copied, one
//! that looks after the log and idleness, one that has the kernel forget
//! inodes, and one per control connection.

pub(crate) mod ending;
mod generation;
pub(crate) mod launch;
pub(crate) mod log;
mod pruning;
pub(crate) mod server;
pub(crate) mod status;
pub(crate) mod unmounting;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::Errno;
use signal_hook::iterator::Signals;
use strongroom_engine::Engine;
use strongroom_format::vault::header::Header;
use strongroom_format::vault::names::VAULT_DIRECTORY;
use strongroom_fuse::adapter::{Adapter, DamageLog, Timeouts};
use strongroom_fuse::{
    Ended, Mount, MountError, MountErrorKind, MountOptions, Session, SessionError, SessionHandle,
    SessionOptions, TransportChoice,
};
use strongroom_sched::{Objective, Scheduler, Settings};
use strongroom_store::local::{LocalStore, OpenMode};
use strongroom_vault::{Guards, OpenOptions, Rules, Trust, Vault, Writers};

use self::ending::Ending;
use self::launch::Ready;
use self::server::{News, Server};
use crate::args::values::LogTarget;
use crate::compose::{Composed, compose_for};
use crate::confinement;
use crate::control::mounts::{self, DeviceNumber};
use crate::failure::{Exit, Failure, Result};
use crate::freshness;
use crate::history::History;
use crate::lock::{LockError, LockMode, Takeover, VaultLock};
use crate::meter::Metered;
use crate::profile::Profile;
use crate::report::{self, Output};
use crate::secrets::Source;
use crate::secrets::terminal::Input;
use crate::trace::{Subject, Tracing};
use crate::unlock::{LockedVault, Unlocked};

/// Open files that every process may have, where more cannot be had.
const FILE_LIMIT_UNKNOWN: u64 = 1024;

/// What is to be mounted and how. All paths are absolute.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The encrypted directory.
    pub(crate) vault: PathBuf,
    /// The mount point.
    pub(crate) directory: PathBuf,
    /// How it is mounted.
    pub(crate) mount: MountOptions,
    /// Stay in the foreground.
    pub(crate) foreground: bool,
    /// Give up what is not needed.
    pub(crate) confined: bool,
    /// Unmount after this long without use.
    pub(crate) idle: Option<Duration>,
    /// Name of the engine.
    pub(crate) engine: Option<String>,
    /// How requests come from the kernel.
    pub(crate) transport: TransportChoice,
    /// How batches are placed, as words of the form `NAME=VALUE`.
    pub(crate) placing: Vec<String>,
    /// Where messages go.
    pub(crate) log: Option<LogTarget>,
    /// Messages may have plain names.
    pub(crate) log_names: bool,
    /// Wait for no barriers.
    pub(crate) relaxed: bool,
    /// Bytes of the journal.
    pub(crate) journal_len: u64,
    /// The freshness file.
    pub(crate) freshness: Option<PathBuf>,
    /// Whether that is believed.
    pub(crate) trust: Trust,
    /// What this machine remembers.
    pub(crate) history: History,
    /// From whom the lock may be taken.
    pub(crate) takeover: Takeover,
    /// Where the secret is to be had.
    pub(crate) source: Source,
}

impl Plan {
    /// Whether nothing may be changed.
    pub(crate) fn is_read_only(&self) -> bool {
        self.mount.read_only
    }

    /// Whether it reads beside whoever writes. A freshness file says what was
    /// there at one time, and is held against what nobody changes meanwhile.
    pub(crate) fn follows(&self) -> bool {
        self.is_read_only() && self.freshness.is_none()
    }

    /// Who else may write to the vault.
    fn writers(&self) -> Writers {
        match self.follows() {
            false => Writers::KeptOut,
            true if VaultLock::writer(&self.vault).is_some() => Writers::Present,
            true => Writers::MayCome,
        }
    }

    /// How the store is opened.
    pub(crate) fn store_mode(&self) -> OpenMode {
        if self.is_read_only() { OpenMode::ReadOnly } else { OpenMode::Writable }
    }

    /// What is asked for on the terminal.
    pub(crate) fn prompt(&self) -> String {
        format!("Password of {}", self.vault.display())
    }

    /// Why the vault could not be locked.
    pub(crate) fn in_use(&self, error: LockError) -> Failure {
        let beside = match &error {
            LockError::Held(Some(holder)) if self.is_read_only() && holder.is_here() => {
                holder.mount_point.as_ref().map(|at| report::shown(at.as_os_str().as_encoded_bytes()))
            }
            _ => None,
        };
        let failure = Failure::from(error).at(&self.vault);
        match beside {
            Some(at) => failure.hint(format!(
                "Read what is mounted there (mount -o bind,ro {at} DIR), or unmount it first: strongroom umount {at}"
            )),
            None => failure,
        }
    }

    fn durability_name(&self) -> &'static str {
        if self.relaxed { "relaxed" } else { "full" }
    }

    /// How the vault is opened, but for what guards and observes it.
    fn vault_options(&self) -> OpenOptions {
        OpenOptions {
            writable: !self.is_read_only(),
            writers: self.writers(),
            rules: if self.relaxed { Rules::RELAXED } else { Rules::STRICT },
            journal_len: self.journal_len,
            owners: rustix::process::geteuid().is_root(),
            background: true,
            ..OpenOptions::new(report::now())
        }
    }
}

/// A mount that is served.
pub(crate) struct Daemon {
    plan: Plan,
    vault: Arc<Vault>,
    engines: Arc<Scheduler>,
    /// The scheduler as the vault has it, with a clock.
    metered: Arc<Metered>,
    /// What is recorded of its load, when somebody wants that.
    tracing: Arc<Tracing>,
    /// The vault's store, which knows how long the system took.
    local: Arc<LocalStore>,
    /// What was measured on this machine before.
    profile: Option<Profile>,
    damage: Arc<DamageLog>,
    adapter: Arc<Adapter>,
    session: SessionHandle,
    device: DeviceNumber,
    since: u64,
    /// What the log tells of already.
    news: Mutex<News>,
    ending: Ending,
}

impl Daemon {
    /// Does as these settings say: where batches are computed, and whether CPU
    /// time is spent on being awake when a request comes.
    fn applies(&self, settings: Settings) {
        self.engines.set(settings);
        self.session.allow_polling(settings.objective != Objective::Cpu);
    }

    /// What a trace is of.
    fn traced(&self) -> Subject {
        let header = self.vault.header();
        Subject {
            of: "mount",
            algorithm: header.suite.name().to_owned(),
            block_size_bytes: header.block_size.bytes(),
        }
    }
}

/// Serves as the process that [`launch::start`] has started, and tells it of
/// any failure until the mount is ready, and the log from then on.
pub(crate) fn run_launched(plan: &Plan, output: Output) -> Exit {
    launch::served(plan.log.as_ref(), plan.log_names, |ready| {
        let credential = launch::receive(Input::standard())?;
        let locked = LockedVault::open(&plan.vault, plan.store_mode())?;
        let unlocked = locked.unlock_for_use(&plan.vault, &credential, &plan.history, output)?;
        drop(credential);
        serve(plan, unlocked, ready, output)
    })
}

/// Serves in this process until the mount is gone.
///
/// # Errors
/// What kept it from mounting, or from closing the vault.
pub(crate) fn run_foreground(plan: &Plan, locked: LockedVault, output: Output) -> Result<()> {
    launch::in_foreground(plan.log.as_ref(), plan.log_names, |ready| {
        let credential = plan.source.read(&plan.prompt())?;
        let unlocked = locked.unlock_for_use(&plan.vault, &credential, &plan.history, output)?;
        drop(credential);
        serve(plan, unlocked, ready, output)
    })
}

/// Serves an unlocked vault. `ready` is called once, when the mount is.
fn serve(plan: &Plan, unlocked: Unlocked, ready: Ready, output: Output) -> Result<()> {
    let file_limit = prepare_process();
    confinement::drop_capabilities(plan.confined);
    // Before anything is mounted, so that none can leave a mount behind.
    let signals = unmounting::signals()?;
    let mode = if plan.is_read_only() { LockMode::Shared } else { LockMode::Exclusive };
    let locked =
        || VaultLock::acquire_from(&plan.vault, mode, "mount", Some(&*plan.directory), plan.takeover);
    // Who follows a writer keeps none out.
    let (root, id) = (&unlocked.root, unlocked.header.vault);
    let refused = |error: LockError| not_locked(plan, error.revealed(root, id));
    let mut lock = if plan.follows() { None } else { locked().map_err(refused)? };
    if let Some(lock) = &mut lock {
        lock.tell(root, id).map_err(refused)?;
    }
    // The header may have changed between unlocking and locking.
    let header = header_now(plan, &unlocked)?;
    let algorithm = strongroom_vault::algorithm(header.suite);
    let Composed { scheduler: engines, profile, remark } =
        compose_for(plan.engine.as_deref(), &plan.placing, Some(algorithm))?;
    if let Some(remark) = remark {
        tracing::warn!("{remark}");
    }
    let damage = Arc::new(DamageLog::new());
    let Unlocked { store, root, .. } = unlocked;
    let tracing = Tracing::new(Arc::clone(&engines));
    let metered = Arc::new(Metered::new(tracing.engine()));
    let (engine, local) = (Arc::clone(&metered) as Arc<dyn Engine>, Arc::clone(&store));
    let file = plan.freshness.as_deref();
    let writable = !plan.is_read_only();
    let trusted = file.map(|file| freshness::trusted(file, &plan.vault, plan.trust, writable)).transpose()?;
    let guards = Guards {
        trusted,
        fence: lock.as_ref().and_then(VaultLock::fence),
        witness: Some(plan.history.witness(|text| tracing::warn!("{text}"))),
    };
    freshness::check_missing(plan, header.vault)?;
    let options = OpenOptions { guards, observer: Arc::clone(&damage) as Arc<_>, ..plan.vault_options() };
    let vault =
        Vault::open(store, engine, header, root, &options).map_err(|error| not_opened(plan, error))?;
    match file {
        Some(file) => {
            freshness::tell(&vault, file, output);
            plan.history.remember_freshness(vault.header().vault, file, output);
        }
        None => freshness::tell_unused(&plan.history, vault.header().vault, output),
    }
    let vault = Arc::new(vault);
    let opened = Opened { vault, engines, metered, tracing, local, profile, damage, file_limit };
    let (daemon, outcome) = match mounted(plan, &opened, ready, signals) {
        Ok(ended) => ended,
        Err(failure) => {
            // Nothing was changed; what was begun is ended cleanly.
            let _ = opened.vault.close();
            return Err(failure);
        }
    };
    // Whoever is told of the end may use the vault at once.
    drop(lock);
    daemon.ending.conclude(outcome)
}

/// The journal takes its whole room before anything is written.
fn not_opened(plan: &Plan, error: strongroom_vault::Error) -> Failure {
    let hint = (!plan.is_read_only()).then(|| no_room(&error, plan.journal_len)).flatten();
    let failure = freshness::explain(error, &plan.vault, plan.freshness.as_deref());
    hint.into_iter().fold(failure, Failure::hint)
}

/// What to do where a store has no room for a mount.
fn no_room(error: &strongroom_vault::Error, journal_len: u64) -> Option<String> {
    let strongroom_vault::Error::Store(error) = error else { return None };
    let full = [Errno::NOSPC, Errno::DQUOT].map(Errno::raw_os_error);
    full.contains(&error.errno()).then(|| {
        format!(
            "A mount for writing takes {} for the journal: free some space there, or give the journal less with \
             --journal-size, at least 16MiB. What is in the vault is unharmed.",
            report::bytes(journal_len)
        )
    })
}

fn not_locked(plan: &Plan, error: LockError) -> Failure {
    let read_only = matches!(error, LockError::System(_, Errno::ROFS));
    let failure = plan.in_use(error);
    if read_only { failure.hint("It cannot be written to: use --read-only.") } else { failure }
}

/// A vault that is open, and what serves it.
struct Opened {
    vault: Arc<Vault>,
    engines: Arc<Scheduler>,
    metered: Arc<Metered>,
    tracing: Arc<Tracing>,
    local: Arc<LocalStore>,
    profile: Option<Profile>,
    damage: Arc<DamageLog>,
    /// Files that this process may have open.
    file_limit: u64,
}

/// Mounts, serves, and closes the vault.
///
/// # Errors
/// What kept it from serving; the vault is still open then.
fn mounted(
    plan: &Plan,
    opened: &Opened,
    ready: Ready,
    signals: Signals,
) -> Result<(Arc<Daemon>, Result<()>)> {
    let Opened { vault, engines, metered, tracing, local, profile, damage, file_limit } = opened;
    let mount = Mount::new(&plan.directory, &plan.mount).map_err(explain)?;
    let device = mounts::at(mount.path())?.device;
    let timeouts = if plan.is_read_only() { Timeouts::SHARED } else { Timeouts::SOLE };
    let adapter =
        Arc::new(Adapter::new(Arc::clone(vault), Arc::clone(damage), timeouts, Box::new(move || ready())));
    // Beside a writer the kernel must ask for lengths, which under write-back
    // it keeps itself, and for data, which it may hold for one opening alone.
    let options = SessionOptions {
        writeback_cache: !plan.is_read_only(),
        prefetch: !plan.is_read_only(),
        // A device that loses work keeps its memory.
        buffers_return: engines.is_all_inline(strongroom_vault::algorithm(vault.header().suite)),
        transport: plan.transport,
        ..SessionOptions::default()
    };
    let together = options.threads_together();
    let session = Session::new(mount, Arc::clone(&adapter), options).tapped(Arc::clone(tracing) as Arc<_>);
    adapter.attach(&session.handle(), together);
    let daemon = Arc::new(Daemon {
        plan: plan.clone(),
        vault: Arc::clone(vault),
        engines: Arc::clone(engines),
        metered: Arc::clone(metered),
        tracing: Arc::clone(tracing),
        local: Arc::clone(local),
        profile: profile.clone(),
        damage: Arc::clone(damage),
        adapter,
        session: session.handle(),
        device,
        since: report::now(),
        news: Mutex::default(),
        ending: Ending::default(),
    });
    daemon.applies(engines.settings());
    let server = Server::bind_for(device)?;
    let asked = Arc::clone(&daemon);
    server.start(move |request, stream| server::converse(&asked, request, stream))?;
    unmounting::on_signals(&daemon, signals)?;
    unmounting::look_after(&daemon)?;
    generation::listen(&daemon)?;
    pruning::start(&daemon, *file_limit)?;
    let (from, to) = (plan.vault.display(), plan.directory.display());
    tracing::info!("mounted {from} at {to}, control socket {}", server.path().display());
    confinement::restrict(plan.confined, session.handle().unmounts_by());
    let confined = confinement::standing();
    tracing::info!("confined: {confined}");
    if plan.mount.allow_other && plan.vault_options().owners && !plan.is_read_only() {
        tracing::info!("for all users the store is written to as root, past its quotas and reserves");
    }
    let ran = session.run();
    daemon.ending.served();
    daemon.log_news();
    let outcome = verdict(plan, ran, vault.close());
    tracing::info!("unmounted {from}");
    Ok((daemon, outcome))
}

/// How serving and closing went, of which closing matters more.
fn verdict(
    plan: &Plan,
    ran: std::result::Result<Ended, SessionError>,
    closed: strongroom_vault::Result<()>,
) -> Result<()> {
    if let Err(error) = closed {
        let failure = Failure::from(error).at(&plan.vault);
        let message = format!("the vault could not be closed cleanly: {}", failure.message());
        return Err(Failure::new(failure.exit(), message).hint(what_is_left(&plan.vault)));
    }
    match ran {
        Ok(Ended::Unmounted | Ended::Aborted) => Ok(()),
        Err(error @ (SessionError::Kernel(_) | SessionError::Transport(_))) => {
            Err(Failure::new(Exit::Unsupported, error.to_string()))
        }
        Err(error) => Err(Failure::new(Exit::Other, error.to_string())),
    }
}

/// What a vault has that was not closed.
fn what_is_left(vault: &Path) -> String {
    let found = std::fs::symlink_metadata(vault.join(VAULT_DIRECTORY));
    match found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        true => format!(
            "The vault is no longer at {}: bring it back, or restore a backup. What was not synced may be lost.",
            report::shown(vault.as_os_str().as_encoded_bytes())
        ),
        false => "What was synced is safe; what was not may be lost. The next mount recovers what it can."
            .to_owned(),
    }
}

/// The header as it is now that nobody else may change it.
fn header_now(plan: &Plan, unlocked: &Unlocked) -> Result<Header> {
    let newest = LockedVault::open(&plan.vault, plan.store_mode())?.newest()?;
    let authentic = strongroom_keys::slots::verify_header(&newest, &unlocked.root);
    // What was admitted is not exchanged for something older.
    let is_newer = authentic && newest.sequence >= unlocked.header.sequence;
    Ok(if is_newer { newest } else { unlocked.header.clone() })
}

/// Modes exactly as asked for, and room for open files: how many there may be.
fn prepare_process() -> u64 {
    rustix::process::umask(Mode::empty());
    let file_limit = strongroom_store::local::raise_file_limit().unwrap_or(FILE_LIMIT_UNKNOWN);
    // The memory that the key derivation took is given back; the most that was
    // resident shall be told of serving alone. Where that is not permitted the
    // figure includes it.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    file_limit
}

/// Why nothing was mounted, with what to do.
pub(crate) fn explain(error: MountError) -> Failure {
    let message = error.to_string();
    let (exit, hint) = match error.kind() {
        MountErrorKind::NotFound => (Exit::Usage, "Make the directory first."),
        MountErrorKind::NotDirectory | MountErrorKind::NotEmpty => (Exit::Usage, "Use an empty directory."),
        MountErrorKind::AlreadyMounted => (Exit::InUse, "Use another directory, or unmount that first."),
        MountErrorKind::Stale => (Exit::InUse, "Unmount it with: strongroom umount DIR"),
        MountErrorKind::Busy => (Exit::InUse, "Close what is open there."),
        MountErrorKind::NotPermitted => {
            (Exit::Other, "Install fuse3, whose fusermount3 lets users mount, or mount as root.")
        }
        MountErrorKind::NoDevice => (Exit::Unsupported, "Load the module: modprobe fuse."),
        MountErrorKind::NoProgram => (
            Exit::Unsupported,
            "Install fuse3. Root does without it, with CAP_SYS_ADMIN and a /dev/fuse that it may open: \
             a container wants --device /dev/fuse --cap-add SYS_ADMIN.",
        ),
        MountErrorKind::Refused => (
            Exit::Other,
            "Users must be able to open /dev/fuse (mode 0666), and for --allow-other /etc/fuse.conf must have \
             user_allow_other.",
        ),
        MountErrorKind::Source => (Exit::Usage, "Use another --fsname."),
        MountErrorKind::NotMounted | MountErrorKind::NotListed | MountErrorKind::System => {
            return Failure::new(Exit::Other, message);
        }
    };
    Failure::new(exit, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_room_for_the_journal_is_told_of_its_size() {
        let error = |errno| strongroom_vault::Error::Store(strongroom_store::Error::new(errno, "fallocate"));
        let hint = no_room(&error(28), 64 << 20).expect("ENOSPC");
        assert!(hint.contains("64 MiB for the journal") && hint.contains("--journal-size"), "{hint}");
        assert_eq!(no_room(&error(5), 64 << 20), None);
    }

    #[test]
    fn of_a_vault_that_has_gone_nothing_is_promised() {
        let directory = tempfile::tempdir().expect("a directory");
        let gone = what_is_left(directory.path());
        assert!(gone.contains("no longer at") && !gone.contains("safe"), "{gone}");
        std::fs::create_dir(directory.path().join(VAULT_DIRECTORY)).expect("made");
        let there = what_is_left(directory.path());
        assert!(there.contains("What was synced is safe; what was not may be lost"), "{there}");
    }
}
