//! The program without libraries, on AArch64: alone in a directory, and in Debian's and Alpine's files for that
//! architecture. In Debian's the program with libraries is tried too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::failure::{Failure, Result};
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

/// Tries each program in each place.
pub(super) fn run(tally: &mut Tally) -> Result {
    AARCH64.need()?;
    library::need(TRIPLE)?;
    packages::need_root("arm")?;
    let directory = workspace::target()?.join("arm");
    let alone = program(&directory)?;
    let emulator = machine::whole(&AARCH64.emulator_file())?;
    tally.count("no libraries", archive::ensure_static(&alone));
    let scratch = Scratch::new(None, "arm")?;
    let tried = |place: PathBuf, program: &Path| archive::try_in(&place, program, Some(&emulator));
    tally.count("static, alone in a directory", scratch.make("empty").and_then(|place| tried(place, &alone)));
    let debian = system(&directory)?;
    let alpine = alpine::system(&directory)?;
    let dynamic = AARCH64.program()?;
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

/// The static program, compiled as tests are: what a release has takes several times as long, and `dist` tries it.
fn program(directory: &Path) -> Result<PathBuf> {
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
