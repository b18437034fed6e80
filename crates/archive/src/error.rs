//! What can go wrong with an archive.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

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
            Error::System(path, error) => write!(f, "{}: {error}", shown(path)),
            Error::Changed(path) => write!(f, "{}: it changed while it was read", shown(path)),
            Error::Outside(path) => {
                write!(f, "the entry {} would land outside of the directory", shown(path))
            }
            Error::Archive(error) => write!(f, "this is no whole tar archive: {error}"),
        }
    }
}

/// A path without control characters: who made the archive chose its names.
fn shown(path: &Path) -> String {
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    path.to_string_lossy().chars().map(escaped).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_archives_cannot_steer_a_terminal() {
        let error = Error::Outside(PathBuf::from("../a\u{1b}[2J\nb"));
        assert_eq!(error.to_string(), "the entry ../a\\u{1b}[2J\\nb would land outside of the directory");
    }
}
