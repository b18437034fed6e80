//! Whether the kernel offers FUSE over io_uring, which it does to all new mounts or to none.
//!
//! Invariant: what was there before is there again when the value that changed it goes, whatever happened
//! meanwhile. Only the end of this process by a signal leaves it as it is.

use std::fs;
use std::path::{Path, PathBuf};

use strongroom_harness::failure::{Context, Failure, Result};

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The kernel's switch.
pub(crate) struct Switch(PathBuf);

impl Switch {
    /// # Errors
    /// The kernel has none, or this process may not use it: in one line.
    pub(crate) fn find() -> Result<Self> {
        Self::at(Path::new(SWITCH))
    }

    fn at(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Err(Failure::new("the kernel has no FUSE over io_uring, or has not loaded fuse"));
        }
        let switch = Self(path.to_path_buf());
        switch.write(&switch.read()?).map(|()| switch)
    }

    /// Has new mounts be offered it, or not, as long as the value lives.
    pub(crate) fn turn(&self, on: bool) -> Result<Turned<'_>> {
        let before = self.read()?;
        self.write(if on { "Y" } else { "N" })?;
        Ok(Turned { switch: self, before })
    }

    fn read(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.0).context(self.0.display())?.trim().to_owned())
    }

    fn write(&self, value: &str) -> Result {
        fs::write(&self.0, value).context(self.0.display())
    }
}

/// The switch as it was asked to be; dropped, it is as it was before.
pub(crate) struct Turned<'a> {
    switch: &'a Switch,
    before: String,
}

impl Drop for Turned<'_> {
    fn drop(&mut self) {
        if let Err(failure) = self.switch.write(&self.before) {
            eprintln!("FUSE over io_uring was `{}` before and stays as it is: {failure}", self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_is_there_again() -> Result {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("switch");
        for before in ["N\n", "Y\n"] {
            fs::write(&path, before)?;
            let switch = Switch::at(&path)?;
            for (on, value) in [(true, "Y"), (false, "N")] {
                let turned = switch.turn(on)?;
                assert_eq!(switch.read()?, value);
                drop(turned);
                assert_eq!(switch.read()?, before.trim());
            }
            let failing = || -> Result {
                let _turned = switch.turn(true)?;
                Err(Failure::new("a suite fails"))
            };
            assert!(failing().is_err());
            assert_eq!(switch.read()?, before.trim());
        }
        Ok(())
    }

    #[test]
    fn a_kernel_without_it_says_so_in_one_line() {
        let failure = Switch::at(Path::new("/nowhere/enable_uring")).err().expect("there is no switch");
        assert_eq!(failure.to_string().lines().count(), 1);
    }
}
