//! Serving the mount of a single file, from its key to its end.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use strongroom_engine::Buffer;
use strongroom_file::{FileKey, Ranges};
use strongroom_fuse::mount::Subtype;
use strongroom_fuse::single::{Bytes, SingleFile};
use strongroom_fuse::{Errno, Mount, MountOptions, Session, SessionHandle, SessionOptions};

use super::failure;
use super::mount::{Plan, handed_on};
use super::removal;
use crate::confinement;
use crate::control::{Answer, Request, mounts};
use crate::daemon::ending::Ending;
use crate::daemon::launch::{self, Ready};
use crate::daemon::server::{Server, answer, send};
use crate::daemon::unmounting::{self, HELD_AFTER};
use crate::failure::{Exit, Failure, Result};
use crate::secrets::terminal::Input;

/// Failed reads that the log tells of: a program may try again for ever.
const TOLD_MAX: u32 = 100;

/// The plain file as the kernel asks for it.
struct Shown {
    ranges: Ranges,
    told: AtomicU32,
}

impl Bytes for Shown {
    fn len(&self) -> u64 {
        self.ranges.len()
    }

    fn read(&self, offset: u64, size: usize, buffer: &mut Buffer) -> std::result::Result<(), Errno> {
        let into = &mut buffer[..size];
        let mut done = 0;
        while done < into.len() {
            match self.ranges.read(offset + done as u64, &mut into[done..]) {
                Ok(0) => return Err(Errno::IO),
                Ok(read) => done += read,
                Err(error) => {
                    if self.told.fetch_add(1, Ordering::Relaxed) < TOLD_MAX {
                        tracing::error!("{}", error.to_string());
                    }
                    return Err(Errno::IO);
                }
            }
        }
        Ok(())
    }
}

/// What ends the mount.
struct Served {
    session: SessionHandle,
    ending: Ending,
}

/// Serves as the process that was launched.
pub(super) fn run_launched(plan: &Plan) -> Exit {
    launch::served(plan.log.as_ref(), false, |ready| {
        let key = handed_on(launch::receive_bytes(Input::standard())?.as_ref())?;
        serve(plan, &key, &ready)
    })
}

/// Serves in this process until it is unmounted.
///
/// # Errors
/// What kept it from being shown.
pub(super) fn run_foreground(plan: &Plan, key: &FileKey) -> Result<()> {
    launch::in_foreground(plan.log.as_ref(), false, |ready| serve(plan, key, &ready))
}

fn serve(plan: &Plan, key: &FileKey, ready: &Ready) -> Result<()> {
    confinement::drop_capabilities(plan.confined);
    // Before anything is mounted, so that none can leave a mount behind.
    let signals = unmounting::signals()?;
    removal::stand_down();
    let file = plan.open()?;
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    let modified = modified.map_err(|error| Failure::system(&plan.file, &error))?;
    let engine: Arc<dyn strongroom_engine::Engine> = crate::compose::compose(plan.engine.as_deref())?;
    let ranges = Ranges::open_with(file, key, &engine);
    let ranges = ranges.map_err(|error| failure(&plan.file, &plan.file, error))?;
    let options = MountOptions {
        source: plan.file.to_string_lossy().into_owned(),
        subtype: Subtype::File,
        allow_other: plan.allow_other,
        read_only: true,
        ..MountOptions::default()
    };
    let mount = Mount::new(&plan.directory, &options).map_err(crate::daemon::explain)?;
    let device = mounts::any_at(mount.path())?.device;
    let shown = Shown { ranges, told: AtomicU32::new(0) };
    let file = Arc::new(SingleFile::new(plan.name().as_bytes(), shown, modified));
    let options = SessionOptions { writeback_cache: false, ..SessionOptions::default() };
    let session = Session::new(mount, file, options);
    let served = Arc::new(Served { session: session.handle(), ending: Ending::default() });
    let server = Server::bind_for(device)?;
    let asked = Arc::clone(&served);
    server.start(move |request, stream| asked.converse(&request, stream))?;
    served.end_on_signals(signals)?;
    confinement::restrict(plan.confined, served.session.unmounts_by());
    let (from, to) = (plan.file.display(), plan.directory.display());
    tracing::info!("mounted {from} at {to}, confined: {}", confinement::standing());
    ready();
    let ran = session.run();
    tracing::info!("unmounted {from}");
    drop(server);
    let outcome = ran.map(drop).map_err(|error| Failure::new(Exit::Other, error.to_string()));
    served.ending.conclude(outcome)
}

impl Served {
    fn converse(&self, request: &Request, stream: &UnixStream) {
        // First, for with the mount the process ends.
        let witness = self.ending.witness();
        let reply = match request {
            Request::Unmount { lazy } => match unmounting::unmount(&self.session, *lazy) {
                Ok(()) if *lazy => Answer::Done,
                Ok(()) if self.ending.served_within(HELD_AFTER) => answer(witness.wait()),
                Ok(()) => Answer::Held,
                failed => answer(failed),
            },
            Request::Abort => match self.session.abort() {
                Ok(()) => answer(witness.wait()),
                Err(error) => answer(Err(Failure::new(Exit::Other, error.to_string()))),
            },
            Request::Closed => answer(witness.wait()),
            Request::Status
            | Request::Sync
            | Request::OpenForWriting
            | Request::Set { .. }
            | Request::TraceStart
            | Request::TraceStop => {
                answer(Err(Failure::usage("a single file is mounted here, and no vault")))
            }
        };
        send(stream, &reply);
    }

    /// Unmounts at the first signal, or detaches what is in use; the second
    /// ends it by force.
    fn end_on_signals(self: &Arc<Served>, mut signals: Signals) -> Result<()> {
        let served = Arc::clone(self);
        let wait = move || {
            let mut is_detached = false;
            for signal in signals.forever().filter(|signal| *signal != SIGHUP) {
                tracing::info!("signal {signal}: unmounting");
                let ended = match is_detached {
                    true => served.session.abort().map_err(|error| error.to_string()),
                    false => unmounting::unmount(&served.session, false)
                        .or_else(|_| unmounting::unmount(&served.session, true))
                        .map_err(|failure| failure.message().to_owned()),
                };
                if let Err(text) = ended {
                    tracing::error!("{text}");
                }
                is_detached = true;
            }
        };
        unmounting::spawn("signals", wait)
    }
}
