//! Compares two trees entry by entry: names, types, contents, sizes, modes, owners, times, links,
//! device numbers and extended attributes.
//!
//! Access times are left out, because reading changes them; change times and inode numbers cannot be
//! copied. Directory sizes belong to the file system. A range that both files report as a hole is not
//! read; one that either has data in is read from both.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::demo::copy::{data_range, xattrs};
use strongroom_harness::failure::{Context, Result};

const PIECE: usize = 1 << 20;
/// Differences that are listed; the rest is only counted.
const SHOWN_MAX: usize = 20;

/// What was compared, and what differed.
pub(crate) struct Comparison {
    /// Entries that are not directories.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    differences: u64,
    shown: Vec<String>,
    /// Every hard-linked inode of the first tree with its counterpart in the second.
    links: HashMap<(u64, u64), (u64, u64)>,
    left: Vec<u8>,
    right: Vec<u8>,
}

impl Comparison {
    /// Compares everything below the two directories, and the directories themselves.
    pub(crate) fn of(left: &Path, right: &Path) -> Result<Self> {
        let mut comparison = Self {
            entries: 0,
            bytes: 0,
            differences: 0,
            shown: Vec::new(),
            links: HashMap::new(),
            left: vec![0; PIECE],
            right: vec![0; PIECE],
        };
        comparison.entry(left, right)?;
        Ok(comparison)
    }

    /// The first differences, or none if the trees are equal.
    pub(crate) fn differences(&self) -> Option<String> {
        (self.differences > 0)
            .then(|| format!("{} differences:\n{}", self.differences, self.shown.join("\n")))
    }

    fn differ(&mut self, path: &Path, what: &str) {
        self.differences += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(format!("  {}: {what}", path.display()));
        }
    }

    fn entry(&mut self, left: &Path, right: &Path) -> Result {
        let (a, b) = (fs::symlink_metadata(left)?, fs::symlink_metadata(right)?);
        self.metadata(right, &a, &b);
        if xattrs(left).context(left.display())? != xattrs(right).context(right.display())? {
            self.differ(right, "extended attributes");
        }
        if a.file_type() != b.file_type() {
            self.differ(right, "type");
            return Ok(());
        }
        if a.is_dir() {
            return self.directory(left, right);
        }
        self.entries += 1;
        if a.is_symlink() && fs::read_link(left)? != fs::read_link(right)? {
            self.differ(right, "link target");
        }
        if a.is_file() && self.is_first_link(right, &a, &b) {
            let equal = self.contents(left, right).context(format_args!("reading {}", right.display()))?;
            if !equal {
                self.differ(right, "contents");
            }
        }
        Ok(())
    }

    fn metadata(&mut self, path: &Path, a: &fs::Metadata, b: &fs::Metadata) {
        let kind = a.file_type();
        let device = kind.is_char_device() || kind.is_block_device();
        let checks = [
            ("mode", a.mode() == b.mode()),
            ("owner", (a.uid(), a.gid()) == (b.uid(), b.gid())),
            ("modification time", (a.mtime(), a.mtime_nsec()) == (b.mtime(), b.mtime_nsec())),
            ("link count", a.is_dir() || a.nlink() == b.nlink()),
            ("size", a.is_dir() || a.len() == b.len()),
            ("device number", !device || a.rdev() == b.rdev()),
        ];
        for (what, equal) in checks {
            if !equal {
                self.differ(path, what);
            }
        }
    }

    /// Whether this inode's contents are still to be compared; checks that links lead to one file.
    fn is_first_link(&mut self, path: &Path, a: &fs::Metadata, b: &fs::Metadata) -> bool {
        if a.nlink() < 2 {
            return true;
        }
        let mate = (b.dev(), b.ino());
        match self.links.insert((a.dev(), a.ino()), mate) {
            None => true,
            Some(first) => {
                if first != mate {
                    self.differ(path, "hard link to another file");
                }
                false
            }
        }
    }

    fn directory(&mut self, left: &Path, right: &Path) -> Result {
        let (a, b) = (names(left)?, names(right)?);
        for name in a.symmetric_difference(&b) {
            self.differ(&right.join(name), if a.contains(name) { "missing" } else { "not in the original" });
        }
        for name in a.intersection(&b) {
            self.entry(&left.join(name), &right.join(name))?;
        }
        Ok(())
    }

    fn contents(&mut self, left: &Path, right: &Path) -> Result<bool> {
        let (mut a, mut b) = (File::open(left)?, File::open(right)?);
        let length = a.metadata()?.len();
        let mut at = 0;
        while let Some((start, end)) = first_range(data_range(&a, at, length)?, data_range(&b, at, length)?) {
            for file in [&mut a, &mut b] {
                file.seek(SeekFrom::Start(start))?;
            }
            if !self.range(&mut a, &mut b, end - start)? {
                return Ok(false);
            }
            at = end;
        }
        Ok(true)
    }

    fn range(&mut self, a: &mut File, b: &mut File, mut left: u64) -> Result<bool> {
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            a.read_exact(&mut self.left[..want])?;
            b.read_exact(&mut self.right[..want])?;
            if self.left[..want] != self.right[..want] {
                return Ok(false);
            }
            self.bytes += want as u64;
            left -= want as u64;
        }
        Ok(true)
    }
}

/// The range that starts first, cut where the other one starts or ends.
fn first_range(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) if a.0 == b.0 => Some((a.0, a.1.min(b.1))),
        (Some(a), Some(b)) => {
            let (first, second) = if a.0 < b.0 { (a, b) } else { (b, a) };
            Some((first.0, first.1.min(second.0)))
        }
        (one, None) | (None, one) => one,
    }
}

fn names(directory: &Path) -> Result<BTreeSet<OsString>> {
    let entries = fs::read_dir(directory).context(PathBuf::from(directory).display())?;
    Ok(entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_what_either_side_has() {
        assert_eq!(first_range(None, None), None);
        assert_eq!(first_range(Some((5, 9)), None), Some((5, 9)));
        assert_eq!(first_range(Some((5, 9)), Some((5, 7))), Some((5, 7)));
        assert_eq!(first_range(Some((5, 9)), Some((0, 3))), Some((0, 3)));
        assert_eq!(first_range(Some((5, 9)), Some((0, 8))), Some((0, 5)));
    }

    #[test]
    fn every_kind_of_difference_is_seen() -> Result {
        let base = tempfile::tempdir()?;
        let (left, right) = (base.path().join("left"), base.path().join("right"));
        for side in [&left, &right] {
            fs::create_dir(side)?;
            fs::write(side.join("same"), "same")?;
        }
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let settle = || -> Result {
            for path in [left.join("same"), right.join("same"), left.clone(), right.clone()] {
                File::open(path)?.set_modified(time)?;
            }
            Ok(())
        };
        settle()?;
        assert!(Comparison::of(&left, &right)?.differences().is_none());
        fs::write(right.join("same"), "sbme")?;
        settle()?;
        let found = Comparison::of(&left, &right)?.differences().unwrap_or_default();
        assert!(found.starts_with("1 differences") && found.contains("contents"), "{found}");
        fs::write(right.join("more"), "")?;
        settle()?;
        assert!(
            Comparison::of(&left, &right)?.differences().unwrap_or_default().contains("not in the original")
        );
        File::open(&right)?.set_modified(std::time::UNIX_EPOCH)?;
        assert!(
            Comparison::of(&left, &right)?.differences().unwrap_or_default().contains("modification time")
        );
        Ok(())
    }
}
