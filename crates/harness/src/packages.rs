//! Programs from outside the repository: Debian packages, and test tools from crates.io and PyPI.
//!
//! As root on a Debian system what is missing gets installed; elsewhere the message says what to install.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command;
use crate::failure::{Context, Failure, Result, ensure};
use crate::workspace;

const INSTALL_LIMIT: Duration = Duration::from_secs(15 * 60);

/// A test tool from crates.io, pinned.
pub struct Tool {
    pub name: &'static str,
    pub version: &'static str,
    /// For `cargo install`, besides.
    pub options: &'static [&'static str],
}

/// The POSIX suite (BSD-2-Clause).
pub const PJDFSTEST: Tool = Tool { name: "pjdfstest", version: "0.2.2", options: &[] };
/// The file system exerciser (APSL-2.0; only ever run, never linked).
pub const FSX: Tool = Tool { name: "fsx", version: "0.3.2", options: &[] };

/// Whether this process is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Ends the task unless it runs as root.
pub fn need_root(task: &str) -> Result {
    ensure!(is_root(), "`cargo xtask {task}` needs root (it switches users and makes device nodes)");
    Ok(())
}

/// Looks a program up in PATH and in the system directories that an ordinary user's PATH lacks.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")])
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

/// Makes sure that each program is there, from the Debian package named beside it.
pub fn need(programs: &[(&str, &str)]) -> Result {
    let mut missing: Vec<&str> =
        programs.iter().filter(|(program, _)| find(program).is_none()).map(|(_, package)| *package).collect();
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing)?;
    for (program, package) in programs {
        ensure!(find(program).is_some(), "{package} is installed, but there is no `{program}`");
    }
    Ok(())
}

/// Installs those Debian packages that are not there. Where there is no dpkg, that is all of them.
pub fn install_missing(packages: &[&str]) -> Result {
    let is_there = |package: &&&str| {
        let mut query = Command::new("dpkg-query");
        query.args(["-W", "-f", "${Status}", package]);
        command::output(&mut query, INSTALL_LIMIT).is_ok_and(|status| status.ends_with("ok installed"))
    };
    let missing: Vec<&str> = packages.iter().filter(|package| !is_there(package)).copied().collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Installs Debian packages.
pub fn install(packages: &[&str]) -> Result {
    let wanted = packages.join(" ");
    ensure!(
        is_root() && Path::new("/usr/bin/apt-get").exists(),
        "missing on this machine: {wanted}. Install it (on Debian, as root: apt-get install {wanted})"
    );
    println!("installing {wanted}");
    apt(["update", "-qq"].as_slice())?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend_from_slice(packages);
    apt(&arguments)
}

fn apt(arguments: &[&str]) -> Result {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command::output(&mut command, INSTALL_LIMIT).map(drop)
}

/// Finds a pinned tool, or builds it under `target/tools`.
pub fn tool(tool: &Tool) -> Result<PathBuf> {
    if let Some(found) = find(tool.name).filter(|path| has_version(path, tool)) {
        return Ok(found);
    }
    let root = workspace::target()?.join("tools");
    let built = root.join("bin").join(tool.name);
    if !has_version(&built, tool) {
        if tool.name == PJDFSTEST.name && !Path::new("/usr/include/sys/acl.h").exists() {
            install(&["libacl1-dev"])?;
        }
        println!("building {} {}", tool.name, tool.version);
        let mut command = workspace::cargo();
        command
            .args(["install", "--quiet", "--locked", tool.name, "--version", tool.version, "--root"])
            .arg(&root)
            .args(tool.options)
            .env_remove("RUSTFLAGS");
        command::output(&mut command, INSTALL_LIMIT)?;
    }
    Ok(built)
}

/// Python's installer, in an environment below `target/tools`.
///
/// # Errors
/// There is no Python, or no environment can be made.
pub fn pip() -> Result<PathBuf> {
    let directory = workspace::target()?.join("tools/python");
    let pip = directory.join("bin/pip");
    if !pip.is_file() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--clear"]).arg(&directory);
        if command::output(&mut make, INSTALL_LIMIT).is_err() {
            install(&["python3-venv"])?;
            command::output(&mut make, INSTALL_LIMIT)?;
        }
    }
    Ok(pip)
}

fn has_version(program: &Path, tool: &Tool) -> bool {
    version_line(program.as_os_str(), "--version").is_ok_and(|line| line.contains(tool.version))
}

/// The first line that a program prints for its version option.
pub fn version_line(program: &OsStr, option: &str) -> Result<String> {
    let mut command = Command::new(program);
    command.arg(option);
    let finished = command::finish(&mut command, Duration::from_secs(20)).context("asking for a version")?;
    finished
        .output()
        .lines()
        .next()
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(format!("{} prints no version", program.to_string_lossy())))
}
