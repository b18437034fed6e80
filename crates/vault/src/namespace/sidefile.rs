//! Side files: where the sealed form of a name stands that is too long for
//! the store (`.n~…`), and the target of a symlink that is (`links/…`).
//!
//! A side file is durable before the entry that needs it is made, so that a
//! crash leaves no entry without; it is removed after the entry, so that one
//! may be left over, which harms nothing.

use strongroom_store::{Access, FileRef, Kind, Node};

use super::Namespace;
use super::inode::Inode;
use super::names::StoredName;
use crate::error::{Damage, Error, Result};
use crate::reading::read_at;
use crate::rules::Rule;

/// No side file is longer: a sealed symlink target of `PATH_MAX`.
const LEN_MAX: usize = 8192;

/// Writes a side file that may exist, and makes it durable: what refers to it
/// must not be there without it. Tests plant the fault of leaving that out.
pub(super) fn write(directory: &dyn Node, name: &[u8], bytes: &[u8], durable: bool) -> Result<()> {
    let file: FileRef = match directory.create(name, 0o600) {
        Ok((_, file)) => file,
        Err(error) if error.is_exists() => {
            if read(directory, name).is_ok_and(|found| found == bytes) {
                return Ok(());
            }
            let file = directory.lookup(name)?.open(Access::ReadWrite)?;
            file.set_len(0)?;
            file
        }
        Err(error) => return Err(error.into()),
    };
    file.write_at(bytes, 0)?;
    if durable { Ok(file.sync_data()?) } else { Ok(()) }
}

/// Reads a side file whole.
pub(super) fn read(directory: &dyn Node, name: &[u8]) -> Result<Vec<u8>> {
    let node = directory.lookup(name)?;
    if node.kind() != Kind::File {
        return Err(Error::Damaged(Damage::Name("a side file is no regular file")));
    }
    let file = node.open(Access::Read)?;
    let mut bytes = vec![0; LEN_MAX + 1];
    let len = read_at(&*file, &mut bytes, 0)?;
    if len > LEN_MAX {
        return Err(Error::Damaged(Damage::Name("a side file is longer than any")));
    }
    bytes.truncate(len);
    Ok(bytes)
}

impl Namespace {
    /// Runs `make`, which makes the entry `stored` of `parent`, with its side
    /// file in place. The caller holds the gate and knows that there is no
    /// entry of that name.
    pub(super) fn with_side<T>(
        &self,
        parent: &Inode,
        stored: &StoredName,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(side) = &stored.side {
            write(&*parent.node, &side.name, &side.sealed, self.contents.keeps(Rule::SideBeforeEntry))?;
        }
        let made = make();
        // An entry that could not be removed again needs its side file.
        let is_gone = || parent.node.lookup(&stored.main).is_err_and(|error| error.is_not_found());
        if made.is_err() && is_gone() {
            self.remove_side(parent, stored);
        }
        made
    }

    /// Removes the side file of an entry that is gone. One that stays is
    /// hidden, used again under the same name, and goes with its directory.
    pub(super) fn remove_side(&self, parent: &Inode, stored: &StoredName) {
        if let Some(side) = &stored.side {
            let _ = parent.node.remove(&side.name);
        }
    }
}
