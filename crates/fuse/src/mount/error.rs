//! Why mounting or unmounting failed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MountErrorKind {
    /// The mount point does not exist.
    NotFound,
    /// The mount point is no directory.
    NotDirectory,
    /// The mount point holds something.
    NotEmpty,
    /// Something is mounted there.
    AlreadyMounted,
    /// A mount is there whose server is gone: unmount it first.
    Stale,
    /// Nothing of this session is mounted there.
    NotMounted,
    /// Files are open in the mount.
    Busy,
    /// Neither root nor a program that may mount.
    NotPermitted,
    /// The kernel has no FUSE: `/dev/fuse` is missing.
    NoDevice,
    /// The program `fusermount3` is not installed.
    NoProgram,
    /// The program `fusermount3` refused; the message says why.
    Refused,
    /// The name of the source is empty or holds control characters.
    Source,
    /// The new mount does not show in `/proc/self/mountinfo`.
    NotListed,
    /// Anything else the system said.
    System,
}

/// Why mounting or unmounting failed, and where.
#[derive(Debug)]
pub struct MountError {
    kind: MountErrorKind,
    path: PathBuf,
    detail: Option<String>,
}

impl MountError {
    pub(super) fn new(kind: MountErrorKind, path: &Path) -> MountError {
        MountError { kind, path: path.to_owned(), detail: None }
    }

    pub(super) fn with_detail(kind: MountErrorKind, path: &Path, detail: String) -> MountError {
        MountError { kind, path: path.to_owned(), detail: Some(detail) }
    }

    /// By what the system said.
    pub(super) fn system(path: &Path, error: &io::Error) -> MountError {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => MountErrorKind::NotFound,
            io::ErrorKind::NotADirectory => MountErrorKind::NotDirectory,
            io::ErrorKind::NotConnected => MountErrorKind::Stale,
            io::ErrorKind::ResourceBusy => MountErrorKind::Busy,
            io::ErrorKind::PermissionDenied => MountErrorKind::NotPermitted,
            _ => MountErrorKind::System,
        };
        MountError::with_detail(kind, path, error.to_string())
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> MountErrorKind {
        self.kind
    }

    /// The path concerned.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.kind {
            MountErrorKind::NotFound => "the mount point does not exist",
            MountErrorKind::NotDirectory => "the mount point is not a directory",
            MountErrorKind::NotEmpty => "the mount point is not empty",
            MountErrorKind::AlreadyMounted => "something is mounted there already",
            MountErrorKind::Stale => "a mount is there whose server is gone; unmount it first",
            MountErrorKind::NotMounted => "it is not mounted",
            MountErrorKind::Busy => "the mount is in use",
            MountErrorKind::NotPermitted => "mounting is not permitted",
            MountErrorKind::NoDevice => "/dev/fuse is missing; the kernel has no FUSE",
            MountErrorKind::NoProgram => "the program fusermount3 is not installed",
            MountErrorKind::Refused => "fusermount3 refused",
            MountErrorKind::Source => "the name of the source is empty or holds control characters",
            MountErrorKind::NotListed => "the new mount does not show in /proc/self/mountinfo",
            MountErrorKind::System => "the system refused",
        };
        write!(f, "{}: {text}", self.path.display())?;
        match &self.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for MountError {}
