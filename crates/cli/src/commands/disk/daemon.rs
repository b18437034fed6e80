//! Serving an open disk, from its secret to its end.
//!
//! The process has the image locked and the volume open before anything can be
//! seen of it, and answers a `disk close` when the export has ended and
//! everything is durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::mm::MlockAllFlags;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use strongroom_disk::backing::Backing;
use strongroom_disk::nbd::{Server, ServerHandle};
use strongroom_disk::{Bytes, Device, FileBacking, Volume, VolumeOptions};
use strongroom_engine::Engine;
use strongroom_format::luks::Segment;
use strongroom_fuse::raw;
use strongroom_fuse::{
    Mount, MountErrorKind, MountOptions, Session, SessionHandle, SessionOptions, TransportChoice, UnmountMode,
};
use strongroom_keys::{SecretBytes, random};
use strongroom_sched::Scheduler;
use strongroom_ublk::StartError;

use super::control::{self, OpenDisk};
use super::holders::holders;
use super::image;
use super::open::{Export, Plan};
use crate::compose::compose_for;
use crate::confinement::{self, Deeds, Reach};
use crate::daemon::launch::{self, Ready};
use crate::daemon::server::Server as ControlServer;
use crate::daemon::unmounting;
use crate::failure::{Exit, Failure, Result};
use crate::secrets::terminal::Input;
use crate::trace::{Subject, Traced, Tracing};
use crate::umount::in_use;

/// The name of the one file of a raw export.
pub(super) const FILE_NAME: &str = "volume";
/// How long whoever has the raw file open may take to close it once the disk
/// is closed by force.
const FORCE_LIMIT: Duration = Duration::from_secs(2);
/// How often it is tried meanwhile.
const RETRY: Duration = Duration::from_millis(100);

/// What an export serves.
pub(super) struct Served {
    volume: Arc<Volume>,
    pub(super) engines: Arc<Scheduler>,
    pub(super) tracing: Arc<Tracing>,
    /// The cipher of its sectors, as dm-crypt names it.
    pub(super) cipher: String,
}

impl Served {
    /// For exports that do not go through FUSE, whose requests are looked at
    /// there.
    fn device(&self) -> Arc<dyn Device> {
        let device = Arc::clone(&self.volume) as Arc<dyn Device>;
        Arc::new(Traced::new(device, Arc::clone(&self.tracing)))
    }

    /// What a trace is of.
    pub(super) fn traced(&self) -> Subject {
        let block_size_bytes = self.volume.sector_len().into();
        Subject { of: "disk", algorithm: self.cipher.clone(), block_size_bytes }
    }
}

/// How an export is ended.
#[derive(Clone)]
pub(super) enum Ender {
    /// NBD.
    Nbd(ServerHandle),
    /// The raw file.
    Raw(SessionHandle, PathBuf),
    /// The block device.
    Ublk(strongroom_ublk::ServerHandle),
}

impl Ender {
    /// Ends the export, unless somebody uses it.
    ///
    /// # Errors
    /// In use, unless `force`.
    pub(super) fn end(&self, force: bool) -> Result<()> {
        match self {
            Ender::Nbd(server) if server.connections() > 0 && !force => {
                let text = format!("{} clients are connected", server.connections());
                Err(Failure::new(Exit::InUse, text).hint("Disconnect them first, or use --force."))
            }
            Ender::Nbd(server) => {
                server.stop();
                Ok(())
            }
            Ender::Ublk(server) if !force && server.is_in_use() => {
                Err(Failure::new(Exit::InUse, "the block device is mounted, or otherwise in use")
                    .hint("Unmount it first, or use --force."))
            }
            Ender::Ublk(server) => server
                .stop()
                .map_err(|error| Failure::new(Exit::Other, format!("the block device stays: {error}"))),
            // By force too: once its name is gone, a mount can be aborted only
            // where the kernel's control file system is there.
            Ender::Raw(session, directory) => match session.unmount(UnmountMode::Orderly) {
                Ok(()) => Ok(()),
                Err(error) if error.kind() == MountErrorKind::NotMounted => Ok(()),
                Err(error) if error.kind() == MountErrorKind::Busy => Err(raw_in_use(directory)),
                Err(error) => Err(Failure::new(Exit::Other, error.to_string())),
            },
        }
    }

    /// Whether an end by a signal waits for the users: a loop device may have a
    /// file system on it. Clients of NBD, and the kernel, are told of an end.
    fn waits(&self) -> bool {
        matches!(self, Ender::Raw(..))
    }

    /// Takes the export away from whoever still uses it, who gets errors.
    ///
    /// # Errors
    /// When the system does not permit it.
    pub(super) fn abort(&self) -> Result<()> {
        match self {
            // An end by force leaves nobody connected.
            Ender::Nbd(_) | Ender::Ublk(_) => Ok(()),
            Ender::Raw(session, _) => match session.abort() {
                Ok(()) => Ok(()),
                Err(error) if error.kind() == MountErrorKind::NotMounted => Ok(()),
                Err(error) => Err(Failure::new(Exit::InUse, format!("the raw file stays open: {error}"))
                    .hint("Close what has it open, or end this disk's process (`strongroom disk list`).")),
            },
        }
    }
}

fn raw_in_use(directory: &Path) -> Failure {
    let holders = holders(directory);
    let text = match holders.is_empty() {
        true => in_use().message().to_owned(),
        false => format!("the raw file is in use by {}", holders.join(", ")),
    };
    Failure::new(Exit::InUse, text)
        .hint("Detach its loop device (losetup -d) and close what is open, or use --force.")
}

impl OpenDisk {
    /// Ends the export although it is used: whoever has it open gets errors
    /// after a moment.
    ///
    /// # Errors
    /// What keeps it from ending.
    pub(super) fn force(&self) -> Result<()> {
        let until = Instant::now() + FORCE_LIMIT;
        loop {
            match self.ender.end(true) {
                Ok(()) => return Ok(()),
                Err(_) if Instant::now() < until => std::thread::sleep(RETRY),
                Err(_) => return self.ender.abort(),
            }
        }
    }
}

/// Serves as the process that was launched, and tells it of any failure until
/// the disk can be used.
pub(super) fn run_launched(plan: &Plan) -> Exit {
    launch::served(plan.log.as_ref(), false, |ready| {
        let secret = launch::receive_bytes(Input::standard())?;
        serve(plan, secret, &ready)
    })
}

/// Serves in this process until the disk is closed.
///
/// # Errors
/// What kept it from opening, or from closing well.
pub(super) fn run_foreground(plan: &Plan, secret: Option<SecretBytes>) -> Result<()> {
    launch::in_foreground(plan.log.as_ref(), false, |ready| serve(plan, secret, &ready))
}

fn serve(plan: &Plan, secret: Option<SecretBytes>, ready: &Ready) -> Result<()> {
    // Before anything can be seen, so that a signal never leaves it behind.
    let signals = unmounting::signals()?;
    confinement::drop_capabilities(plan.confined);
    let engines = compose_for(plan.engine.as_deref(), &plan.placing, None)?.scheduler;
    let tracing = Tracing::new(Arc::clone(&engines));
    let engine = tracing.engine();
    let (volume, image, cipher) = open_volume(plan, secret, &engine)?;
    let served = Served { volume: Arc::new(volume), engines, tracing, cipher };
    let volume = &served.volume;
    protect();
    if !plan.ephemeral {
        // Swap is ephemeral, as a rule. What cannot be mapped is read.
        let _ = image.map();
    }
    let opened = |at: &Path, runs: Option<&str>| {
        confinement::restrict(plan.confined, runs);
        let secrets = strongroom_memory::standing();
        if !(secrets.secrets_locked && secrets.stacks_locked) {
            tracing::warn!("keys could not be locked in memory: raise the limit with `ulimit -l`");
        }
        tracing::info!("confined: {}", confinement::standing());
        tracing::info!("opened {} at {}", plan.image.display(), at.display());
        ready();
    };
    let ran = match &plan.export {
        Export::Nbd(socket) => serve_nbd(plan, socket, &served, signals, || opened(socket, None)),
        Export::Raw(directory) => {
            serve_raw(plan, directory, &served, signals, |runs| opened(directory, runs))
        }
        Export::Ublk(_) => serve_ublk(plan, &served, signals, |at| opened(at, None)),
    };
    let (open, server) = ran?;
    let flushed = match volume.is_read_only() {
        true => Ok(()),
        false => volume.flush().map_err(|error| image::explain(error, &plan.image)),
    };
    tracing::info!("closed {}", plan.image.display());
    // Whoever is told that it is closed may open the image.
    drop((served, image, server));
    open.ending.conclude(flushed)
}

/// The volume, with the image locked, the image, and the cipher's name.
fn open_volume(
    plan: &Plan,
    secret: Option<SecretBytes>,
    engine: &Arc<dyn Engine>,
) -> Result<(Volume, Arc<FileBacking>, String)> {
    let explain = |error| image::explain(error, &plan.image);
    let device = image::open(&plan.image, !plan.read_only)?;
    let (segment, key) = match (plan.ephemeral, secret) {
        (true, _) => ephemeral(plan)?,
        (false, None) => return Err(Failure::new(Exit::Other, "no passphrase was handed on")),
        (false, Some(secret)) => {
            let path = plan.header.as_ref().unwrap_or(&plan.image);
            let looked = image::look(path)?;
            let is_same = looked.is_same(&device).map_err(|error| Failure::system(path, &error))?;
            let header_device = if is_same { Arc::clone(&device) } else { image::open(path, false)? };
            let header = image::header(path, &header_device)?;
            let segment = header.segment_beside(is_same).map_err(|error| image::explain(error, path))?;
            let unlocked = header.unlock(&*header_device, engine, secret.expose(), plan.key_slot);
            let unlocked = unlocked.map_err(|error| image::explain(error, path))?;
            (segment, unlocked.key)
        }
    };
    let options = VolumeOptions { read_only: plan.read_only, discard: plan.discard };
    let backing = Arc::clone(&device) as Arc<dyn Backing>;
    let cipher = segment.encryption.to_string();
    Ok((Volume::open(engine, backing, segment, &key, options).map_err(explain)?, device, cipher))
}

/// The whole image under a key that is nowhere else.
fn ephemeral(plan: &Plan) -> Result<(Segment, SecretBytes)> {
    let len = super::format::key_len(plan.key_bits, &plan.cipher)?;
    let mut key = SecretBytes::zeroed(len as usize);
    random::fill(key.expose_mut())?;
    let sector_size = match plan.sector_size.unwrap_or(512) {
        size @ (512 | 1024 | 2048 | 4096) => size,
        size => return Err(Failure::usage(format!("{size} bytes are no sector"))),
    };
    let segment =
        Segment { offset: 0, size: None, iv_tweak: 0, encryption: plan.cipher.clone(), sector_size };
    Ok((segment, key))
}

/// What a process does that may have to write so that the kernel gets memory:
/// its pages are there before they are touched, and stay; and its own writes
/// wait for no writes that wait for it.
fn protect() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    if let Err(errno) = rustix::mm::mlockall(flags) {
        tracing::warn!("memory cannot be locked ({errno}): unfit to serve swap");
    }
    if let Err(errno) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::warn!("no I/O flusher ({errno}): unfit to serve swap");
    }
}

fn serve_nbd(
    plan: &Plan,
    socket: &Path,
    served: &Served,
    signals: Signals,
    ready: impl FnOnce(),
) -> Result<(Arc<OpenDisk>, ControlServer)> {
    let device = served.device();
    let server = Server::bind(socket, device).map_err(|error| {
        let failure = Failure::system(socket, &error);
        match error.kind() {
            std::io::ErrorKind::AddrInUse => Failure::new(Exit::InUse, failure.message().to_owned())
                .hint("Name a socket that does not exist yet."),
            _ => failure,
        }
    })?;
    let open = OpenDisk::new(plan, served, Ender::Nbd(server.handle()));
    // Whatever it reads and writes is open by now, and it has no thread yet.
    let own = crate::control::own_directory()?;
    let beside = socket.parent().unwrap_or(Path::new("/"));
    let reach = [
        Reach { directory: &own, deeds: Deeds::Sockets },
        Reach { directory: beside, deeds: Deeds::Removal },
    ];
    confinement::restrict_files(plan.confined, &reach);
    let control = begin(&open, signals)?;
    ready();
    server.run();
    Ok((open, control))
}

fn serve_raw(
    plan: &Plan,
    directory: &Path,
    served: &Served,
    signals: Signals,
    ready: impl FnOnce(Option<&'static str>),
) -> Result<(Arc<OpenDisk>, ControlServer)> {
    let options = MountOptions {
        source: plan.image.to_string_lossy().into_owned(),
        subtype: strongroom_fuse::mount::Subtype::Disk,
        allow_other: plan.allow_other,
        read_only: plan.read_only,
        ..MountOptions::default()
    };
    let mount = Mount::new(directory, &options).map_err(crate::daemon::explain)?;
    let file = Arc::new(raw::file(FILE_NAME, Bytes::new(Arc::clone(&served.volume))));
    // What the kernel was given is in the daemon at once: a loop device keeps
    // its own cache above. Long direct requests of one program go to several
    // workers by the device, over rings to those of the CPU that asks.
    let options = SessionOptions {
        writeback_cache: false,
        transport: TransportChoice::Device,
        ..SessionOptions::default()
    };
    let session = Session::new(mount, file, options).tapped(Arc::clone(&served.tracing) as Arc<_>);
    let open = OpenDisk::new(plan, served, Ender::Raw(session.handle(), directory.to_owned()));
    let control = begin(&open, signals)?;
    ready(session.handle().unmounts_by());
    match session.run() {
        Ok(_) => Ok((open, control)),
        Err(error) => Err(Failure::new(Exit::Other, error.to_string())),
    }
}

fn serve_ublk(
    plan: &Plan,
    served: &Served,
    signals: Signals,
    ready: impl FnOnce(&Path),
) -> Result<(Arc<OpenDisk>, ControlServer)> {
    let device = served.device();
    let server = strongroom_ublk::Server::start(device).map_err(|error| explain_ublk(&error))?;
    let plan = Plan { export: Export::Ublk(server.path()), ..plan.clone() };
    let open = OpenDisk::new(&plan, served, Ender::Ublk(server.handle()));
    let control = match begin(&open, signals) {
        Ok(control) => control,
        Err(failure) => {
            let _ = server.handle().stop();
            server.run();
            return Err(failure);
        }
    };
    ready(&server.path());
    server.run();
    Ok((open, control))
}

pub(super) fn explain_ublk(error: &StartError) -> Failure {
    let new = |exit, hint: &str| Failure::new(exit, error.to_string()).hint(hint);
    match error {
        StartError::Absent => new(
            Exit::Unsupported,
            "Load its module (`modprobe ublk_drv`), or use --raw and losetup instead of --ublk.",
        ),
        StartError::TooOld => new(Exit::Unsupported, "Use --raw and losetup instead of --ublk."),
        StartError::NotPermitted => new(Exit::Usage, "Run it as root, or use --raw or --nbd."),
        StartError::Io(..) => Failure::new(Exit::Other, error.to_string()),
    }
}

/// Starts what ends the disk: signals and the control socket.
fn begin(open: &Arc<OpenDisk>, mut signals: Signals) -> Result<ControlServer> {
    let server = control::listen(open)?;
    let open = Arc::clone(open);
    let wait = move || {
        // The first asks, and the export ends when its users do; the second
        // does not wait for them.
        wait_signal(&mut signals);
        if let Err(failure) = open.ender.end(false) {
            let text = format!("{}: it ends with its users, or by a second signal", failure.message());
            tracing::warn!("{text}");
            while open.ender.end(!open.ender.waits()).is_err() {
                if signals.pending().any(|signal| signal != SIGHUP) {
                    if let Err(failure) = open.force() {
                        tracing::error!("{}", failure.message());
                    }
                    break;
                }
                std::thread::sleep(RETRY);
            }
        }
        // Another end is under way, or nothing can be done.
        loop {
            wait_signal(&mut signals);
            let _ = open.force();
        }
    };
    unmounting::spawn("signals", wait)?;
    Ok(server)
}

/// Waits for a signal that ends.
fn wait_signal(signals: &mut Signals) {
    while !signals.wait().any(|signal| signal != SIGHUP) {}
}
