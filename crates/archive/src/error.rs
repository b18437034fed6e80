//! What can go wrong with an archive.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a directory was not packed, or an archive not unpacked.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system's word on one path.
    System(PathBuf, io::Error),
    /// A file was written to while it was read.
    Changed(PathBuf),
    /// An entry that would land outside of the directory, or go through a
    /// symlink.
    Outside(PathBuf),
    /// What is read is no tar archive, or ends too early.
    Archive(io::Error),
}

impl Error {
    pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(rustix::io::Errno) -> Error {
        let path = path.into();
        move |errno| Error::System(path, errno.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::System(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Changed(path) => write!(f, "{}: it changed while it was read", path.display()),
            Error::Outside(path) => {
                write!(f, "the entry {} would land outside of the directory", path.display())
            }
            Error::Archive(error) => write!(f, "this is no whole tar archive: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::System(_, error) | Error::Archive(error) => Some(error),
            _ => None,
        }
    }
}

/// A reader can report no other: [`Error`] is inside.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::System(_, error) => error.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
