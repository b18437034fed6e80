//! `mount`: checks what can be checked before a secret is asked for, and has
//! a daemon serve.

mod helper;
mod options;
mod remount;

use std::path::Path;

use strongroom_fuse::TransportChoice;
use strongroom_vault::Trust;

use crate::args::MountArgs;
use crate::args::mount::Durability;
use crate::args::values::LogTarget;
use crate::control::mounts;
use crate::daemon::launch::{self, absolute};
use crate::daemon::{self, Plan};
use crate::failure::{Exit, Failure, Result};
use crate::history::History;
use crate::lock::{Holder, LockError, Takeover, VaultLock};
use crate::report::Output;
use crate::unlock::LockedVault;

pub(crate) use self::helper::run as helper;

/// Mounts, and returns when the mount is ready, or in the foreground when it
/// is gone.
///
/// # Errors
/// What kept it from mounting, with the daemon's own code.
pub(crate) fn run(args: &MountArgs, output: Output) -> Result<Exit> {
    run_with(args, options::Strictness::Strict, output)
}

fn run_with(args: &MountArgs, strictness: options::Strictness, output: Output) -> Result<Exit> {
    let plan = plan(args, strictness)?;
    if launch::is_daemon() {
        return Ok(daemon::run_launched(&plan, output));
    }
    // Before a secret is asked for: names of engines are for people to mistype.
    check_mount_point(&plan)?;
    let locked = LockedVault::open(&plan.vault, plan.store_mode())?;
    if !plan.follows() {
        VaultLock::settle(&plan.vault, output);
    }
    let may_take = |holder: &Holder| plan.takeover.covers(holder);
    let holder = if plan.follows() { None } else { VaultLock::holder(&plan.vault) };
    if let Some(holder) = holder.as_ref().filter(|holder| may_take(holder)) {
        output.warn(&match plan.is_read_only() {
            true => format!(
                "reading although {holder} has the vault: if it still writes, files may seem older or damaged"
            ),
            false => format!(
                "taking the vault over from {holder}: what was not synced there is lost, and if it still writes, \
                 files that both change are damaged"
            ),
        });
    }
    // One that the vault's key tells of is refused when that is there.
    if let Some(holder) = holder.filter(|holder| !may_take(holder) && !holder.is_sealed()) {
        return Err(plan.in_use(LockError::Held(Some(holder))));
    }
    locked.check_slots(&plan.vault, &plan.source, &plan.history)?;
    if plan.foreground {
        daemon::run_foreground(&plan, locked, output)?;
    } else {
        plan.history.ask_early(&plan.vault, &locked.headers())?;
        drop(locked);
        launch::start(&plan.source, &plan.prompt())?;
    }
    Ok(Exit::Done)
}

/// What the arguments come to.
fn plan(args: &MountArgs, strictness: options::Strictness) -> Result<Plan> {
    let vault = args.vault.canonicalize().map_err(|error| {
        Failure::system(&args.vault, &error).hint("Name the directory that `strongroom init` made.")
    })?;
    let mut plan = Plan {
        directory: mount_point(&args.directory)?,
        mount: strongroom_fuse::MountOptions {
            source: vault.to_string_lossy().into_owned(),
            ..strongroom_fuse::MountOptions::default()
        },
        vault,
        foreground: args.foreground,
        confined: !args.no_confinement,
        idle: None,
        engine: None,
        transport: TransportChoice::default(),
        placing: Vec::new(),
        log: None,
        log_names: args.log_names,
        relaxed: args.durability == Durability::Relaxed,
        journal_len: args.journal_size,
        freshness: None,
        trust: if args.new_freshness { Trust::Begin } else { Trust::Record },
        history: History::of(&args.history),
        takeover: if args.takeover { Takeover::Elsewhere } else { Takeover::Refuse },
        source: args.secret.source(),
    };
    options::apply(&mut plan, &args.options, strictness)?;
    // What stands in an option of its own counts more than a word after -o.
    plan.mount.read_only |= args.read_only;
    plan.mount.allow_other |= args.allow_other;
    plan.idle = args.idle.or(plan.idle);
    plan.engine = args.engine.clone().or(plan.engine);
    plan.transport = args.transport.map_or(plan.transport, TransportChoice::from);
    plan.log = args.log.clone().or(plan.log);
    if let Some(name) = &args.fsname {
        plan.mount.source.clone_from(name);
    }
    if let Some(LogTarget::File(path)) = &mut plan.log {
        *path = absolute(path)?;
    }
    plan.freshness = args.freshness.clone().or(plan.freshness);
    if let Some(path) = &mut plan.freshness {
        *path = absolute(path)?;
    }
    if plan.freshness.is_none() && args.new_freshness {
        return Err(Failure::usage("--new-freshness begins a file that --freshness names")
            .hint("Say --freshness FILE --new-freshness."));
    }
    if plan.freshness.is_some() && plan.relaxed {
        return Err(Failure::usage(
            "a freshness file cannot record what relaxed durability makes of a vault",
        )
        .hint("Leave out --freshness, or --durability relaxed."));
    }
    if plan.journal_len < strongroom_vault::OpenOptions::JOURNAL_LEN_MIN {
        return Err(Failure::usage("the journal has at least 16MiB").hint("Use a larger --journal-size."));
    }
    Ok(plan)
}

/// The mount point without symlinks. One that has a mount already is not
/// entered: its daemon may not answer.
fn mount_point(path: &Path) -> Result<std::path::PathBuf> {
    if !launch::is_daemon() {
        mounts::check_free(path)?;
    }
    path.canonicalize().map_err(|error| Failure::system(path, &error).hint("Make the directory first."))
}

/// Refuses what mounting would refuse, and a place inside of the vault, which
/// the vault could then not be read through.
fn check_mount_point(plan: &Plan) -> Result<()> {
    let directory = &plan.directory;
    if directory.starts_with(&plan.vault) {
        return Err(Failure::usage("the mount point lies in the vault")
            .at(directory)
            .hint("Use another directory."));
    }
    let mut entries = std::fs::read_dir(directory).map_err(|error| Failure::system(directory, &error))?;
    if entries.next().is_some() && !plan.mount.allow_nonempty {
        return Err(Failure::usage("the mount point is not empty")
            .at(directory)
            .hint("Use an empty directory."));
    }
    Ok(())
}
