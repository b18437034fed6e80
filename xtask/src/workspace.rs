//! Where the repository is, and its own binaries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::command;
use crate::failure::{Failure, Result, ensure};

/// A cold release build on two slow cores.
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);

/// The repository root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_path_buf()
}

/// `cargo`, in the repository root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// `cargo metadata` of the workspace members.
pub(crate) fn metadata() -> Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    Ok(serde_json::from_str(&command::output(&mut command, Duration::from_secs(120))?)?)
}

/// Cargo's target directory.
pub(crate) fn target() -> Result<PathBuf> {
    metadata()?["target_directory"]
        .as_str()
        .map(PathBuf::from)
        .ok_or_else(|| Failure::new("cargo metadata names no target directory"))
}

/// Builds the release binary and returns its path.
pub(crate) fn build_strongroom() -> Result<PathBuf> {
    build("strongroom", "strongroom")
}

/// Builds a package's release binary and returns its path. The program is built with it: what both depend
/// on then has the same features, and is not compiled twice.
pub(crate) fn build(package: &str, binary: &str) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--release", "--package", "strongroom", "--package", package]);
    command::show(&mut command, BUILD_LIMIT)?;
    let binary = target()?.join("release").join(binary);
    ensure!(binary.is_file(), "the build left no {}", binary.display());
    Ok(binary)
}
