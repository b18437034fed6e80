//! A served mount that is gone at the end of its test, however that ends.

use super::Memory;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use strongroom_fuse::{
    Ended, Mount, MountError, MountOptions, Session, SessionError, SessionHandle, SessionOptions,
    TransportChoice, UnmountMode,
};
use tempfile::TempDir;

/// No test takes longer; callers that still wait then get an error. The long
/// form of a test has hours.
fn limit() -> Duration {
    let is_long = std::env::var_os("STRONGROOM_LOOKUPS").is_some();
    Duration::from_secs(if is_long { 3 * 3600 } else { 60 })
}

pub(crate) struct Served {
    pub(crate) filesystem: Arc<Memory>,
    pub(crate) handle: SessionHandle,
    ended: Option<Receiver<Result<Ended, SessionError>>>,
    server: Option<JoinHandle<()>>,
    watchdog: Option<(Sender<()>, JoinHandle<()>)>,
    directory: TempDir,
}

/// True where mounts can be made; says so on standard error where not.
pub(crate) fn can_mount() -> bool {
    let can = Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root();
    if !can {
        eprintln!("skipped: mounting needs root and /dev/fuse");
    }
    can && (transport() != TransportChoice::Ring || has_rings())
}

/// True where the kernel has FUSE over io_uring; says so on standard error
/// where not.
pub(crate) fn has_rings() -> bool {
    let has = Path::new(SWITCH).exists();
    if !has {
        eprintln!("skipped: this kernel has no FUSE over io_uring");
    }
    has
}

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The kernel offers rings to all mounts or to none. While this lives it does,
/// and whoever else tests that waits.
pub(crate) struct Offered {
    before: String,
    _lock: File,
}

impl Offered {
    pub(crate) fn new() -> Offered {
        let path = std::env::temp_dir().join("strongroom-test-fuse-uring.lock");
        let lock = File::options().create(true).truncate(false).write(true).open(path).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let before = std::fs::read_to_string(SWITCH).unwrap();
        std::fs::write(SWITCH, "Y").unwrap();
        Offered { before, _lock: lock }
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        let _ = std::fs::write(SWITCH, self.before.trim());
    }
}

/// What the test programs whose names end so are about.
pub(crate) fn transport() -> TransportChoice {
    match env!("CARGO_CRATE_NAME").ends_with("_ring") {
        true => TransportChoice::Ring,
        false => TransportChoice::Device,
    }
}

impl Served {
    pub(crate) fn new() -> Served {
        let options = SessionOptions { workers: 4, ..Default::default() };
        Served::with(&MountOptions::default(), options).unwrap()
    }

    /// Where nothing is asked for, by what the test program is about: what the
    /// kernel offers changes while others test that.
    pub(crate) fn with(mount: &MountOptions, mut options: SessionOptions) -> Result<Served, MountError> {
        if options.transport == TransportChoice::Automatic {
            options.transport = transport();
        }
        let directory = TempDir::with_prefix("fuse test ").unwrap();
        let offered = (options.transport == TransportChoice::Ring).then(Offered::new);
        let mount = Mount::new(directory.path(), mount)?;
        let filesystem = Arc::new(Memory::new());
        let session = Session::new(mount, Arc::clone(&filesystem), options);
        let handle = session.handle();
        let (sender, ended) = channel();
        let server = std::thread::spawn(move || drop(sender.send(session.run())));
        let watchdog = Some(watch(handle.clone(), Arc::clone(&filesystem)));
        while offered.is_some() && handle.transport().is_none() && !server.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(offered);
        Ok(Served { filesystem, handle, ended: Some(ended), server: Some(server), watchdog, directory })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Waits for the session's end, which must come soon.
    pub(crate) fn ended(&mut self) -> Result<Ended, SessionError> {
        let ended = self.ended.take().expect("a session ends once");
        let result = ended.recv_timeout(Duration::from_secs(60)).expect("the session ends in time");
        self.server.take().unwrap().join().unwrap();
        result
    }

    /// Unmounts in an orderly way and waits for the session's end.
    pub(crate) fn unmount(mut self) -> Ended {
        self.handle.unmount(UnmountMode::Orderly).unwrap();
        self.ended().unwrap()
    }
}

fn watch(handle: SessionHandle, filesystem: Arc<Memory>) -> (Sender<()>, JoinHandle<()>) {
    let (sender, receiver) = channel::<()>();
    let thread = std::thread::spawn(move || {
        if receiver.recv_timeout(limit()) == Err(RecvTimeoutError::Timeout) {
            eprintln!("the test took too long: its connection is aborted");
            filesystem.release_hanging();
            let _ = handle.abort();
        }
    });
    (sender, thread)
}

impl Drop for Served {
    fn drop(&mut self) {
        self.filesystem.release_hanging();
        if let Some(ended) = self.ended.take() {
            let _ = self.handle.unmount(UnmountMode::Lazy);
            if ended.recv_timeout(Duration::from_secs(5)).is_err() {
                let _ = self.handle.abort();
                let _ = ended.recv_timeout(Duration::from_secs(5));
            }
        }
        if let Some((sender, thread)) = self.watchdog.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}
