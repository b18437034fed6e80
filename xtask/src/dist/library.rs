//! The standard library for static programs, on musl: the one that came with the compiler or, if wished, one
//! that is built from Debian's packages.
//!
//! What is built lies in a directory of its own, to which the compiler is pointed; nothing gets installed.
//! Debian's package `rust-src` has the sources, which have to be of the compiler's version. Headers of the C library
//! come from Debian in both cases: the compiler brings none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::{packages, workspace};

use super::compile::{self, Target};
use super::debian::Archive;
use super::files::LIMIT;

/// Compiling the standard library on two slow cores that others use too.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The C library, and what unwinds stacks.
const PACKAGES: [&str; 2] = ["musl-dev", "libunwind-19-dev"];
/// LLVM's libunwind is compiled against glibc, whose checked `fprintf` musl does not have.
const SHIM: &str = "\
#include <stdarg.h>
#include <stdio.h>
int __fprintf_chk(FILE *file, int flag, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int written = vfprintf(file, format, values);
    va_end(values);
    return written;
}
";

/// An architecture for which static programs are made.
pub(crate) struct Platform {
    pub(crate) triple: &'static str,
    /// As Debian names the architecture.
    pub(super) debian: &'static str,
    /// As GNU's tools name it in front of their own names.
    gnu: &'static str,
    /// As directories of musl are named.
    musl: &'static str,
}

pub(crate) const PLATFORMS: [Platform; 2] = [
    Platform {
        triple: "x86_64-unknown-linux-musl",
        debian: "amd64",
        gnu: "x86_64-linux-gnu",
        musl: "x86_64-linux-musl",
    },
    Platform {
        triple: "aarch64-unknown-linux-musl",
        debian: "arm64",
        gnu: "aarch64-linux-gnu",
        musl: "aarch64-linux-musl",
    },
];

impl Platform {
    /// A tool for the architecture, such as `gcc`.
    pub(super) fn tool(&self, name: &str) -> String {
        format!("{}-{name}", self.gnu)
    }

    /// What Debian's package is compiled for, with Debian's compiler for the architecture; none where Rust's compiler
    /// has no standard library for it. This machine's own architecture needs neither.
    ///
    /// # Errors
    /// A package cannot be had.
    pub(super) fn packaged(&self) -> Result<Option<Target>> {
        let triple = format!("{}-unknown-linux-gnu", self.architecture());
        if !is_had(&triple)? {
            return Ok(None);
        }
        let library = format!("libc6-dev-{}-cross", self.debian);
        packages::install_missing(&[&self.compiler(), &library])?;
        let linker = format!("CARGO_TARGET_{}_LINKER", triple.replace('-', "_").to_uppercase());
        let environment = vec![(linker, self.tool("gcc"))];
        Ok(Some(Target { environment, ..Target::ordinary(triple) }))
    }

    /// The target with the library that came with the compiler or, with `build`, one that is built below
    /// `directory`; none without both.
    ///
    /// # Errors
    /// Debian has no sources of the compiler's version, or a package cannot be had.
    pub(crate) fn target(&self, directory: &Path, build: bool) -> Result<Option<Target>> {
        let installed = if build { is_installed(self.triple)? } else { is_had(self.triple)? };
        if !installed && !build {
            return Ok(None);
        }
        packages::need(&[(&self.tool("gcc"), &self.compiler())])?;
        let directory = directory.join(format!("musl-{}", self.debian));
        let archive = Archive::new(&directory, self.debian)?;
        let mut licences = Vec::new();
        for package in PACKAGES {
            archive.unpack(package, None)?;
            licences.push((package, archive.system.join("usr/share/doc").join(package).join("copyright")));
        }
        let environment = self.environment(&archive.system)?;
        let sysroot =
            if installed { None } else { Some(self.sysroot(&archive, &directory, &environment)?) };
        let prefixes = vec![(directory, "/musl")];
        let triple = self.triple.to_owned();
        let linker = linker()?;
        Ok(Some(Target { triple, is_small: true, sysroot, linker, environment, prefixes, licences }))
    }

    /// What runs a program for the architecture here, with Debian's libraries for it; nothing where this machine does.
    pub(super) fn emulator(&self) -> Result<Vec<String>> {
        if self.is_here() {
            return Ok(vec![]);
        }
        let name = format!("qemu-{}-static", self.architecture());
        packages::need(&[(&name, "qemu-user-static")])?;
        let path = packages::find(&name).ok_or_else(|| Failure::new(format!("there is no {name}")))?;
        Ok(vec![path.display().to_string(), "-L".to_owned(), format!("/usr/{}", self.gnu)])
    }

    /// Whether this machine runs its programs.
    pub(super) fn is_here(&self) -> bool {
        self.architecture() == std::env::consts::ARCH
    }

    /// As Rust names the architecture.
    fn architecture(&self) -> &str {
        self.triple.split('-').next().unwrap_or_default()
    }

    /// Debian's package with the C compiler.
    fn compiler(&self) -> String {
        format!("gcc-{}", self.gnu.replace('_', "-"))
    }

    /// Makes a sysroot that has the standard library for the architecture, and nothing else.
    fn sysroot(
        &self,
        archive: &Archive,
        directory: &Path,
        environment: &[(String, String)],
    ) -> Result<PathBuf> {
        let version = field("release: ")?;
        archive.unpack("rust-src", Some(&version)).context(format_args!(
            "the compiler is of version {version}, which Debian's backports may not have"
        ))?;
        let sources = archive.system.join(format!("usr/src/rustc-{version}/library"));
        let sysroot = directory.join(format!("sysroot-{version}"));
        let libraries = sysroot.join(libraries(self.triple));
        if libraries.exists() {
            fs::remove_dir_all(&libraries).context(libraries.display())?;
        }
        fs::create_dir_all(libraries.join("self-contained"))?;
        self.compile(&sources, &directory.join(format!("target-{version}")), &libraries)?;
        self.complete(&archive.system, &libraries.join("self-contained"), environment)?;
        Ok(sysroot)
    }

    /// Compiles the library's crates into `to`.
    fn compile(&self, sources: &Path, directory: &Path, to: &Path) -> Result {
        let mut build = compile::cargo(&sources.join("sysroot"), self.triple, directory);
        build.args(["--release", "--features", "panic-unwind,backtrace"]);
        let mut flags = compile::remapped(&[(sources.to_owned(), "/rustc/library")]);
        flags.extend(["-Zforce-unstable-if-unmarked", "-Cembed-bitcode=yes"].map(str::to_owned));
        build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        // The standard library is made with what programs may not use.
        build.env("RUSTC_BOOTSTRAP", "1");
        command::show(&mut build, BUILD_LIMIT)?;
        let made = directory.join(self.triple).join("release/deps");
        for entry in fs::read_dir(&made).context(made.display())? {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| kind == "rlib") {
                fs::copy(&path, to.join(path.file_name().expect("an entry has a name")))?;
            }
        }
        Ok(())
    }

    /// Lays out what the linker takes besides: how a program starts and ends, the C library, libunwind.
    fn complete(&self, system: &Path, to: &Path, environment: &[(String, String)]) -> Result {
        let musl = system.join("usr/lib").join(self.musl);
        for name in ["crt1.o", "rcrt1.o", "Scrt1.o", "crti.o", "crtn.o", "libc.a"] {
            fs::copy(musl.join(name), to.join(name)).context(name)?;
        }
        for name in ["crtbegin.o", "crtbeginS.o", "crtend.o", "crtendS.o"] {
            fs::copy(self.of_gcc(name)?, to.join(name)).context(name)?;
        }
        fs::copy(system.join("usr/lib/llvm-19/lib/libunwind.a"), to.join("libunwind.a"))
            .context("libunwind.a")?;
        fs::write(to.join("shim.c"), SHIM)?;
        let mut compile = Command::new(self.tool("gcc"));
        let flags = environment.iter().find(|(name, _)| name.starts_with("CFLAGS")).map(|(_, flags)| flags);
        compile.current_dir(to).args(flags.map(String::as_str).unwrap_or_default().split(' '));
        compile.args(["-O2", "-c", "shim.c"]);
        command::output(&mut compile, LIMIT)?;
        let mut add = Command::new("ar");
        add.current_dir(to).args(["rD", "libunwind.a", "shim.o"]);
        command::output(&mut add, LIMIT).map(drop)
    }

    /// A file that came with GCC.
    fn of_gcc(&self, name: &str) -> Result<PathBuf> {
        let mut ask = Command::new(self.tool("gcc"));
        ask.arg(format!("-print-file-name={name}"));
        let path = PathBuf::from(command::output(&mut ask, LIMIT)?.trim());
        ensure!(path.is_absolute(), "GCC has no {name}");
        Ok(path)
    }

    /// GCC as the compiler and linker, with musl's headers in place of glibc's.
    fn environment(&self, system: &Path) -> Result<Vec<(String, String)>> {
        let suffix = self.triple.replace('-', "_");
        let own = self.of_gcc("include")?;
        let musl = system.join("usr/include").join(self.musl);
        let flags =
            format!("-mtune=generic -nostdinc -isystem {} -isystem {}", musl.display(), own.display());
        Ok(vec![
            (format!("CC_{suffix}"), self.tool("gcc")),
            (format!("CFLAGS_{suffix}"), flags),
            (format!("CARGO_TARGET_{}_LINKER", suffix.to_uppercase()), self.tool("gcc")),
        ])
    }
}

/// The directory with LLVM's linker; none where the compiler came without one, as Debian's does.
fn linker() -> Result<Option<PathBuf>> {
    let directory = Path::new(rustc(&["--print", "sysroot"])?.trim()).join("lib/rustlib").join(host()?);
    let directory = directory.join("bin/gcc-ld");
    Ok(directory.join("ld.lld").is_file().then_some(directory))
}

/// Where the libraries for a target lie below a sysroot.
fn libraries(triple: &str) -> PathBuf {
    Path::new("lib/rustlib").join(triple).join("lib")
}

/// Whether the compiler came with the standard library for a target, or got it later.
fn is_installed(triple: &str) -> Result<bool> {
    Ok(Path::new(rustc(&["--print", "sysroot"])?.trim()).join(libraries(triple)).is_dir())
}

/// Whether the compiler has the standard library for a target, or rustup could fetch it.
fn is_had(triple: &str) -> Result<bool> {
    if !is_installed(triple)? && packages::find("rustup").is_some() {
        println!("fetching the standard library for {triple}");
        let fetched = command::finish(Command::new("rustup").args(["target", "add", triple]), LIMIT)?;
        if !fetched.status.success() {
            println!("rustup could not: {}", fetched.stderr.lines().last().unwrap_or_default());
        }
    }
    is_installed(triple)
}

/// Sees that the compiler has the standard library for a target; rustup fetches it where there is a rustup.
///
/// # Errors
/// Says what to install.
pub(crate) fn need(triple: &str) -> Result {
    ensure!(
        is_had(triple)?,
        "the compiler has no standard library for {triple}, and rustup did not fetch it: rustup target add {triple}"
    );
    Ok(())
}

/// As Rust names what the compiler itself runs on.
pub(super) fn host() -> Result<String> {
    field("host: ")
}

fn field(name: &str) -> Result<String> {
    let said = rustc(&["-vV"])?;
    let value = said.lines().find_map(|line| line.strip_prefix(name));
    value.map(str::to_owned).ok_or_else(|| Failure::new(format!("rustc -vV has no `{name}`")))
}

fn rustc(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.args(arguments).current_dir(workspace::root());
    command::output(&mut command, LIMIT)
}
