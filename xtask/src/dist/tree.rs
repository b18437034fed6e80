//! The sources of a release: which version they are, and when they were changed last.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result};
use strongroom_harness::workspace;

const LIMIT: Duration = Duration::from_secs(120);

/// Sources in a directory.
pub(super) struct Tree {
    pub(super) root: PathBuf,
    pub(super) version: String,
    /// The time that goes into everything that has one, in seconds since 1970: `SOURCE_DATE_EPOCH`, or that of
    /// the last commit.
    pub(super) epoch: u64,
}

impl Tree {
    /// The repository.
    pub(super) fn here() -> Result<Self> {
        let root = workspace::root();
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_) => git(&root, &["log", "-1", "--format=%ct"])?,
        };
        let epoch = epoch.trim().parse().context("SOURCE_DATE_EPOCH")?;
        Ok(Self { root, version: version()?, epoch })
    }

    /// Copies the files that Git has, as they are now, into an empty directory.
    pub(super) fn copy_to(&self, directory: &Path) -> Result {
        for file in git(&self.root, &["ls-files"])?.lines() {
            let to = directory.join(file);
            std::fs::create_dir_all(to.parent().expect("a file is in a directory"))?;
            std::fs::copy(self.root.join(file), &to).context(file)?;
        }
        Ok(())
    }

    /// The time, as `date` prints it in `format`.
    pub(super) fn date(&self, format: &str) -> Result<String> {
        let mut command = Command::new("date");
        command.env("LC_ALL", "C").args(["--utc", "--date", &format!("@{}", self.epoch), format]);
        Ok(command::output(&mut command, LIMIT)?.trim().to_owned())
    }
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    // The repository may belong to somebody else than root, who packages it.
    command.args(["-c", "safe.directory=*"]).current_dir(root).args(arguments);
    command::output(&mut command, LIMIT)
}

fn version() -> Result<String> {
    let metadata = workspace::metadata()?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages
        .iter()
        .find(|package| package["name"] == "strongroom")
        .and_then(|package| package["version"].as_str())
        .map(str::to_owned)
        .ok_or_else(|| Failure::new("the workspace has no package `strongroom`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_last_change_wherever_it_is_read() -> Result {
        let tree = Tree { root: PathBuf::new(), version: "1.2.3".into(), epoch: 86_400 };
        assert_eq!(tree.date("+%FT%TZ")?, "1970-01-02T00:00:00Z");
        assert_eq!(tree.date("+%a, %d %b %Y %H:%M:%S %z")?, "Fri, 02 Jan 1970 00:00:00 +0000");
        Ok(())
    }
}
