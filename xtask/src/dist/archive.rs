//! The archive with a static program: laid out as below `/usr/local`, so that it can be unpacked there, or
//! run from where it lies.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};

use super::files::{EXAMPLES, HELPERS, LIMIT, Release, file_name, put, section, settle};

/// In bytes, of the program: boards and their networks are small.
const SIZE_MAX: u64 = 10_000_000;
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// Writes the archive to `path`, everything in it below `name`; `scratch` is an empty directory.
///
/// # Errors
/// The program is not static, or too large.
pub(super) fn make(release: &Release<'_>, scratch: &Path, name: &str, path: &Path) -> Result {
    ensure_static(&release.program)?;
    ensure_small(&release.program)?;
    let root = scratch.join(name);
    fill(release, &root)?;
    settle(&root)?;
    let mut pack = Command::new("tar");
    pack.current_dir(scratch).env("LC_ALL", "C");
    pack.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    pack.arg(format!("--mtime=@{}", release.tree.epoch));
    pack.args(["--use-compress-program=gzip -9 -n", "--file"]).arg(path).arg(name);
    command::output(&mut pack, LIMIT).map(drop)
}

fn ensure_small(program: &Path) -> Result {
    let size = fs::metadata(program)?.size();
    ensure!(
        size < SIZE_MAX,
        "the static program has {size} bytes, {SIZE_MAX} are too many: the linker that comes with Rust's own compiler \
         makes it smaller than GCC's does"
    );
    Ok(())
}

fn fill(release: &Release<'_>, root: &Path) -> Result {
    put(root, "bin/strongroom", &fs::read(&release.program)?, 0o755)?;
    fs::create_dir_all(root.join("sbin"))?;
    for helper in HELPERS {
        symlink("../bin/strongroom", root.join("sbin").join(helper))?;
    }
    let written = tempfile::tempdir()?;
    for page in release.pages(written.path())? {
        let target = Path::new("share/man").join(format!("man{}", section(&page))).join(file_name(&page)?);
        put(root, target, &fs::read(&page)?, 0o644)?;
    }
    let written = tempfile::tempdir()?;
    for file in release.completions(written.path())? {
        let target = match file_name(&file)? {
            "strongroom.bash" => "share/bash-completion/completions/strongroom",
            "_strongroom" => "share/zsh/site-functions/_strongroom",
            "strongroom.fish" => "share/fish/vendor_completions.d/strongroom.fish",
            _ => continue,
        };
        put(root, target, &fs::read(&file)?, 0o644)?;
    }
    let documents = Path::new("share/doc/strongroom");
    for document in release.documents()? {
        put(root, documents.join(&document), &release.read(&document)?, 0o644)?;
    }
    for licence in LICENCES {
        put(root, documents.join(licence), &release.read(licence)?, 0o644)?;
    }
    put(root, documents.join("THIRD-PARTY"), release.notices.as_bytes(), 0o644)?;
    for name in EXAMPLES {
        let example = release.read(Path::new("packaging").join(name))?;
        put(root, documents.join("examples").join(name), &example, 0o644)?;
    }
    Ok(())
}

/// Nothing else is needed to start it: no interpreter loads it, and it names no library.
pub(crate) fn ensure_static(program: &Path) -> Result {
    let mut read = Command::new("readelf");
    read.env("LC_ALL", "C").args(["--wide", "--program-headers", "--dynamic"]).arg(program);
    let said = command::output(&mut read, LIMIT)?;
    let needs = needs(&said);
    ensure!(needs.is_empty(), "{} is not static:\n{}", program.display(), needs.join("\n"));
    Ok(())
}

/// The lines of `readelf` that name what has to be there for a program to start.
fn needs(said: &str) -> Vec<&str> {
    let is_need = |line: &&str| line.trim_start().starts_with("INTERP") || line.contains("(NEEDED)");
    said.lines().filter(is_need).map(str::trim).collect()
}

/// Makes a vault, and where there is a `/dev/fuse`, mounts it in the foreground and in the background: `$1` is the
/// directory, the rest is what runs the program in it. The name space of mounts is its own, so that nothing stays.
const VAULT: &str = r#"
set -e
root=$1
shift
run() { chroot "$root" "$@"; }
daemon=
trap '[ -z "$daemon" ] || kill "$daemon"' EXIT
mkdir -p "$root/proc" "$root/dev" "$root/run" "$root/plain"
mount -t proc proc "$root/proc"
run "$@" init /vault --password-file /password --recovery-out none
run "$@" check /vault --password-file /password
test -e /dev/fuse || exit 0
mknod "$root/dev/fuse" c 10 229
run "$@" mount /vault /plain --foreground --password-file /password &
daemon=$!
until mountpoint -q "$root/plain"; do
    kill -0 $daemon
    sleep 0.1
done
echo whole > "$root/plain/file"
grep -qx whole "$root/plain/file"
run "$@" umount /plain
wait $daemon
daemon=
run "$@" mount /vault /plain --password-file /password
grep -qx whole "$root/plain/file"
run "$@" umount /plain
run "$@" check /vault --password-file /password
"#;

/// Runs the program as root in `root`, where there is nothing but it and what runs it, and what was there before: no
/// `/dev`, no `/proc`; for a vault `/proc` and `/run`. Prints the version.
pub(crate) fn try_in(root: &Path, program: &Path, emulator: Option<&Path>) -> Result {
    fs::copy(program, root.join("strongroom")).context(root.display())?;
    fs::write(root.join("password"), "an empty room\n")?;
    let mut words = Vec::new();
    if let Some(emulator) = emulator {
        fs::copy(emulator, root.join("emulator")).context(emulator.display())?;
        words.push("/emulator");
    }
    words.push("/strongroom");
    let run = |arguments: &[&str]| {
        command::output(Command::new("chroot").arg(root).args(&words).args(arguments), LIMIT)
    };
    let version = run(&["--version"])?;
    let engines = run(&["engines"])?;
    ensure!(engines.contains("self-test passed") && !engines.contains("FAILED"), "{engines}");
    run(&["file", "keygen", "-o", "/key"])?;
    let recipient = run(&["file", "keygen", "-y", "/key"])?;
    run(&["file", "encrypt", "-r", recipient.trim(), "-o", "/password.age", "/password"])?;
    run(&["file", "decrypt", "-i", "/key", "-o", "/again", "/password.age"])?;
    ensure!(fs::read(root.join("again"))? == fs::read(root.join("password"))?, "it decrypts something else");
    let mut vault = Command::new("unshare");
    vault.args(["--mount", "sh", "-c", VAULT, "vault"]).arg(root).args(&words);
    command::output(&mut vault, LIMIT).context("a vault")?;
    let mounted =
        if Path::new("/dev/fuse").exists() { "" } else { " (nothing mounted: there is no /dev/fuse)" };
    println!("  {}{mounted}", version.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_needs_a_loader_or_a_library_is_not_static() {
        let said = "  INTERP         0x000318 0x0000000000000318 R   0x1\n      [Requesting program interpreter: /lib64/x]\n\
                    \x20 DYNAMIC        0x2d0\n 0x0000000000000001 (NEEDED)  Shared library: [libc.so.6]\n";
        assert_eq!(needs(said).len(), 2);
        assert!(
            needs("  LOAD           0x000000\n  DYNAMIC        0x2d0\n 0x000000006ffffffb (FLAGS_1) PIE\n")
                .is_empty()
        );
    }

    #[test]
    fn a_program_of_ten_megabytes_is_too_large() -> Result {
        let file = tempfile::NamedTempFile::new()?;
        file.as_file().set_len(9_999_999)?;
        ensure_small(file.path())?;
        file.as_file().set_len(10_000_000)?;
        assert!(ensure_small(file.path()).is_err());
        Ok(())
    }

    #[test]
    fn the_program_of_a_test_is_not_static_here() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(ensure_static(&own).is_err(), cfg!(not(target_feature = "crt-static")));
    }
}
