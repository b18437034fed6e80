//! A machine that is not there: which compiler makes programs for it, and what runs them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::{command, packages, workspace};

use crate::dist::library;

/// Compiling everything from nothing, on two slow cores.
pub(super) const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// An architecture with Debian's C library.
pub(super) struct Machine {
    /// As Rust names it.
    triple: &'static str,
    /// As GNU's tools name it.
    gnu: &'static str,
    /// As QEMU names it.
    qemu: &'static str,
    /// Debian's packages with the compiler and the C library.
    packages: [&'static str; 2],
}

pub(super) const AARCH64: Machine = Machine {
    triple: "aarch64-unknown-linux-gnu",
    gnu: "aarch64-linux-gnu",
    qemu: "aarch64",
    packages: ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
};

/// The boards of the last decade: 32 bits, without instructions for cryptography.
pub(super) const ARMV7: Machine = Machine {
    triple: "armv7-unknown-linux-gnueabihf",
    gnu: "arm-linux-gnueabihf",
    qemu: "arm",
    packages: ["gcc-arm-linux-gnueabihf", "libc6-dev-armhf-cross"],
};

impl Machine {
    /// Sees that all is there to compile for it and to run what was compiled.
    ///
    /// # Errors
    /// Names what is missing.
    pub(super) fn need(&self) -> Result {
        packages::install_missing(&[self.packages[0], self.packages[1], "qemu-user-static"])?;
        library::need(self.triple)
    }

    /// A C compiler for it.
    pub(super) fn compiler(&self) -> String {
        format!("{}-gcc", self.gnu)
    }

    /// What runs its programs, with the C library that they were linked against; `hidden` is a library that is loaded
    /// before all others.
    pub(super) fn emulator(&self, hidden: Option<&Path>) -> Vec<String> {
        let mut words = vec![self.emulator_file(), "-L".to_owned(), format!("/usr/{}", self.gnu)];
        if let Some(library) = hidden {
            words.extend(["-E".to_owned(), format!("LD_PRELOAD={}", library.display())]);
        }
        words
    }

    /// The emulator's program, which is static.
    pub(super) fn emulator_file(&self) -> String {
        format!("qemu-{}-static", self.qemu)
    }

    /// `cargo` with a word such as `build`, for it.
    pub(super) fn cargo(&self, word: &str) -> Command {
        let mut cargo = workspace::cargo();
        let variable = self.triple.to_uppercase().replace('-', "_");
        cargo.env(format!("CARGO_TARGET_{variable}_LINKER"), self.compiler());
        cargo.args([word, "--locked", "--target", self.triple]);
        cargo
    }

    /// The program, compiled as tests are, which takes less time than a release.
    pub(super) fn program(&self) -> Result<PathBuf> {
        let mut build = self.cargo("build");
        build.args(["--quiet", "--profile", "test", "--package", "strongroom"]);
        command::show(&mut build, BUILD_LIMIT)?;
        built(self.triple)
    }
}

/// Where cargo has left the program for a target.
pub(super) fn built(triple: &str) -> Result<PathBuf> {
    let program = workspace::target()?.join(triple).join("debug/strongroom");
    ensure!(program.is_file(), "the build left no {}", program.display());
    Ok(program)
}

/// A script that runs `program` as if this machine could, for suites that take a program.
pub(super) fn wrapped(emulator: &[String], program: &Path, script: &Path) -> Result {
    let words = emulator.iter().map(String::as_str).chain([program.to_str().unwrap_or_default()]);
    let quoted: Vec<String> = words.map(|word| format!("'{word}'")).collect();
    ensure!(!quoted.iter().any(|word| word[1..word.len() - 1].contains('\'')), "an odd path: {quoted:?}");
    fs::write(script, format!("#!/bin/sh\nexec {} \"$@\"\n", quoted.join(" "))).context(script.display())?;
    Ok(fs::set_permissions(script, Permissions::from_mode(0o755))?)
}

/// A program of this system, by its whole path.
pub(super) fn whole(program: &str) -> Result<PathBuf> {
    packages::find(program).ok_or_else(|| Failure::new(format!("there is no {program}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_program_gets_the_emulator_in_front_and_its_words_behind() -> Result {
        let directory = tempfile::tempdir()?;
        let script = directory.path().join("script");
        wrapped(&["printf".to_owned(), "<%s>".to_owned()], Path::new("/a b/program"), &script)?;
        // By the shell: another test may start a program while this file is open to be written.
        let mut run = Command::new("sh");
        let said = command::output(run.arg(&script).args(["one", "two three"]), BUILD_LIMIT)?;
        assert_eq!(said, "</a b/program><one><two three>");
        Ok(())
    }
}
