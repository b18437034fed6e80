//! The program without libraries, on AArch64: alone in a directory, and in Debian's and Alpine's files for that
//! architecture. In Debian's the program with libraries is tried too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::failure::{Context, Failure, Result};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::tally::Tally;
use strongroom_harness::{command, packages, workspace};

use super::alpine;
use super::machine::{self, AARCH64, BUILD_LIMIT};
use crate::dist::archive;
use crate::dist::debian::Archive;
use crate::dist::library::{self, PLATFORMS};

const TRIPLE: &str = "aarch64-unknown-linux-musl";
/// What Debian's package of the program depends on, and a shell.
const SYSTEM: [&str; 4] = ["base-files", "busybox-static", "libc6", "libgcc-s1"];
const LIMIT: Duration = Duration::from_secs(120);

/// Tries each program in each place; those of a release, if there is one.
pub(super) fn run(tally: &mut Tally, release: Option<&Path>) -> Result {
    AARCH64.need()?;
    packages::need_root("arm")?;
    let directory = workspace::target()?.join("arm");
    let scratch = Scratch::new(None, "arm")?;
    let (alone, dynamic) = match release {
        Some(release) => released(release, &scratch.make("release")?)?,
        None => (program(&directory)?, AARCH64.program()?),
    };
    let emulator = machine::whole(&AARCH64.emulator_file())?;
    tally.count("no libraries", archive::ensure_static(&alone));
    let tried = |place: PathBuf, program: &Path| archive::try_in(&place, program, Some(&emulator));
    tally.count("static, alone in a directory", scratch.make("empty").and_then(|place| tried(place, &alone)));
    let debian = system(&directory)?;
    let alpine = alpine::system(&directory)?;
    let rows = [
        ("static, in Debian's arm64 files", &debian, &alone),
        ("dynamic, in Debian's arm64 files", &debian, &dynamic),
        ("static, in Alpine's aarch64 files", &alpine, &alone),
    ];
    for (name, system, program) in rows {
        let place = scratch.path().join(name.replace([' ', ','], "-"));
        tally.count(name, copied(system, &place).and_then(|()| tried(place, program)));
    }
    Ok(())
}

/// The static program of a release, and the one of its Debian package, unpacked below `to`.
fn released(release: &Path, to: &Path) -> Result<(PathBuf, PathBuf)> {
    let archive = only(release, "-aarch64-linux-musl.tar.gz")?;
    let package = only(release, "_arm64.deb")?;
    let mut unpack = Command::new("tar");
    unpack.arg("--extract").arg("--strip-components=1").arg("--file").arg(archive).arg("--directory").arg(to);
    command::output(&mut unpack, LIMIT)?;
    let installed = to.join("installed");
    command::output(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&installed), LIMIT)?;
    Ok((to.join("bin/strongroom"), installed.join("usr/bin/strongroom")))
}

/// The one file in a directory whose name ends so.
fn only(directory: &Path, end: &str) -> Result<PathBuf> {
    let entries = std::fs::read_dir(directory).context(directory.display())?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let mut found = paths.into_iter().filter(|path| path.to_string_lossy().ends_with(end));
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        _ => Err(Failure::new(format!("{} has not one file that ends with {end}", directory.display()))),
    }
}

/// The static program, compiled as tests are: what a release has takes several times as long.
fn program(directory: &Path) -> Result<PathBuf> {
    library::need(TRIPLE)?;
    let platform = PLATFORMS.iter().find(|platform| platform.triple == TRIPLE);
    let target = platform.map(|platform| platform.target(directory, false)).transpose()?.flatten();
    let target = target.ok_or_else(|| Failure::new(format!("{TRIPLE} is none of the release's")))?;
    let mut build = workspace::cargo();
    build.args(["build", "--quiet", "--locked", "--profile", "test", "--package", "strongroom"]);
    build.args(["--target", TRIPLE]).env("AWS_LC_SYS_SMALL", "1");
    build.envs(target.environment.iter().map(|(name, value)| (name, value)));
    command::show(&mut build, BUILD_LIMIT)?;
    machine::built(TRIPLE)
}

/// Debian's files for AArch64, unpacked.
fn system(directory: &Path) -> Result<PathBuf> {
    let archive = Archive::new(&directory.join("debian-arm64"), "arm64")?;
    for package in SYSTEM {
        archive.unpack(package, None)?;
    }
    Ok(archive.system)
}

fn copied(from: &Path, to: &Path) -> Result {
    command::output(Command::new("cp").arg("--archive").arg(from).arg(to), LIMIT).map(drop)
}
