//! Makes a release: Debian packages and archives with static programs for two architectures, the list of what each
//! program consists of, and sums of all, signed if a key is given. What was stripped from the programs lies beside
//! them.
//!
//! The same sources are to give the same files, in whatever folder they lie.

pub(crate) mod archive;
mod auditable;
mod compile;
pub(crate) mod debian;
mod files;
pub(crate) mod library;
mod package;
mod sbom;
mod sums;
mod tree;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::workspace;

use crate::shipped;
use compile::Target;
use files::{LIMIT, Release};
use tree::Tree;

/// The name of an engine that is for tests alone.
const TEST_ENGINE: &str = "sim-rarely-wrong";

#[derive(Args)]
pub(crate) struct DistArgs {
    /// A built release binary for this machine's Debian package [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the release is put [default: `dist` in the repository]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Sign the sums with this secret key of minisign
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// Build the standard library for static programs, which the compiler lacks, from Debian's packages
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    #[arg(value_parser = library::PLATFORMS.map(|platform| platform.triple))]
    build_std: Vec<String>,
    /// Only the archives with static programs, not the packages
    #[arg(long, conflicts_with = "binary")]
    archives: bool,
    /// Compile a copy of the sources in another folder too, and compare the programs
    #[arg(long, conflicts_with = "binary")]
    verify: bool,
}

/// Writes the packages, the archives, the lists, the sums, and what only debuggers read.
pub(crate) fn run(arguments: &DistArgs) -> Result {
    need_tools(arguments)?;
    let tree = Tree::here()?;
    let out = arguments.out.clone().unwrap_or_else(|| tree.root.join("dist"));
    fs::create_dir_all(&out).context(out.display())?;
    let maker = Maker { tree: &tree, out: out.canonicalize()?, directory: workspace::target()?.join("dist") };
    let mut made = if arguments.archives { Vec::new() } else { maker.packages(arguments)? };
    for platform in &library::PLATFORMS {
        let build = arguments.build_std.iter().any(|triple| triple == platform.triple);
        match platform.target(&maker.directory, build)? {
            Some(target) => {
                let linked = maker.compile(&target, arguments.verify)?;
                made.extend(maker.archive(platform, &target, &linked)?);
            }
            None => println!("no archive: the compiler has no standard library for {}", platform.triple),
        }
    }
    let sums = sums::write(&maker.out, &made)?;
    println!("{}\nin {}", fs::read_to_string(&sums)?.trim_end(), maker.out.display());
    if let Some(key) = &arguments.sign {
        let signature = sums::sign(&sums, key, &format!("strongroom {}", tree.version))?;
        println!("signed: {}", signature.display());
    }
    Ok(())
}

/// Makes what a release has for each target.
struct Maker<'a> {
    tree: &'a Tree,
    /// Where the release is put.
    out: PathBuf,
    /// Where the compiler works.
    directory: PathBuf,
}

impl Maker<'_> {
    /// The Debian packages: for this machine, and for what there is a compiler for.
    fn packages(&self, arguments: &DistArgs) -> Result<Vec<PathBuf>> {
        let host = Target::ordinary(library::host()?);
        let linked = match &arguments.binary {
            Some(binary) => binary.canonicalize().context(binary.display())?,
            None => self.compile(&host, arguments.verify)?,
        };
        let mut made = self.package(None, &host, &linked)?;
        for platform in library::PLATFORMS.iter().filter(|platform| !platform.is_here()) {
            match platform.packaged()? {
                Some(target) => {
                    let linked = self.compile(&target, arguments.verify)?;
                    made.extend(self.package(Some(platform), &target, &linked)?);
                }
                None => println!("no package: the compiler has no standard library for {}", platform.debian),
            }
        }
        Ok(made)
    }

    /// Compiles the program, with `verify` once more from another folder.
    fn compile(&self, target: &Target, verify: bool) -> Result<PathBuf> {
        let program = compile::program(&self.tree.root, target, &self.directory)?;
        if verify {
            let elsewhere = Scratch::new(None, "dist-again")?;
            let sources = elsewhere.make("sources")?;
            self.tree.copy_to(&sources)?;
            let again = compile::program(&sources, target, &sources.join("target"))?;
            let (one, other) = (sums::sum(&program)?, sums::sum(&again)?);
            ensure!(one == other, "{}: {one} here and {other} in another folder", target.triple);
            println!("{}: the same program in two folders, {one}", target.triple);
        }
        Ok(program)
    }

    /// The Debian package for a platform or, without one, for this machine; and what belongs to it.
    fn package(
        &self,
        platform: Option<&library::Platform>,
        target: &Target,
        linked: &Path,
    ) -> Result<Vec<PathBuf>> {
        let architecture = platform.map_or_else(architecture, |platform| Ok(platform.debian.to_owned()))?;
        let scratch = Scratch::new(None, "dist")?;
        let stem = format!("strongroom_{}_{architecture}", self.tree.version);
        let part = self.part(target, linked, platform, scratch.path(), &stem)?;
        let package = self.out.join(format!("{stem}.deb"));
        package::make(&part.release, &architecture, &scratch.make("package")?, &package)?;
        if packages::is_root() {
            package::install(&part.release, &package, &scratch.make("installed")?)
                .context("trying the package")?;
            package::lint(&package)?;
        }
        Ok(vec![part.debug, part.list, package])
    }

    /// The archive with a static program, and what belongs to it.
    fn archive(&self, platform: &library::Platform, target: &Target, linked: &Path) -> Result<Vec<PathBuf>> {
        let scratch = Scratch::new(None, "dist")?;
        let stem = format!("strongroom-{}-{}", self.tree.version, platform.triple.replace("-unknown", ""));
        let part = self.part(target, linked, Some(platform), scratch.path(), &stem)?;
        let archive = self.out.join(format!("{stem}.tar.gz"));
        archive::make(&part.release, &scratch.make("archive")?, &stem, &archive)?;
        if packages::is_root() {
            println!("where there is nothing else:");
            let Release { program, emulator, .. } = &part.release;
            archive::try_in(&scratch.make("alone")?, program, emulator.first().map(Path::new))
                .context("trying the program")?;
        }
        Ok(vec![part.debug, part.list, archive])
    }

    /// The program for a target, below `scratch`; its list and what only debuggers read, in the release.
    fn part(
        &self,
        target: &Target,
        linked: &Path,
        platform: Option<&library::Platform>,
        scratch: &Path,
        stem: &str,
    ) -> Result<Part<'_>> {
        let for_tests = compile::found(linked, "--fixed-strings", &[OsStr::new(TEST_ENGINE)])?;
        ensure!(for_tests.is_empty(), "{} has the engines for tests", linked.display());
        let crates = shipped::crates(&self.tree.root, &target.triple)?;
        let program = scratch.join("strongroom");
        let debug = self.out.join(format!("{stem}.debug"));
        let objcopy = platform.map_or("objcopy".to_owned(), |platform| platform.tool("objcopy"));
        let section = scratch.join("section");
        fs::write(&section, auditable::section(&crates)?)?;
        files::separate(linked, &objcopy, (auditable::SECTION, &section), &program, &debug)?;
        let list = self.out.join(format!("{stem}.cdx.json"));
        let compilers = compile::compilers(linked)?;
        let told = sbom::make(self.tree, &crates, &sums::sum(&program)?, &compilers)?;
        fs::write(&list, told).context(list.display())?;
        let emulator = platform.map_or(Ok(vec![]), library::Platform::emulator)?;
        let mut notices = shipped::notices(&crates)?;
        for (name, licence) in &target.licences {
            let text = fs::read_to_string(licence).context(licence.display())?;
            notices.push_str(&format!("\n{}\n{name}\n\n{}\n", "=".repeat(80), text.trim()));
        }
        Ok(Part { release: Release { tree: self.tree, program, emulator, notices }, debug, list })
    }
}

/// What a package and an archive have in common.
struct Part<'a> {
    release: Release<'a>,
    debug: PathBuf,
    list: PathBuf,
}

fn need_tools(arguments: &DistArgs) -> Result {
    let mut tools = vec![
        ("dpkg-deb", "dpkg"),
        ("gzip", "gzip"),
        ("tar", "tar"),
        ("objcopy", "binutils"),
        ("readelf", "binutils"),
        ("git", "git"),
        ("sha256sum", "coreutils"),
    ];
    if arguments.sign.is_some() {
        tools.push(("minisign", "minisign"));
    }
    packages::need(&tools)
}

/// As Debian names it.
fn architecture() -> Result<String> {
    let mut command = Command::new("dpkg");
    command.arg("--print-architecture");
    Ok(command::output(&mut command, LIMIT)?.trim().to_owned())
}
