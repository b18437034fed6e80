//! Builds a Debian package: the stripped binary, `mount.strongroom` for fstab, manual pages, shell
//! completions, the documents and examples. What was stripped lies beside it. As root it is also installed
//! into an empty directory and tried there, and lintian has nothing to say about it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::workspace;

const STEP_LIMIT: Duration = Duration::from_secs(120);
const DOCUMENTS: [&str; 2] = ["README.md", "CHANGELOG.md"];
const EXAMPLES: [&str; 2] = ["fstab.example", "strongroom@.service"];

/// The name of an engine that is for tests alone.
const TEST_ENGINE: &[u8] = b"sim-rarely-wrong";

/// What lintian says that is meant so, with the reason.
const OVERRIDES: &str = "\
# The project has no address of its own yet.
strongroom: bogus-mail-host Maintainer strongroom@example.invalid
strongroom: bogus-mail-host-in-debian-changelog strongroom@example.invalid *
# It is built by hand, and was never asked for in a bug report of Debian's.
strongroom: initial-upload-closes-no-bugs *
";

#[derive(Args)]
pub(crate) struct DistArgs {
    /// A built release binary [default: build one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Writes `dist/strongroom_VERSION_ARCHITECTURE.deb`.
pub(crate) fn run(arguments: &DistArgs) -> Result {
    packages::need(&[("dpkg-deb", "dpkg"), ("gzip", "gzip"), ("objcopy", "binutils"), ("git", "git")])?;
    let binary = match &arguments.binary {
        Some(binary) => binary.canonicalize()?,
        None => workspace::build_strongroom()?,
    };
    let program = fs::read(&binary)?;
    let has_test_engines = program.windows(TEST_ENGINE.len()).any(|bytes| bytes == TEST_ENGINE);
    ensure!(!has_test_engines, "{} has the engines for tests", binary.display());
    let (version, architecture) = (version()?, architecture()?);
    let scratch = Scratch::new(None, "dist")?;
    let root = scratch.make("root")?;
    let output = workspace::root().join("dist");
    fs::create_dir_all(&output)?;
    let debug = output.join(format!("strongroom_{version}_{architecture}.debug"));
    fill(&root, &binary, &version)?;
    separate(&binary, &root.join("usr/bin/strongroom"), &debug)?;
    let control = control(&version, &architecture, &program, installed_kib(&root)?);
    put(&root, "DEBIAN/control", control.as_bytes(), 0o644)?;
    put(&root, "DEBIAN/md5sums", sums(&root)?.as_bytes(), 0o644)?;
    let package = output.join(format!("strongroom_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&package);
    command::output(&mut build, STEP_LIMIT)?;
    if packages::is_root() {
        try_out(&package, &scratch.make("installed")?).context("trying the package")?;
        lint(&package)?;
    }
    println!("{}\n{}", package.display(), debug.display());
    Ok(())
}

fn version() -> Result<String> {
    let metadata = workspace::metadata()?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages
        .iter()
        .find(|package| package["name"] == "strongroom")
        .and_then(|package| package["version"].as_str())
        .map(str::to_owned)
        .ok_or_else(|| Failure::new("the workspace has no package `strongroom`"))
}

fn architecture() -> Result<String> {
    let mut command = Command::new("dpkg");
    command.arg("--print-architecture");
    Ok(command::output(&mut command, STEP_LIMIT)?.trim().to_owned())
}

/// The names that mount(8) and umount(8) look for: by the type in fstab, and by
/// the one that the mount table shows.
const HELPERS: [&str; 4] =
    ["mount.strongroom", "mount.fuse.strongroom", "umount.strongroom", "umount.fuse.strongroom"];

/// Lays out everything but the control file.
fn fill(root: &Path, binary: &Path, version: &str) -> Result {
    put(root, "usr/bin/strongroom", &fs::read(binary)?, 0o755)?;
    fs::create_dir_all(root.join("usr/sbin"))?;
    for helper in HELPERS {
        symlink("../bin/strongroom", root.join("usr/sbin").join(helper))?;
    }
    manual(root, binary)?;
    completions(root, binary)?;
    let documents = Path::new("usr/share/doc/strongroom");
    let mut sources: Vec<PathBuf> = DOCUMENTS.map(|name| workspace::root().join(name)).to_vec();
    for directory in ["docs", "docs/format", "docs/json"] {
        let entries = fs::read_dir(workspace::root().join(directory))?;
        for entry in entries.collect::<std::io::Result<Vec<_>>>()? {
            sources.push(entry.path());
        }
    }
    for source in sources.iter().filter(|source| source.is_file()) {
        let name = source.strip_prefix(workspace::root())?;
        put(root, documents.join(name), &fs::read(source).context(source.display())?, 0o644)?;
    }
    put(root, documents.join("copyright"), copyright()?.as_bytes(), 0o644)?;
    put(root, documents.join("changelog"), changelog(version)?.as_bytes(), 0o644)?;
    compress(&root.join(documents).join("changelog"))?;
    for name in EXAMPLES {
        let source = workspace::root().join("packaging").join(name);
        let example = fs::read(&source).context(source.display())?;
        put(root, documents.join("examples").join(name), &example, 0o644)?;
    }
    put(root, "usr/share/lintian/overrides/strongroom", OVERRIDES.as_bytes(), 0o644)
}

fn copyright() -> Result<String> {
    let mit = fs::read_to_string(workspace::root().join("LICENSE-MIT"))?;
    let mit = mit.lines().skip_while(|line| !line.starts_with("Permission"));
    let paragraphs: String =
        mit.map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }).collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: strongroom\n\nFiles: *\nCopyright: 2026 the Strongroom authors\nLicense: MIT or Apache-2.0\n\n\
         License: MIT\n{paragraphs}\nLicense: Apache-2.0\n \
         On Debian systems it lies in /usr/share/common-licenses/Apache-2.0.\n"
    ))
}

/// In Debian's format, with the time of the last change, so that the same sources give the same package.
fn changelog(version: &str) -> Result<String> {
    let mut command = Command::new("git");
    command.current_dir(workspace::root()).args(["log", "-1", "--format=%aD"]);
    let time = command::output(&mut command, STEP_LIMIT)?;
    Ok(format!(
        "strongroom ({version}) unstable; urgency=medium\n\n  * What changed stands in CHANGELOG.md.\n\n -- \
         The Strongroom authors <strongroom@example.invalid>  {}\n",
        time.trim()
    ))
}

/// Compresses a file, without a name and a time in it.
fn compress(path: &Path) -> Result {
    let mut command = Command::new("gzip");
    command.args(["-9", "-n"]).arg(path);
    command::output(&mut command, STEP_LIMIT)?;
    Ok(())
}

/// Writes the binary without what only debuggers read, and that into a file of its own which it names.
fn separate(binary: &Path, stripped: &Path, debug: &Path) -> Result {
    for (options, from, to) in [
        (vec!["--only-keep-debug".to_owned()], binary, debug),
        (
            vec!["--strip-unneeded".to_owned(), format!("--add-gnu-debuglink={}", debug.display())],
            binary,
            stripped,
        ),
    ] {
        let mut command = Command::new("objcopy");
        command.args(options).arg(from).arg(to);
        command::output(&mut command, STEP_LIMIT)?;
    }
    Ok(fs::set_permissions(debug, fs::Permissions::from_mode(0o644))?)
}

/// Sums of all files, as dpkg checks them.
fn sums(root: &Path) -> Result<String> {
    let mut command = Command::new("sh");
    command.current_dir(root).args(["-c", "find usr -type f -print0 | sort -z | xargs -0 md5sum"]);
    command::output(&mut command, STEP_LIMIT)
}

/// Asks lintian, which has nothing to say.
fn lint(package: &Path) -> Result {
    packages::need(&[("lintian", "lintian")])?;
    let mut command = Command::new("lintian");
    command.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]).arg(package);
    let said = command::output(&mut command, STEP_LIMIT).context("lintian")?;
    ensure!(said.trim().is_empty(), "lintian says:\n{said}");
    println!("lintian has nothing to say");
    Ok(())
}

fn put(root: &Path, path: impl AsRef<Path>, contents: &[u8], mode: u32) -> Result {
    let path = root.join(path);
    let parent = path.parent().expect("a packaged file lies in a directory");
    fs::create_dir_all(parent)?;
    fs::write(&path, contents)?;
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
}

fn generated(binary: &Path, what: &str) -> Result<(tempfile::TempDir, Vec<PathBuf>)> {
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(binary);
    command.arg(what).arg(directory.path());
    command::output(&mut command, STEP_LIMIT)?;
    let files = fs::read_dir(directory.path())?.map(|entry| entry.map(|entry| entry.path()));
    let files = files.collect::<std::io::Result<Vec<_>>>()?;
    ensure!(!files.is_empty(), "`strongroom {what}` wrote nothing");
    Ok((directory, files))
}

fn file_name(path: &Path) -> Result<&str> {
    path.file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| Failure::new(format!("an odd file name: {}", path.display())))
}

fn manual(root: &Path, binary: &Path) -> Result {
    let (_directory, mut pages) = generated(binary, "generate-man")?;
    for entry in fs::read_dir(workspace::root().join("packaging/man"))? {
        pages.push(entry?.path());
    }
    for page in pages {
        let section = page.extension().and_then(|section| section.to_str()).unwrap_or("1").to_owned();
        let target = format!("usr/share/man/man{section}/{}", file_name(&page)?);
        put(root, &target, &fs::read(&page)?, 0o644)?;
        compress(&root.join(&target))?;
    }
    for helper in HELPERS.iter().filter(|helper| **helper != HELPERS[0]) {
        symlink(format!("{}.8.gz", HELPERS[0]), root.join(format!("usr/share/man/man8/{helper}.8.gz")))?;
    }
    Ok(())
}

fn completions(root: &Path, binary: &Path) -> Result {
    let (_directory, files) = generated(binary, "generate-completions")?;
    for file in files {
        let name = file_name(&file)?;
        let target = match name {
            "strongroom.bash" => "usr/share/bash-completion/completions/strongroom",
            "_strongroom" => "usr/share/zsh/vendor-completions/_strongroom",
            "strongroom.fish" => "usr/share/fish/vendor_completions.d/strongroom.fish",
            _ => continue,
        };
        put(root, target, &fs::read(&file)?, 0o644)?;
    }
    Ok(())
}

fn installed_kib(directory: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = fs::symlink_metadata(entry.path())?;
        total +=
            if metadata.is_dir() { installed_kib(&entry.path())? } else { metadata.len().div_ceil(1024) };
    }
    Ok(total)
}

fn control(version: &str, architecture: &str, binary: &[u8], installed_kib: u64) -> String {
    let (major, minor) = libc_version(binary).unwrap_or((2, 36));
    format!(
        "Package: strongroom\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: The Strongroom authors <strongroom@example.invalid>\nInstalled-Size: {installed_kib}\n\
         Depends: libc6 (>= {major}.{minor}), libgcc-s1, fuse3\nSection: utils\nPriority: optional\n\
         Description: encrypted folders at the speed of the machine\n \
         Strongroom keeps a folder encrypted and shows it as plain files through FUSE.\n \
         What is stored is authenticated: a change from outside is an error, never\n wrong data.\n"
    )
}

/// The newest glibc symbol version that the binary names.
fn libc_version(binary: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let starts = (0..binary.len().saturating_sub(MARK.len())).filter(|at| binary[*at..].starts_with(MARK));
    starts
        .filter_map(|at| {
            let rest = &binary[at + MARK.len()..];
            let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
            let (major, minor) = std::str::from_utf8(&rest[..end]).ok()?.split_once('.')?;
            Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
        })
        .max()
}

/// Installs into an empty root with an empty package database, and runs what is there.
fn try_out(package: &Path, root: &Path) -> Result {
    let database = root.join("var/lib/dpkg");
    for directory in ["info", "updates"] {
        fs::create_dir_all(database.join(directory))?;
    }
    for file in ["status", "available"] {
        fs::write(database.join(file), "")?;
    }
    let mut install = Command::new("dpkg");
    // The empty root has no libc to depend on; the program runs with this machine's.
    install.args(["--force-depends", "--root"]).arg(root).arg("--install").arg(package);
    command::output(&mut install, STEP_LIMIT)?;
    let version = packages::version_line(root.join("usr/bin/strongroom").as_os_str(), "--version")?;
    for helper in HELPERS {
        ensure!(root.join("usr/sbin").join(helper).is_file(), "{helper} leads nowhere");
    }
    for page in ["man1/strongroom.1.gz", "man5/strongroom-config.5.gz", "man8/umount.strongroom.8.gz"] {
        ensure!(root.join("usr/share/man").join(page).is_file(), "the manual page {page} is missing");
    }
    for document in ["docs/repair.md", "docs/configuration.md", "examples/fstab.example", "changelog.gz"] {
        let path = root.join("usr/share/doc/strongroom").join(document);
        ensure!(path.is_file(), "{document} is missing");
    }
    println!("installed into an empty root: {version}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_libc_symbol_decides() {
        assert_eq!(libc_version(b"..GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0"), Some((2, 34)));
        assert_eq!(libc_version(b"nothing here"), None);
    }
}
