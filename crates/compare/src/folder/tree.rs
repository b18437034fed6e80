//! Timed steps on a tree of small files: what unpacking, listing, reading, `git status` and removing cost.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::folder::data::Sample;
use crate::work::Archive;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};

const GIT_LIMIT: Duration = Duration::from_secs(600);

impl Archive {
    fn sample(&self, took: Duration, bytes: u64) -> Sample {
        Sample { seconds: took.as_secs_f64(), bytes, operations: self.files }
    }

    /// `tar x`, without a sync.
    pub(super) fn unpack_sample(&self, directory: &Path) -> Result<Sample> {
        Ok(self.sample(self.unpack(directory)?, self.bytes))
    }

    /// Every file read whole, directory by directory.
    pub(super) fn read_sample(&self, directory: &Path) -> Result<Sample> {
        Ok(self.sample(self.read_back(directory)?, self.bytes))
    }

    /// `find` with a stat of each entry: every directory listed, every name asked for its attributes.
    pub(super) fn list_sample(&self, directory: &Path) -> Result<Sample> {
        let began = Instant::now();
        let bytes = list(&directory.join("small"))?;
        let took = began.elapsed();
        ensure!(bytes == self.bytes, "files of {bytes} bytes are listed instead of {}", self.bytes);
        Ok(self.sample(took, 0))
    }

    /// Makes the tree a repository with everything in its index. Not timed.
    pub(super) fn track(&self, directory: &Path) -> Result {
        for arguments in [["init", "--quiet", "."], ["add", "--all", "."]] {
            git(directory, &arguments)?;
        }
        Ok(())
    }

    /// `git status`, which stats every file in the index.
    pub(super) fn status_sample(&self, directory: &Path) -> Result<Sample> {
        let began = Instant::now();
        let text = git(directory, &["status", "--porcelain", "--untracked-files=no"])?;
        let took = began.elapsed();
        ensure!(text.lines().count() as u64 == self.files, "git sees {} files", text.lines().count());
        Ok(self.sample(took, 0))
    }

    /// `rm -rf`. The repository beside the tree goes first and is not timed.
    pub(super) fn remove_sample(&self, directory: &Path) -> Result<Sample> {
        let repository = directory.join("small/.git");
        if repository.exists() {
            fs::remove_dir_all(&repository).context(repository.display())?;
        }
        let mut command = Command::new("rm");
        command.arg("-rf").arg(directory.join("small"));
        let began = Instant::now();
        command::output(&mut command, GIT_LIMIT)?;
        Ok(self.sample(began.elapsed(), 0))
    }
}

/// The sum of the lengths of all files below `directory`, its repository left out.
fn list(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).context(directory.display())? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if entry.file_name() == ".git" {
            continue;
        }
        bytes += if metadata.is_dir() { list(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

fn git(directory: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory.join("small")).args([
        "-c",
        "core.fsyncMethod=writeout-only",
        "-c",
        "gc.auto=0",
    ]);
    command.args(["-c", "safe.directory=*"]).args(arguments);
    command::output(&mut command, GIT_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_over_a_tree_leaves_nothing() -> Result {
        let directory = tempfile::tempdir()?;
        let archive = Archive::create(directory.path(), 41)?;
        archive.unpack_sample(directory.path())?;
        assert_eq!(archive.list_sample(directory.path())?.operations, 41);
        archive.read_sample(directory.path())?;
        fs::remove_file(directory.path().join("small/directory-002/file-00040"))?;
        assert!(archive.list_sample(directory.path()).is_err());
        archive.remove_sample(directory.path())?;
        assert!(!directory.path().join("small").exists());
        Ok(())
    }
}
