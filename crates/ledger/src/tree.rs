//! What is there: a lane's directory, read whole.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
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

/// Reads everything below `root`. What a listing names may be gone when it is looked at: a file that no
/// barrier has covered is taken away by the mount that finds it unfinished. So it is not there, and whether
/// that may be the lane says. (Another listing may come out of the kernel's cache and name it still.)
///
/// # Errors
/// Anything else that cannot be read: after a crash nothing may be an error.
pub fn read(root: &Path) -> Result<Tree> {
    let mut tree = Tree::new();
    descend(root, "", &mut tree)?;
    Ok(tree)
}

fn descend(directory: &Path, prefix: &str, tree: &mut Tree) -> Result {
    for entry in fs::read_dir(directory).context(directory.display())? {
        let file_name = entry.context(directory.display())?.file_name();
        let path = directory.join(&file_name);
        let found = match looked_at(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            found => found.context(path.display())?,
        };
        let text = file_name.into_string();
        let name = text.map_err(|name| Failure::new(format!("a name nobody made: {}", name.display())))?;
        let name = format!("{prefix}{name}");
        if found == Found::Directory {
            descend(&path, &format!("{name}/"), tree)?;
        }
        tree.insert(name, found);
    }
    Ok(())
}

fn looked_at(path: &Path) -> io::Result<Found> {
    let metadata = fs::symlink_metadata(path)?;
    let kind = metadata.file_type();
    Ok(if kind.is_dir() {
        Found::Directory
    } else if kind.is_symlink() {
        Found::Symlink(fs::read_link(path)?.to_string_lossy().into_owned())
    } else {
        Found::File { inode: metadata.ino(), bytes: fs::read(path)? }
    })
}
