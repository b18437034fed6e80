//! A working directory that goes away with its value.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::failure::{Context, Result};
use crate::subject::connection;

/// Waits for the end of its input; then unmounts what is still mounted below a directory, a second after
/// daemons may have been told to end as well, and removes the directory (see [`remove`]).
const GUARD: &str = r#"
trap "" INT TERM HUP
cat > /dev/null
sleep 1
findmnt -rno TARGET | grep -F "$1/" | sort -r | while read -r point; do umount -l "$point"; done
sleep 1
findmnt -rno TARGET | grep -qF "$1/" && exit
chattr -R -f -ai "$1"
rm -rf --one-file-system "$1"
"#;

/// A temporary directory that other users may enter.
///
/// Invariant: it is never removed while something is still mounted below it, because that would empty
/// the mounted file system.
pub struct Scratch {
    directory: Option<TempDir>,
    guard: Option<Child>,
}

impl Scratch {
    pub fn new(parent: Option<&Path>, task: &str) -> Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf).canonicalize()?;
        // Short, since the suites bind sockets below it, whose paths have at most 108 bytes.
        let prefix = format!("sr-{task}-");
        let directory = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&parent)
            .context(format_args!("cannot make a working directory in {}", parent.display()))?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        Ok(Self { directory: Some(directory), guard: None })
    }

    /// Has another process tidy up when this one is ended from outside: it waits for the end of a pipe that
    /// nobody else holds.
    pub fn guarded(mut self) -> Result<Self> {
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(self.path()).stdin(Stdio::piped());
        self.guard = Some(guard.spawn().context("sh")?);
        Ok(self)
    }

    pub fn path(&self) -> &Path {
        self.directory.as_ref().expect("the directory is there until drop").path()
    }

    /// A new directory below.
    pub fn make(&self, name: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        fs::create_dir(&path).context(path.display())?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            // What is left here on purpose is not the guard's.
            let _ = guard.kill().and_then(|()| guard.wait());
        }
        let Some(directory) = self.directory.take() else { return };
        match connection::mounts_below(directory.path()) {
            Ok(points) if points.is_empty() => {
                let directory = directory.keep();
                if let Err(error) = remove(&directory) {
                    eprintln!("cannot remove the working directory {}: {error}", directory.display());
                }
            }
            _ => eprintln!("something is still mounted below {}: left there", directory.keep().display()),
        }
    }
}

/// Removes a directory with all that is in it, also files that a stressor ended at work left immutable or
/// append-only: root may not remove those before the attribute is gone.
fn remove(directory: &Path) -> io::Result<()> {
    fs::remove_dir_all(directory).or_else(|_| {
        Command::new("chattr").args(["-R", "-f", "-ai"]).arg(directory).status()?;
        fs::remove_dir_all(directory)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_left_append_only_goes_too() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(Some(parent.path()), "attributes").unwrap();
        let path = scratch.path().to_path_buf();
        let file = scratch.make("below").unwrap().join("file");
        fs::write(&file, b"").unwrap();
        let marked = Command::new("chattr").arg("+a").arg(&file).stderr(Stdio::null()).status();
        if marked.is_ok_and(|status| status.success()) {
            fs::remove_file(&file).unwrap_err();
        } else {
            // Not root, without CAP_LINUX_IMMUTABLE, or on a file system without attributes.
            eprintln!("no append-only files here: only an ordinary one was seen to go");
        }
        drop(scratch);
        assert!(!path.exists());
    }
}
