//! Mounting by the system call.

use super::UnmountMode;
use super::error::{MountError, MountErrorKind};
use super::options::MountOptions;
use crate::devfuse;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno as System;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::path::Path;

/// Mounts at `path` and answers the connection's descriptor.
pub(super) fn mount(path: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let file = devfuse::open().map_err(|error| match error {
        System::NOENT | System::NODEV | System::NXIO => {
            MountError::new(MountErrorKind::NoDevice, Path::new(devfuse::DEVICE))
        }
        error => MountError::system(Path::new(devfuse::DEVICE), &error.into()),
    })?;
    let data = CString::new(data(&file, options)).expect("numbers and words hold no NUL");
    rustix::mount::mount(
        options.source.as_str(),
        path,
        format!("fuse.{}", options.subtype.name()),
        flags(options),
        data.as_c_str(),
    )
    .map_err(|error| match error {
        System::NODEV => MountError::new(MountErrorKind::NoDevice, Path::new(devfuse::DEVICE)),
        error => MountError::system(path, &error.into()),
    })?;
    Ok(file)
}

fn data(file: &OwnedFd, options: &MountOptions) -> String {
    // The root's mode is its type alone: the kernel asks for the rest.
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions,max_read={}",
        file.as_raw_fd(),
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
        options.read_max,
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    data
}

fn flags(options: &MountOptions) -> MountFlags {
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOSUID, !options.allow_suid);
    flags.set(MountFlags::NODEV, !options.allow_devices);
    flags.set(MountFlags::NOEXEC, options.no_exec);
    flags
}

/// Unmounts what is at `path`.
pub(super) fn unmount(path: &Path, mode: UnmountMode) -> Result<(), MountError> {
    let flags = match mode {
        UnmountMode::Orderly => UnmountFlags::NOFOLLOW,
        UnmountMode::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    rustix::mount::unmount(path, flags).map_err(|error| MountError::system(path, &error.into()))
}
