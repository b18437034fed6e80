//! A session: the threads that serve a mount, from INIT until it is gone.

use crate::abi::reply::Body;
use crate::abi::request::{self, Header, Operation};
use crate::abi::{Opcode, flags};
use crate::errno::Errno;
use crate::filesystem::Filesystem;
use crate::mount::{Mount, MountError, UnmountMode};
use crate::negotiation::{SessionOptions, Unfit, negotiate};
use crate::notify::Notifier;
use crate::pacing::Pacing;
use crate::pacing::prefetch::{self, Prefetch};
use crate::pool::{self, Service};
use crate::statistics::{Counters, Statistics};
use crate::tap::Tap;
use crate::transport::{Chosen, Device, ReceiveError, Reply, Rings, Transport, TransportReport};
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

/// How a session ended that did what it was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The mount was unmounted.
    Unmounted,
    /// The connection was aborted; what was mounted has been unmounted since.
    /// An abort by a forced unmount shows as [`Ended::Unmounted`].
    Aborted,
}

/// Why a session failed.
#[derive(Debug)]
pub enum SessionError {
    /// The kernel's FUSE is too old; the text says what it lacks.
    Kernel(String),
    /// The file system refused to start.
    Init(Errno),
    /// A thread could not be started.
    Thread(io::Error),
    /// The device failed.
    Device(Errno),
    /// The transport that was asked for cannot be had; the text says why.
    Transport(String),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Kernel(lack) => write!(f, "the kernel's FUSE is too old: {lack}"),
            SessionError::Init(errno) => write!(f, "the file system did not start: {errno}"),
            SessionError::Thread(error) => write!(f, "a thread could not be started: {error}"),
            SessionError::Device(errno) => write!(f, "/dev/fuse failed: {errno}"),
            SessionError::Transport(reason) => write!(f, "FUSE over io_uring cannot be had: {reason}"),
        }
    }
}

impl std::error::Error for SessionError {}

/// A mount and the file system that answers for it.
pub struct Session<F> {
    // Before `mount`, so that its descriptor is closed before the unmount.
    device: Device,
    mount: Mount,
    filesystem: Arc<F>,
    options: SessionOptions,
    counters: Arc<[Counters]>,
    transport: Arc<OnceLock<TransportReport>>,
    pacing: Arc<Pacing>,
    tap: Option<Arc<dyn Tap>>,
}

/// Steers a session from other threads. It does not keep the mount alive.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    point: Arc<crate::mount::MountPoint>,
    counters: Arc<[Counters]>,
    transport: Arc<OnceLock<TransportReport>>,
    notifier: Notifier,
    pacing: Arc<Pacing>,
}

impl<F: Filesystem> Session<F> {
    /// Binds `filesystem` to `mount`. Nothing is served yet.
    #[must_use]
    pub fn new(mut mount: Mount, filesystem: Arc<F>, options: SessionOptions) -> Session<F> {
        let file = mount.take_file().expect("a mount is bound to one session, which consumes it");
        let pacing = Arc::new(Pacing::new());
        let device = Device::new(Arc::new(file), options.transfer_bytes(), &pacing);
        // One more for the threads that prefetch.
        let counters = (0..=threads_max(&options)).map(|_| Counters::new()).collect();
        Session { device, mount, filesystem, options, counters, transport: Arc::default(), pacing, tap: None }
    }

    /// Has `tap` look on.
    #[must_use]
    pub fn tapped(self, tap: Arc<dyn Tap>) -> Session<F> {
        Session { tap: Some(tap), ..self }
    }

    /// For other threads.
    #[must_use]
    pub fn handle(&self) -> SessionHandle {
        SessionHandle {
            point: Arc::clone(self.mount.point()),
            counters: Arc::clone(&self.counters),
            transport: Arc::clone(&self.transport),
            notifier: Notifier::new(self.device.file()),
            pacing: Arc::clone(&self.pacing),
        }
    }

    /// Serves until the mount is gone, and then leaves no thread behind.
    ///
    /// # Errors
    /// [`SessionError`]. The mount is gone then too: callers that were waiting
    /// got an error.
    pub fn run(self) -> Result<Ended, SessionError> {
        let filesystem = Arc::clone(&self.filesystem);
        let Some((started, chosen)) = self.start()? else {
            return Ok(Ended::Unmounted);
        };
        let ended = started.serve(&chosen);
        filesystem.destroy();
        ended
    }

    /// Answers INIT; `None` when the mount was gone before.
    fn start(mut self) -> Result<Option<(Session<F>, Chosen)>, SessionError> {
        let mut body = Body::new();
        loop {
            let message = match self.device.receive() {
                Ok(received) => received.message,
                Err(ReceiveError::Unmounted | ReceiveError::Aborted) => return Ok(None),
                Err(ReceiveError::Failed(errno)) => return Err(SessionError::Device(errno)),
            };
            let Ok(header) = Header::parse(message) else { continue };
            let unique = header.context.unique;
            let offer = match request::parse(message).map(|request| request.operation) {
                Ok(Operation::Init(offer)) => offer,
                _ => {
                    refuse(&mut self.device, &header);
                    continue;
                }
            };
            body.clear();
            let offered = offer.flags & flags::init::OVER_IO_URING != 0;
            let (chosen, reason) = self.options.choose(offered).map_err(|reason| {
                refuse(&mut self.device, &header);
                SessionError::Transport(reason)
            })?;
            match negotiate(&offer, &self.options, chosen != Chosen::Device) {
                Ok((reply, agreed)) => {
                    if let Err(errno) = self.filesystem.init(&agreed) {
                        refuse(&mut self.device, &header);
                        return Err(SessionError::Init(errno));
                    }
                    body.init(&reply);
                    match self.device.reply(unique, Reply::Body(body.bytes())) {
                        Ok(()) => {}
                        // Nobody waits for it any more: who was told that the mount is ready may have
                        // unmounted it already.
                        Err(Errno::NOENT) => {
                            self.filesystem.destroy();
                            return Ok(None);
                        }
                        Err(errno) => return Err(SessionError::Device(errno)),
                    }
                    // The reply caps the readahead; raise it only now.
                    self.mount.point().set_readahead(self.options.readahead_kib);
                    self.mount.point().set_dirty_percent(self.options.dirty_percent);
                    self.note(&chosen, reason);
                    return Ok(Some((self, chosen)));
                }
                Err(Unfit::NewerMajor) => {
                    body.init_version();
                    self.device.reply(unique, Reply::Body(body.bytes())).map_err(SessionError::Device)?;
                }
                Err(unfit) => {
                    refuse(&mut self.device, &header);
                    return Err(SessionError::Kernel(lack(unfit)));
                }
            }
        }
    }

    fn note(&self, chosen: &Chosen, reason: String) {
        let (name, workers, memory_bytes) = match chosen {
            Chosen::Device => {
                let workers = self.options.workers.max(1);
                ("dev-fuse", workers, workers * self.options.transfer_bytes())
            }
            Chosen::Rings(rings) => {
                ("io-uring", rings.threads() + 1, rings.memory() + self.options.transfer_bytes())
            }
        };
        // INIT is agreed once.
        let _ = self.transport.set(TransportReport { name, reason, workers, memory_bytes });
    }

    /// Runs the workers and waits for all of them.
    fn serve(self, chosen: &Chosen) -> Result<Ended, SessionError> {
        let Session { device, mount, filesystem, counters, options, pacing, tap, .. } = self;
        let notifier = Notifier::new(device.file());
        let lanes = pool::lanes(device, chosen, options.workers.max(1), &pacing);
        let (filling, workers) = counters.split_last().expect("there is one more than workers");
        let prefetch = options.prefetch.then(Prefetch::new);
        let service = Service::new(&*filesystem, mount.point(), prefetch.as_ref(), tap.as_deref(), chosen);
        let ends = thread::scope(|scope| {
            let start = |name: &str| thread::Builder::new().name(name.to_owned());
            if let Some(prefetch) = &prefetch {
                let (filesystem, notifier) = (&*filesystem, &notifier);
                for _ in 0..prefetch::fillers() {
                    let run = move || prefetch.run(filesystem, notifier, filling);
                    // Without them reads are served one by one, and what they ask for is forgotten.
                    let _ = start("fuse-prefetch").spawn_scoped(scope, run);
                }
            }
            // Without a watchdog nobody leads or is demoted.
            let _ = start("fuse-watchdog").spawn_scoped(scope, || pacing.watch());
            let ends = service.run(lanes, workers);
            pacing.end();
            if let Some(prefetch) = &prefetch {
                prefetch.end();
            }
            ends
        });
        drop(mount);
        verdict(ends)
    }
}

/// Most threads that serve, whatever is chosen.
fn threads_max(options: &SessionOptions) -> usize {
    let rings = Rings::plan(options.transfer_bytes()).map_or(0, |rings| rings.threads() + 1);
    options.workers.max(rings).max(1)
}

/// The worst of how the workers ended.
fn verdict(ends: Vec<Result<ReceiveError, io::Error>>) -> Result<Ended, SessionError> {
    let mut ended = Ended::Unmounted;
    for end in ends {
        match end.map_err(SessionError::Thread)? {
            ReceiveError::Unmounted => {}
            ReceiveError::Aborted => ended = Ended::Aborted,
            ReceiveError::Failed(errno) => return Err(SessionError::Device(errno)),
        }
    }
    Ok(ended)
}

/// Answers with a protocol error, which for INIT fails the mount.
fn refuse(device: &mut Device, header: &Header) {
    let silent = matches!(Opcode::from_raw(header.opcode), Some(Opcode::Forget | Opcode::BatchForget));
    if !silent {
        // A caller that is gone needs no answer.
        let _ = device.reply(header.context.unique, Reply::Error(Errno::PROTO));
    }
}

fn lack(unfit: Unfit) -> String {
    match unfit {
        Unfit::Lacks(flag) => format!("it lacks INIT flag {flag:#x}; Linux 5.14 is needed"),
        Unfit::OlderMajor | Unfit::NewerMajor => "it speaks another major version".to_owned(),
    }
}

impl SessionHandle {
    /// What has been counted so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics::sum(self.counters.iter())
    }

    /// Says whether workers may poll for requests before they sleep, which
    /// takes CPU time to save time.
    pub fn allow_polling(&self, allowed: bool) {
        self.pacing.allow_polling(allowed);
    }

    /// Unmounts, upon which [`Session::run`] returns. Not from within a method
    /// of the file system, which would wait for itself.
    ///
    /// # Errors
    /// [`MountError`]; of kind `Busy` while files are open, unless lazily.
    pub fn unmount(&self, mode: UnmountMode) -> Result<(), MountError> {
        self.point.unmount(mode)
    }

    /// The program that unmounts, where this process may not: it needs the
    /// privileges that running it gives.
    #[must_use]
    pub fn unmounts_by(&self) -> Option<&'static str> {
        self.point.unmounts_by()
    }

    /// Ends the connection at once: every caller gets an error, and data that
    /// was not written back is lost. [`Session::run`] unmounts and returns.
    ///
    /// # Errors
    /// [`MountError`]; needs root, or the control file system of FUSE.
    pub fn abort(&self) -> Result<(), MountError> {
        self.point.abort()
    }

    /// How requests arrive, and why so; `None` until it is agreed.
    #[must_use]
    pub fn transport(&self) -> Option<TransportReport> {
        self.transport.get().cloned()
    }

    /// For telling the kernel of changes.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }
}
