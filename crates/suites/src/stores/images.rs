//! File systems of the kernel, each in an image, and one in memory.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::served::{Served, directory};
use strongroom_harness::failure::Result;
use strongroom_harness::{command, packages};

const LIMIT: Duration = Duration::from_secs(120);
/// What all of them take; nothing of it is written but what is used.
const IMAGE_LEN: u64 = 1 << 30;

pub(super) fn ext4(base: &Path) -> Result<Served> {
    on_image(base, "mkfs.ext4", "e2fsprogs", &["-q", "-F"])
}

pub(super) fn xfs(base: &Path) -> Result<Served> {
    on_image(base, "mkfs.xfs", "xfsprogs", &["-q"])
}

pub(super) fn btrfs(base: &Path) -> Result<Served> {
    on_image(base, "mkfs.btrfs", "btrfs-progs", &["-q"])
}

pub(super) fn tmpfs(base: &Path) -> Result<Served> {
    let mounted = directory(base, "mounted")?;
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=256m", "tmpfs"]).arg(&mounted);
    command::output(&mut mount, LIMIT)?;
    Ok(Served::mounted(mounted, kernel()))
}

fn on_image(base: &Path, mkfs: &str, package: &str, options: &[&str]) -> Result<Served> {
    packages::need(&[(mkfs, package)])?;
    let program = packages::find(mkfs).expect("it is there");
    let image = base.join("image");
    File::create_new(&image)?.set_len(IMAGE_LEN)?;
    command::output(Command::new(&program).args(options).arg(&image), LIMIT)?;
    let mounted = directory(base, "mounted")?;
    command::output(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mounted), LIMIT)?;
    let version = packages::version_line(program.as_os_str(), "-V")?;
    Ok(Served::mounted(mounted, format!("{}, {version}", kernel())))
}

fn kernel() -> String {
    format!("Linux {}", rustix::system::uname().release().to_string_lossy())
}
