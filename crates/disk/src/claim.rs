//! Who uses an image: claims that keep a second writer out, and the locks that
//! cryptsetup takes for the time of reading and changing a header.
//!
//! A claim lasts as long as an image is open. It is not the lock that
//! cryptsetup takes, so that it can look at the header of an open disk. An
//! image that is reached through a loop device is the same image, so whoever
//! opens the one claims the other too.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, major, minor};
use rustix::io::Errno;
use strongroom_store::claims::{claim, loop_target};

/// The byte that a claim locks: far behind any data ("strong", and zeros).
const CLAIMED_AT: i64 = 0x7374_726f_6e67_0000;
/// How long somebody may take to read or change a header.
const HEADER_LIMIT: Duration = Duration::from_secs(5);
/// Where cryptsetup locks block devices (its `--with-luks2-lock-path`).
const LOCKS: &str = "/run/cryptsetup";
/// File systems of the network on which `flock(2)` and locks of byte ranges
/// are one thing (NFS, CIFS, SMB2), so that the one would shut the other out.
const ONE_LOCK: [u64; 3] = [0x6969, 0xff53_4d42, 0xfe53_4d42];

/// Why an image cannot be had.
#[derive(Debug)]
pub enum OpenError {
    /// Another process of this program has it, or the device is claimed.
    InUse,
    /// Somebody reads or changes the header, and goes on with it.
    HeaderInUse,
    /// It is neither a file nor a block device.
    Kind,
    /// The system's error.
    Io(io::Error),
}

/// Claims `file`, which was opened from `path`, and whatever else is the same
/// image; gives what has to stay open for that.
pub(crate) fn take(file: &File, writable: bool) -> Result<Vec<File>, OpenError> {
    let found = file.metadata().map_err(OpenError::Io)?;
    one(file, writable)?;
    match found.file_type().is_block_device() {
        true => below(file, writable),
        false => above(file, &found, writable),
    }
}

fn one(file: &File, writable: bool) -> Result<(), OpenError> {
    match claim(file, CLAIMED_AT, writable) {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::InUse),
        Err(error) => Err(OpenError::Io(error)),
    }
}

/// The file that a loop device lies on from its beginning.
fn below(device: &File, writable: bool) -> Result<Vec<File>, OpenError> {
    if !loop_target(device).is_ok_and(|target| target.offset == 0) {
        return Ok(Vec::new());
    }
    let number = device.metadata().map_err(OpenError::Io)?.rdev();
    let named = format!("/sys/dev/block/{}:{}/loop/backing_file", major(number), minor(number));
    let Ok(path) = std::fs::read_to_string(named) else { return Ok(Vec::new()) };
    // A file whose name is gone cannot be opened by it.
    let opened = File::options().read(true).write(writable).open(path.trim_end_matches('\n'));
    let Ok(file) = opened else { return Ok(Vec::new()) };
    one(&file, writable)?;
    Ok(vec![file])
}

/// The loop devices that lie on a file, none of which anybody uses. They are
/// kept from others for as long as they stay open.
fn above(file: &File, found: &std::fs::Metadata, writable: bool) -> Result<Vec<File>, OpenError> {
    let mut kept = Vec::new();
    let Ok(devices) = std::fs::read_dir("/sys/block") else { return Ok(kept) };
    for name in devices.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()) {
        let sys = Path::new("/sys/block").join(&name);
        if !name.starts_with("loop") || !lies_on(&name, &sys, file, found) {
            continue;
        }
        let reads_only = std::fs::read_to_string(sys.join("ro")).is_ok_and(|ro| ro.trim() == "1");
        if reads_only && !writable {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::open(Path::new("/dev").join(&name), flags, Mode::empty()) {
            Ok(claimed) => kept.push(File::from(claimed)),
            Err(Errno::BUSY) => return Err(OpenError::InUse),
            Err(_) if is_mounted(&sys) => return Err(OpenError::InUse),
            Err(_) => {}
        }
    }
    Ok(kept)
}

/// Whether the loop device `name` lies on a file: by its inode where this user
/// may ask, else by its name. The file that it lies on is not touched: the file
/// system under it may hang.
fn lies_on(name: &str, sys: &Path, file: &File, found: &std::fs::Metadata) -> bool {
    let Ok(path) = std::fs::read_to_string(sys.join("loop/backing_file")) else { return false };
    match File::open(Path::new("/dev").join(name)).and_then(|device| loop_target(&device)) {
        Ok(target) => (target.device, target.inode) == (found.dev(), found.ino()),
        Err(_) => {
            std::fs::read_link(own_path(file)).is_ok_and(|own| own == Path::new(path.trim_end_matches('\n')))
        }
    }
}

/// Whether a block device is mounted, or another lies on it.
fn is_mounted(sys: &Path) -> bool {
    let held = std::fs::read_dir(sys.join("holders")).is_ok_and(|mut all| all.next().is_some());
    let number = std::fs::read_to_string(sys.join("dev")).unwrap_or_default();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    held || mounts.lines().any(|line| line.split(' ').nth(2) == Some(number.trim()))
}

/// The name of an open file that works whatever became of its own.
fn own_path(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Holds cryptsetup's lock of a header until it is dropped.
#[derive(Debug)]
pub struct HeaderLock {
    /// None where there is no such lock to be had.
    held: Option<File>,
    /// The file made for a block device, which its last user removes.
    resource: Option<PathBuf>,
}

impl HeaderLock {
    /// Takes the lock of the header on `file` as cryptsetup does: `flock(2)` of
    /// an image file, or for a block device of a file in `/run/cryptsetup`,
    /// which needs root, as cryptsetup does.
    pub(crate) fn take(file: &File, exclusive: bool) -> Result<HeaderLock, OpenError> {
        let found = file.metadata().map_err(OpenError::Io)?;
        if found.file_type().is_block_device() {
            return HeaderLock::of_device(found.rdev(), exclusive);
        }
        let system = rustix::fs::fstatfs(file).map_err(|errno| OpenError::Io(errno.into()))?;
        if ONE_LOCK.contains(&(system.f_type as u64 & 0xffff_ffff)) {
            return Ok(HeaderLock { held: None, resource: None });
        }
        // A description of its own, so that the lock goes with it.
        let opened = File::open(own_path(file)).map_err(OpenError::Io)?;
        wait(&opened, exclusive)?;
        Ok(HeaderLock { held: Some(opened), resource: None })
    }

    fn of_device(number: u64, exclusive: bool) -> Result<HeaderLock, OpenError> {
        use std::os::unix::fs::DirBuilderExt;
        let resource = Path::new(LOCKS).join(format!("L_{}:{}", major(number), minor(number)));
        let _ = std::fs::DirBuilder::new().mode(0o700).create(LOCKS);
        loop {
            let mut options = File::options();
            options.read(true).write(true).create(true).mode(0o600);
            let opened = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&resource);
            // Whoever may not, may not change the lock's directory either.
            let Ok(opened) = opened else { return Ok(HeaderLock { held: None, resource: None }) };
            wait(&opened, exclusive)?;
            if is_at(&opened, &resource) {
                return Ok(HeaderLock { held: Some(opened), resource: Some(resource) });
            }
            // The one who had it has removed it.
        }
    }
}

impl Drop for HeaderLock {
    fn drop(&mut self) {
        let (Some(held), Some(resource)) = (&self.held, &self.resource) else { return };
        // Nobody else has it or waits with it: it can go.
        let alone = rustix::fs::flock(held, FlockOperation::NonBlockingLockExclusive).is_ok();
        if alone && is_at(held, resource) {
            let _ = std::fs::remove_file(resource);
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let inode = |found: std::fs::Metadata| (found.dev(), found.ino());
    let own = file.metadata().map(inode);
    path.symlink_metadata().map(inode).is_ok_and(|there| own.is_ok_and(|own| own == there))
}

fn wait(file: &File, exclusive: bool) -> Result<(), OpenError> {
    let operation = match exclusive {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    let until = Instant::now() + HEADER_LIMIT;
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(Errno::WOULDBLOCK) => return Err(OpenError::HeaderInUse),
            Err(Errno::INTR) => {}
            // A file system without locks.
            Err(Errno::NOSYS | Errno::NOLCK | Errno::OPNOTSUPP) => return Ok(()),
            Err(errno) => return Err(OpenError::Io(io::Error::from(errno))),
        }
    }
}
