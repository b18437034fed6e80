//! Whether a path can be a mount point.

use super::error::{MountError, MountErrorKind};
use super::options::MountOptions;
use super::table;
use std::path::{Path, PathBuf};

/// `path` made absolute and free of symbolic links, if something can be
/// mounted there.
pub(super) fn mount_point(path: &Path, options: &MountOptions) -> Result<PathBuf, MountError> {
    let system = |error: std::io::Error| MountError::system(path, &error);
    let canonical = path.canonicalize().map_err(system)?;
    // Before anything that would enter a mount which may not answer.
    if table::device_at(&canonical).is_some() {
        return Err(MountError::new(MountErrorKind::AlreadyMounted, &canonical));
    }
    if !canonical.metadata().map_err(system)?.is_dir() {
        return Err(MountError::new(MountErrorKind::NotDirectory, &canonical));
    }
    if !options.allow_nonempty && canonical.read_dir().map_err(system)?.next().is_some() {
        return Err(MountError::new(MountErrorKind::NotEmpty, &canonical));
    }
    Ok(canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(path: &Path) -> Option<MountErrorKind> {
        mount_point(path, &MountOptions::default()).err().map(|error| error.kind())
    }

    #[test]
    fn only_an_empty_directory_will_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(kind(path), None);
        assert_eq!(kind(&path.join("missing")), Some(MountErrorKind::NotFound));
        let file = path.join("file");
        std::fs::write(&file, b"").unwrap();
        assert_eq!(kind(&file), Some(MountErrorKind::NotDirectory));
        assert_eq!(kind(path), Some(MountErrorKind::NotEmpty));
        let anyway = MountOptions { allow_nonempty: true, ..Default::default() };
        assert!(mount_point(path, &anyway).is_ok());
        assert_eq!(kind(Path::new("/proc")), Some(MountErrorKind::AlreadyMounted));
    }
}
