//! A Debian kernel with its modules, as its package has them; nothing of it is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::debian::Debian;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};

const LIMIT: Duration = Duration::from_secs(15 * 60);

pub(super) struct Kernel {
    pub(super) release: String,
    pub(super) image: PathBuf,
    /// The directory with `kernel/` and `modules.dep`.
    modules: PathBuf,
}

impl Kernel {
    /// Takes what an earlier run has left in the build directory, or downloads it.
    pub(super) fn fetch() -> Result<Self> {
        let root = Debian::new()?.unpacked("kernel", download)?;
        let modules = root.join("lib/modules");
        let entry =
            fs::read_dir(&modules)?.next().ok_or_else(|| Failure::new("the package has no modules"))??;
        let release = entry.file_name().to_string_lossy().into_owned();
        let image = root.join(format!("boot/vmlinuz-{release}"));
        ensure!(image.is_file(), "the package has no kernel");
        Ok(Self { release, image, modules: entry.path() })
    }

    /// Copies modules and what they need to `directory`, and returns their files in the order of loading. Those that
    /// are built in have no file.
    pub(super) fn copy_modules(&self, names: &[&str], directory: &Path) -> Result<Vec<String>> {
        let table = fs::read_to_string(self.modules.join("modules.dep"))?;
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        for name in names {
            let line = table.lines().find(|line| {
                let file = line.split(':').next().unwrap_or_default();
                module_name(file) == name.replace('-', "_")
            });
            let Some((file, needs)) = line.and_then(|line| line.split_once(':')) else { continue };
            // What is needed stands behind what needs it.
            for path in needs.split_whitespace().rev().chain([file]) {
                if seen.insert(path.to_owned()) {
                    order.push(self.copy(path, directory)?);
                }
            }
        }
        Ok(order)
    }

    fn copy(&self, path: &str, directory: &Path) -> Result<String> {
        let name = format!("{}.ko", module_name(path));
        let source = self.modules.join(path);
        let target = directory.join(&name);
        if path.ends_with(".xz") {
            let to = fs::File::create(&target)?;
            let mut command = Command::new("xz");
            command.arg("-dc").arg(&source).stdout(to);
            command::show(&mut command, LIMIT).context(path)?;
        } else {
            fs::copy(&source, &target)?;
        }
        Ok(name)
    }
}

/// The module of a file, which is spelled with hyphens or not.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or_default();
    name.split(".ko").next().unwrap_or_default().replace('-', "_")
}

fn download(debian: &Debian, root: &Path) -> Result {
    let meta = "linux-image-amd64/bookworm-backports";
    let needs = debian.apt("apt-cache", &["depends", meta])?;
    let release = needs.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let release = release.ok_or_else(|| Failure::new(format!("{meta} names no kernel")))?;
    debian.package(&format!("linux-image-{release}"), root)?;
    let depmod = strongroom_harness::packages::find("depmod").unwrap_or_else(|| "depmod".into());
    command::output(Command::new(depmod).arg("-b").arg(root).arg(release), LIMIT).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_known_by_either_spelling() {
        assert_eq!(module_name("kernel/drivers/md/dm-crypt.ko.xz"), "dm_crypt");
        assert_eq!(module_name("kernel/crypto/serpent_generic.ko"), "serpent_generic");
    }
}
