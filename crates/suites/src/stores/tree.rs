//! A tree that is written, changed and compared, with all that it has to hold kept beside.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use strongroom_harness::failure::{Context, Result, ensure};

/// Lengths around a block's, and one of many blocks.
const LENGTHS: [usize; 8] = [0, 1, 4095, 4096, 4097, 70_000, 300_000, 3 << 20];

/// What an entry has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Directory,
    File(Vec<u8>),
    Symlink(PathBuf),
}

/// All entries, by their paths below the top.
#[derive(Default)]
pub(super) struct Tree(BTreeMap<PathBuf, Entry>);

/// Bytes that are each file's own.
fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 37 + at / 256 * 11 + seed * 101) as u8).collect()
}

impl Tree {
    /// Writes directories, files and symlinks.
    pub(super) fn write(top: &Path) -> Result<Tree> {
        let mut tree = Tree::default();
        for directory in ["a", "a/b", "c with ünusual name", "empty"] {
            fs::create_dir(top.join(directory)).context(directory)?;
            tree.0.insert(directory.into(), Entry::Directory);
        }
        for (index, directory) in ["a", "a/b", "c with ünusual name"].into_iter().enumerate() {
            for (seed, len) in LENGTHS.into_iter().enumerate() {
                let path = Path::new(directory).join(format!("{}-{len}", "long-".repeat(index * 20)));
                tree.put(top, &path, bytes(seed + index * 100, len))?;
            }
        }
        symlink("b/nowhere", top.join("a/symlink")).context("a symlink")?;
        tree.0.insert("a/symlink".into(), Entry::Symlink("b/nowhere".into()));
        Ok(tree)
    }

    /// Overwrites, cuts, extends, renames and removes.
    pub(super) fn change(&mut self, top: &Path) -> Result {
        let (large, small) = (Path::new("a/-3145728"), Path::new("a/-70000"));
        let file = File::options().read(true).write(true).open(top.join(large)).context(large.display())?;
        file.write_all_at(&[7; 5000], 1_000_001)?;
        file.set_len(2_000_003)?;
        file.write_all_at(b"far", 5_000_000)?;
        file.sync_all()?;
        if let Some(Entry::File(bytes)) = self.0.get_mut(large) {
            bytes[1_000_001..1_005_001].fill(7);
            bytes.truncate(2_000_003);
            bytes.resize(5_000_000, 0);
            bytes.extend(b"far");
        }
        self.rename(top, small, Path::new("a/-4097"))?;
        self.rename(top, Path::new("a/b"), Path::new("empty"))?;
        self.put(top, Path::new("empty/new"), bytes(9, 10_000))?;
        self.rename(top, Path::new("empty"), Path::new("c with ünusual name/moved"))?;
        fs::remove_file(top.join("a/-1")).context("removing")?;
        self.0.remove(Path::new("a/-1"));
        Ok(())
    }

    /// Writes a file.
    pub(super) fn put(&mut self, top: &Path, path: &Path, bytes: Vec<u8>) -> Result {
        fs::write(top.join(path), &bytes).context(path.display())?;
        self.0.insert(path.to_path_buf(), Entry::File(bytes));
        Ok(())
    }

    fn rename(&mut self, top: &Path, from: &Path, to: &Path) -> Result {
        fs::rename(top.join(from), top.join(to)).context(format_args!("renaming {}", from.display()))?;
        let moved: Vec<PathBuf> = self.0.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in moved {
            let entry = self.0.remove(&path).expect("just listed");
            let rest = path.strip_prefix(from).expect("it begins so");
            let path = if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) };
            self.0.insert(path, entry);
        }
        Ok(())
    }

    /// Another name of a file.
    pub(super) fn linked(&mut self, of: &Path, name: &Path) {
        let entry = self.0[of].clone();
        self.0.insert(name.to_path_buf(), entry);
    }

    /// Two entries have changed places.
    pub(super) fn exchanged(&mut self, one: &Path, other: &Path) {
        let [first, second] = [one, other].map(|path| self.0[path].clone());
        self.0.insert(one.to_path_buf(), second);
        self.0.insert(other.to_path_buf(), first);
    }

    /// Compares all of it with what is there.
    ///
    /// # Errors
    /// The first difference.
    pub(super) fn compare(&self, top: &Path) -> Result {
        let mut found = Tree::default();
        found.read(top, Path::new(""))?;
        for (path, entry) in &self.0 {
            let same = found.0.get(path);
            ensure!(same.is_some(), "{} is missing", path.display());
            ensure!(same == Some(entry), "{} is not as it was written", path.display());
        }
        let surplus = found.0.keys().find(|path| !self.0.contains_key(*path));
        ensure!(
            surplus.is_none(),
            "{} was not written",
            surplus.map_or_else(String::new, |p| p.display().to_string())
        );
        Ok(())
    }

    fn read(&mut self, top: &Path, below: &Path) -> Result {
        for entry in fs::read_dir(top.join(below)).context(below.display())? {
            let path = below.join(entry?.file_name());
            let whole = top.join(&path);
            let kind = fs::symlink_metadata(&whole).context(path.display())?.file_type();
            let entry = match (kind.is_dir(), kind.is_symlink()) {
                (true, _) => Entry::Directory,
                (_, true) => Entry::Symlink(fs::read_link(&whole).context(path.display())?),
                _ => Entry::File(fs::read(&whole).context(path.display())?),
            };
            self.0.insert(path.clone(), entry);
            if kind.is_dir() {
                self.read(top, &path)?;
            }
        }
        Ok(())
    }
}
