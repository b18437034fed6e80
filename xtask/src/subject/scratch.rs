//! A working directory that goes away with its value.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::failure::{Context, Result};
use crate::subject::connection;

/// A temporary directory that other users may enter.
///
/// Invariant: it is never removed while something is still mounted below it, because that would empty
/// the mounted file system.
pub(crate) struct Scratch {
    directory: Option<TempDir>,
}

impl Scratch {
    pub(crate) fn new(parent: Option<&Path>, task: &str) -> Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf).canonicalize()?;
        // Short, since the suites bind sockets below it, whose paths have at most 108 bytes.
        let prefix = format!("sr-{task}-");
        let directory = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&parent)
            .context(format_args!("cannot make a working directory in {}", parent.display()))?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        Ok(Self { directory: Some(directory) })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.as_ref().expect("the directory is there until drop").path()
    }

    /// A new directory below.
    pub(crate) fn make(&self, name: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        fs::create_dir(&path).context(path.display())?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Some(directory) = self.directory.take() else { return };
        match connection::mounts_below(directory.path()) {
            Ok(points) if points.is_empty() => {
                if let Err(error) = directory.close() {
                    eprintln!("cannot remove the working directory: {error}");
                }
            }
            _ => eprintln!("something is still mounted below {}: left there", directory.keep().display()),
        }
    }
}
