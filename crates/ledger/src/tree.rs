//! What is there: a lane's directory, read whole.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use strongroom_harness::failure::{Context, Failure, Result};

/// What one name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Directory,
    File { inode: u64, bytes: Vec<u8> },
    Symlink(String),
}

/// Names below a lane's directory, with `/` between.
pub type Tree = BTreeMap<String, Found>;

/// Reads everything below `root`.
///
/// # Errors
/// Anything that cannot be read: after a crash nothing may be an error.
pub fn read(root: &Path) -> Result<Tree> {
    let mut tree = Tree::new();
    descend(root, "", &mut tree)?;
    Ok(tree)
}

fn descend(directory: &Path, prefix: &str, tree: &mut Tree) -> Result {
    for entry in fs::read_dir(directory).context(directory.display())? {
        let entry = entry.context(directory.display())?;
        let path = entry.path();
        let text = entry.file_name().into_string();
        let name = text.map_err(|name| Failure::new(format!("a name nobody made: {}", name.display())))?;
        let name = format!("{prefix}{name}");
        let metadata = fs::symlink_metadata(&path).context(path.display())?;
        let kind = metadata.file_type();
        let found = if kind.is_dir() {
            descend(&path, &format!("{name}/"), tree)?;
            Found::Directory
        } else if kind.is_symlink() {
            Found::Symlink(fs::read_link(&path).context(path.display())?.to_string_lossy().into_owned())
        } else {
            Found::File { inode: metadata.ino(), bytes: fs::read(&path).context(path.display())? }
        };
        tree.insert(name, found);
    }
    Ok(())
}
