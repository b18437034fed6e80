//! Mounting and unmounting: by the system call where permitted, else through
//! `fusermount3`.
//!
//! Everything known of a mount is read from `/proc/self/mountinfo` and
//! `/sys`; the mount itself is never touched, since only this process could
//! answer.

mod check;
mod connection;
mod direct;
mod error;
mod fusermount;
mod options;
mod table;

pub use error::{MountError, MountErrorKind};
pub use options::{MountMethod, MountOptions, Subtype};

use rustix::fd::OwnedFd;
use rustix::mount::UnmountFlags;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use table::DeviceNumber;

/// How to unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountMode {
    /// Fails while files are open.
    Orderly,
    /// The name goes at once; the session ends when the last file is closed.
    Lazy,
}

/// Where a mount is and how it came to be there.
#[derive(Clone, Debug)]
pub(crate) struct MountPoint {
    path: PathBuf,
    device: DeviceNumber,
    method: MountMethod,
}

/// A mount that this process is to serve. Its requests wait until a
/// [`Session`](crate::Session) runs. Dropping it unmounts lazily.
#[derive(Debug)]
pub struct Mount {
    point: Arc<MountPoint>,
    file: Option<OwnedFd>,
}

impl Mount {
    /// Mounts at `path`.
    ///
    /// # Errors
    /// [`MountError`], by kind; nothing is mounted then.
    pub fn new(path: &Path, options: &MountOptions) -> Result<Mount, MountError> {
        options.check()?;
        let path = check::mount_point(path, options)?;
        let (file, method) = mount(&path, options)?;
        match table::device_at(&path) {
            Some(device) => {
                let point = Arc::new(MountPoint { path, device, method });
                Ok(Mount { point, file: Some(file) })
            }
            None => {
                // Its device number is needed to abort it; without /proc there
                // is no way to serve it safely.
                let _ = unmount(&path, method, UnmountMode::Lazy);
                Err(MountError::new(MountErrorKind::NotListed, &path))
            }
        }
    }

    /// The mount point, absolute and without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.point.path
    }

    pub(crate) fn point(&self) -> &Arc<MountPoint> {
        &self.point
    }

    /// The connection's descriptor, once.
    pub(crate) fn take_file(&mut self) -> Option<OwnedFd> {
        self.file.take()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Callers that wait for an answer get an error now, not never.
        self.file = None;
        if self.point.is_mounted() {
            let _ = self.point.unmount(UnmountMode::Lazy);
        }
    }
}

impl MountPoint {
    /// True while this very mount is at its path.
    pub(crate) fn is_mounted(&self) -> bool {
        table::device_at(&self.path) == Some(self.device)
    }

    /// The program that unmounts, where this process may not.
    pub(crate) fn unmounts_by(&self) -> Option<&'static str> {
        by_program(self.method).then_some(fusermount::PROGRAM)
    }

    /// Unmounts. Not from a thread that serves the mount: an orderly unmount
    /// first writes back what the page cache holds.
    pub(crate) fn unmount(&self, mode: UnmountMode) -> Result<(), MountError> {
        if !self.is_mounted() {
            return Err(MountError::new(MountErrorKind::NotMounted, &self.path));
        }
        unmount(&self.path, self.method, mode)
    }

    /// Ends the connection: every caller, waiting or to come, gets an error.
    pub(crate) fn abort(&self) -> Result<(), MountError> {
        match connection::abort(self.device) {
            Ok(()) => Ok(()),
            Err(error) => {
                // Without the control file system, a forced unmount aborts
                // before it finds the mount busy or not.
                if !self.is_mounted() {
                    return Err(MountError::new(MountErrorKind::NotMounted, &self.path));
                }
                match rustix::mount::unmount(&self.path, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW) {
                    Ok(()) | Err(rustix::io::Errno::BUSY) => Ok(()),
                    Err(_) => Err(MountError::system(&self.path, &error)),
                }
            }
        }
    }

    /// Sets the mount's readahead, in KiB; true when the system permitted it.
    pub(crate) fn set_readahead(&self, kib: u32) -> bool {
        connection::set_readahead(self.device, kib).is_ok()
    }

    /// Sets which part of the system's dirty memory may be this mount's, in
    /// percent; true when the system permitted it.
    pub(crate) fn set_dirty_percent(&self, percent: u32) -> bool {
        connection::set_dirty_percent(self.device, percent).is_ok()
    }
}

fn mount(path: &Path, options: &MountOptions) -> Result<(OwnedFd, MountMethod), MountError> {
    let directly = || direct::mount(path, options).map(|file| (file, MountMethod::Direct));
    let by_program = || fusermount::mount(path, options).map(|file| (file, MountMethod::Fusermount));
    match options.method {
        MountMethod::Direct => directly(),
        MountMethod::Fusermount => by_program(),
        MountMethod::Automatic if rustix::process::geteuid().is_root() => match directly() {
            Err(error) if error.kind() == MountErrorKind::NotPermitted => by_program(),
            result => result,
        },
        MountMethod::Automatic => by_program(),
    }
}

/// Whether a mount that was made so is unmounted by `fusermount3`.
fn by_program(method: MountMethod) -> bool {
    method == MountMethod::Fusermount && !rustix::process::geteuid().is_root()
}

fn unmount(path: &Path, method: MountMethod, mode: UnmountMode) -> Result<(), MountError> {
    if by_program(method) { fusermount::unmount(path, mode) } else { direct::unmount(path, mode) }
}
