//! Debian packages, downloaded and unpacked below the build directory; nothing of them is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result};
use strongroom_harness::workspace;

const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Backports have a kernel of 6.5 or later, which is what ublk needs.
const SOURCES: &str = "\
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm-backports main
";

/// Where package lists, packages and what was unpacked lie. The lists are its own: those of the system stay as they
/// are.
pub(super) struct Debian(PathBuf);

impl Debian {
    pub(super) fn new() -> Result<Self> {
        let directory = workspace::target()?.join("vm");
        for name in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(directory.join(name))?;
        }
        fs::write(directory.join("sources.list"), SOURCES)?;
        Ok(Self(directory))
    }

    /// Takes what an earlier run has unpacked as `name`, or has `make` fill the empty directory.
    pub(super) fn unpacked(&self, name: &str, make: impl FnOnce(&Self, &Path) -> Result) -> Result<PathBuf> {
        let root = self.0.join(name);
        if !root.join("complete").exists() {
            let _ = fs::remove_dir_all(&root);
            fs::create_dir(&root)?;
            println!("downloading Debian packages: {name}");
            self.apt("apt-get", &["update", "-qq"])?;
            make(self, &root)?;
            fs::write(root.join("complete"), "")?;
        }
        Ok(root)
    }

    /// One of apt's programs, in the directory.
    pub(super) fn apt(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        for (key, value) in [
            ("Dir::State::Lists", self.0.join("lists")),
            ("Dir::Cache", self.0.join("cache")),
            ("Dir::Etc::SourceList", self.0.join("sources.list")),
            ("Dir::Etc::SourceParts", PathBuf::from("/dev/null")),
        ] {
            command.arg("-o").arg(format!("{key}={}", value.display()));
        }
        command.args(["-o", "APT::Sandbox::User=root"]).args(arguments).current_dir(&self.0);
        command::output(&mut command, LIMIT)
    }

    /// Unpacks one package to `root`.
    pub(super) fn package(&self, package: &str, root: &Path) -> Result {
        self.apt("apt-get", &["download", "-qq", package])?;
        let files = packages_in(&self.0)?;
        let file = files.first().ok_or_else(|| Failure::new(format!("{package} was not downloaded")))?;
        unpack(file, root)
    }

    /// Unpacks packages to `root`, with all that they need but the C library: programs are loaded by this system's.
    pub(super) fn packages(&self, packages: &[&str], root: &Path) -> Result {
        // As if nothing was installed.
        let mut words = vec!["-o", "Dir::State::status=/dev/null", "-o", "APT::Install-Recommends=false"];
        words.extend(["install", "--download-only", "--yes", "-qq"]);
        words.extend(packages);
        self.apt("apt-get", &words)?;
        for file in packages_in(&self.0.join("cache/archives"))? {
            let is_c_library =
                file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc6_"));
            match is_c_library {
                true => fs::remove_file(file)?,
                false => unpack(&file, root)?,
            }
        }
        Ok(())
    }
}

fn packages_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(files.filter(|path| path.extension().is_some_and(|kind| kind == "deb")).collect())
}

fn unpack(file: &Path, root: &Path) -> Result {
    command::output(Command::new("dpkg-deb").arg("-x").arg(file).arg(root), LIMIT)?;
    Ok(fs::remove_file(file)?)
}
