//! Debian's packages as archives of files: unpacked below a directory, and not installed.
//!
//! apt is run with lists and caches of its own, so that other suites and architectures than the system's can be
//! had without a change to the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};

use super::files::LIMIT;

const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Has newer packages of Rust than the stable suites, several versions of each.
const BACKPORTS: &str = "trixie-backports";

/// The packages of an architecture.
pub(crate) struct Archive {
    directory: PathBuf,
    /// Where all packages are unpacked.
    pub(crate) system: PathBuf,
    options: Vec<String>,
}

impl Archive {
    /// Keeps everything below `directory`.
    pub(crate) fn new(directory: &Path, architecture: &str) -> Result<Self> {
        for part in ["lists/partial", "cache/archives/partial", "system"] {
            let part = directory.join(part);
            fs::create_dir_all(&part).context(part.display())?;
        }
        let (mirror, suite) = mirror()?;
        let line = |suite: &str| format!("deb [signed-by={KEYS}] {mirror} {suite} main\n");
        fs::write(directory.join("sources.list"), line(&suite) + &line(BACKPORTS))?;
        let below = |option: &str, name: &str| format!("{option}={}", directory.join(name).display());
        let options = vec![
            below("Dir::Etc::SourceList", "sources.list"),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            below("Dir::State::Lists", "lists"),
            below("Dir::Cache", "cache"),
            format!("APT::Architecture={architecture}"),
            format!("APT::Architectures={architecture}"),
            // The directory may be closed to apt's own user.
            "APT::Sandbox::User=root".to_owned(),
        ];
        Ok(Self { directory: directory.to_owned(), system: directory.join("system"), options })
    }

    /// Unpacks a package; `version` is how the wished one begins.
    pub(crate) fn unpack(&self, package: &str, version: Option<&str>) -> Result {
        let start = format!("{package}_{}", version.unwrap_or_default());
        if self.file(&start)?.is_none() {
            self.apt(&["update", "-qq"])?;
            let wish = version.map_or(package.to_owned(), |version| format!("{package}={version}*"));
            self.apt(&["download", "-qq", &wish])?;
        }
        let file = self.file(&start)?.ok_or_else(|| Failure::new(format!("apt left no {package}")))?;
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("--extract").arg(file).arg(&self.system);
        command::output(&mut unpack, LIMIT).map(drop)
    }

    /// The file whose name begins so, if it is there.
    fn file(&self, start: &str) -> Result<Option<PathBuf>> {
        for entry in fs::read_dir(&self.directory).context(self.directory.display())? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(start) {
                return Ok(Some(entry.path()));
            }
        }
        Ok(None)
    }

    fn apt(&self, arguments: &[&str]) -> Result {
        let mut command = Command::new("apt-get");
        command.current_dir(&self.directory);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command::output(command.args(arguments), LIMIT).map(drop)
    }
}

/// Where this system has its packages of Debian from, and its suite.
fn mirror() -> Result<(String, String)> {
    let mut ask = Command::new("apt-get");
    ask.args([
        "indextargets",
        "--format",
        "$(REPO_URI) $(CODENAME)",
        "Created-By: Packages",
        "Origin: Debian",
    ]);
    let said = command::output(&mut ask, LIMIT)?;
    let first = said.lines().find_map(|line| line.split_once(' '));
    let (mirror, suite) =
        first.ok_or_else(|| Failure::new("apt knows no mirror of Debian: apt-get update"))?;
    ensure!(Path::new(KEYS).exists(), "missing on this machine: debian-archive-keyring");
    Ok((mirror.to_owned(), suite.to_owned()))
}
