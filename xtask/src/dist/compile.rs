//! Compiles the program so that the same sources give the same bytes in every folder and for every user.
//!
//! The paths of the builder are replaced by names, in Rust by `--remap-path-prefix` and in C by
//! `-ffile-prefix-map`. The C code is arranged for no processor in particular (`.cargo/config.toml`). What
//! the compilers are, and which of GCC and clang compiles libaegis, is left to the builder.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::workspace;

/// A cold release build on two slow cores that others use too.
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// How C compilers name the processor for which they arrange code, in what debuggers read.
const TUNED: &str = "-mtune=[[:alnum:]-]+";
const SEARCH_LIMIT: Duration = Duration::from_secs(120);

/// What a program is compiled for.
pub(crate) struct Target {
    /// As Rust names it.
    pub(super) triple: String,
    /// The program is to be small, where that costs no speed of a cipher.
    pub(super) is_small: bool,
    /// Where its standard library lies, unless it came with the compiler.
    pub(super) sysroot: Option<PathBuf>,
    /// The directory with LLVM's linker, under the name by which GCC finds it there; without it GCC's is taken.
    pub(super) linker: Option<PathBuf>,
    /// Which compilers are taken, as cargo and the build scripts of libraries read it.
    pub(crate) environment: Vec<(String, String)>,
    /// Where else its files lie, with the names that take the place of these paths.
    pub(super) prefixes: Vec<(PathBuf, &'static str)>,
    /// What is linked into its programs besides crates, with the file that has the licence.
    pub(super) licences: Vec<(&'static str, PathBuf)>,
}

impl Target {
    /// One for which the compiler has all that it needs.
    pub(super) fn ordinary(triple: impl Into<String>) -> Self {
        let triple = triple.into();
        Self {
            triple,
            is_small: false,
            sysroot: None,
            linker: None,
            environment: vec![],
            prefixes: vec![],
            licences: vec![],
        }
    }
}

/// Compiles the sources at `root`, and returns the program with what debuggers read.
///
/// # Errors
/// The compiler's; and one where the program has traces of the builder in it.
pub(super) fn program(root: &Path, target: &Target, directory: &Path) -> Result<PathBuf> {
    let mut prefixes =
        vec![(cargo_home()?, "/cargo"), (root.to_owned(), "/strongroom"), (directory.to_owned(), "/target")];
    prefixes.extend(target.prefixes.iter().cloned());
    let mut build = cargo(root, &target.triple, directory);
    let profile = if target.is_small { "small" } else { "release" };
    build.args(["--profile", profile, "--package", "strongroom"]);
    if target.is_small {
        // AWS-LC without tables for signatures, which nobody makes here, and without its code for AVX-512, in whose
        // place the engines have their own.
        build.env("AWS_LC_SYS_SMALL", "1");
    }
    let mut flags = remapped(&prefixes);
    if let Some(sysroot) = &target.sysroot {
        flags.push(format!("--sysroot={}", sysroot.display()));
    }
    if let Some(linker) = &target.linker {
        // An address to be adjusted when the program starts takes a bit instead of 24 bytes.
        let words = ["-fuse-ld=lld", "-Wl,--pack-dyn-relocs=relr"].map(str::to_owned);
        let words = [format!("-B{}", linker.display())].into_iter().chain(words);
        flags.extend(words.map(|word| format!("-Clink-arg={word}")));
    }
    build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    let maps = prefixes.iter().map(|(path, name)| format!("-ffile-prefix-map={}={name}", path.display()));
    build.env("CFLAGS", maps.collect::<Vec<_>>().join(" "));
    build.envs(target.environment.iter().map(|(name, value)| (name, value)));
    command::show(&mut build, LIMIT)?;
    let program = directory.join(&target.triple).join(profile).join("strongroom");
    ensure!(program.is_file(), "the build left no {}", program.display());
    let traces = traces(&program, &prefixes)?;
    ensure!(traces.is_empty(), "{} tells of its builder: {traces:?}", program.display());
    Ok(program)
}

/// `cargo build` of what lies in `root` for a target; the profile is not chosen yet.
pub(super) fn cargo(root: &Path, triple: &str, directory: &Path) -> Command {
    let mut build = workspace::cargo();
    build.current_dir(root).env("CARGO_INCREMENTAL", "0");
    build.args(["build", "--locked", "--target", triple, "--target-dir"]).arg(directory);
    build
}

/// The compiler's options that have paths replaced; of two that fit a path, the later one counts.
pub(super) fn remapped(prefixes: &[(PathBuf, &str)]) -> Vec<String> {
    let option = |(path, name): &(PathBuf, &str)| format!("--remap-path-prefix={}={name}", path.display());
    prefixes.iter().map(option).collect()
}

/// Where cargo keeps the sources of libraries.
fn cargo_home() -> Result<PathBuf> {
    let from_home = || std::env::home_dir().map(|home| home.join(".cargo"));
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(from_home);
    home.ok_or_else(|| Failure::new("neither CARGO_HOME nor HOME is set"))
}

/// Which compilers have made a program, as it says itself.
///
/// # Errors
/// It does not say.
pub(super) fn compilers(program: &Path) -> Result<BTreeSet<String>> {
    let mut read = Command::new("readelf");
    read.env("LC_ALL", "C").args(["--wide", "--string-dump=.comment"]).arg(program);
    let said = command::output(&mut read, SEARCH_LIMIT)?;
    // Each line is `  [   offset]  text`.
    let told = said.lines().filter_map(|line| line.trim_start().strip_prefix('[')?.split_once(']'));
    let compilers: BTreeSet<String> = told.map(|(_, text)| text.trim().to_owned()).collect();
    ensure!(!compilers.is_empty(), "{} does not say what has compiled it", program.display());
    Ok(compilers)
}

/// What a program says of who built it: the paths there, and a processor.
fn traces(program: &Path, prefixes: &[(PathBuf, &str)]) -> Result<BTreeSet<String>> {
    let paths: Vec<&OsStr> = prefixes.iter().map(|(path, _)| path.as_os_str()).collect();
    let mut traces = found(program, "--fixed-strings", &paths)?;
    traces.extend(found(program, "--extended-regexp", &[OsStr::new(TUNED)])?);
    traces.remove("-mtune=generic");
    Ok(traces)
}

/// What fits any of `patterns` of a kind of `grep`'s in a file of any bytes.
pub(super) fn found(file: &Path, kind: &str, patterns: &[&OsStr]) -> Result<BTreeSet<String>> {
    let mut search = Command::new("grep");
    search.env("LC_ALL", "C").args(["--text", "--only-matching", kind]);
    for pattern in patterns {
        search.arg("-e").arg(pattern);
    }
    let finished = command::finish(search.arg("--").arg(file), SEARCH_LIMIT)?;
    ensure!(finished.code() < 2, "grep in {}: {}", file.display(), finished.stderr);
    Ok(finished.stdout.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_tells_of_its_builder_by_paths_and_processors() -> Result {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("program");
        let prefixes = [(PathBuf::from("/home/a"), "/x"), (PathBuf::from("/srv/b"), "/y")];
        let of = |program: &[u8]| -> Result<Vec<String>> {
            std::fs::write(&file, program)?;
            Ok(traces(&file, &prefixes)?.into_iter().collect())
        };
        assert_eq!(of(b"..x/src/lib.rs\0GNU C17 -mtune=generic -march=x86-64\0")?, Vec::<String>::new());
        assert_eq!(of(b"\xff/home/a/l.rs\0C17 -mtune=znver3 -O3\0")?, ["-mtune=znver3", "/home/a"]);
        assert_eq!(of(b"\0/srv/b")?, ["/srv/b"]);
        assert_eq!(of(b"")?, Vec::<String>::new());
        Ok(())
    }

    #[test]
    fn the_later_prefix_counts() {
        let prefixes = [(PathBuf::from("/a"), "/x"), (PathBuf::from("/a/b"), "/y")];
        assert_eq!(remapped(&prefixes), ["--remap-path-prefix=/a=/x", "--remap-path-prefix=/a/b=/y"]);
    }
}
