//! The tree of the demonstration through a vault on JuiceFS, and back.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::kills::CHECK_LIMIT;
use super::lab::{self, Lab};
use crate::demo::compare::Comparison;
use crate::demo::copy::{Copier, Quota};
use crate::demo::tree;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::subject::Subject;

/// What of the tree is odd.
pub(super) const ODD: &str = "odd";

/// Puts the demonstration's tree together, without what JuiceFS cannot keep: times before 1970.
pub(super) fn source(root: &Path) -> Result<PathBuf> {
    let made = tree::build(root).context("putting the tree together")?;
    ensure!(
        made.files >= tree::FILES_MIN && made.bytes >= tree::BYTES_MIN,
        "only {} files and {} bytes came together",
        made.files,
        made.bytes
    );
    bring_forward(root)?;
    Ok(root.to_path_buf())
}

/// A part of the tree: so many files, and all that is odd.
pub(super) fn part(source: &Path, root: &Path, files: u64) -> Result<PathBuf> {
    let mut copier = Copier::new(None);
    fs::create_dir(root.join(ODD))?;
    copier.tree(&source.join(ODD), &root.join(ODD))?;
    let quota = Quota { files, bytes: 0, file_bytes_max: u64::MAX };
    let mut copier = Copier::new(Some(quota));
    for entry in fs::read_dir(source)? {
        let name = entry?.file_name();
        if name != ODD && copier.copied.files < files {
            fs::create_dir(root.join(&name))?;
            copier.tree(&source.join(&name), &root.join(&name))?;
        }
    }
    Ok(root.to_path_buf())
}

fn bring_forward(directory: &Path) -> Result {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            bring_forward(&path)?;
        } else if metadata.is_file() && metadata.modified()? < SystemTime::UNIX_EPOCH {
            File::open(&path)?.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1))?;
        }
    }
    Ok(())
}

/// Copies it in, mounts again, compares and checks.
pub(super) fn through(lab: &mut Lab, subject: &Subject, source: &Path) -> Result<String> {
    let vault = lab.vault(subject, "tree")?;
    let mut mount = vault.mount(lab::options())?;
    let target = mount.path().join("tree");
    fs::create_dir(&target)?;
    let began = Instant::now();
    let mut copier = Copier::new(None);
    copier.tree(source, &target).context("copying into the mount")?;
    mount.remount()?;
    let copied = began.elapsed();
    let comparison = Comparison::of(source, &target)?;
    if let Some(differences) = comparison.differences() {
        return Err(Failure::new(differences));
    }
    mount.unmount()?;
    ensure!(vault.check(CHECK_LIMIT)?, "nothing was checked");
    Ok(format!(
        "{} entries, {:.0} MB in {:.0} s, all as in the original, check clean",
        comparison.entries,
        copier.copied.bytes as f64 / 1e6,
        copied.as_secs_f64()
    ))
}
