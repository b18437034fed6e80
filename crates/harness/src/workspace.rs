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
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("it lies in the repository").to_path_buf()
}

/// `cargo`, in the repository root.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// `cargo metadata` of the workspace members.
pub fn metadata() -> Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    Ok(serde_json::from_str(&command::output(&mut command, Duration::from_secs(120))?)?)
}

/// Cargo's target directory.
pub fn target() -> Result<PathBuf> {
    metadata()?["target_directory"]
        .as_str()
        .map(PathBuf::from)
        .ok_or_else(|| Failure::new("cargo metadata names no target directory"))
}

/// Builds the release binary and returns its path.
pub fn build_strongroom() -> Result<PathBuf> {
    build("strongroom", "strongroom")
}

/// The same with the engines for tests, which no binary that is shipped has.
pub fn build_with_test_engines() -> Result<PathBuf> {
    build_with("strongroom", "strongroom", &["--features", "strongroom/test-engines"])
}

/// Builds a package's release binary and returns its path. The program is built with it: what both depend
/// on then has the same features, and is not compiled twice.
pub fn build(package: &str, binary: &str) -> Result<PathBuf> {
    build_with(package, binary, &[])
}

fn build_with(package: &str, binary: &str, words: &[&str]) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--release", "--package", "strongroom", "--package", package]).args(words);
    command::show(&mut command, BUILD_LIMIT)?;
    let binary = target()?.join("release").join(binary);
    ensure!(binary.is_file(), "the build left no {}", binary.display());
    Ok(binary)
}
