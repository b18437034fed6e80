//! The answering side of the control socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Daemon;
use super::unmounting::{self, HELD_AFTER};
use crate::compose;
use crate::control::mounts::DeviceNumber;
use crate::control::{self, Answer, OpenFile, Request};
use crate::failure::{Failure, Result};
use strongroom_fuse::adapter::OpenForWriting;

/// Longest request.
const REQUEST_LEN_MAX: u64 = 4096;
/// How long a peer may take to send one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A bound socket, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    path: PathBuf,
    listener: UnixListener,
}

impl Server {
    /// Binds the socket of the mount of this device, which this process serves.
    ///
    /// # Errors
    /// What the system reports.
    pub(crate) fn bind_for(device: DeviceNumber) -> Result<Server> {
        control::remove_former(device);
        Server::bind(&control::socket_name(device))
    }

    /// Binds a socket of this name, which has this process's number.
    ///
    /// # Errors
    /// What the system reports.
    pub(crate) fn bind(name: &str) -> Result<Server> {
        let directory = control::own_directory()?;
        control::remove_dead(&directory);
        let path = directory.join(name);
        let failed = |error: std::io::Error| Failure::system(&path, &error);
        // What is there was left by one that had the same number.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Server { path, listener })
    }

    /// Has `converse` answer each request, in threads of its own until the
    /// process ends.
    ///
    /// # Errors
    /// When no thread can be had.
    pub(crate) fn start<R: DeserializeOwned>(
        &self,
        converse: impl Fn(R, &UnixStream) + Send + Sync + 'static,
    ) -> Result<()> {
        let failed = |error: std::io::Error| Failure::system(&self.path, &error);
        let listener = self.listener.try_clone().map_err(failed)?;
        let converse = Arc::new(converse);
        let listen = move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => {
                        let converse = Arc::clone(&converse);
                        let hear = move || {
                            if let Some(request) = request(&stream) {
                                converse(request, &stream);
                            }
                        };
                        // Without a thread the peer sees the connection end.
                        let _ = thread::Builder::new().name("control".into()).spawn(hear);
                    }
                    // Out of descriptors, most likely: not to be hurried.
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        };
        thread::Builder::new().name("control".into()).spawn(listen).map(drop).map_err(failed)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What a peer asks that may.
fn request<R: DeserializeOwned>(stream: &UnixStream) -> Option<R> {
    if !is_trusted(stream) {
        return None;
    }
    let mut line = String::new();
    stream.set_read_timeout(Some(REQUEST_TIMEOUT)).ok()?;
    BufReader::new(stream.take(REQUEST_LEN_MAX)).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// Answers one request to the daemon of a vault.
pub(super) fn converse(daemon: &Arc<Daemon>, request: Request, stream: &UnixStream) {
    match request {
        Request::Status => send(stream, &Answer::Status(Box::new(daemon.status()))),
        Request::Set { settings } => {
            let mut changed = daemon.engines.settings();
            let applied = settings.iter().try_for_each(|word| crate::set::apply(&mut changed, word));
            let applied = applied.and_then(|()| compose::check(&daemon.engines, changed));
            if applied.is_ok() {
                daemon.applies(changed);
            }
            send(stream, &answer(applied));
        }
        Request::TraceStart => send(stream, &answer(daemon.tracing.start(Some(daemon.local.times())))),
        Request::TraceStop => {
            send_trace(stream, daemon.tracing.stop(&daemon.traced(), Some(daemon.local.times())));
        }
        Request::Sync => send(stream, &answer(daemon.vault.sync().map_err(Failure::from))),
        Request::OpenForWriting => {
            let files = daemon.adapter.open_for_writing().into_iter();
            let files = files.map(|OpenForWriting { node, inode, path }| OpenFile { node, inode, path });
            send(stream, &Answer::OpenForWriting { files: files.collect() });
        }
        Request::Unmount { lazy } => {
            // First, for with the mount the process ends.
            let witness = daemon.ending.witness();
            let detached = unmounting::unmount(&daemon.session, lazy);
            let reply = if lazy || detached.is_err() {
                answer(detached)
            } else if daemon.ending.served_within(HELD_AFTER) {
                answer(witness.wait())
            } else {
                Answer::Held
            };
            send(stream, &reply);
        }
        Request::Abort => {
            let witness = daemon.ending.witness();
            unmounting::abort(daemon);
            send(stream, &answer(witness.wait()));
        }
        Request::Closed => {
            let witness = daemon.ending.witness();
            send(stream, &answer(witness.wait()));
        }
    }
}

/// Whether the peer is root or the daemon's user.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}

/// What the peer is told of an outcome.
pub(crate) fn answer(outcome: Result<()>) -> Answer {
    match outcome {
        Ok(()) => Answer::Done,
        Err(failure) => Answer::Failed((&failure).into()),
    }
}

/// Sends a trace after its announcement, or why there is none.
pub(crate) fn send_trace(mut stream: &UnixStream, trace: Result<Vec<u8>>) {
    match trace {
        Ok(bytes) => {
            send(stream, &Answer::Trace { bytes: bytes.len() as u64 });
            // A peer that is gone needs none.
            let _ = stream.write_all(&bytes);
        }
        Err(failure) => send(stream, &answer(Err(failure))),
    }
}

/// Sends an answer.
pub(crate) fn send(mut stream: &UnixStream, answer: &impl Serialize) {
    let mut line = serde_json::to_vec(answer).expect("an answer has text keys");
    line.push(b'\n');
    // A peer that is gone needs none.
    let _ = stream.write_all(&line);
}

/// How much of what went wrong the log tells of.
#[derive(Debug, Default)]
pub(super) struct News {
    background_errors: u64,
    damaged: u64,
}

impl Daemon {
    /// Notes in the log what came up since the last time. Plain names are as
    /// secret as what files hold: without being asked for they stand in
    /// `status` alone.
    pub(super) fn log_news(&self) {
        let mut told = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let background_errors = self.vault.counters().background_errors.load(Ordering::Relaxed);
        let damaged = self.damage.total();
        if background_errors > told.background_errors {
            let last = self.vault.last_error().unwrap_or_default();
            let text = format!("{background_errors} errors in the background, the last: {last}");
            tracing::error!("{text}");
        }
        if damaged > told.damaged
            && let Some(last) = self.damage.found().last()
        {
            let at = |path: &[u8]| crate::report::shown(path);
            let (directory, vault) = (&self.plan.directory, &self.plan.vault);
            let text = if self.plan.log_names {
                format!("{}: {}", crate::report::shown_place(last.path.as_deref()), last.what)
            } else {
                format!(
                    "something damaged was met {} times, the last: {}; `strongroom status {}` names it, and \
                     `strongroom check {}` all that is",
                    damaged - told.damaged,
                    last.what,
                    at(directory.as_os_str().as_encoded_bytes()),
                    at(vault.as_os_str().as_encoded_bytes())
                )
            };
            tracing::error!("{text}");
        }
        *told = News { background_errors, damaged };
    }
}
