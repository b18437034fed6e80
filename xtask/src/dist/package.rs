//! The Debian package: the program, `mount.strongroom` for fstab, manual pages, completions, the documents
//! and examples. As root it is also installed into an empty directory, and lintian has nothing to say.
//!
//! `dpkg-deb` makes it and no other tool: the manual pages and completions come from the program that is
//! packaged.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use strongroom_harness::command;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::packages;

use super::files::{EXAMPLES, HELPERS, LIMIT, Release, file_name, put, section, settle};

/// What lintian says that is meant so, with the reason.
const OVERRIDES: &str = "\
# The project has no address of its own yet.
strongroom: bogus-mail-host Maintainer strongroom@example.invalid
strongroom: bogus-mail-host-in-debian-changelog strongroom@example.invalid *
# It is built by hand, and was never asked for in a bug report of Debian's.
strongroom: initial-upload-closes-no-bugs *
";

/// Writes the package for Debian's `architecture` to `path`; `root` is an empty directory.
pub(super) fn make(release: &Release<'_>, architecture: &str, root: &Path, path: &Path) -> Result {
    fill(release, root)?;
    let control = control(release, architecture, &fs::read(&release.program)?, installed_kib(root)?);
    put(root, "DEBIAN/control", control.as_bytes(), 0o644)?;
    put(root, "DEBIAN/md5sums", sums(root)?.as_bytes(), 0o644)?;
    settle(root)?;
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", release.tree.epoch.to_string());
    build.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]).arg(root).arg(path);
    command::output(&mut build, LIMIT).map(drop)
}

/// Lays out everything but the control file.
fn fill(release: &Release<'_>, root: &Path) -> Result {
    put(root, "usr/bin/strongroom", &fs::read(&release.program)?, 0o755)?;
    fs::create_dir_all(root.join("usr/sbin"))?;
    for helper in HELPERS {
        symlink("../bin/strongroom", root.join("usr/sbin").join(helper))?;
    }
    manual(release, root)?;
    completions(release, root)?;
    let documents = Path::new("usr/share/doc/strongroom");
    for document in release.documents()? {
        put(root, documents.join(&document), &release.read(&document)?, 0o644)?;
    }
    put(root, documents.join("copyright"), copyright(release)?.as_bytes(), 0o644)?;
    put(root, documents.join("THIRD-PARTY"), release.notices.as_bytes(), 0o644)?;
    put(root, documents.join("changelog"), changelog(release)?.as_bytes(), 0o644)?;
    for name in ["THIRD-PARTY", "changelog"] {
        compress(&root.join(documents).join(name))?;
    }
    for name in EXAMPLES {
        let example = release.read(Path::new("packaging").join(name))?;
        put(root, documents.join("examples").join(name), &example, 0o644)?;
    }
    put(root, "usr/share/lintian/overrides/strongroom", OVERRIDES.as_bytes(), 0o644)
}

fn copyright(release: &Release<'_>) -> Result<String> {
    let mit = String::from_utf8_lossy(&release.read("LICENSE-MIT")?).into_owned();
    let mit = mit.lines().skip_while(|line| !line.starts_with("Permission"));
    let paragraphs: String =
        mit.map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }).collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: strongroom\n\
         Comment: What the program contains of others stands in THIRD-PARTY.gz.\n\n\
         Files: *\nCopyright: 2026 the Strongroom authors\nLicense: MIT or Apache-2.0\n\n\
         License: MIT\n{paragraphs}\nLicense: Apache-2.0\n \
         On Debian systems it lies in /usr/share/common-licenses/Apache-2.0.\n"
    ))
}

/// In Debian's format, with the time of the last change, so that the same sources give the same package.
fn changelog(release: &Release<'_>) -> Result<String> {
    Ok(format!(
        "strongroom ({}) unstable; urgency=medium\n\n  * What changed stands in CHANGELOG.md.\n\n -- \
         The Strongroom authors <strongroom@example.invalid>  {}\n",
        release.tree.version,
        release.tree.date("+%a, %d %b %Y %H:%M:%S %z")?
    ))
}

/// Compresses a file, without a name and a time in it.
fn compress(path: &Path) -> Result {
    let mut command = Command::new("gzip");
    command.args(["-9", "-n"]).arg(path);
    command::output(&mut command, LIMIT).map(drop)
}

/// Sums of all files, as dpkg checks them.
fn sums(root: &Path) -> Result<String> {
    let mut command = Command::new("sh");
    command.env("LC_ALL", "C").current_dir(root);
    command.args(["-c", "find usr -type f -print0 | sort -z | xargs -0 md5sum"]);
    command::output(&mut command, LIMIT)
}

fn manual(release: &Release<'_>, root: &Path) -> Result {
    let directory = tempfile::tempdir()?;
    for page in release.pages(directory.path())? {
        let target = format!("usr/share/man/man{}/{}", section(&page), file_name(&page)?);
        put(root, &target, &fs::read(&page)?, 0o644)?;
        compress(&root.join(&target))?;
    }
    for helper in HELPERS.iter().filter(|helper| **helper != HELPERS[0]) {
        symlink(format!("{}.8.gz", HELPERS[0]), root.join(format!("usr/share/man/man8/{helper}.8.gz")))?;
    }
    Ok(())
}

fn completions(release: &Release<'_>, root: &Path) -> Result {
    let directory = tempfile::tempdir()?;
    for file in release.completions(directory.path())? {
        let target = match file_name(&file)? {
            "strongroom.bash" => "usr/share/bash-completion/completions/strongroom",
            "_strongroom" => "usr/share/zsh/vendor-completions/_strongroom",
            "strongroom.fish" => "usr/share/fish/vendor_completions.d/strongroom.fish",
            _ => continue,
        };
        put(root, target, &fs::read(&file)?, 0o644)?;
    }
    Ok(())
}

/// Of files and links alone: how large a directory is depends on where it lies.
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

fn control(release: &Release<'_>, architecture: &str, program: &[u8], installed_kib: u64) -> String {
    let (major, minor) = libc_version(program).unwrap_or((2, 36));
    format!(
        "Package: strongroom\nVersion: {}\nArchitecture: {}\n\
         Maintainer: The Strongroom authors <strongroom@example.invalid>\nInstalled-Size: {installed_kib}\n\
         Depends: libc6 (>= {major}.{minor}), libgcc-s1, fuse3\nSection: utils\nPriority: optional\n\
         Description: encrypted folders at the speed of the machine\n \
         Strongroom keeps a folder encrypted and shows it as plain files through FUSE.\n \
         What is stored is authenticated: a change from outside is an error, never\n wrong data.\n",
        release.tree.version, architecture
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

/// Asks lintian, which has nothing to say.
pub(super) fn lint(package: &Path) -> Result {
    packages::need(&[("lintian", "lintian")])?;
    let mut command = Command::new("lintian");
    command.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]).arg(package);
    let finished = command::finish(&mut command, LIMIT)?;
    ensure!(
        finished.status.success() && finished.stdout.trim().is_empty(),
        "lintian says:\n{}",
        finished.output()
    );
    println!("lintian has nothing to say");
    Ok(())
}

/// Installs into an empty root with an empty package database, and looks at what is there.
pub(super) fn install(release: &Release<'_>, package: &Path, root: &Path) -> Result {
    let database = root.join("var/lib/dpkg");
    for directory in ["info", "updates"] {
        fs::create_dir_all(database.join(directory))?;
    }
    for file in ["status", "available"] {
        fs::write(database.join(file), "")?;
    }
    let mut install = Command::new("dpkg");
    // The empty root has no libc to depend on; the program runs with this machine's, or with the emulator's.
    install.args(["--force-depends", "--force-architecture", "--root"]).arg(root);
    command::output(install.arg("--install").arg(package), LIMIT)?;
    let version = command::output(release.run(&root.join("usr/bin/strongroom")).arg("--version"), LIMIT)?;
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
    println!("installed into an empty root: {}", version.trim());
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
