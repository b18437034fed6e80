//! What makes the daemon unmount: a signal, idleness, a request.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use strongroom_fuse::{MountErrorKind, SessionHandle, UnmountMode};

use super::Daemon;
use crate::control::holders;
use crate::failure::{Exit, Failure, Result};
use crate::umount::in_use;

/// How long a signal lets open files be closed before the mount is detached.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often that is tried.
const RETRY_EVERY: Duration = Duration::from_millis(100);
/// How long the kernel's connection may outlive the mount before something is
/// taken to hold it: the call that unmounts has ended it as a rule.
pub(crate) const HELD_AFTER: Duration = Duration::from_secs(2);
/// How often the daemon looks after itself.
const TICK: Duration = Duration::from_secs(1);
/// The shortest time between two looks at whether a mount is idle.
const TICK_MIN: Duration = Duration::from_millis(20);

/// Unmounts, or detaches when `lazy`.
///
/// # Errors
/// In use, or what the system reports. A mount that is gone already is none.
pub(crate) fn unmount(session: &SessionHandle, lazy: bool) -> Result<()> {
    let mode = if lazy { UnmountMode::Lazy } else { UnmountMode::Orderly };
    match session.unmount(mode) {
        Ok(()) => Ok(()),
        Err(error) => match error.kind() {
            MountErrorKind::Busy => Err(in_use()),
            MountErrorKind::NotMounted => Ok(()),
            _ => Err(Failure::new(Exit::Other, error.to_string())),
        },
    }
}

/// The signals that end the daemon, from now on caught.
///
/// # Errors
/// What the system reports.
pub(crate) fn signals() -> Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| Failure::new(Exit::Other, format!("signals cannot be caught: {error}")))
}

/// Unmounts on SIGTERM and SIGINT, and ignores SIGHUP: the terminal's end is
/// not the daemon's.
///
/// # Errors
/// When no thread can be had.
pub(super) fn on_signals(daemon: &Arc<Daemon>, mut signals: Signals) -> Result<()> {
    let daemon = Arc::clone(daemon);
    let serve = move || {
        let mut detached = false;
        for signal in signals.forever().filter(|signal| *signal != SIGHUP) {
            if detached {
                tracing::warn!("signal {signal} again: ending the mount by force");
                abort(&daemon);
                continue;
            }
            tracing::info!("signal {signal}: unmounting");
            patiently(&daemon);
            detached = true;
            if !daemon.ending.served_within(HELD_AFTER) {
                tracing::warn!("{}", held(&daemon));
            }
        }
    };
    spawn("signals", serve)
}

/// Why a mount that was unmounted does not end.
fn held(daemon: &Daemon) -> String {
    let told = holders::told(&holders::of(daemon.device), &daemon.plan.directory);
    format!(
        "unmounted, and something still holds it; another signal ends it by force. {}",
        told.replace('\n', " ")
    )
}

/// Ends the mount by force: whoever waits for it or uses it gets an error. The
/// session ends by that, and the vault is closed as always. Where the kernel
/// takes no such word, what is there is made durable and the process ends,
/// which ends the connection too; the next mount finds a session to recover.
pub(super) fn abort(daemon: &Arc<Daemon>) {
    if daemon.session.abort().is_ok() && daemon.ending.served_within(HELD_AFTER) {
        return;
    }
    let daemon = Arc::clone(daemon);
    let end = move || {
        if daemon.ending.served_within(Duration::ZERO) {
            return;
        }
        tracing::warn!("the kernel does not end the connection: the daemon ends");
        let _ = daemon.ending.conclude(daemon.vault.sync().map_err(Failure::from));
        std::process::exit(Exit::Other.code().into());
    };
    // Without a thread whoever asked learns nothing, and may ask again.
    let _ = spawn("abort", end);
}

/// Unmounts, and detaches what stays in use. Once detached, the daemon ends
/// with the last open file.
fn patiently(daemon: &Daemon) {
    let until = Instant::now() + PATIENCE;
    loop {
        match unmount(&daemon.session, false) {
            Ok(()) => return,
            Err(failure) if failure.exit() == Exit::InUse && Instant::now() < until => {
                thread::sleep(RETRY_EVERY);
            }
            Err(failure) => {
                tracing::warn!("{}: detaching the mount", failure.message());
                if let Err(failure) = unmount(&daemon.session, true) {
                    tracing::error!("{}", failure.message());
                }
                return;
            }
        }
    }
}

/// Looks after the daemon: notes errors in the log, and unmounts when nothing
/// was asked for as long as the plan says and nothing is open.
///
/// # Errors
/// When no thread can be had.
pub(super) fn look_after(daemon: &Arc<Daemon>) -> Result<()> {
    let daemon = Arc::clone(daemon);
    let idle = daemon.plan.idle;
    let tick = idle.map_or(TICK, |idle| (idle / 4).clamp(TICK_MIN, TICK));
    let watch = move || {
        let (mut requests, mut since, mut is_detached) = (0, Instant::now(), false);
        while !daemon.ending.wait_within(tick) {
            daemon.log_news();
            daemon.vault.give_back_masks();
            let Some(idle) = idle else { continue };
            let total = daemon.session.statistics().operations.iter().map(|operation| operation.count).sum();
            if total != requests || daemon.adapter.open_count() > 0 {
                (requests, since) = (total, Instant::now());
            } else if since.elapsed() >= idle && !is_detached {
                // In use after all, by a working directory for one: later.
                match unmount(&daemon.session, false) {
                    Ok(()) => {
                        is_detached = true;
                        tracing::info!("unmounted, having been idle");
                        if !daemon.ending.served_within(HELD_AFTER) {
                            tracing::warn!("{}", held(&daemon));
                        }
                    }
                    Err(_) => since = Instant::now(),
                }
            }
        }
    };
    spawn("housekeeping", watch)
}

/// Starts a thread of the daemon's.
///
/// # Errors
/// When none can be had.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name.into()).spawn(run);
    thread.map(drop).map_err(|error| Failure::new(Exit::Other, format!("no thread can be started: {error}")))
}
