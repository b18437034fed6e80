//! What makes the daemon unmount: a signal, idleness, a request.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use strongroom_fuse::{MountErrorKind, SessionHandle, UnmountMode};

use super::Daemon;
use super::log::Severity;
use crate::failure::{Exit, Failure, Result};
use crate::umount::in_use;

/// How long a signal lets open files be closed before the mount is detached.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often that is tried.
const RETRY_EVERY: Duration = Duration::from_millis(100);
/// How often the daemon looks after itself.
const TICK: Duration = Duration::from_secs(1);
/// The shortest time between two looks at whether a mount is idle.
const TICK_MIN: Duration = Duration::from_millis(20);

/// Unmounts, or detaches when `lazy`.
///
/// # Errors
/// In use, or what the system reports. A mount that is gone already is none.
pub(super) fn unmount(session: &SessionHandle, lazy: bool) -> Result<()> {
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
pub(super) fn signals() -> Result<Signals> {
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
        for signal in signals.forever().filter(|signal| *signal != SIGHUP) {
            daemon.log.write(Severity::Notice, &format!("signal {signal}: unmounting"));
            patiently(&daemon);
        }
    };
    spawn("signals", serve)
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
                daemon.log.write(Severity::Warning, &format!("{}: detaching the mount", failure.message()));
                if let Err(failure) = unmount(&daemon.session, true) {
                    daemon.log.write(Severity::Error, failure.message());
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
        let (mut seen, mut requests, mut since) = ((0, 0), 0, Instant::now());
        while !daemon.ending.wait_within(tick) {
            daemon.log_news(&mut seen);
            let Some(idle) = idle else { continue };
            let total = daemon.session.statistics().operations.iter().map(|operation| operation.count).sum();
            if total != requests || daemon.adapter.open_count() > 0 {
                (requests, since) = (total, Instant::now());
            } else if since.elapsed() >= idle {
                // In use after all, by a working directory for one: later.
                match unmount(&daemon.session, false) {
                    Ok(()) => daemon.log.write(Severity::Notice, "unmounted, having been idle"),
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
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name.into()).spawn(run);
    thread.map(drop).map_err(|error| Failure::new(Exit::Other, format!("no thread can be started: {error}")))
}
